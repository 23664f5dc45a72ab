"""Which heads matter, two ways: the order of their gradients, and what each costs when it alone is off. numpy only.

The gradient (Michel, Levy and Neubig 2019, arXiv 1905.10650) is an order and nothing else: where a head set stands among
sets that were measured. It is never turned into nats or points. The measured map is in nats, with intervals, and every
score is compared with it by rank. Letters: L layers, H heads, N inputs, K documents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import special

from headviz.analysis.metrics import high_first
from headviz.analysis.paired import ManyChanges, paired_means, sums_of
from headviz.errors import BadInput
from headviz.types import DataRef, GradientRequest, HeadLosses, MapRequest, ModelRef, ScoreTable

GRADIENT_AT_MOST = (8, 256)  # inputs, tokens: more text hardly moves the order, and this is seconds on a CPU
MAP_AT_MOST = (8, 128)  # for a first map: minutes on a CPU for a small model
SOURCE = "Michel, Levy and Neubig 2019, arXiv 1905.10650"
FEW = 3  # heads below which a rank correlation says nothing
HALVINGS = 50


def shorter(data: DataRef, at_most: tuple[int, int]) -> DataRef:
    """The same text with at most so many inputs of at most so many tokens."""
    return replace(data, inputs=min(data.inputs, at_most[0]), tokens=min(data.tokens, at_most[1]))


def gradient_request(model: ModelRef, chosen_on: DataRef) -> GradientRequest:
    """Gradients on the text on which heads are chosen: apart from what is measured."""
    return GradientRequest(model=model, data=shorter(chosen_on, GRADIENT_AT_MOST))


def map_request(
    model: ModelRef,
    text: DataRef,
    *,
    replace: Literal["zero", "mean"] = "zero",
    means_on: DataRef | None = None,
) -> MapRequest:
    return MapRequest(
        model=model, text=text, replace=replace, means_on=means_on if replace == "mean" else None
    )


# --------------------------------------------------------------------------------------------- the gradient order


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a set stands among measured ones, by the sum of its heads' absolute gradients. An order, not a prediction.

    rank:         1 for the smallest sum; of: the measured sets and this one; equal sums share the smaller rank
    below, above: which measured sets are next to it (numbers in the list given); None at the ends
    order:        the measured sets from the smallest sum to the largest
    """

    rank: int
    of: int
    below: int | None
    above: int | None
    order: tuple[int, ...]


def place(gradients: np.ndarray, off: np.ndarray, measured: Sequence[np.ndarray]) -> Place:
    """The place of a head set among measured ones.

    gradients: (L, H) mean absolute gradients; off: (L, H) bool; measured: (L, H) bool of each measured set. Sums, not
    means: with more heads off more is lost. Raises BadInput for a mask of another shape.
    """
    gradients = np.asarray(gradients, np.float64)
    for mask in (off, *measured):
        if np.shape(mask) != gradients.shape:
            raise BadInput(
                f"These heads are of a model with {np.shape(mask)} layers and heads, the gradients of one with "
                f"{gradients.shape}."
            )
    mine = float(gradients[off].sum())
    sums = np.array([gradients[mask].sum() for mask in measured])
    order = np.argsort(sums, kind="stable")
    smaller = int((sums < mine).sum())
    return Place(
        rank=smaller + 1,
        of=len(sums) + 1,
        below=int(order[smaller - 1]) if smaller else None,
        above=int(order[smaller]) if smaller < len(sums) else None,
        order=tuple(order.tolist()),
    )


# ------------------------------------------------------------------------------------------------ the measured map


