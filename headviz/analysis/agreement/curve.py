"""How far two scores choose the same heads when each may choose k of them: for every k, beside chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.analysis.agreement.chance import Chance, chance
from headviz.analysis.agreement.scored import Scored, order, shared
from headviz.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Each score takes its k most inactive heads of the n that both are defined for, k = 1 … n.

    k, overlap: (n,) int; jaccard: (n,) overlap / (2k − overlap), 0..1; precision: (n,) overlap / k, 0..1
    chance_overlap, chance_jaccard, chance_precision: (n,) what a random set of k heads gives on average, exactly
    chance_low, chance_high: (n,) overlap, the middle 95% of random sets
    left_out: heads that a score has no value for
    """

    k: np.ndarray
    overlap: np.ndarray
    jaccard: np.ndarray
    precision: np.ndarray
    chance_overlap: np.ndarray
    chance_jaccard: np.ndarray
    chance_precision: np.ndarray
    chance_low: np.ndarray
    chance_high: np.ndarray
    left_out: int

    def at(self, count: int) -> dict[str, float]:
        """The numbers at one budget. Raises BadInput for a count outside 1..n."""
        if not 1 <= count <= self.k.size:
            raise BadInput(f"The curve goes from 1 to {self.k.size} heads, not to {count}.")
        names = ("k", "overlap", "jaccard", "precision")
        more = tuple(f"chance_{name}" for name in ("overlap", "jaccard", "precision", "low", "high"))
        return {name: getattr(self, name)[count - 1].item() for name in (*names, *more)}


def agreement(a: Scored, b: Scored) -> Agreement:
    """Overlap, Jaccard and precision of two scores at every equal budget. Ties go by layer, then head."""
    known = shared(a, b).ravel()
    n = int(known.sum())
    rank = np.empty((2, n), dtype=np.int64)  # place of each head in the order of each score
    for side, score in enumerate((a, b)):
        rank[side, order(np.ravel(score.urgency)[known])] = np.arange(n)
    # a head is in both sets from the budget on at which the later of the two takes it
    overlap = np.cumsum(np.bincount(rank.max(0), minlength=n))  # (n,)
    k = np.arange(1, n + 1)
    random: list[Chance] = [chance(count, n) for count in k.tolist()]
    return Agreement(
        k=k,
        overlap=overlap,
        jaccard=overlap / (2 * k - overlap),
        precision=overlap / k,
        chance_overlap=np.array([one.overlap for one in random]),
        chance_jaccard=np.array([one.jaccard for one in random]),
        chance_precision=np.array([one.precision for one in random]),
        chance_low=np.array([one.low for one in random]),
        chance_high=np.array([one.high for one in random]),
        left_out=int(known.size - n),
    )
