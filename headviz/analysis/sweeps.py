"""Curves of cost against share, from single measurements: which belong to a score, how far it stays within tolerance,
what to measure next, and which score is best. numpy only: pages and the command line read this.

A measurement does not say which score chose its heads: two scores may choose the same. So a curve is looked for: all
measurements of one model on one target whose heads are the ones that the score would switch off, at whatever share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from headviz.analysis import ablation, yardsticks
from headviz.analysis.ablation import Plan
from headviz.analysis.changes import Measured
from headviz.analysis.choose import HeadSet, choose
from headviz.analysis.metrics import inactive
from headviz.analysis.tolerance import Tolerance, area, change_within
from headviz.analysis.yardsticks import Yardstick
from headviz.errors import BadInput
from headviz.types import MeasureRequest, ScoreTable

GRID = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)  # shares of "the whole curve"
NARROW = 0.01  # of the heads: a bracket below this is narrow enough
MOST_DRAWS = 100
KINDS = ("uniform", "layer_matched")
HALVES = ("first", "second")
WIDE = 0.06  # of the heads: a wider bracket than a step of the whole curve, rounding included, is no number to quote

Replace = Literal["zero", "mean"]


@dataclass(frozen=True, kw_only=True)
class Spot:
    """A measurement that lies on a score's curve.

    share: of the heads that were off, 0..1; heads: how many, None where they differ from input to input
    asked: the share that was asked for: the same for a static set; for the paper's rule, of the scores that chose
    """

    share: float
    asked: float
    heads: int | None
    request: MeasureRequest


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Change against share: P points, by share, without the point at nothing off, where the change is 0.

    changes: over everything; first, second: over either half of the questions or documents (`yardsticks.halves`)
    """

    shares: tuple[float, ...]
    changes: tuple[float, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]

    def within(self, yard: Yardstick, margin: float, part: str = "changes") -> Tolerance:
        """How far the curve stays within `margin`, as the first paper computes it."""
        return change_within(self.shares, getattr(self, part), margin, worse=yard.worse)

    def area(self, until: float, part: str = "changes") -> float:
        """Mean change from nothing off to `until`; NaN where it was not measured that far."""
        if not 0 < until <= max(self.shares, default=0.0):
            return math.nan
        return area((0.0, *self.shares), (0.0, *getattr(self, part)), (0.0, until))


# --------------------------------------------------------------------------------------- what lies on a curve


def spots(
    plan: Plan,
    table: ScoreTable,
    measured: Iterable[MeasureRequest],
    share_of: Callable[[MeasureRequest], float],
) -> list[Spot]:
    """Those of `measured` that are points of the plan's score, by share. The plan's own share does not matter.

    share_of: the achieved share of a measurement under the paper's rule, which only its answer knows
    """
    same = [
        one
        for one in measured
        if (one.model, one.questions, one.text) == (plan.model, plan.questions, plan.text)
        and one.ablation.mode == plan.mode
    ]
    found = []
    sets: dict[int, HeadSet | None] = {}
    for one in same:
        if plan.mode == "per-input":
            rule = one.ablation
            if (rule.metric, rule.turned, rule.replace) == (plan.metric, plan.turned, "zero"):
                beyond = inactive(table.per_input(plan.metric), plan.metric, rule.threshold, plan.turned)
                found.append(Spot(share=share_of(one), asked=float(beyond.mean()), heads=None, request=one))
            continue
        count = len(one.ablation.heads)
        if one.ablation.replace != plan.replace:
            continue
        off = sets[count] if count in sets else sets.setdefault(count, at_count(plan, table, count))
        if off is not None and ablation.measuring(plan, off) == one:
            found.append(Spot(share=off.share, asked=off.share, heads=off.count, request=one))
    return sorted(found, key=lambda spot: spot.share)


def at_count(plan: Plan, table: ScoreTable, count: int) -> HeadSet | None:
    """What the score switches off on a budget of `count` heads; None where there is no such set."""
    try:
        return choose(
            table.mean(plan.metric),
            plan.metric,
            geometry=table.geometry,
            count=count,
            by=plan.by,
            per_layer=plan.per_layer,
            turned=plan.turned,
        )
    except BadInput:  # not as many in each layer, or more than have a value
        return None


