"""How much a score's threshold and its choice of heads depend on the text: two questions, and both are needed.

A threshold that selects the same share everywhere is easy to carry from one data set to the next. That alone says nothing
about the heads: in the first paper AVVN (LN) has the most stable thresholds and is a poor choice. So the overlap of the
selected heads stands beside it. numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from headviz.analysis.agreement import TWELVE, chance, scored, take
from headviz.analysis.metrics import METRICS, threshold_at
from headviz.errors import BadInput, lookup
from headviz.types import ScoreTable


@dataclass(frozen=True, kw_only=True)
class Stability:
    """One score on C texts.

    thresholds: label → the threshold that calls `share` of all values (heads × inputs pooled, the paper's rule) inactive
    ratio:      largest / smallest threshold, at least 1; NaN where one of them is not above 0, and then `reason` says so
    count:      heads that are selected by the mean over inputs, ties by layer, then head
    jaccard:    (C, C) heads selected on both / on either, 0..1, in the order of `labels`
    mean_jaccard, least_jaccard: over the pairs; everywhere: heads that are selected on every text
    chance:     Jaccard of two random sets of that size, on average
    """

    metric: str
    share: float
    labels: tuple[str, ...]
    thresholds: dict[str, float]
    ratio: float
    reason: str
    count: int
    jaccard: np.ndarray
    mean_jaccard: float
    least_jaccard: float
    everywhere: int
    chance: float


def stability(tables: Mapping[str, ScoreTable], metric: str, share: float) -> Stability:
    """One score of one model on several texts: label (data set, input length) → scores.

    Raises BadInput for fewer than two texts, different models, a share outside 0..1, a score without values.
    """
    _check(tables)
    lookup(METRICS, metric, "score")
    sides = {label: scored(table, metric) for label, table in tables.items()}
    thresholds = {
        label: threshold_at(table.per_input(metric), metric, share) for label, table in tables.items()
    }
    ratio, reason = threshold_ratio(thresholds)
    n = next(iter(sides.values())).values.size
    known = min(int((~np.isnan(side.values)).sum()) for side in sides.values())
    count = min(int(share * n + 0.5), known)
    sets = np.stack([take(side.urgency, count) for side in sides.values()])  # (C, L, H)
    jaccard = np.array([[_jaccard(one, other) for other in sets] for one in sets])
    pairs = [jaccard[i, j] for i, j in combinations(range(len(sets)), 2)]
    return Stability(
        metric=metric,
        share=share,
        labels=tuple(tables),
        thresholds=thresholds,
        ratio=ratio,
        reason=reason,
        count=count,
        jaccard=jaccard,
        mean_jaccard=float(np.mean(pairs)),
        least_jaccard=float(np.min(pairs)),
        everywhere=int(sets.all(0).sum()),
        chance=chance(count, n).jaccard,
    )


def stabilities(
    tables: Mapping[str, ScoreTable], share: float, metrics: Sequence[str] = TWELVE
) -> tuple[Stability, ...]:
    """`stability` of several scores."""
    return tuple(stability(tables, metric, share) for metric in metrics)


def threshold_ratio(thresholds: Mapping[str, float]) -> tuple[float, str]:
    """(largest / smallest, "") of label → threshold; (NaN, why) where one is not above 0. Raises BadInput for none."""
    if not thresholds:
        raise BadInput("A ratio of thresholds needs at least one of them.")
    label, least = min(thresholds.items(), key=lambda item: -math.inf if math.isnan(item[1]) else item[1])
    if not least > 0:
        value = "not defined" if math.isnan(least) else f"{least:.3g}"
        return math.nan, f"The threshold of {label} is {value}, and a ratio needs thresholds above 0."
    return max(thresholds.values()) / least, ""


def _jaccard(one: np.ndarray, other: np.ndarray) -> float:
    either = int((one | other).sum())
    return int((one & other).sum()) / either if either else math.nan


def _check(tables: Mapping[str, ScoreTable]) -> None:
    if len(tables) < 2:
        raise BadInput("Stability is between texts: give the scores of one model on at least two.")
    models = [table.provenance.request.get("model") for table in tables.values()]
    geometries = {table.geometry for table in tables.values()}
    if len(geometries) > 1 or any(model != models[0] for model in models):
        raise BadInput("Stability is of one model on several texts; these scores come from different models.")
