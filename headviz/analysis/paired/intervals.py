"""Exact tests and small-sample intervals that the paired comparisons are built from. numpy and scipy.special only."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from headviz.errors import BadInput


def mcnemar_p(lost: np.ndarray | int, gained: np.ndarray | int) -> np.ndarray:
    """Two-sided exact McNemar p of questions that turned wrong (`lost`) and right (`gained`), element by element.

    Under "a flip is as likely either way", `lost` of lost + gained flips is Binomial(·, 1/2), and p is twice its
    smaller tail, at most 1. No flips: p is 1, which is no evidence of "no effect"; only the interval says how large
    an effect is still possible. Source: McNemar 1947, with the binomial in place of its chi-square.
    """
    lost, gained = np.asarray(lost), np.asarray(gained)
    return np.minimum(1.0, 2 * special.bdtr(np.minimum(lost, gained), lost + gained, 0.5))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjusted p, in the order given: small ones hold for all comparisons at once.

    The i-th smallest of m (from 0) is multiplied by m − i; then a larger p never gets a smaller adjusted one, and
    none passes 1. NaN stays NaN and counts as no comparison. Source: Holm 1979.
    """
    p = np.asarray(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    raised = np.maximum.accumulate(p[order] * np.arange(order.size, 0, -1))
    adjusted = np.full(p.shape, np.nan)
    adjusted[order] = np.minimum(raised, 1)
    return adjusted


def lower_bound(right: int, n: int, level: float = 0.95) -> float:
    """One-sided lower bound of a share from `right` of `n`, by Clopper and Pearson; 0 when none is right.

    Exact rather than Wilson's: whatever n and the true share, the bound lies above it in at most 1 − level of
    samples. So "this model is above chance" is wrongly said at most once in twenty, also at n = 10, where Wilson's
    bound only holds on average. It costs a little width.
    """
    return float(special.betaincinv(right, n - right + 1, 1 - level)) if right else 0.0


def share_interval(right: int, n: int) -> tuple[float, float]:
    """Two-sided 95% interval of a share from `right` of `n`, by Clopper and Pearson: exact, as `lower_bound`."""
    return lower_bound(right, n, 0.975), 1 - lower_bound(n - right, n, 0.975)


def score_interval(lost: float, gained: float, n: float, tail: float = 0.025) -> tuple[float, float]:
    """Interval of the change (gained − lost) / n that leaves `tail` on either side, by inverting Tango's score test.

    Holds with few flips or none, where a bootstrap would call the change certain: no flips among n questions give
    ± z² / (n + z²), ±3.7 points at n = 100. Counts may be fractions of questions (weighted samples).
    Source: Tango 1998, "Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 17.
    """
    z, estimate = float(special.ndtri(1 - tail)), (gained - lost) / n

    def edge(outer: float, sign: float) -> float:
        inside, outside = estimate, outer
        for _ in range(60):  # halving 2 sixty times is below the spacing of doubles
            middle = (inside + outside) / 2
            if sign * _tango(lost, gained, n, middle) < z:
                inside = middle
            else:
                outside = middle
        return inside

    return edge(-1.0, 1.0), edge(1.0, -1.0)


def _tango(lost: float, gained: float, n: float, change: float) -> float:
    """Tango's score statistic for "the true change is `change`"; falls as `change` rises."""
    a = 2 * n
    b = -gained - lost + (2 * n - gained + lost) * change
    c = -lost * change * (1 - change)
    lost_rate = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (
        2 * a
    )  # its likeliest value, given the change
    variance = n * (2 * lost_rate + change * (1 - change))
    above = gained - lost - n * change
    return above / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, above) if above else 0.0


def resample_level(clusters: int, tail: float) -> float:
    """Which quantile of resampled means to read so that few clusters cover as a t-interval does (below `tail`).

    A plain percentile interval of K resampled clusters is too short by √((K−1)/K) and by normal against t quantiles.
    Source: Hesterberg 2015, "What Teachers Should Know About the Bootstrap", expanded percentile interval.
    """
    t = special.stdtrit(clusters - 1, tail)
    return float(special.ndtr(math.sqrt(clusters / (clusters - 1)) * t))


def as_right(values: np.ndarray, what: str) -> np.ndarray:
    """(n,) bool from booleans or 0/1. Raises BadInput for anything else."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise BadInput(f"{what} is one right-or-wrong per question, not an array of shape {values.shape}.")
    if values.dtype != bool and not np.isin(values, (0, 1)).all():
        raise BadInput(f"{what} holds values other than right (1) and wrong (0).")
    return values.astype(bool)