def drawn(
    plan: Plan, table: ScoreTable, spot: Spot, measured: set[MeasureRequest]
) -> dict[str, tuple[MeasureRequest, ...]]:
    """Random draws beside a static spot that are measured: the plan's number of them, and all that follow on."""
    off = at_count(plan, table, spot.heads)
    there = {}
    for kind in KINDS:
        number = max(plan.draws, 1)
        while True:
            asked = ablation.controls(replace(plan, draws=number), off)[kind]
            if number >= MOST_DRAWS or not all(one in measured for one in asked):
                break
            number = min(2 * number, MOST_DRAWS)
        there[kind] = tuple(one for one in asked if one in measured)
    return there


def drawn_per_input(plan: Plan, measured: Iterable[MeasureRequest]) -> dict[float, list[MeasureRequest]]:
    """The paper's Random that is measured: rate → draws."""
    rates: dict[float, list[MeasureRequest]] = {}
    for one in measured:
        if (one.model, one.questions, one.text) == (plan.model, plan.questions, plan.text) and (
            one.ablation.mode == "random-per-input"
        ):
            rates.setdefault(one.ablation.rate, []).append(one)
    return dict(sorted(rates.items()))


# -------------------------------------------------------------------------------------------- what to measure


def sweep(
    plan: Plan,
    table: ScoreTable,
    metrics: Sequence[str],
    replacements: Sequence[Replace] = ("zero", "mean"),
    shares: Sequence[float] = GRID,
) -> list[MeasureRequest]:
    """All measurements of the whole curve, each once: the baseline, every score at every share, then the random draws.

    Two scores share their uniform draws. Under the paper's rule zero alone replaces, and random heads are off at the
    asked rate, input by input.
    """
    wanted: list[MeasureRequest] = [ablation.measuring(plan, None)]
    random: list[MeasureRequest] = []
    for share in shares:
        for metric in metrics:
            here = replace(ablation.with_share(plan, share), metric=metric)
            if plan.mode == "per-input":
                wanted.append(ablation.measuring_per_input(here, table))
                random += ablation.controls_per_input(here, share)
                continue
            off = ablation.chosen(here, table)
            for kind in replacements if off.heads else ():
                mine = replace(here, replace=kind)
                wanted.append(ablation.measuring(mine, off))
                random += [one for several in ablation.controls(mine, off).values() for one in several]
    return list(dict.fromkeys(wanted + random))


