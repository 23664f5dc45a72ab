"""What two head sets of the same size share by chance: exactly, from the hypergeometric distribution. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from headviz.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Chance:
    """Two sets of k heads of n, one of them random: exact means, and the middle 95% of the draws.

    overlap:   heads in both; k²/n on average
    jaccard:   overlap / (2k − overlap); its mean is summed over all overlaps, since a ratio's mean is not the ratio of means
    precision: overlap / k; k/n on average
    low, high: the smallest and largest overlap of the middle 95%: at most 2.5% of draws lie beyond either
    With k = 0 the two ratios are NaN.
    """

    k: int
    n: int
    overlap: float
    jaccard: float
    precision: float
    low: int
    high: int


@lru_cache(maxsize=1 << 15)
def chance(k: int, n: int) -> Chance:
    """Raises BadInput for k outside 0..n."""
    if not 0 <= k <= n:
        raise BadInput(f"{k} of {n} heads cannot be drawn.")
    overlaps = np.arange(max(0, 2 * k - n), k + 1)
    logs = _log_choose(k, overlaps) + _log_choose(n - k, k - overlaps)
    share = np.exp(logs - logs.max())
    share /= share.sum()  # (M,) probability of each overlap
    below = np.cumsum(share)
    mean = float(share @ overlaps)
    jaccard = float(share @ (overlaps / (2 * k - overlaps))) if k else float("nan")
    return Chance(
        k=k,
        n=n,
        overlap=mean,
        jaccard=jaccard,
        precision=mean / k if k else float("nan"),
        low=int(overlaps[np.searchsorted(below, 0.025, side="right")]),
        high=int(overlaps[min(np.searchsorted(below, 0.975), overlaps.size - 1)]),
    )


def _log_choose(n: int, m: np.ndarray) -> np.ndarray:
    """ln of n choose m, element by element, 0 ≤ m ≤ n."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])  # ln i!
    return logs[n] - logs[m] - logs[n - m]
