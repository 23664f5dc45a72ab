"""The runs of a repair in the process that does them: what they share is read, and a chain is run, gone on with, or read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headviz.analysis import bands
from headviz.analysis.metrics import METHOD_VERSIONS
from headviz.errors import Failure
from headviz.models.architectures import context_length
from headviz.surgery import outcomes, progress
from headviz.surgery.arms import arm, heads_of
from headviz.surgery.layouts import treat
from headviz.surgery.meter import Meter
from headviz.surgery.runs import Which, Work, good, run_pass
from headviz.surgery.slices import frozen_hash, sliced
from headviz.surgery.texts import read_texts
from headviz.surgery.turns import Chain, passes_of
from headviz.types import RepairRequest, RepairRun, digest
from headviz.types.repairs import Heads


@contextmanager
def threads(count: int) -> Iterator[None]:
    """torch computes with so many threads inside the block: another number rounds otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def begun(request: RepairRequest, resources: Any, meter: Meter) -> Work:
    """What all runs of a plan that is not refused share: the model, the texts, the folder, which is not made yet.

    Raises BadInput, Cancelled.
    """
    loaded = resources.model(request.model)
    longest = context_length(loaded.model.config)
    texts = read_texts(request, loaded.tokenizer, resources.settings, resources.watch, longest)
    place = progress.folder(resources.settings, digest(request, METHOD_VERSIONS[request.kind]))
    return Work(request=request, loaded=loaded, texts=texts, place=place, meter=meter)


def run_chain(work: Work, chain: Chain) -> None:
    """All passes of one arm with one seed, from wherever they are: another pass treats the heads that are collapsed at the
    best step of the one before. The process in which it ends keeps the hash of what was frozen there, beside the first pass.

    Raises Failure where the arm is `repair` and its loss was not finite, Cancelled.
    """
    request, row = work.request, arm(chain.arm)
    heads, several = heads_of(request, chain.arm), request.passes > 1 and row.again
    ended_before = finished(work.place, request, chain)
    with ExitStack() as stack:
        for number in range(1, passes_of(request, chain) + 1):
            slices = stack.enter_context(
                sliced(work.loaded.model, treat(heads, work.loaded.geometry), request.recipe.master)
            )
            if row.reinitialises:
                slices.reinitialise(chain.seed, number, request.recipe)
            elif row.silences:
                slices.silence()
            label = f"arm {chain.arm}, seed {chain.seed}" + (f", pass {number}" if several else "")
            work.meter.begin(label, (number - 1) * request.steps * row.trains)
            run = run_pass(work, slices, Which(arm=chain.arm, seed=chain.seed, number=number))
            if not good(run.ended):
                if chain.arm == "repair":
                    raise Failure(f"{run.ended} ({label}.) What was recorded so far is kept.")
                break
            slices.freeze()
            if not (heads := collapsed(run, request)):
                break
    if not ended_before:  # else the hash would be of a process that did nothing of it
        _prove(work, chain)


def _prove(work: Work, chain: Chain) -> None:
    """Keep the hash of the model that the chain ended in, its slices off again. After a cancel or a kill between the end of the
    last pass and this there is none, and the report says so. Raises Cancelled.
    """
    work.meter.say("reading every frozen number again")
    found = frozen_hash(work.loaded.model, work.meter)
    progress.write_frozen(work.place, chain.arm, chain.seed, found, work.meter)


def runs_of(place: Path, request: RepairRequest, chain: Chain) -> list[RepairRun]:
    """The passes of a chain that have ended, first pass first."""
    found: list[RepairRun] = []
    for number in range(1, passes_of(request, chain) + 1):
        run = progress.read_run(progress.run_folder(place, chain.arm, chain.seed, number))
        if run is None or not run.ended:
            break
        found.append(run)
    return found


def finished(place: Path, request: RepairRequest, chain: Chain) -> bool:
    """Whether a chain has all the passes that it comes to."""
    runs = runs_of(place, request, chain)
    return bool(runs) and (
        len(runs) == passes_of(request, chain) or not good(runs[-1].ended) or not collapsed(runs[-1], request)
    )


def collapsed(run: RepairRun, request: RepairRequest) -> Heads:
    """Sinks and dead heads at the best step of a run, by the plan's thresholds."""
    best = outcomes.index(run, "best")
    classes = bands.classify(run.mass[best], run.entropy[best], outcomes.thresholds(request))
    return tuple((int(layer), int(head)) for layer, head in np.argwhere(bands.collapsed(classes)))
