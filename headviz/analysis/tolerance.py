"""How many heads can be switched off before accuracy falls by a point: the first paper's two figures of merit.

"Largest share within 1 point" follows the notebook of the paper's repository (psandovalsegura/inactive-heads,
plot-accuracy-vs-percent-of-heads-zeroed.ipynb, `get_intersection`); normalised area is its Figure 3's. Shares and
accuracies are fractions here; names that end in `_percent` or `within` are percent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headviz.analysis.points import RANDOM, Point, read_points
from headviz.errors import BadData, BadInput

NOTHING_OFF = 1e-5  # a share up to here is "nothing off": rounding of a per-input threshold, less than one head anywhere

ROUNDING = 1e-12

Status = Literal["crosses", "ends inside", "never outside", "never inside"]


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Where one curve leaves the tolerance.

    share:  the paper's number, a fraction: share at the last crossing of the line, 0 where there is none
    status: "crosses": the last crossing leads out; "ends inside": it leads back in, so the share is where it came back;
            "never outside": no point is outside, so the paper's number is 0 (or where a point touches the line) although
            every measured share is inside: read "at least `inside`"; "never inside": no point is inside
    inside, outside: the bracket: last measured share inside, first outside after it; NaN where there is none. Where the
            first point is outside already, inside is 0: with nothing off the model is the baseline
    line:   accuracy, or change, that counts as the edge
    exit:   last measured share inside before the curve first left, 0 where it began outside; NaN where it never left
    """

    share: float
    status: Status
    inside: float
    outside: float
    line: float
    exit: float


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The points of one score of one model, by share, ties in the order given. baseline, accuracy, share: fractions."""

    model: str
    score: str
    baseline: float
    shares: tuple[float, ...]
    accuracies: tuple[float, ...]


def curves(points: Iterable[Point]) -> list[Curve]:
    """Points sorted into curves, in order of first appearance, each with its baseline. Raises BadData without one.

    Baseline of a model: its Random row at threshold 0; else its Random row at share 0; else the curve's own point at
    share 0; else the points at share 0 of the model's other scores, if they all agree.
    """
    grouped: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        grouped.setdefault((point.model, point.score), []).append(point)
    return [
        Curve(
            model=model,
            score=score,
            baseline=_baseline(model, score, grouped),
            shares=tuple(p.share for p in sorted(mine, key=lambda p: p.share)),
            accuracies=tuple(p.accuracy for p in sorted(mine, key=lambda p: p.share)),
        )
        for (model, score), mine in grouped.items()
    ]


def _baseline(model: str, score: str, grouped: dict[tuple[str, str], list[Point]]) -> float:
    untouched = {
        name: [p for p in points if p.share <= NOTHING_OFF]
        for (owner, name), points in grouped.items()
        if owner == model
    }
    drawn = grouped.get((model, RANDOM), [])
    choices = (
        [p for p in drawn if p.threshold == 0],
        untouched.get(RANDOM, []),
        untouched[score],
        [p for points in untouched.values() for p in points],
    )
    found = {p.accuracy for p in next(filter(None, choices), [])}
    if not found:
        raise BadData(
            f"{model} has no baseline: neither a Random row at threshold 0 nor a point at share 0 for {score}."
        )
    if max(found) - min(found) > 1e-9:
        raise BadData(
            f"{model} has more than one baseline for {score} ({min(found):g} to {max(found):g}): keep one point at share 0."
        )
    return min(found)


def share_within(
    shares: Sequence[float], accuracies: Sequence[float], baseline: float, points: float = 1.0
) -> Tolerance:
    """Largest share of heads off with at most `points` accuracy points (0.01 each) lost, as the paper computes it.

    shares, accuracies: (P,) fractions, in any order. Sorted by share; between neighbours accuracy is a straight
    line; the last place where it meets baseline − points, downwards, upwards, or with a point exactly on it. No
    such place: 0, also where all points are inside (the notebook prints "Doesn't intersect"); a single point
    likewise. All 196 published curves cross exactly once, so the paper itself never met these cases: `status` tells
    them apart. Raises BadInput for no points, different lengths, or a tolerance that is not above 0.
    """
    if not points > 0:
        raise BadInput(f"A tolerance is larger than zero, not {points}: 1 stands for one accuracy point.")
    line = baseline - points / 100
    x, y = _sorted(shares, accuracies)
    return _edge(x, y - line, line)


def change_within(
    shares: Sequence[float], changes: Sequence[float], margin: float, *, worse: Literal["higher", "lower"]
) -> Tolerance:
    """`share_within` of a curve of changes, in whatever unit: nats of loss (worse is higher), or a share of questions.

    shares, changes: (P,) in any order; nothing off changes nothing, so (0, 0) is put before them where no point has a
    share of 0; margin: the change for the worse that is still within, above 0. The same crossing as `share_within`.
    """
    if not margin > 0:
        raise BadInput(f"A tolerance is larger than zero, not {margin}.")
    if all(share > NOTHING_OFF for share in shares):
        shares, changes = (0.0, *shares), (0.0, *changes)
    x, y = _sorted(shares, changes)
    room = margin - y if worse == "higher" else margin + y
    return _edge(x, room, margin if worse == "higher" else -margin)


def _edge(x: np.ndarray, above: np.ndarray, line: float) -> Tolerance:
    """Where the curve leaves the tolerance. x: (P,) shares, sorted; above: (P,) room left at each, 0 on the line."""
    above = np.where(np.abs(above) < ROUNDING, 0, above)  # 0.57 − 0.01 is not 0.56 in floating point
    places = [float(x[i]) for i in np.flatnonzero(above == 0)] if x.size > 1 else []
    for i in np.flatnonzero(above[:-1] * above[1:] < 0):
        places.append(float(x[i] - above[i] * (x[i + 1] - x[i]) / (above[i + 1] - above[i])))
    inside = above >= 0
    exits = np.flatnonzero(inside[:-1] & ~inside[1:])
    if inside[-1]:
        status: Status = "never outside" if inside.all() else "ends inside"
        bracket = (float(x[-1]), math.nan)
    elif exits.size:
        status, bracket = "crosses", (float(x[exits[-1]]), float(x[exits[-1] + 1]))
    else:
        status, bracket = "never inside", (0.0 if x[0] > 0 else math.nan, float(x[0]))
    first = math.nan if inside.all() else 0.0 if not inside[0] else float(x[exits[0]])
    return Tolerance(
        share=max(places, default=0.0),
        status=status,
        inside=bracket[0],
        outside=bracket[1],
        line=line,
        exit=first,
    )


def area(
    shares: Sequence[float], accuracies: Sequence[float], span: tuple[float, float] | None = None
) -> float:
    """Mean accuracy over the curve, a fraction: trapezoids of accuracy over share, divided by the width.

    span: from and to which share, within the measured ones; None: all of them, as the paper does, although scores then
    cover different ranges. NaN where the width is 0. Raises BadInput for a span outside the measured shares.
    """
    x, y = _sorted(shares, accuracies)
    if span is not None:
        low, high = span
        if not x[0] <= low <= high <= x[-1]:
            raise BadInput(
                f"The curve was measured from {x[0]:g} to {x[-1]:g}, not from {low:g} to {high:g}."
            )
        edges = np.interp((low, high), x, y)
        within = (x > low) & (x < high)
        x, y = np.array([low, *x[within], high]), np.array([edges[0], *y[within], edges[1]])
    return float(np.trapezoid(y, x) / (x[-1] - x[0])) if x[-1] > x[0] else math.nan


def _sorted(shares: Sequence[float], accuracies: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    x, y = np.asarray(shares, dtype=np.float64), np.asarray(accuracies, dtype=np.float64)
    if not x.size or x.shape != y.shape or x.ndim != 1:
        raise BadInput(f"A curve needs points: {x.size} shares and {y.size} accuracies do not make one.")
    order = np.argsort(x, kind="stable")
    return x[order], y[order]


def common_span(some: Sequence[Curve]) -> tuple[float, float] | None:
    """The shares that all curves cover, to compare their areas; None where there is no such range."""
    low, high = max(min(c.shares) for c in some), min(max(c.shares) for c in some)
    return (low, high) if low < high else None


def ranks(values: Sequence[float]) -> list[int | None]:
    """1 for the largest; equal values share the better rank; None for NaN."""
    return [None if math.isnan(v) else 1 + sum(other > v for other in values) for v in values]


def tolerance_rows(source: str | Path | bytes | Iterable[Point], points: float = 1.0) -> list[dict[str, Any]]:
    """One row per model and score, in the order of the file, ready for JSON (None where a number is not defined).

    model, score; baseline (fraction); share_within (percent; the paper's number, 0 where the curve never crosses);
    status and bracket ([last measured share inside, first outside], fractions) as in `Tolerance`; area over the score's
    own range (the paper's) and area_common over the range that all scores of the model cover (fractions); rank_within,
    rank_area, rank_common within the model, 1 the best. rank_within goes by the paper's number.

    source: a CSV (`read_points`), or points. Raises BadData and BadInput as those do.
    """
    read = read_points(source) if isinstance(source, (str, Path, bytes)) else source
    every = curves(read)
    rows: list[dict[str, Any]] = []
    for curve in every:
        edge = share_within(curve.shares, curve.accuracies, curve.baseline, points)
        span = common_span([c for c in every if c.model == curve.model])
        rows.append(
            {
                "model": curve.model,
                "score": curve.score,
                "baseline": curve.baseline,
                "share_within": 100 * edge.share,
                "status": edge.status,
                "bracket": [edge.inside, edge.outside],
                "area": area(curve.shares, curve.accuracies),
                "area_common": area(curve.shares, curve.accuracies, span) if span else math.nan,
            }
        )
    for model in {row["model"] for row in rows}:
        mine = [row for row in rows if row["model"] == model]
        for rank, key in (
            ("rank_within", "share_within"),
            ("rank_area", "area"),
            ("rank_common", "area_common"),
        ):
            for row, place in zip(mine, ranks([r[key] for r in mine])):
                row[rank] = place
    return [{key: _defined(value) for key, value in row.items()} for row in rows]


def _defined(value: Any) -> Any:
    """JSON has no NaN: None instead."""
    if isinstance(value, list):
        return [_defined(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
