"""Two scored models, one score: distance of their distributions, beside what no change would give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.analysis.distance.change import HeadChanges, head_changes, same_inputs
from headviz.analysis.distance.depth import DepthProfile, depth_profile
from headviz.analysis.distance.spread import (
    drawn_documents,
    halves,
    in_spreads,
    pooled_spread,
    w1,
    w1_weighted,
)
from headviz.analysis.metrics import METRICS
from headviz.errors import BadInput, lookup
from headviz.types import Geometry, ScoreTable


@dataclass(frozen=True, kw_only=True)
class Distance:
    """W1 between two sets of values, in the score's unit and in spreads.

    value, low, high: with the 95% interval of resampled documents; the ends are NaN where a model has one document only.
                      W1 is never below 0 and noise only adds to it, so the interval of two equal models on different texts
                      lies above 0 as well: read it beside the yardstick
    spread:           pooled standard deviation, over the whole model, of the values within each of the two models
    scaled, scaled_low, scaled_high: the same divided by it; 0 stays 0; NaN where the spread is 0 and the distance is not
    """

    value: float
    low: float
    high: float
    spread: float
    scaled: float
    scaled_low: float
    scaled_high: float


@dataclass(frozen=True, kw_only=True)
class Yardstick:
    """What W1 is where nothing changed, at the same number of inputs.

    Inputs are split into two halves of different documents, many times. same: mean W1 between the halves of one model, both
    models taken; same_high: what 95% of these stay below; between: mean W1 between a half of one model and the other half of
    the other. A change shows where `between` is above `same_high`. All are divided by `spread` of the distance, `scaled`.
    inputs: in each half; splits: how many were made; note: why there is no yardstick, or ""
    """

    same: float
    same_high: float
    between: float
    scaled_same: float
    scaled_same_high: float
    scaled_between: float
    inputs: int
    splits: int
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two models by one score.

    pooled:    distance of the values of all heads on all inputs
    layers:    the same layer by layer, divided by the spread of the whole model; empty for models of different shape
    changes:   head by head, None for models of different shape
    profiles:  the score along the depth of a and of b
    reason:    why there are no layers and changes, or ""; notes: what a reader must know
    """

    metric: str
    a: str
    b: str
    pooled: Distance
    yardstick: Yardstick
    layers: tuple[Distance, ...]
    changes: HeadChanges | None
    profiles: tuple[DepthProfile, DepthProfile]
    reason: str
    notes: tuple[str, ...]


def compare(
    a: ScoreTable,
    b: ScoreTable,
    metric: str,
    *,
    labels: tuple[str, str],
    draws: int = 200,
    splits: int = 100,
    seed: int = 0,
) -> Comparison:
    """b against a. labels: what the two are called; draws: resamples of an interval; splits: halvings of the yardstick.

    Raises UnknownName for a score, BadInput for one that a table lacks, or fewer than one draw or split.
    """
    row = lookup(METRICS, metric, "score")
    for name, table in zip(labels, (a, b)):
        if metric not in table.metrics:
            raise BadInput(f"The scores of {name} hold no {row.symbol}.")
    if draws < 1 or splits < 1:
        raise BadInput("An interval and a yardstick need at least one draw and one split.")
    paired, reason = same_inputs(a, b), different_shape(a.geometry, b.geometry, labels)
    values = a.per_input(metric), b.per_input(metric)
    spread = pooled_spread(values)
    times = _times(a.cluster, b.cluster, paired, draws, seed)
    layers = () if reason else range(a.geometry.layers)
    return Comparison(
        metric=metric,
        a=labels[0],
        b=labels[1],
        pooled=_distance(*values, spread, times),
        yardstick=_yardstick(*values, a.cluster, b.cluster, paired, spread, splits, seed),
        layers=tuple(_distance(values[0][:, i], values[1][:, i], spread, times) for i in layers),
        changes=None if reason else head_changes(a, b, metric, seed=seed),
        profiles=(depth_profile(a, metric), depth_profile(b, metric)),
        reason=reason,
        notes=_notes(a, b, labels, paired),
    )


