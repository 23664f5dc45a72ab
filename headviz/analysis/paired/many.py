"""Many changes at once over the same inputs: every head off alone, say. The numbers of `paired_mean`, head by head."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from headviz.analysis.paired.intervals import holm, resample_level
from headviz.analysis.paired.means import FEW_CLUSTERS
from headviz.errors import BadInput

CELLS = 8_000_000  # resampled numbers held at once, 64 MB


@dataclass(frozen=True, kw_only=True)
class ManyChanges:
    """Weighted mean changes of several things over the same inputs; arrays have the shape (M…) of what was compared.

    change:    after − before, in the numbers' unit; low, high: its 95% interval, as in `MeanChange`; NaN for one cluster
    p:         two-sided, t over clusters, of each by itself; p_holm: raised so that small ones hold for all at once
    clusters:  documents; method: as in `MeanChange`
    """

    change: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    p_holm: np.ndarray
    clusters: int
    method: Literal["cluster bootstrap", "t over clusters", "none"]


def paired_means(
    baseline: np.ndarray,
    ablated: np.ndarray,
    clusters: Sequence[Hashable] | np.ndarray,
    *,
    weights: np.ndarray,
    seed: int = 0,
    draws: int = 4_000,
) -> ManyChanges:
    """`paired_mean` of every column of `ablated` against the same baseline, clusters resampled together.

    baseline: (N,) mean of each input; ablated: (N, M…) the same with each thing changed; clusters: (N,) documents;
    weights: (N,) above zero. Raises BadInput for no inputs, shapes that do not match, numbers that are not finite.
    """
    before, after = np.asarray(baseline, np.float64), np.asarray(ablated, np.float64)
    names, weight = np.asarray(clusters), np.asarray(weights, np.float64)
    if not before.size or before.ndim != 1:
        raise BadInput("There are no inputs to compare.")
    if after.shape[:1] != before.shape or names.shape != before.shape or weight.shape != before.shape:
        raise BadInput(
            f"Compared numbers belong to the same inputs: shapes {before.shape} before, {after.shape} after, "
            f"{weight.shape} weights, {names.shape} documents."
        )
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        raise BadInput("A number before or after is not finite, so the mean change is not defined.")
    if not (np.isfinite(weight).all() and (weight > 0).all()):
        raise BadInput("Every input needs a weight above zero: the number of tokens that were predicted.")
    shape = after.shape[1:]
    total, size = sums_of(after.reshape(len(before), -1) - before[:, None], names, weight)
    change = total.sum(0) / size.sum()
    K = size.size
    if K < 2:
        none = np.full(shape, np.nan)
        return ManyChanges(
            change=change.reshape(shape), low=none, high=none, p=none, p_holm=none, clusters=K, method="none"
        )
    without = (total.sum(0) - total) / (size.sum() - size)[:, None]  # (K, M) each cluster left out
    se = np.sqrt((K - 1) / K * ((without - change) ** 2).sum(0))
    ratio = np.divide(np.abs(change), se, out=np.full(se.shape, np.inf), where=se > 0)
    p = np.where((se == 0) & (change == 0), 1.0, 2 * special.stdtr(K - 1, -ratio))
    if K < FEW_CLUSTERS:
        method, reach = "t over clusters", special.stdtrit(K - 1, 0.975) * se
        low, high = change - reach, change + reach
    else:
        method = "cluster bootstrap"
        low, high = _resampled(total, size, seed, draws)
    return ManyChanges(
        change=change.reshape(shape),
        low=low.reshape(shape),
        high=high.reshape(shape),
        p=p.reshape(shape),
        p_holm=holm(p).reshape(shape),
        clusters=K,
        method=method,
    )


def sums_of(values: np.ndarray, clusters: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((K, M) weighted sums of (N, M) values over the inputs of each cluster, (K,) their weights)."""
    labels, member = np.unique(clusters, return_inverse=True)
    total = np.zeros((labels.size, values.shape[1]))
    np.add.at(total, member, values * weights[:, None])
    return total, np.bincount(member, weights)


def _resampled(total: np.ndarray, size: np.ndarray, seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the interval: every column on the same resampled clusters. total: (K, M); size: (K,)."""
    K, M = total.shape
    outer = resample_level(K, 0.025)
    chosen = np.random.default_rng(seed).integers(K, size=(draws, K), dtype=np.int32)
    times = np.stack([np.bincount(row, minlength=K) for row in chosen]).astype(np.float64)  # (draws, K)
    weight = times @ size  # (draws,)
    low, high = np.empty(M), np.empty(M)
    step = max(1, CELLS // draws)
    for start in range(0, M, step):
        some = slice(start, start + step)
        means = (times @ total[:, some]) / weight[:, None]  # (draws, some)
        low[some], high[some] = np.quantile(means, (outer, 1 - outer), axis=0)
    return low, high
