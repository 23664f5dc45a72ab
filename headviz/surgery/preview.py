"""What a plan of surgery will take, and what to be warned of. Estimates say that they are. No torch."""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headviz import machine
from headviz.settings import Settings
from headviz.surgery import costs
from headviz.surgery.about import Facts
from headviz.surgery.arms import ARMS
from headviz.surgery.layouts import trained_numbers, treat, whole_numbers
from headviz.surgery.said import other_slopes
from headviz.surgery.turns import Chain, all_steps, chains_of, longest_first, passes_of
from headviz.surgery.windows import windows_there
from headviz.types import Bands, RepairReport, RepairRequest, RepairRun

OPERATIONS = 5e10  # a second and thread
UNMOVED = 0.685  # share of new weights that one step of 5e-5 leaves as they are in bf16 (measured on the paper's recipe)


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What a plan will take. Memory, disk and time are estimates; bytes.

    heads, layers:  treated ones, and the layers they are in
    trained, whole: numbers that are trained, and numbers of the matrices that they are part of
    runs:           runs of training: arms that train × seeds, each of up to `passes` passes
    steps, tokens:  of all runs
    windows:        how many training windows there are, at most as many as the plan asks for; estimated from the length of the
                    documents, or what the plan asks for where the text is not on this machine
    epochs:         how often a pass reads each training window
    model:          bytes of the model's weights, None where they are not here
    memory:         beside the model: slices, gradients, the optimiser, and what is kept for the way back, of all runs that go on
                    at the same time; each of them but the first also has a process and a model of its own, which are counted
    optimiser, optimiser_whole: bytes of the trained numbers, their gradients and AdamW's moments; and what the same would be
                    for whole matrices
    memory_free:    of main memory, which a GPU does not use; disk, disk_free: with HEADVIZ_HOME
    at_once:        how many runs go on at the same time, each with the plan's threads and a model of its own
    seconds:        None where no speed is known
    """

    heads: int
    layers: int
    trained: int
    whole: int
    runs: int
    steps: int
    tokens: int
    windows: int
    epochs: float
    model: int | None
    memory: int
    optimiser: int
    optimiser_whole: int
    memory_free: int
    disk: int
    disk_free: int
    at_once: int
    seconds: float | None


def preview(request: RepairRequest, about: Facts, settings: Settings, speed: float | None = None) -> Preview:
    """speed: trained tokens a second, as `speed_here` gives it. Raises BadInput for heads that are not in the model."""
    treatment = treat(request.heads, about.geometry)
    trained, whole = (count(treatment, about.bias) for count in (trained_numbers, whole_numbers))
    a_step = request.recipe.batch * request.recipe.accumulate
    training = [chain for chain in chains_of(request) if ARMS[chain.arm].trains]
    steps = all_steps(request)
    at_once = _at_once(request, about, settings)
    windows = min(request.train.inputs, windows_there(request.train, settings) or request.train.inputs)
    per_number = costs.item_size(request) * 4  # itself, its gradient, and two moments
    return Preview(
        heads=len(request.heads),
        layers=len(treatment.layers),
        trained=trained,
        whole=whole,
        runs=len(training),
        steps=steps,
        tokens=steps * a_step * request.train.tokens,
        windows=windows,
        epochs=request.steps * a_step / windows,
        model=about.bytes,
        memory=costs.memory_of(request, about.geometry, about.bias, about.bytes or 0, at_once),
        optimiser=trained * per_number,
        optimiser_whole=whole * per_number,
        memory_free=machine.memory()[1],
        disk=costs.disk(request, about.geometry, about.bias, at_once),
        disk_free=shutil.disk_usage(_there(settings.home)).free,
        at_once=at_once,
        seconds=None if speed is None else _seconds(request, training, speed, at_once),
    )


def measured_speed(runs: Iterable[RepairRun]) -> float | None:
    """Trained tokens a second, the median over what some runs noted; None where none did."""
    seen = [run.tokens_per_second[np.isfinite(run.tokens_per_second)] for run in runs]
    every = np.concatenate(seen) if seen else np.zeros(0)
    return float(np.median(every)) if len(every) else None


def guessed_speed(request: RepairRequest, about: Facts, bands: Bands | None = None) -> float | None:
    """Trained tokens a second, before any repair measured it: a rough guess, the faster of two that are both too slow.

    They are a third of the speed at which the first token was measured, loading included (`bands`, where it was); and four
    operations a number and token at a rate that any processor reaches. None where neither is known.
    """
    known = [OPERATIONS * request.threads / (4 * about.numbers)] if about.numbers else []
    if bands is not None:
        made = bands.provenance
        share = min(1.0, request.threads / max(made.threads, 1))
        known.append(int(bands.lengths.sum()) / max(made.seconds, 1e-3) / 3 * share)
    return max(known, default=0.0) or None


def speed_here(
    request: RepairRequest, about: Facts, reports: Iterable[RepairReport], bands: Bands | None = None
) -> tuple[float | None, bool]:
    """(trained tokens a second, whether that was measured): by the first of these reports that noted one, else a guess.

    reports: of repairs of this model with as many threads, the newest first
    """
    for report in reports:
        if found := measured_speed(report.runs):
            return found, True
    return guessed_speed(request, about, bands), False


def _at_once(request: RepairRequest, about: Facts, settings: Settings) -> int:
    if settings.device != "cpu" and machine.gpus():
        return 1
    chains = len(chains_of(request))
    return costs.at_once(
        request, about.geometry, about.bias, about.bytes or 0, settings, chains, loaded=False
    )


def _seconds(request: RepairRequest, training: Sequence[Chain], speed: float, at_once: int) -> float:
    """Training, and evaluations at three times its speed: they need no way back. So many runs at once, each begun as soon as
    one before it has ended, in the order in which they are really taken."""
    trained = request.steps * request.recipe.batch * request.recipe.accumulate * request.train.tokens
    select = request.held_out.inputs * request.held_out.tokens / 2
    looked = (request.steps // request.every + 1) * (
        select + request.diagnose.inputs * request.diagnose.tokens
    )
    a_pass = (trained + looked / 3) / speed
    until = [0.0] * at_once
    for chain in longest_first(request, training):
        heapq.heapreplace(until, until[0] + passes_of(request, chain) * a_pass)
    return max(until)


def _there(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def warnings(
    request: RepairRequest, about: Facts, settings: Settings, seen: Preview | None = None
) -> tuple[str, ...]:
    """What a person must know before launching this, a sentence each; nothing here forbids it. seen: its preview, where made."""
    notes = [*treat(request.heads, about.geometry).notes]
    seen = seen or preview(request, about, settings)
    a_step = request.recipe.batch * request.recipe.accumulate
    if seen.windows < a_step:
        notes.append(
            f"The training text has about {seen.windows:,} window{'s' * (seen.windows != 1)} of this length, and one optimiser step reads {a_step:,}: where the "
            "text turns out so short when it is read, the repair is refused. Take a larger text, shorter windows, or fewer a step."
        )
    elif seen.epochs > 1.05:  # the number of windows is an estimate
        notes.append(
            f"The steps of a pass read {request.steps * a_step:,} windows, and the plan "
            f"has about {seen.windows:,} of this length: each is read about {seen.epochs:.1f} times. Take a larger text, shorter "
            "or more windows, or fewer steps."
        )
    if request.recipe.master == "model" and request.model.dtype == "bfloat16":
        notes.append(
            f"Everything is kept in bf16, as in the paper's own runs: a step of 5e-5 leaves {100 * UNMOVED:.1f}% of the new "
            "weights exactly as they are, for bf16 has no number between. Keep float32 masters, unless that is the question."
        )
    if len(request.seeds) < 3:
        notes.append("With fewer than 3 seeds there is no verdict: training again may come out otherwise.")
    for name in ("no-reinit", "untrained"):
        if name not in request.arms:
            missing = "no verdict" if name == "no-reinit" else "nothing to compare “awake” with"
            notes.append(f"Without the arm “{ARMS[name].title}” there is {missing}.")
    if "healthy" in request.arms:
        notes += other_slopes(request, about.geometry)
    if request.model.quantization != "none":
        notes.append(
            f"The model is loaded in {request.model.quantization}. A repaired checkpoint is written over its unquantised "
            "weights, and both losses are reported."
        )
    need = seen.memory + (seen.model or 0)
    on_processor = settings.device == "cpu" or not machine.gpus()
    if on_processor and need > seen.memory_free:
        notes.append(
            f"It needs about {need / 1e9:.1f} GB of memory with the model, and {seen.memory_free / 1e9:.1f} GB are free. Train "
            "shorter or fewer windows at once, or recompute activations (checkpointing)."
        )
    if seen.disk > seen.disk_free:
        notes.append(
            f"It needs about {seen.disk / 1e9:.1f} GB of disk for its checkpoints, and {seen.disk_free / 1e9:.1f} GB are free."
        )
    return tuple(notes)
