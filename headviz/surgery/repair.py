"""A repair from plan to report: what a worker of the repair lane runs.

    stock model measured → every arm, seed and pass (`chains.py`) → single heads tested → frozen tensors compared

Where the processor has more cores than one run takes, runs go side by side, in processes of their own (`side.py`).
Everything that is finished lies in the repair's folder, so a repair that was killed, interrupted or cancelled goes on
there. A run whose loss is not finite ends with its last good state. In a control the others go on; in the arm `repair`
itself the whole repair fails with that sentence at once, because what it was for cannot be had any more and the hours that
the rest takes are better spent on another rate; what was recorded stays to be looked at.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from headviz.analysis.paired import paired_means
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import ensure_checked
from headviz.errors import Failure, NotEnoughMemory
from headviz.locks import Lock
from headviz.models import memory
from headviz.models.hashes import file_sha256
from headviz.settings import Settings
from headviz.surgery import costs, evaluate, outcomes, progress
from headviz.surgery.arms import heads_of
from headviz.surgery.chains import begun, finished, run_chain, runs_of, threads
from headviz.surgery.kept import slice_files
from headviz.surgery.layouts import has_bias, trained_numbers, treat, whole_numbers
from headviz.surgery.meter import Meter
from headviz.surgery.refusals import refuse
from headviz.surgery.restore import restored
from headviz.surgery.runs import Work
from headviz.surgery.side import helpers
from headviz.surgery.slicefile import read_slices
from headviz.surgery.slices import frozen_hash
from headviz.surgery.stock import measured
from headviz.surgery.turns import Turns, all_steps, chains_of
from headviz.types import (
    HeadTest,
    RepairReport,
    RepairRequest,
    RepairRun,
    SavedFile,
    build,
    plain,
)

LOOK = 0.2  # seconds between two looks at what is done beside


def run_repair(request: RepairRequest, resources: Any) -> RepairReport:
    """The answer to a plan. Raises BadInput, NotEnoughMemory, Failure, Cancelled; what was done is kept."""
    started = time.perf_counter()
    request = build(RepairRequest, plain(request))  # 1 where a float is due becomes 1.0, as in the job's name
    refuse(request, resources.model(request.model).geometry)
    turns = Turns(request)
    meter = Meter(resources.watch, all_steps(request), turns)
    with threads(request.threads):
        work = begun(request, resources, meter)
        loaded, texts = work.loaded, work.texts
        ensure_checked(loaded, texts.diagnose, resources.watch)
        with _alone(work) as lock:
            at_once = _at_once(work, resources.settings)
            _room(work, at_once)
            if at_once > 1:
                turns.longest_first()
            with helpers(request, turns, at_once - 1, resources.settings, lock, resources.takes):
                meter.say("reading every frozen number")
                before = frozen_hash(loaded.model, meter)
                stock = measured(work)
                _do(work, turns)
            runs = [run for chain in chains_of(request) for run in runs_of(work.place, request, chain)]
            tests = _tests(work, runs) if "repair" in request.arms else ()
            after = _frozen_after(work, before)
        treatment = treat(heads_of(request, _first_arm(request)), loaded.geometry)
        bias = has_bias(loaded.model.config)
        return RepairReport(
            stock=stock,
            runs=tuple(runs),
            tests=tests,
            frozen_before=before,
            frozen_after=after,
            trained=trained_numbers(treatment, bias),
            whole=whole_numbers(treatment, bias),
            shared_text=texts.shared,
            files=_files(work.place, runs, resources),
            geometry=loaded.geometry,
            provenance=provenance(
                request, loaded, started, (*treatment.notes, *texts.notes, *_not_proven(work))
            ),
        )


# ----------------------------------------------------------------------------------------------------------- runs


@contextmanager
def _alone(work: Work) -> Iterator[Lock]:
    """The lock of the repair's folder. Processes beside this one hold it too, so that who comes after a kill waits for them."""
    work.place.mkdir(parents=True, exist_ok=True)
    while (lock := Lock.take(work.place / progress.LOCK, patience=0.2)) is None:
        work.meter.say("waiting for another process that works on this repair")
    try:
        yield lock
    finally:
        lock.release()


