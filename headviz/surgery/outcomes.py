"""What the arms of a repair did, as numbers: losses with intervals, classes of heads, drift, total mass. numpy only.

Everything is read from a `RepairReport`, or from what a running repair has so far: anything with `stock` and `runs`. Runs are
read at their `best` step by the select part, or at their `last`. Losses are nats a token, weighted by tokens; intervals are
95%, [low, high], and take documents as independent: the loss of an input is first averaged over the seeds.
Letters: S evaluated steps, L layers, H heads, N inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from headviz.analysis.bands import CLASSES, Thresholds, classify, collapsed
from headviz.errors import BadInput
from headviz.surgery.arms import in_order
from headviz.types import RepairRequest, RepairRun, RepairStock
from headviz.types.repairs import Heads

if TYPE_CHECKING:  # scipy takes half a second to import
    from headviz.analysis.paired import MeanChange

Point = Literal["best", "last"]
PAPERS_DRIFT = 0.05  # the paper calls an untouched head that moved further a drifter


class Found(Protocol):
    """A finished or running repair."""

    stock: RepairStock | None
    runs: tuple[RepairRun, ...]


def thresholds(request: RepairRequest) -> Thresholds:
    """Where the plan draws the lines between classes of heads."""
    return Thresholds(dead=request.dead, sink=request.sink, low_entropy=request.low_entropy)


# ------------------------------------------------------------------------------------------------------ runs


def finished(runs: Sequence[RepairRun], arm: str) -> dict[int, RepairRun]:
    """Seed → the last pass of an arm that has ended, with its losses on the report part."""
    found: dict[int, RepairRun] = {}
    for run in sorted((run for run in runs if run.arm == arm), key=lambda run: run.number):
        if len(run.report_best):
            found[run.seed] = run
    return dict(sorted(found.items()))


def passes(runs: Sequence[RepairRun], arm: str, seed: int) -> tuple[RepairRun, ...]:
    """All passes of one arm with one seed, the first to the last."""
    return tuple(
        sorted((run for run in runs if (run.arm, run.seed) == (arm, seed)), key=lambda run: run.number)
    )


def treated(runs: Sequence[RepairRun], arm: str, seed: int, upto: int | None = None) -> Heads:
    """All heads that an arm treated with this seed, in any pass, or in the passes up to number `upto`."""
    mine = (run for run in passes(runs, arm, seed) if upto is None or run.number <= upto)
    return tuple(sorted({head for run in mine for head in run.heads}))


def index(run: RepairRun, point: Point) -> int:
    """Place of the best or the last evaluated step in the arrays of a run. Raises BadInput before there is one."""
    if not len(run.step):
        raise BadInput(f"The arm {run.arm} with seed {run.seed} was not evaluated yet.")
    return len(run.step) - 1 if point == "last" else int(np.flatnonzero(run.step == run.best)[0])


def losses(run: RepairRun, point: Point, of: Literal["report", "other"] = "report") -> np.ndarray:
    """(N,) nats a token of each input; length 0 while the run goes on, or without another domain."""
    return getattr(run, f"{of}_{point}")


# ----------------------------------------------------------------------------------------- what heads look like


def class_counts(
    run: RepairRun | RepairStock, request: RepairRequest, heads: Heads | None = None
) -> dict[str, np.ndarray]:
    """How many heads are in each class at every evaluated step: class → (S,); of stock (1,). heads: only these."""
    shape = (-1, *run.mass.shape[-2:])
    named = classify(run.mass.reshape(shape), run.entropy.reshape(shape), thresholds(request))  # (S, L, H)
    if heads is not None:
        named = named[:, [layer for layer, _ in heads], [head for _, head in heads]]
    flat = named.reshape(len(named), -1)
    return {name: (flat == name).sum(1) for name in CLASSES}


def off_first_token(run: RepairRun | RepairStock, request: RepairRequest, heads: Heads) -> np.ndarray:
    """(S,) how many of these heads are not collapsed: at most `request.sink` of their attention on the first token."""
    counts = class_counts(run, request, heads)
    return counts["low entropy"] + counts["healthy"]


def total_mass(run: RepairRun | RepairStock) -> np.ndarray:
    """(S,) BOS mass summed over all heads, of stock (1,): whether sinks vanish, or move to other heads."""
    return run.mass.reshape(-1, run.mass.shape[-2] * run.mass.shape[-1]).sum(1, dtype=np.float64)


def newly_collapsed(
    run: RepairRun, stock: RepairStock, request: RepairRequest, point: Point = "best"
) -> Heads:
    """Heads that are collapsed now and were not in the stock model, treated or not."""
    at = index(run, point)
    now = collapsed(classify(run.mass[at], run.entropy[at], thresholds(request)))
    before = collapsed(classify(stock.mass, stock.entropy, thresholds(request)))
    return tuple(map(tuple, np.argwhere(now & ~before).tolist()))


# ----------------------------------------------------------------------------------------------------- losses


@dataclass(frozen=True, kw_only=True)
class Mean:
    """A mean loss, nats a token, with its 95% interval over documents; NaN edges for one document."""

    loss: float
    low: float
    high: float
    documents: int

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)


@dataclass(frozen=True, kw_only=True)
class SeedChange:
    """Change of the report loss with one seed alone, nats a token; low, high: 95% over documents, NaN for one document."""

    seed: int
    change: float
    low: float
    high: float

    @property
    def side(self) -> int:
        """−1 where the interval is below 0, +1 where it is above, 0 where it holds 0 or there is none."""
        return (self.low > 0) - (self.high < 0)


@dataclass(frozen=True, kw_only=True)
class ArmLoss:
    """What one arm's loss came to, mean over its seeds.

    arm:          `stock` stands for the model before surgery
    seeds:        those that have ended; steps: evaluated step of each at the point that is read
    report, other: mean losses; other is None without another domain
    against_stock, against_no_reinit: change of the report loss, below 0 is better; None for the arm itself, or where the other
                  is missing. Against the arm without reinitialising, seed by seed, over the seeds that both have
    other_against_stock, other_against_no_reinit: the same on the other domain
    each_against_stock, each_against_no_reinit: change of the report loss with each seed alone
    against_healthy: of the arm `repair` alone, its report loss against that of as many healthy heads treated alike, as against
                  the arm without reinitialising; else None
    """

    arm: str
    seeds: tuple[int, ...]
    steps: tuple[int, ...]
    report: Mean
    other: Mean | None
    against_stock: MeanChange | None = None
    against_no_reinit: MeanChange | None = None
    other_against_stock: MeanChange | None = None
    other_against_no_reinit: MeanChange | None = None
    each_against_stock: tuple[SeedChange, ...] = ()
    each_against_no_reinit: tuple[SeedChange, ...] = ()
    against_healthy: MeanChange | None = None


def arm_losses(found: Found, point: Point = "best") -> tuple[ArmLoss, ...]:
    """Stock, then every arm that has ended with some seed, in the order of the table of arms."""
    stock = found.stock
    if stock is None:
        return ()
    rows = [
        ArmLoss(
            arm="stock",
            seeds=(),
            steps=(),
            report=_mean(stock.report, stock, "report"),
            other=_mean(stock.other, stock, "other") if len(stock.other) else None,
        )
    ]
    for arm in in_order({run.arm for run in found.runs}):
        if mine := finished(found.runs, arm):
            rows.append(_arm_loss(arm, mine, found, point))
    return tuple(rows)


def _arm_loss(arm: str, mine: dict[int, RepairRun], found: Found, point: Point) -> ArmLoss:
    stock = found.stock
    plain = {} if arm == "no-reinit" else finished(found.runs, "no-reinit")
    healthy = finished(found.runs, "healthy") if arm == "repair" else {}
    other = len(stock.other) > 0

    def against(of: Literal["report", "other"]) -> tuple[MeanChange, MeanChange | None]:
        to_stock = _change(getattr(stock, of), _over_seeds(mine, list(mine), point, of), stock, of)
        return to_stock, _between(plain, mine, stock, point, of)

    report, elsewhere = against("report"), against("other") if other else (None, None)
    return ArmLoss(
        arm=arm,
        seeds=tuple(mine),
        steps=tuple(int(run.step[index(run, point)]) for run in mine.values()),
        report=_mean(_over_seeds(mine, list(mine), point, "report"), stock, "report"),
        other=_mean(_over_seeds(mine, list(mine), point, "other"), stock, "other") if other else None,
        against_stock=report[0],
        against_no_reinit=report[1],
        other_against_stock=elsewhere[0],
        other_against_no_reinit=elsewhere[1],
        each_against_stock=tuple(
            _of_seed(seed, stock.report, losses(run, point), stock) for seed, run in mine.items()
        ),
        each_against_no_reinit=tuple(
            _of_seed(seed, losses(plain[seed], point), losses(mine[seed], point), stock)
            for seed in mine
            if seed in plain
        ),
        against_healthy=_between(healthy, mine, stock, point, "report"),
    )


def _between(
    before: dict[int, RepairRun],
    after: dict[int, RepairRun],
    stock: RepairStock,
    point: Point,
    of: Literal["report", "other"],
) -> MeanChange | None:
    """Change from one arm to another over the seeds that both have; None where they share none."""
    both = [seed for seed in after if seed in before]
    if not both:
        return None
    return _change(*(_over_seeds(runs, both, point, of) for runs in (before, after)), stock, of)


def _of_seed(seed: int, before: np.ndarray, after: np.ndarray, stock: RepairStock) -> SeedChange:
    seen = _change(before, after, stock, "report")
    return SeedChange(seed=seed, change=seen.change, low=seen.low, high=seen.high)


def _over_seeds(
    runs: dict[int, RepairRun], seeds: Sequence[int], point: Point, of: Literal["report", "other"]
) -> np.ndarray:
    """(N,) loss of each input, mean over seeds: training again is no new document."""
    return np.mean([losses(runs[seed], point, of) for seed in seeds], axis=0)


def _change(before: np.ndarray, after: np.ndarray, stock: RepairStock, of: str) -> MeanChange:
    from headviz.analysis.paired import paired_mean

    return paired_mean(
        before, after, getattr(stock, f"{of}_cluster"), weights=getattr(stock, f"{of}_predicted")
    )


def _mean(loss: np.ndarray, stock: RepairStock, of: str) -> Mean:
    seen = _change(np.zeros(len(loss)), loss, stock, of)
    return Mean(loss=seen.change, low=seen.low, high=seen.high, documents=seen.clusters)


# ------------------------------------------------------------------------------------------------------ drift


@dataclass(frozen=True, kw_only=True)
class Drift:
    """How far heads moved that nobody touched, mean over the seeds of an arm. All (L, H); NaN for treated heads.

    moved:     |BOS mass after − stock|, 0..1; exactly 0 up to the first treated layer
    floor:     |difference| of the stock model between the two halves of the diagnostic text: less cannot be told from the text
    no_reinit: `moved` of the arm without reinitialising, which treats the same heads; None without it
    """

    arm: str
    moved: np.ndarray
    floor: np.ndarray
    no_reinit: np.ndarray | None

    def above(self) -> np.ndarray:
        """(L, H) bool: moved further than the floor."""
        return np.nan_to_num(self.moved) > np.nan_to_num(self.floor)

    def count(self, least: float = PAPERS_DRIFT) -> int:
        """Untouched heads that moved by more than `least` (the paper's 0.05) and more than their floor."""
        return int((self.above() & (np.nan_to_num(self.moved) > least)).sum())

    def mean(self) -> float:
        """Mean over all untouched heads; NaN where all are treated."""
        known = self.moved[~np.isnan(self.moved)]
        return float(known.mean()) if known.size else math.nan


def drift(found: Found, arm: str = "repair", point: Point = "best") -> Drift | None:
    """None before the arm has ended with some seed."""
    moved = _moved(found, arm, point)
    if moved is None:
        return None
    beside = _moved(found, "no-reinit", point) if arm != "no-reinit" else None
    halves = found.stock.half_mass.astype(np.float64)
    floor = np.where(np.isnan(moved), np.nan, np.abs(halves[0] - halves[1]))
    return Drift(arm=arm, moved=moved, floor=floor, no_reinit=beside)


def _moved(found: Found, arm: str, point: Point) -> np.ndarray | None:
    runs = finished(found.runs, arm)
    if found.stock is None or not runs:
        return None
    before = found.stock.mass.astype(np.float64)
    moved = np.mean([np.abs(run.mass[index(run, point)] - before) for run in runs.values()], axis=0)
    touched = {head for seed in runs for head in treated(found.runs, arm, seed)}
    for layer, head in touched:
        moved[layer, head] = np.nan
    return moved
