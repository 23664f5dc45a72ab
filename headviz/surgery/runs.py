"""One pass of one arm with one seed: trained, evaluated, kept, gone on from, and ended with a reason.

What a kill costs: the steps since the last evaluated one. What a loss that is not finite costs: the same, and the run ends
there, with its last good state and a sentence that names the step.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headviz.errors import Failure
from headviz.surgery import evaluate, progress
from headviz.surgery.arms import arm
from headviz.surgery.meter import Meter
from headviz.surgery.slicefile import SliceFile, read_slices, save_slices
from headviz.surgery.slices import Slices
from headviz.surgery.texts import Texts
from headviz.surgery.train import NotFiniteError, Stretch, Trainer
from headviz.types import RepairRequest, RepairRun, plain

STEPS, PATIENCE = "steps", "patience"


@dataclass(frozen=True, kw_only=True)
class Work:
    """What all runs of a repair share. place: the repair's folder."""

    request: RepairRequest
    loaded: Any
    texts: Texts
    place: Path
    meter: Meter


@dataclass(frozen=True, kw_only=True)
class Which:
    """One pass of one run."""

    arm: str
    seed: int
    number: int

    def folder(self, place: Path) -> Path:
        return progress.run_folder(place, self.arm, self.seed, self.number)


def run_pass(work: Work, slices: Slices, which: Which) -> RepairRun:
    """Run a pass to its end, from wherever it is; afterwards the slices hold its best state.

    slices: as they begin (reinitialised, or as the model is). Raises Cancelled, Failure where not even the model right
    after surgery has a finite loss.
    """
    folder = which.folder(work.place)
    if not progress.ended(folder):
        _Run(work, slices, which).to_the_end()
    slices.load(read_slices(folder / progress.BEST).tensors)
    return progress.read_run(folder)


def good(why: str) -> bool:
    """Whether a run ended as planned; else `why` is a sentence."""
    return why in (STEPS, PATIENCE)


class _Run:
    """A pass that has not ended."""

    def __init__(self, work: Work, slices: Slices, which: Which) -> None:
        request = work.request
        self.work, self.slices, self.which = work, slices, which
        self.folder = which.folder(work.place)
        self.steps = request.steps if arm(which.arm).trains else 0
        self.trainer = Trainer(work.loaded, slices, request.recipe, self.steps, work.texts.train, which.seed)

    def to_the_end(self) -> None:
        heads = self.slices.treatment.heads
        progress.begin_run(
            self.folder, self.which.arm, self.which.seed, self.which.number, heads, self.work.meter
        )
        saved = self._saved()
        try:
            why = (saved.ended if saved else "") or self._train(fresh=saved is None)
        except NotFiniteError as error:
            why = self._back_to_the_last_good_state(error)
        self._end(why)

    def _saved(self) -> SliceFile | None:
        """Take the state that the run goes on from, if there is one, and forget what was evaluated after it."""
        try:
            saved = read_slices(self.folder / progress.LAST)
        except FileNotFoundError:
            progress.drop_after(self.folder, -1, self.work.meter)
            return None
        self.trainer.load(saved.tensors, saved.step)
        progress.drop_after(self.folder, saved.step, self.work.meter)
        return saved

    def _train(self, *, fresh: bool) -> str:
        """Why it ended. Raises NotFiniteError, Cancelled."""
        request, meter = self.work.request, self.work.meter
        meter.at(self.trainer.step)
        if fresh:
            self._evaluate(None)
        while self.trainer.step < self.steps:
            if self._patience_is_over():
                return PATIENCE
            stop = min((self.trainer.step // request.every + 1) * request.every, self.steps)
            self._evaluate(self.trainer.train_until(stop, meter))
        return STEPS

    def _patience_is_over(self) -> bool:
        patience = self.work.request.patience
        if not patience:
            return False
        select = [point.select for point in progress.read_points(self.folder)]
        return len(select) - 1 - int(np.argmin(select)) >= patience

    def _evaluate(self, stretch: Stretch | None) -> None:
        """Measure and keep the state as it is now. Raises NotFiniteError, and then keeps nothing of it."""
        work, step = self.work, self.trainer.step
        work.meter.say(f"step {step}, measuring")
        select = evaluate.token_mean(
            evaluate.losses(work.loaded, work.texts.select, work.meter), work.texts.select
        )
        maps = {
            name: each.mean(0)
            for name, each in evaluate.diagnose(work.loaded, work.texts.diagnose, work.meter).items()
        }
        if not np.isfinite(select):
            raise NotFiniteError("The held-out loss", step)
        if not all(np.isfinite(map_).all() for map_ in maps.values()):
            raise NotFiniteError("Attention", step)
        before = [point.select for point in progress.read_points(self.folder)]
        if not before or select < min(before):
            self._save(progress.BEST, self.slices.state())
        gone = float("nan")
        point = progress.Point(
            step=step,
            select=select,
            train_loss=stretch.train_loss if stretch else gone,
            rate=stretch.rate if stretch else gone,
            gradient_norm=stretch.gradient_norm if stretch else gone,
            tokens_per_second=stretch.tokens_per_second if stretch else gone,
        )
        progress.add_point(self.folder, point, maps, work.meter)
        self._save(progress.LAST, self.trainer.state())

    def _back_to_the_last_good_state(self, error: NotFiniteError) -> str:
        """The sentence that the run ends with. Raises Failure where there is no good state."""
        try:
            saved = read_slices(self.folder / progress.LAST)
        except FileNotFoundError:
            raise Failure(
                f"{error.what} of the model is not finite right after surgery ({self.which.arm}, seed {self.which.seed}), in "
                f"{self.work.request.model.dtype}. Load it in float32 or bfloat16, or check its weights."
            ) from error
        self.trainer.load(saved.tensors, saved.step)
        return (
            f"{error.what} was not finite at step {error.step}: the run stopped there and keeps its state of step "
            f"{saved.step}. Try a lower rate, or a longer warm-up."
        )

    def _end(self, why: str) -> None:
        work = self.work
        self._save(progress.LAST, self.slices.state(), why)
        work.meter.say("measuring on the report part")
        losses = {}
        points = progress.read_points(self.folder)
        best = points[int(np.argmin([point.select for point in points]))].step
        losses |= self._losses("last")
        if best == points[-1].step:
            losses |= {name.replace("last", "best"): each for name, each in losses.items()}
        else:
            self.slices.load(read_slices(self.folder / progress.BEST).tensors)
            losses |= self._losses("best")
        progress.end_run(self.folder, why, losses, work.meter)

    def _losses(self, at: str) -> dict[str, np.ndarray]:
        work = self.work
        none = np.zeros(0)
        other = work.texts.other
        return {
            f"report_{at}": evaluate.losses(work.loaded, work.texts.report, work.meter),
            f"other_{at}": none if other is None else evaluate.losses(work.loaded, other, work.meter),
        }

    def _save(self, name: str, tensors: dict[str, Any], why: str = "") -> None:
        note = {
            "plan": plain(self.work.request),
            "arm": self.which.arm,
            "seed": self.which.seed,
            "number": self.which.number,
            "step": self.trainer.step,
            "heads": plain(self.slices.treatment.heads),
            "ended": why,
        }
        save_slices(self.folder / name, tensors, note, self.work.meter)
