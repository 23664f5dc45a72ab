"""All scores against all: rank correlation, overlap at one budget, and an order that puts alike beside alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headviz.analysis.agreement.quadrants import budget
from headviz.analysis.agreement.scored import Scored, scored, shared, spearman, take
from headviz.analysis.metrics import METRICS
from headviz.errors import BadInput
from headviz.types import ScoreTable

TWELVE: tuple[str, ...] = tuple(id_ for id_, row in METRICS.items() if not row.extra)


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """K scores against each other.

    rho:      (K, K) Spearman's rank correlation over heads, turned so that +1 is "call the same heads inactive" whatever
              the direction of the scores; NaN where a score is the same for all heads
    jaccard:  (K, K) heads in both / heads in either, at `count` heads each (fewer where a pair has fewer in common)
    left_out: (K, K) heads that one of the two has no value for
    order:    the K places as a clustering would put them: average linkage on 1 − rho, neighbours as alike as can be
    """

    metrics: tuple[str, ...]
    count: int
    rho: np.ndarray
    jaccard: np.ndarray
    left_out: np.ndarray
    order: tuple[int, ...]


def matrices(table: ScoreTable, share: float, metrics: Sequence[str] = TWELVE) -> Matrices:
    """Every pair of `metrics` over the heads of a table, at a share (0..1) of them. Raises BadInput, UnknownName."""
    rows = [scored(table, metric) for metric in metrics]
    if not rows:
        raise BadInput("A matrix of scores needs at least one score.")
    K = len(rows)
    rho, jaccard, left_out = np.full((K, K), np.nan), np.full((K, K), np.nan), np.zeros((K, K), np.int64)
    for i in range(K):
        for j in range(i, K):
            rho[i, j], left_out[i, j] = spearman(rows[i].urgency, rows[j].urgency)
            jaccard[i, j] = overlap_share(rows[i], rows[j], budget(share, rows[i], rows[j]))
            for square in (rho, jaccard, left_out):
                square[j, i] = square[i, j]
    return Matrices(
        metrics=tuple(metrics),
        count=int(share * rows[0].values.size + 0.5),
        rho=rho,
        jaccard=jaccard,
        left_out=left_out,
        order=clustered(rho),
    )


def overlap_share(a: Scored, b: Scored, count: int) -> float:
    """Jaccard, 0..1, of the `count` heads that each score takes among those that both know; NaN for none."""
    known = shared(a, b)
    first, second = (take(np.where(known, side.urgency, np.nan), count) for side in (a, b))
    both = int((first & second).sum())
    return both / (2 * count - both) if count else float("nan")


def clustered(rho: np.ndarray) -> tuple[int, ...]:
    """Places in the order of a dendrogram: average linkage on the distance 1 − rho, leaves ordered optimally.

    Scores that order heads the opposite way (rho −1) are farthest apart; NaN counts as unrelated (rho 0).
    """
    from scipy.cluster import hierarchy
    from scipy.spatial.distance import squareform

    if len(rho) < 3:
        return tuple(range(len(rho)))
    apart = np.clip(1 - np.nan_to_num(rho, nan=0.0), 0, 2)
    np.fill_diagonal(apart, 0)
    tree = hierarchy.linkage(squareform(apart, checks=False), "average", optimal_ordering=True)
    return tuple(int(place) for place in hierarchy.leaves_list(tree))
