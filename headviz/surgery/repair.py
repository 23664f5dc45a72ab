"""A repair from plan to report: what a worker of the repair lane runs.

    stock model measured → every arm, seed and pass (`runs.py`) → single heads tested → frozen tensors compared

Everything that is finished lies in the repair's folder, so a repair that was killed, interrupted or cancelled goes on
there. A run whose loss is not finite ends with its last good state. In a control the others go on; in the arm `repair`
itself the whole repair fails with that sentence at once, because what it was for cannot be had any more and the hours that
the rest takes are better spent on another rate; what was recorded stays to be looked at.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headviz.analysis import bands
from headviz.analysis.metrics import METHOD_VERSIONS
from headviz.analysis.paired import paired_means
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import ensure_checked
from headviz.errors import Failure, NotEnoughMemory
from headviz.models import memory
from headviz.models.architectures import context_length
from headviz.models.hashes import file_sha256
from headviz.surgery import costs, evaluate, outcomes, progress
from headviz.surgery.arms import arm, heads_of
from headviz.surgery.layouts import has_bias, trained_numbers, treat, whole_numbers
from headviz.surgery.meter import Meter
from headviz.surgery.refusals import refuse
from headviz.surgery.restore import restored, slice_files
from headviz.surgery.runs import Which, Work, good, run_pass
from headviz.surgery.slicefile import read_slices
from headviz.surgery.slices import frozen_hash, sliced
from headviz.surgery.stock import measured
from headviz.surgery.texts import read_texts
from headviz.types import (
    HeadTest,
    RepairReport,
    RepairRequest,
    RepairRun,
    SavedFile,
    build,
    digest,
    plain,
)
from headviz.types.repairs import Heads


def run_repair(request: RepairRequest, resources: Any) -> RepairReport:
    """The answer to a plan. Raises BadInput, NotEnoughMemory, Failure, Cancelled; what was done is kept."""
    started = time.perf_counter()
    request = build(RepairRequest, plain(request))  # 1 where a float is due becomes 1.0, as in the job's name
    loaded = resources.model(request.model)
    refuse(request, loaded.geometry)
    meter = Meter(resources.watch, _total(request))
    with threads(request.threads):
        longest = context_length(loaded.model.config)
        texts = read_texts(request, loaded.tokenizer, resources.settings, resources.watch, longest)
        ensure_checked(loaded, texts.diagnose, resources.watch)
        place = progress.folder(resources.settings, digest(request, METHOD_VERSIONS[request.kind]))
        _room(request, loaded, place)
        meter.say("reading every frozen number")
        before = frozen_hash(loaded.model, meter)
        work = Work(request=request, loaded=loaded, texts=texts, place=place, meter=meter)
        stock = measured(work)
        runs = _runs(work)
        tests = _tests(work, runs) if "repair" in request.arms else ()
        meter.say("reading every frozen number again")
        after = frozen_hash(loaded.model, meter)
        treatment = treat(heads_of(request, _first_arm(request)), loaded.geometry)
        bias = has_bias(loaded.model.config)
        return RepairReport(
            stock=stock,
            runs=runs,
            tests=tests,
            frozen_before=before,
            frozen_after=after,
            trained=trained_numbers(treatment, bias),
            whole=whole_numbers(treatment, bias),
            shared_text=texts.shared,
            files=_files(place, runs, resources),
            geometry=loaded.geometry,
            provenance=provenance(request, loaded, started, (*treatment.notes, *texts.notes)),
        )


@contextmanager
def threads(count: int) -> Iterator[None]:
    """torch computes with so many threads inside the block: another number rounds otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ----------------------------------------------------------------------------------------------------------- runs


def _runs(work: Work) -> tuple[RepairRun, ...]:
    """By arm in the plan's order, then seed, then pass."""
    request, found, before = work.request, [], 0
    for name in request.arms:
        for seed in request.seeds:
            found += _passes(work, name, seed, before)
            before += _steps(request, name)
    return tuple(found)