def _at_once(work: Work, settings: Settings) -> int:
    """How many runs go on at the same time, at least 1."""
    request, loaded = work.request, work.loaded
    if loaded.device != "cpu":
        return 1
    left = sum(not finished(work.place, request, chain) for chain in chains_of(request))
    model = sum(one.numel() * one.element_size() for one in loaded.model.state_dict().values())
    bias = has_bias(loaded.model.config)
    return costs.at_once(request, loaded.geometry, bias, model, settings, left)


def _do(work: Work, turns: Turns) -> None:
    """Every chain is run to its end, here or beside. Raises what a run raises."""
    while turns.open():
        chain = turns.take()
        if chain is None:
            work.meter.say("")
            time.sleep(LOOK)
            continue
        run_chain(work, chain)
        work.meter.begin()
        turns.over(chain)


def _frozen_after(work: Work, before: str) -> str:
    """The first hash that is not `before`: of the processes that ended the chains, here, beside or in an earlier attempt, in the
    plan's order, then of the model as it is here now; `before` where none differs."""
    work.meter.say("reading every frozen number again")
    now = frozen_hash(work.loaded.model, work.meter)
    kept = [progress.read_frozen(work.place, chain.arm, chain.seed) for chain in chains_of(work.request)]
    return next((found for found in (*kept, now) if found not in ("", before)), before)


def _not_proven(work: Work) -> tuple[str, ...]:
    """A note that names the chains whose process kept no hash when it ended them; none where all did."""
    without = [
        f"{chain.arm}, seed {chain.seed}"
        for chain in chains_of(work.request)
        if not progress.read_frozen(work.place, chain.arm, chain.seed)
    ]
    if not without:
        return ()
    return (
        f"No hash shows that frozen numbers stayed as they were in the process that ended {'; '.join(without)}: it was stopped "
        "before it could read them again, or was of an older version.",
    )


def _tests(work: Work, runs: Sequence[RepairRun]) -> tuple[HeadTest, ...]:
    """What the report part loses without each treated head, in the repair arm's first seed at its best step.

    Kept in the repair's folder: one that is gone on with does not test again.
    """
    seed, texts = work.request.seeds[0], work.texts
    heads = outcomes.treated(runs, "repair", seed)
    kept = progress.read_tests(work.place)
    if kept is not None and tuple((test.layer, test.head) for test in kept) == heads:
        return kept
    files = [read_slices(path) for path in slice_files(work.place, "repair", seed)]
    work.meter.begin("single heads")
    with restored(work.loaded, files):
        plain_losses, without = evaluate.losses_without(work.loaded, texts.report, heads, work.meter)
    found = paired_means(
        plain_losses, without, texts.report.cluster, weights=(texts.report.lengths - 1).astype(np.float64)
    )
    tests = tuple(
        HeadTest(
            layer=layer, head=head, change=float(found.change[at]), low=float(found.low[at]), high=float(found.high[at]),
            p=float(found.p[at]), p_holm=float(found.p_holm[at]),
        )
        for at, (layer, head) in enumerate(heads)
    )  # fmt: skip
    progress.write_tests(work.place, tests, work.meter)
    return tests


# ----------------------------------------------------------------------------------------------------- all around it


def _first_arm(request: RepairRequest) -> str:
    return "repair" if "repair" in request.arms else request.arms[0]


def _room(work: Work, at_once: int) -> None:
    """Raises NotEnoughMemory, Failure with the numbers where the repair would not fit in memory or on the disk."""
    request, loaded, place = work.request, work.loaded, work.place
    bias = has_bias(loaded.model.config)
    need, free = costs.memory(request, loaded.geometry, bias), memory.available(loaded.device)
    if need > free:
        raise NotEnoughMemory(
            f"Training these heads takes about {need / 1e9:.1f} GB beside the model, and {free / 1e9:.1f} GB are free. Take "
            "fewer heads, a smaller batch or shorter windows, or switch checkpointing on."
        )
    there = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    need, free = costs.disk(request, loaded.geometry, bias, at_once) - there, shutil.disk_usage(place).free
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
