"""How far apart two distributions of a score are: 1-D Wasserstein distance, and the same for other weights on the inputs.

W1 is the area between the two cumulative distributions: how far values have to be moved, on average, to turn one into the
other. It is in the score's own unit, and never below 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headviz.errors import BadInput

POINTS = 1 << 14  # of two distributions that are compared again and again
CELLS = 1 << 22  # numbers held at once, 32 MB


def w1(a: np.ndarray, b: np.ndarray) -> float:
    """Wasserstein distance of all values of a from all of b, whatever their shapes; NaN are left out, NaN where nothing is left."""
    from scipy.stats import wasserstein_distance

    a, b = (np.ravel(x)[~np.isnan(np.ravel(x))].astype(np.float64) for x in (a, b))
    return float(wasserstein_distance(a, b)) if a.size and b.size else float("nan")


def w1_weighted(a: np.ndarray, b: np.ndarray, times_a: np.ndarray, times_b: np.ndarray) -> np.ndarray:
    """(draws,) W1 of a from b where each input counts so many times: `w1` of resampled inputs, by one matrix product.

    a, b: (N, M…) values of each input; times: (draws, N) how often each input is drawn, 0 or more. NaN values count nothing;
    NaN where a draw leaves one side empty. Exact for up to 16,384 different values (fewer beyond 256 inputs); of more, as
    many are taken at equal steps of rank, which moves a distance by less than the share of values between two of them.
    """
    a, b = (np.asarray(x, dtype=np.float64).reshape(len(x), -1) for x in (a, b))
    points = np.unique(np.concatenate([a[~np.isnan(a)], b[~np.isnan(b)]]))
    if not points.size:
        return np.full(len(times_a), np.nan)
    most = max(2, min(POINTS, CELLS // max(len(a), len(b))))
    if points.size > most:
        points = points[np.linspace(0, points.size - 1, most).round().astype(np.int64)]
    below = [_at_most(side, points) for side in (a, b)]  # (N, points) each
    gaps, found = np.diff(points), np.empty(len(times_a))
    step = max(1, CELLS // points.size)
    for start in range(0, len(found), step):
        some = slice(start, start + step)
        # whole numbers until they are divided, so that equal models give 0 and not rounding
        counts = [times[some] @ side for times, side in zip((times_a, times_b), below)]
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 is the NaN of a side that is empty
            apart = counts[0] / counts[0][:, -1:] - counts[1] / counts[1][:, -1:]
        found[some] = np.abs(apart[:, :-1]) @ gaps if points.size > 1 else apart[:, 0]
    return found


def _at_most(values: np.ndarray, points: np.ndarray) -> np.ndarray:
    """(N, points) how many of each input's values (N, M) are at most each point; NaN never is."""
    ordered = np.sort(values, 1)  # NaN last
    return np.stack([np.searchsorted(row, points, side="right") for row in ordered]).astype(np.float64)


def pooled_spread(several: Sequence[np.ndarray]) -> float:
    """Pooled standard deviation: √ of the mean variance within each, weighted by their degrees of freedom (n − 1).

    Differences between the several do not count, so the yardstick does not grow with what it measures. 0 where each is a
    constant; NaN where none has two values.
    """
    sides = [np.ravel(x)[~np.isnan(np.ravel(x))].astype(np.float64) for x in several]
    sides = [side for side in sides if side.size > 1]
    if not sides:
        return float("nan")
    # a constant array has variance 0 exactly, not what rounding of its mean leaves
    squares = sum(0.0 if np.ptp(side) == 0 else float(((side - side.mean()) ** 2).sum()) for side in sides)
    return float(np.sqrt(squares / sum(side.size - 1 for side in sides)))


def in_spreads(distance: np.ndarray | float, spread: float) -> np.ndarray | float:
    """A distance divided by the spread: 0 stays 0; NaN where the spread is 0 and the distance is not."""
    with np.errstate(divide="ignore", invalid="ignore"):
        divided = np.asarray(distance) / spread
    divided = np.where(np.asarray(distance) == 0, 0.0, np.where(np.isfinite(divided), divided, np.nan))
    return divided if np.ndim(distance) else float(divided)


def halves(clusters: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in two random halves that share no document, as equal in size as that allows.

    clusters: (N,) document of each input. Documents in random order, each to the half that has fewer inputs so far.
    Raises BadInput for a single document.
    """
    labels, member, size = np.unique(clusters, return_inverse=True, return_counts=True)
    if labels.size < 2:
        raise BadInput("All inputs come from one document, so there are no halves of different documents.")
    side, filled = np.empty(labels.size, dtype=np.int64), [0, 0]
    for label in rng.permutation(labels.size):
        side[label] = int(filled[1] < filled[0])
        filled[side[label]] += int(size[label])
    return tuple(rng.permutation(np.flatnonzero(side[member] == half)) for half in (0, 1))


def drawn_documents(clusters: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """(draws, N) how often each input counts when documents are drawn with replacement, as many as there are."""
    labels, member = np.unique(clusters, return_inverse=True)
    chosen = rng.integers(labels.size, size=(draws, labels.size))
    times = np.stack([np.bincount(row, minlength=labels.size) for row in chosen])  # (draws, K)
    return times[:, member].astype(np.float64)
