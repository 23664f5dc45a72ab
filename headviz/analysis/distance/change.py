"""How much each head's score changed from one model to another of the same shape, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headviz.errors import BadInput
from headviz.types import ScoreTable

How = Literal["paired", "unpaired"]


@dataclass(frozen=True, kw_only=True)
class HeadChanges:
    """b − a, head by head, of the mean over inputs.

    change, low, high: (L, H), in the score's unit, with the 95% interval of each by itself; NaN where not defined. With
              many heads one in twenty intervals misses: `p_holm` (paired only, else NaN) holds for all heads at once
    how:      "paired": both models read the very same inputs, and documents are what is independent; "unpaired": the two
              means come from different inputs, each with its own error
    method:   how the intervals were made, in words; note: what a reader must know, or ""
    """

    change: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p_holm: np.ndarray
    how: How
    method: str
    note: str = ""

    def movers(self, most: int | None = None) -> list[tuple[int, int]]:
        """(layer, head) by |change|, largest first, ties by layer, then head; heads without a change are left out."""
        size = np.abs(self.change).ravel()
        order = np.argsort(-size, kind="stable")[: int((~np.isnan(size)).sum())]
        width = self.change.shape[1]
        return [(int(place) // width, int(place) % width) for place in order[:most]]


def same_inputs(a: ScoreTable, b: ScoreTable) -> bool:
    """Whether both tables hold the very same tokens of the same documents, input by input."""
    return (
        a.tokens.shape == b.tokens.shape
        and bool((a.tokens == b.tokens).all())
        and bool((a.lengths == b.lengths).all())
        and a.documents == b.documents
    )


def head_changes(
    a: ScoreTable, b: ScoreTable, metric: str, *, draws: int = 2_000, seed: int = 0
) -> HeadChanges:
    """b − a for every head. Raises BadInput where the models differ in shape."""
    before, after = a.per_input(metric).astype(np.float64), b.per_input(metric).astype(np.float64)
    if before.shape[1:] != after.shape[1:]:
        raise BadInput("These models differ in layers or heads, so no head of one is a head of the other.")
    if same_inputs(a, b):
        return _paired(before, after, a.cluster, draws, seed)
    return _unpaired(before, after, a.cluster, b.cluster)


def _paired(
    before: np.ndarray, after: np.ndarray, clusters: np.ndarray, draws: int, seed: int
) -> HeadChanges:
    """Heads by the inputs on which they are known in both; nearly always all heads on all inputs, in one go."""
    from headviz.analysis.paired import paired_means

    difference = (after - before).reshape(len(before), -1)  # (N, L·H)
    known = ~np.isnan(difference)
    change, low, high, p = (np.full(difference.shape[1], np.nan) for _ in range(4))
    methods = set()
    patterns, which = np.unique(known, axis=1, return_inverse=True)
    for number in range(patterns.shape[1]):
        rows, columns = patterns[:, number], np.flatnonzero(np.ravel(which) == number)
        if not rows.any():
            continue
        n = int(rows.sum())
        found = paired_means(
            np.zeros(n), difference[np.ix_(rows, columns)], clusters[rows],
            weights=np.ones(n), seed=seed, draws=draws,
        )  # fmt: skip
        change[columns], low[columns], high[columns] = found.change, found.low, found.high
        p[columns] = found.p
        methods.add(found.method)
    return HeadChanges(
        change=change.reshape(before.shape[1:]),
        low=low.reshape(before.shape[1:]),
        high=high.reshape(before.shape[1:]),
        p_holm=_holm(p).reshape(before.shape[1:]),
        how="paired",
        method=f"the same inputs in both, {', '.join(sorted(methods)) or 'none'}",
        note="All inputs come from one document, so there are no intervals." if "none" in methods else "",
    )


def _holm(p: np.ndarray) -> np.ndarray:
    from headviz.analysis.paired import holm

    return holm(p)


def _unpaired(before: np.ndarray, after: np.ndarray, first: np.ndarray, second: np.ndarray) -> HeadChanges:
    """Welch's interval over clusters: two standard errors added in squares, degrees of freedom by Satterthwaite."""
    from scipy import special

    a, b = _error(before, first), _error(after, second)
    change = b[0] - a[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = a[1] + b[1]
        freedom = variance**2 / (a[1] ** 2 / (a[2] - 1) + b[1] ** 2 / (b[2] - 1))
        reach = np.where(variance > 0, special.stdtrit(freedom, 0.975) * np.sqrt(variance), variance)
    return HeadChanges(
        change=change,
        low=change - reach,
        high=change + reach,
        p_holm=np.full(change.shape, np.nan),
        how="unpaired",
        method="different inputs, Welch over documents",
        note="The two models did not read the same tokens (another tokenizer, or another text), so each mean has an error "
        "of its own and the intervals are wide.",
    )


def _error(values: np.ndarray, clusters: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(L, H) mean over inputs, its variance by leaving out each document in turn (NaN for one), and how many documents."""
    labels, member = np.unique(clusters, return_inverse=True)
    known = ~np.isnan(values)
    total, size = np.zeros((2, labels.size, *values.shape[1:]))
    np.add.at(total, member, np.where(known, values, 0))
    np.add.at(size, member, known)
    K = (size > 0).sum(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total.sum(0) / size.sum(0)
        without = (total.sum(0) - total) / (
            size.sum(0) - size
        )  # (K, L, H); a document without a value changes nothing
        variance = (K - 1) / K * np.where(size > 0, (without - mean) ** 2, 0).sum(0)
    return mean, np.where(K > 1, variance, np.nan), K