def head_costs(found: HeadLosses) -> ManyChanges:
    """(L, H) change in mean loss with each head off alone, nats a token, intervals by document as everywhere.

    p_holm holds over all L·H heads at once. Inputs of one token predict nothing and are left out.
    """
    some = found.predicted > 0
    weights = found.predicted[some].astype(np.float64)
    return paired_means(
        found.baseline[some] / weights,
        found.loss[some] / weights[:, None, None],
        found.cluster[some],
        weights=weights,
    )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How one ordering of the heads agrees with the measured map.

    rho:   Spearman's rank correlation, −1..1. Above 0: heads that the score calls more inactive cost less when off (or, for
           the gradient, heads with a smaller one do). NaN where fewer than three heads have a value or all are equal
    low, high: 95% over documents; NaN for fewer than two; heads: how many have a value
    """

    name: str
    rho: float
    low: float
    high: float
    heads: int


def activity(table: ScoreTable) -> dict[str, np.ndarray]:
    """Score → (L, H) mean over inputs, turned round where high means inactive: larger is always more active."""
    return {name: -table.mean(name) if high_first(name) else table.mean(name) for name in table.metrics}


def agreements(found: HeadLosses, orders: Mapping[str, np.ndarray]) -> tuple[Agreement, ...]:
    """Each ordering's rank correlation with the measured map, best first, NaN last; ties in the order given.

    orders: name → (L, H), larger for heads that should cost more; NaN where there is no value: that head is left out.

    Interval: documents are left out in turn, the error from that on Fisher's scale, and t with K − 1. Resampling documents
    would add noise to a map that is noisy as it is, and so put the interval below the correlation.
    """
    total, size = _by_document(found)
    K = size.size
    whole = total.sum(0) / size.sum()  # (LH,)
    without = (total.sum(0) - total) / (size.sum() - size)[:, None] if K > 1 else np.empty((0, whole.size))
    rows = []
    for name, values in orders.items():
        flat = np.asarray(values, np.float64).ravel()
        if flat.shape != whole.shape:
            raise BadInput(f"{name} has {flat.size} heads, the measured map {whole.size}.")
        known = ~np.isnan(flat)
        rho = spearman(flat[known], whole[known])
        low = high = math.nan
        if K > 1 and not math.isnan(rho):
            parts = np.array([spearman(flat[known], one[known]) for one in without])
            low, high = _fisher(rho, parts)
        rows.append(Agreement(name=name, rho=rho, low=low, high=high, heads=int(known.sum())))
    return tuple(sorted(rows, key=lambda row: math.inf if math.isnan(row.rho) else -row.rho))


def _fisher(rho: float, parts: np.ndarray) -> tuple[float, float]:
    """Interval of a correlation from those with each of K documents left out."""
    if np.isnan(parts).any():
        return math.nan, math.nan
    K, most = parts.size, 1 - 1e-12
    middle, left = (np.arctanh(np.clip(x, -most, most)) for x in (rho, parts))
    se = math.sqrt((K - 1) / K * float(((left - left.mean()) ** 2).sum()))
    reach = float(special.stdtrit(K - 1, 0.975)) * se
    return float(np.tanh(middle - reach)), float(np.tanh(middle + reach))


def reliability(found: HeadLosses, seed: int = 0) -> float:
    """How well the map would agree in rank with one from as many other documents: no score is expected above its root.

    Documents are halved at random 50 times, both halves' maps rank-correlated, the mean taken to full length by
    Spearman and Brown's formula (1910). NaN for fewer than two documents or where all heads tie; 0 where halves disagree.
    """
    total, size = _by_document(found)
    K = size.size
    if K < 2:
        return math.nan
    rng, halves = np.random.default_rng(seed), []
    for _ in range(HALVINGS):
        first = rng.permutation(K)[: K // 2]
        mask = np.isin(np.arange(K), first)
        halves.append(spearman(*(total[half].sum(0) / size[half].sum() for half in (mask, ~mask))))
    mean = float(np.mean(halves))
    return math.nan if math.isnan(mean) else max(0.0, 2 * mean / (1 + mean))


def spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Rank correlation of two (n,) arrays without NaN, ties at their mean rank; NaN for n < 3 or where all tie."""
    if len(one) < FEW:
        return math.nan
    a, b = (_ranks(x) for x in (one, other))
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / scale if scale > 0 else math.nan


def _ranks(values: np.ndarray) -> np.ndarray:
    """(n,) ranks from 1, ties at their mean."""
    _, member, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return (last - (count - 1) / 2)[member]


def _by_document(found: HeadLosses) -> tuple[np.ndarray, np.ndarray]:
    """((K, LH) summed change of each document, nats, (K,) its predicted tokens)."""
    some = found.predicted > 0
    weights = found.predicted[some].astype(np.float64)
    change = (found.loss[some] - found.baseline[some][:, None, None]).reshape(len(weights), -1)
    return sums_of(change / weights[:, None], found.cluster[some], weights)