def _passes(work: Work, name: str, seed: int, before: int) -> list[RepairRun]:
    """All passes of one run: another one treats the heads that are collapsed at the best step of the one before."""
    request, row, found = work.request, arm(name), []
    heads, several = heads_of(request, name), request.passes > 1 and row.again
    with ExitStack() as stack:
        for number in range(1, (request.passes if row.again else 1) + 1):
            slices = stack.enter_context(
                sliced(work.loaded.model, treat(heads, work.loaded.geometry), request.recipe.master)
            )
            if row.reinitialises:
                slices.reinitialise(seed, number, request.recipe)
            elif row.silences:
                slices.silence()
            label = f"arm {name}, seed {seed}" + (f", pass {number}" if several else "")
            work.meter.begin(label, before + (number - 1) * request.steps * row.trains)
            run = run_pass(work, slices, Which(arm=name, seed=seed, number=number))
            found.append(run)
            if not good(run.ended):
                if name == "repair":
                    raise Failure(f"{run.ended} ({label}.) What was recorded so far is kept.")
                break
            slices.freeze()
            if not (heads := collapsed(run, request)):
                break
    return found


def collapsed(run: RepairRun, request: RepairRequest) -> Heads:
    """Sinks and dead heads at the best step of a run, by the plan's thresholds."""
    best = outcomes.index(run, "best")
    classes = bands.classify(run.mass[best], run.entropy[best], outcomes.thresholds(request))
    return tuple((int(layer), int(head)) for layer, head in np.argwhere(bands.collapsed(classes)))


def _tests(work: Work, runs: Sequence[RepairRun]) -> tuple[HeadTest, ...]:
    """What the report part loses without each treated head, in the repair arm's first seed at its best step."""
    seed, texts = work.request.seeds[0], work.texts
    mine = [run for run in runs if run.arm == "repair" and run.seed == seed]
    heads = tuple(sorted({head for run in mine for head in run.heads}))
    files = [read_slices(path) for path in slice_files(work.place, "repair", seed)]
    work.meter.begin("single heads", work.meter.total)
    with restored(work.loaded, files):
        plain_losses, without = evaluate.losses_without(work.loaded, texts.report, heads, work.meter)
    found = paired_means(
        plain_losses, without, texts.report.cluster, weights=(texts.report.lengths - 1).astype(np.float64)
    )
    return tuple(
        HeadTest(
            layer=layer, head=head, change=float(found.change[at]), low=float(found.low[at]), high=float(found.high[at]),
            p=float(found.p[at]), p_holm=float(found.p_holm[at]),
        )
        for at, (layer, head) in enumerate(heads)
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------- all around it


def _steps(request: RepairRequest, name: str) -> int:
    """Optimiser steps of one run of an arm, all passes."""
    row = arm(name)
    return request.steps * (request.passes if row.again else 1) if row.trains else 0


def _total(request: RepairRequest) -> int:
    return sum(_steps(request, name) for name in request.arms) * len(request.seeds)


def _first_arm(request: RepairRequest) -> str:
    return "repair" if "repair" in request.arms else request.arms[0]


def _room(request: RepairRequest, loaded: Any, place: Path) -> None:
    """Raises NotEnoughMemory, Failure with the numbers where the repair would not fit in memory or on the disk."""
    bias = has_bias(loaded.model.config)
    need, free = costs.memory(request, loaded.geometry, bias), memory.available(loaded.device)
    if need > free:
        raise NotEnoughMemory(
            f"Training these heads takes about {need / 1e9:.1f} GB beside the model, and {free / 1e9:.1f} GB are free. Take "
            "fewer heads, a smaller batch or shorter windows, or switch checkpointing on."
        )
    place.mkdir(parents=True, exist_ok=True)
    there = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    need, free = costs.disk(request, loaded.geometry, bias) - there, shutil.disk_usage(place).free
    if need > free:
        raise Failure(
            f"The repair keeps about {need / 1e9:.2f} GB in HEADVIZ_HOME, and {free / 1e9:.2f} GB are free there. Free some "
            "space, or take fewer seeds, arms or heads."
        )


def _files(place: Path, runs: Sequence[RepairRun], resources: Any) -> tuple[SavedFile, ...]:
    found = []
    for run in runs:
        folder = progress.run_folder(place, run.arm, run.seed, run.number)
        for path in (folder / progress.BEST, folder / progress.LAST):
            found.append(
                SavedFile(
                    name=f"{folder.name}/{path.name}",
                    sha256=file_sha256(path, resources.settings.home, resources.watch),
                    bytes=path.stat().st_size,
                )
            )
    return tuple(found)
