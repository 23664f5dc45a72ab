"""Losses and log-probabilities before and after, documents and not tokens taken as independent."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from headviz.analysis.paired.intervals import resample_level
from headviz.errors import BadInput

FEW_CLUSTERS = 20  # below, resampling documents covers too seldom: a t-interval instead
CELLS = 4_000_000  # resampled numbers held at once, 32 MB


@dataclass(frozen=True, kw_only=True)
class MeanChange:
    """Mean of a number before and after, weighted, over the same inputs.

    change:          ablated − baseline, in the numbers' unit (nats); a higher loss is worse, a higher log-probability better
    n, clusters:     inputs, and the documents they were cut from; weight: total weight, tokens of a loss
    method:          "cluster bootstrap", "t over clusters" (fewer than 20), or "none": one cluster, edges NaN
    se:              standard error of the change, clusters left out in turn; NaN for one cluster
    cluster_changes: (name, change, weight) of every cluster, to draw as dots
    note:            why there is no interval, else ""
    """

    n: int
    clusters: int
    weight: float
    baseline: float
    ablated: float
    change: float
    low: float
    high: float
    bound_low: float
    bound_high: float
    se: float
    method: Literal["cluster bootstrap", "t over clusters", "none"]
    cluster_changes: tuple[tuple[Hashable, float, float], ...]
    draws: int
    seed: int
    note: str = ""


def paired_mean(
    baseline: np.ndarray,
    ablated: np.ndarray,
    clusters: Sequence[Hashable] | np.ndarray | None = None,
    *,
    weights: np.ndarray | None = None,
    seed: int = 0,
    draws: int = 4_000,
) -> MeanChange:
    """Change of a weighted mean, with an interval that takes documents, not tokens or inputs, as independent.

    baseline, ablated: (N,) mean loss, or log-probability, of each input; clusters: (N,) the document of each input,
    None where inputs are independent (questions); weights: (N,) tokens that each mean was taken over, None for equal

    From 20 clusters on, clusters are resampled with replacement and the weighted mean taken again; percentiles, widened
    for the number of clusters (`resample_level`). Below, mean ± t(K − 1) × standard error, the error from leaving
    out each cluster in turn, which for equal weights is the ordinary t-interval over cluster means. More inputs of the
    same documents never make either much shorter: the tokens of a document share its author and its subject.

    Raises BadInput for no inputs, lengths that differ, a number that is not finite, or a weight that is not positive.
    """
    before, after = np.asarray(baseline, dtype=np.float64), np.asarray(ablated, dtype=np.float64)
    weight = np.ones(before.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    names = np.arange(before.size) if clusters is None else np.asarray(clusters)
    _check_inputs(before, after, weight, names, draws)
    labels, member = np.unique(names, return_inverse=True)
    size = np.bincount(member, weight)  # (K,) weight of each cluster
    total = np.bincount(member, weight * (after - before))  # (K,) weighted sum of changes
    change = float(total.sum() / size.sum())
    se = _leave_one_out(total, size, change)
    method, edges, note = _mean_edges(total, size, change, se, seed, draws)
    return MeanChange(
        n=before.size,
        clusters=labels.size,
        weight=float(weight.sum()),
        baseline=float(np.average(before, weights=weight)),
        ablated=float(np.average(after, weights=weight)),
        change=change,
        low=edges[0],
        high=edges[3],
        bound_low=edges[1],
        bound_high=edges[2],
        se=se,
        method=method,
        cluster_changes=tuple(zip(labels.tolist(), (total / size).tolist(), size.tolist())),
        draws=draws,
        seed=seed,
        note=note,
    )


def _check_inputs(
    before: np.ndarray, after: np.ndarray, weight: np.ndarray, names: np.ndarray, draws: int
) -> None:
    if before.ndim != 1 or not before.shape == after.shape == weight.shape == names.shape:
        raise BadInput(
            f"Compared numbers belong to the same inputs: shapes {before.shape} before, {after.shape} after, "
            f"{weight.shape} weights, {names.shape} documents."
        )
    if not before.size:
        raise BadInput("There are no inputs to compare.")
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        wrong = int(np.flatnonzero(~(np.isfinite(before) & np.isfinite(after)))[0])
        raise BadInput(
            f"Input {wrong} has no finite number before or after, so the mean change is not defined."
        )
    if not (np.isfinite(weight).all() and (weight > 0).all()):
        raise BadInput("Every input needs a weight above zero: the number of tokens that were predicted.")
    if draws < 1:
        raise BadInput(f"An interval needs at least one draw, not {draws}.")


def _leave_one_out(total: np.ndarray, size: np.ndarray, change: float) -> float:
    """Jackknife standard error of the weighted mean change; total, size: (K,). NaN for one cluster."""
    K = size.size
    if K < 2:
        return math.nan
    without = (total.sum() - total) / (size.sum() - size)  # (K,) the change with each cluster left out
    return float(np.sqrt((K - 1) / K * ((without - change) ** 2).sum()))


def _mean_edges(
    total: np.ndarray, size: np.ndarray, change: float, se: float, seed: int, draws: int
) -> tuple[Literal["cluster bootstrap", "t over clusters", "none"], tuple[float, ...], str]:
    """How, the change at 2.5, 5, 95 and 97.5%, and a note. total, size: (K,)."""
    K = size.size
    if K < 2:
        return "none", (math.nan,) * 4, "All inputs come from one document, so there is no interval."
    if K < FEW_CLUSTERS:
        wide, narrow = special.stdtrit(K - 1, (0.975, 0.95)).tolist()
        return (
            "t over clusters",
            (change - wide * se, change - narrow * se, change + narrow * se, change + wide * se),
            "",
        )
    rng = np.random.default_rng(seed)
    means = np.empty(draws)
    step = max(1, CELLS // K)
    for start in range(0, draws, step):
        chosen = rng.integers(K, size=(min(step, draws - start), K), dtype=np.int32)  # (some, K)
        means[start : start + len(chosen)] = total[chosen].sum(1) / size[chosen].sum(1)
    outer, inner = resample_level(K, 0.025), resample_level(K, 0.05)
    edges = np.quantile(means, (outer, inner, 1 - inner, 1 - outer)).tolist()
    return "cluster bootstrap", tuple(edges), ""
