"""One score of every head, and the order in which it would call heads inactive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.analysis.metrics import METRICS, Metric
from headviz.errors import BadInput, lookup
from headviz.types import ScoreTable


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A score's mean over inputs. row: which score; values: (L, H), NaN where it is not defined."""

    row: Metric
    values: np.ndarray

    @property
    def urgency(self) -> np.ndarray:
        """(L, H) the values, turned so that the largest belongs to the head that goes first."""
        return self.values if self.row.inactive == "high" else -self.values

    def beyond(self, threshold: float) -> np.ndarray:
        """(L, H) bool: called inactive, strictly beyond the threshold; never a head without a value."""
        with np.errstate(invalid="ignore"):
            return self.values > threshold if self.row.inactive == "high" else self.values < threshold


def scored(table: ScoreTable, metric: str) -> Scored:
    """A score of a table. Raises UnknownName for an id that is no score, BadInput for one that the table lacks."""
    row = lookup(METRICS, metric, "score")
    if metric not in table.metrics:
        raise BadInput(f"These scores hold no {row.symbol}; they hold {', '.join(table.metrics)}.")
    return Scored(row=row, values=table.mean(metric))


def shared(a: Scored, b: Scored) -> np.ndarray:
    """(L, H) bool: heads that both scores are defined for. Raises BadInput for other shapes, or where there is none."""
    if a.values.shape != b.values.shape:
        raise BadInput(
            f"Two scores are compared head by head: shapes {a.values.shape} and {b.values.shape} differ."
        )
    known = ~(np.isnan(a.values) | np.isnan(b.values))
    if not known.any():
        raise BadInput(f"No head has both {a.row.symbol} and {b.row.symbol}, so there is nothing to compare.")
    return known


def order(urgency: np.ndarray) -> np.ndarray:
    """Places of the numbers, most urgent first; ties by place (layer, then head), NaN last. Any shape, flattened."""
    return np.argsort(-np.ravel(urgency), kind="stable")


def take(urgency: np.ndarray, count: int) -> np.ndarray:
    """Which `count` go first, bool, in the shape of `urgency`; a head without a value never does.

    Raises BadInput for a count below 0, or above the number of values.
    """
    known = int((~np.isnan(urgency)).sum())
    if not 0 <= count <= known:
        raise BadInput(f"{count} heads cannot be taken: {known} have a value.")
    chosen = np.zeros(urgency.size, dtype=bool)
    chosen[order(urgency)[:count]] = True
    return chosen.reshape(urgency.shape)


def mean_ranks(numbers: np.ndarray) -> np.ndarray:
    """(n,) rank of each number, 1 for the smallest; equal numbers share the mean of their ranks. No NaN."""
    _, place, count = np.unique(numbers, return_inverse=True, return_counts=True)
    last = np.cumsum(count)  # rank of the last of each group of equals
    return (last - (count - 1) / 2)[place]


def spearman(a: np.ndarray, b: np.ndarray) -> tuple[float, int]:
    """(Spearman's rank correlation, pairs left out because one is NaN). Ties have mean ranks.

    NaN where fewer than two pairs are left, or all numbers of one side are equal: then nothing is ordered.
    """
    a, b = np.ravel(a), np.ravel(b)
    known = ~(np.isnan(a) | np.isnan(b))
    left_out = int((~known).sum())
    if known.sum() < 2:
        return float("nan"), left_out
    x, y = (mean_ranks(side[known]) for side in (a, b))
    x, y = x - x.mean(), y - y.mean()
    size = float(np.sqrt((x @ x) * (y @ y)))
    return (float(np.clip(x @ y / size, -1, 1)) if size else float("nan")), left_out