def different_shape(a: Geometry, b: Geometry, labels: tuple[str, str]) -> str:
    """Why heads of the two cannot be compared one by one; "" where they can."""
    if (a.layers, a.heads) == (b.layers, b.heads):
        return ""
    return (
        f"{labels[0]} has {a.layers} layers of {a.heads} heads and {labels[1]} has {b.layers} of {b.heads}: no head of one is "
        "a head of the other, so there is no map of changes. Distributions and profiles along the depth can be compared."
    )


def _notes(a: ScoreTable, b: ScoreTable, labels: tuple[str, str], paired: bool) -> tuple[str, ...]:
    notes = []
    if not paired:
        notes.append(
            "The two models did not read the same tokens, so part of the distance is the difference between the texts"
        )
    if a.geometry.family != b.geometry.family:
        notes.append(
            f"{labels[0]} is a {a.geometry.family} and {labels[1]} a {b.geometry.family}: norms of different families have "
            "different sizes, so compare scores with (LN)"
        )
    return tuple(notes)


def _times(
    first: np.ndarray, second: np.ndarray, paired: bool, draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """(draws, N) of both models and the smaller number of documents. The same documents for both where they are paired."""
    rng = np.random.default_rng(seed)
    times = drawn_documents(first, draws, rng)
    fewest = min(np.unique(first).size, np.unique(second).size)
    return times, times if paired else drawn_documents(second, draws, rng), fewest


def _distance(
    a: np.ndarray, b: np.ndarray, spread: float, times: tuple[np.ndarray, np.ndarray, int]
) -> Distance:
    from headviz.analysis.paired.intervals import resample_level

    value, low, high = w1(a, b), float("nan"), float("nan")
    if times[2] > 1:
        level = resample_level(times[2], 0.025)
        drawn = w1_weighted(a, b, times[0], times[1])
        drawn = drawn[~np.isnan(drawn)]
        if drawn.size:
            low, high = np.quantile(drawn, (level, 1 - level)).tolist()
    return Distance(
        value=value,
        low=low,
        high=high,
        spread=spread,
        scaled=in_spreads(value, spread),
        scaled_low=in_spreads(low, spread),
        scaled_high=in_spreads(high, spread),
    )


def _yardstick(
    a: np.ndarray,
    b: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    paired: bool,
    spread: float,
    splits: int,
    seed: int,
) -> Yardstick:
    if min(np.unique(first).size, np.unique(second).size) < 2:
        none = dict.fromkeys(
            ("same", "same_high", "between", "scaled_same", "scaled_same_high", "scaled_between"),
            float("nan"),
        )
        note = "A model has inputs from one document only, so there are no halves of different documents."
        return Yardstick(**none, inputs=0, splits=0, note=note)
    rng = np.random.default_rng([seed, 1])
    of_a, of_b = [
        np.zeros((2, splits, len(x))) for x in (a, b)
    ]  # (half, split, N): 1 where an input is in it
    fewest = len(a)
    for i in range(splits):
        mine = halves(first, rng)
        theirs = mine if paired else halves(second, rng)
        n = min(len(half) for half in (*mine, *theirs))  # as many inputs on every side
        fewest = min(fewest, n)
        for half in (0, 1):
            of_a[half, i, mine[half][:n]] = 1
            of_b[half, i, theirs[half][:n]] = 1
    same = np.concatenate([w1_weighted(a, a, *of_a), w1_weighted(b, b, *of_b)])
    between = np.concatenate([w1_weighted(a, b, of_a[0], of_b[1]), w1_weighted(a, b, of_a[1], of_b[0])])
    numbers = {
        "same": _mean(same),
        "same_high": _quantile(same, 0.95),
        "between": _mean(between),
    }
    return Yardstick(
        **numbers,
        **{f"scaled_{name}": in_spreads(number, spread) for name, number in numbers.items()},
        inputs=fewest,
        splits=splits,
    )


def _mean(numbers: np.ndarray) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(known.mean()) if known.size else float("nan")


def _quantile(numbers: np.ndarray, level: float) -> float:
    known = numbers[~np.isnan(numbers)]
    return float(np.quantile(known, level)) if known.size else float("nan")
