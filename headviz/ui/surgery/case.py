"""One repair as the page shows it, finished or as far as it is: its runs, and numbers over their steps. No streamlit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from headviz.analysis.bands import CLASSES, Thresholds, classify, collapsed
from headviz.charts.arms import Course
from headviz.jobs.view import JobView
from headviz.models import catalog
from headviz.surgery import outcomes
from headviz.surgery.arms import ARMS, heads_of
from headviz.types import HeadTest, RepairReport, RepairRequest, RepairRun, RepairStock
from headviz.types.repairs import Heads


@dataclass(frozen=True, kw_only=True)
class Case:
    """A repair. report: None while it runs; stock: None before it is measured; runs: as far as they are.

    running: (arm, seed, pass, step) of each run that is not over; tests: of single heads, at the end; job: None where only its result is kept
    """

    digest: str
    request: RepairRequest
    job: JobView | None = None
    report: RepairReport | None = None
    stock: RepairStock | None = None
    runs: tuple[RepairRun, ...] = field(default=())
    running: tuple[tuple[str, int, int, int], ...] = ()
    tests: tuple[HeadTest, ...] = ()

    @property
    def at(self) -> Thresholds:
        return outcomes.thresholds(self.request)

    @property
    def done(self) -> bool:
        return self.report is not None

    @property
    def name(self) -> str:
        """`SmolLM2, 6 heads, 0123abcd`, as a heading."""
        count = len(self.request.heads)
        heads = "1 head" if count == 1 else f"{count} heads"
        return f"{catalog.short(self.request.model)}, {heads}, {self.digest[:8]}"

    @property
    def shape(self) -> tuple[int, int] | None:
        return None if self.stock is None else self.stock.mass.shape

    @property
    def arms(self) -> tuple[str, ...]:
        """Those of the plan that have a run, in its order."""
        there = {run.arm for run in self.runs}
        return tuple(arm for arm in self.request.arms if arm in there)

    @property
    def last_step(self) -> int:
        """Of all passes: where the axis of steps ends."""
        return max(1, self.request.steps * max([1, *(run.number for run in self.runs)]))

    def of(self, arm: str, seed: int | None = None, number: int | None = None) -> list[RepairRun]:
        """Runs of an arm, by seed and pass."""
        return [
            run
            for run in self.runs
            if run.arm == arm
            and (seed is None or run.seed == seed)
            and (number is None or run.number == number)
        ]

    def steps_of(self, run: RepairRun) -> np.ndarray:
        """(S,) its steps on the axis of all passes."""
        return np.asarray(run.step, int) + (run.number - 1) * self.request.steps

    def touched(self, run: RepairRun) -> Heads:
        """Heads treated in this pass or in one before it."""
        return outcomes.treated(self.runs, run.arm, run.seed, run.number)

    @cached_property
    def stock_classes(self) -> np.ndarray:
        """(L, H) before surgery."""
        return classify(self.stock.mass, self.stock.entropy, self.at)

    def classes(self, run: RepairRun) -> np.ndarray:
        """(S, L, H)."""
        return classify(run.mass, run.entropy, self.at)

    def mask(self, heads: Heads) -> np.ndarray:
        """(L, H) bool, True at these heads."""
        mask = np.zeros(self.shape, bool)
        for at in heads:
            mask[at] = True
        return mask

    def among(self, which: str, arm: str) -> np.ndarray:
        """(L, H) bool: the heads that the arm treats, the others, or all."""
        mask = self.mask(heads_of(self.request, arm))
        return {"treated": mask, "untouched": ~mask, "all": np.ones(self.shape, bool)}[which]

    def course(self, arm: str, of: Callable[[RepairRun], np.ndarray]) -> Course:
        """One number over the steps of an arm, a row a seed; `of` gives (S,) of a run."""
        runs = self.of(arm)
        grid = np.array(sorted({int(step) for run in runs for step in self.steps_of(run)}), int)
        seeds = sorted({run.seed for run in runs})
        each = np.full((len(seeds), len(grid)), np.nan)
        for run in sorted(runs, key=lambda one: one.number):  # a pass begins where the one before it ended
            each[seeds.index(run.seed), np.searchsorted(grid, self.steps_of(run))] = of(run)
        return Course(arm=arm, name=ARMS[arm].title, step=grid, each=each)

    def counted(self, arm: str, which: str) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, int], int]:
        """Steps, class → (S,) heads (mean over seeds), class → heads of the stock model, and how many heads it is about."""
        mask = self.among(which, arm)
        found: dict[str, np.ndarray] = {}
        grid = np.zeros(0, int)
        for name in CLASSES:
            course = self.course(arm, lambda run, name=name: (self.classes(run)[:, mask] == name).sum(1))
            known = np.isfinite(course.each)
            count = known.sum(0)
            total = np.where(known, course.each, 0).sum(0)
            found[name] = np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
            grid = course.step
        before = {name: int((self.stock_classes[mask] == name).sum()) for name in CLASSES}
        return grid, found, before, int(mask.sum())

    def asleep(self, run: RepairRun) -> np.ndarray:
        """(S,) how many of the pass's heads are on the first token."""
        return collapsed(self.classes(run))[:, self.mask(run.heads)].sum(1)

    def asleep_before(self, run: RepairRun) -> int:
        """How many of the pass's heads were on the first token before surgery."""
        return int(collapsed(self.stock_classes)[self.mask(run.heads)].sum())

    def place(self, run: RepairRun, point: str) -> int:
        """Which evaluation is its best, or its last."""
        return (
            int(np.flatnonzero(np.asarray(run.step) == run.best)[0]) if point == "best" else len(run.step) - 1
        )