def inside(plan: Plan, table: ScoreTable, points: Sequence[Spot], edge: Tolerance) -> MeasureRequest | None:
    """The measurement in the middle of the bracket; None where it is below 1% of the heads, or cannot be halved."""
    if edge.status != "crosses":
        return None
    if plan.mode == "per-input":
        if edge.outside - edge.inside < NARROW:
            return None
        asked = {0.0: 0.0} | {spot.share: spot.asked for spot in points}
        low, high = asked[edge.inside], asked[edge.outside]
        between = ablation.with_share(plan, (low + high) / 2)
        request = ablation.measuring_per_input(between, table)
        return None if any(spot.request == request for spot in points) else request
    shape = table.geometry
    total = shape.layers * shape.heads
    step = shape.layers if plan.per_layer else 1
    if plan.by == "group":
        step *= shape.heads // shape.kv_heads
    low, high = round(edge.inside * total), round(edge.outside * total)
    if (high - low) / total < NARROW or high - low <= step:
        return None
    off = at_count(plan, table, (low + high) // 2 // step * step)
    return None if off is None or off.count in (low, high) else ablation.measuring(plan, off)


def halvings(edge: Tolerance) -> int:
    """About how many measurements inside a bracket make it narrow."""
    width = edge.outside - edge.inside
    return math.ceil(math.log2(width / NARROW)) if edge.status == "crosses" and width > NARROW else 0


# ---------------------------------------------------------------------------------------------------- ranking


def trace(
    plan: Plan, points: Sequence[tuple[float, Sequence[Measured]]], before: Measured, yard: Yardstick
) -> Trace:
    """The curve of (share, measurements there): several are random draws, whose mean counts."""
    scoring, seed = ("", 0) if plan.questions is None else (plan.questions.scoring, plan.questions.seed)
    first, second = yardsticks.halves(before, seed)
    ordered = sorted(points, key=lambda point: point[0])

    def means(some: np.ndarray | None) -> tuple[float, ...]:
        return tuple(
            float(np.mean([yard.cost(before, one, scoring, some) for one in several]))
            for _, several in ordered
        )

    return Trace(
        shares=tuple(share for share, _ in ordered),
        changes=means(None),
        first=means(first),
        second=means(second),
    )


def common_end(traces: Sequence[Trace]) -> float:
    """The share up to which all curves are measured; 0 where one has no point."""
    return min((max(one.shares, default=0.0) for one in traces), default=0.0)


def ranking(
    named: dict[str, Trace], yard: Yardstick, margin: float, until: float | None = None
) -> list[dict[str, Any]]:
    """One row a curve, best first: chosen on one half, confirmed on the other. Names in `named` become `score`.

    share_within, and for the halves first_within and second_within: percent, `reached`, with status and bracket ([last
    measured share inside, first outside], fractions) of the whole and of each half; area, first_area, second_area: mean
    change from nothing off to `until` (None: as far as all ranked curves are measured); points: how many were measured.
    unranked: why a curve has no rank, "" where it has one. Sorted by the first half: by the share within tolerance, then
    by area; those without a rank are last.
    """
    why = unranked(named, yard, margin)
    if until is None:
        until = common_end([curve for name, curve in named.items() if not why[name]])
    rows = []
    for name, curve in named.items():
        row: dict[str, Any] = {"score": name, "points": len(curve.shares), "unranked": why[name]}
        row |= {"share_within": math.nan, "area": curve.area(until)} | _edge(
            curve, yard, margin, "changes", ""
        )
        for half in HALVES:
            known = _known(curve, half)
            row |= {
                f"{half}_within": math.nan,
                f"{half}_area": curve.area(until, half) if known else math.nan,
            }
            row |= _edge(curve, yard, margin, half, f"{half}_")
        rows.append(row)
    sign = 1 if yard.worse == "higher" else -1
    return sorted(
        rows,
        key=lambda row: (
            bool(row["unranked"]),
            -_least(row["first_within"]),
            _most(sign * row["first_area"]),
            row["score"],
        ),
    )


def _edge(curve: Trace, yard: Yardstick, margin: float, part: str, before: str) -> dict[str, Any]:
    """How far a part of a curve goes, with names that begin with `before`."""
    if not _known(curve, part):
        return {f"{before}status": "not measured", f"{before}bracket": [math.nan, math.nan]}
    edge = curve.within(yard, margin, part)
    return {
        f"{before or 'share_'}within": 100 * reached(edge),
        f"{before}status": edge.status,
        f"{before}bracket": [edge.inside, edge.outside],
    }


def _known(curve: Trace, part: str) -> bool:
    return bool(curve.shares) and not any(math.isnan(x) for x in getattr(curve, part))


def unranked(named: dict[str, Trace], yard: Yardstick, margin: float) -> dict[str, str]:
    """Why a curve cannot be ranked among the others by the first half; "" where it can.

    A curve that stays within the tolerance as far as it was measured goes at least so far. Where another goes further than
    that, nobody knows which of the two is better.
    """
    edges = {
        name: curve.within(yard, margin, "first") for name, curve in named.items() if _known(curve, "first")
    }
    furthest = max((reached(edge) for edge in edges.values()), default=0.0)
    return {
        name: "not measured"
        if name not in edges
        else f"measured only to {100 * edges[name].inside:.1f}%, never outside there"
        if edges[name].status == "never outside" and edges[name].inside < furthest - NARROW
        else ""
        for name in named
    }


def reached(edge: Tolerance) -> float:
    """The share that ranks a curve: the paper's, but the last share measured where the curve never left the tolerance, and
    the last one measured inside before it first left where it came back, because nobody knows how often it leaves.

    The paper has 0 where it never left, which would rank the best score last; all of its own curves leave, and once.
    """
    return {"never outside": edge.inside, "ends inside": edge.exit}.get(edge.status, edge.share)


def _least(value: float) -> float:
    return -math.inf if math.isnan(value) else value


def _most(value: float) -> float:
    return math.inf if math.isnan(value) else value
