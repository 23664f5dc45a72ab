"""More than two models: the matrix of their distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headviz.analysis.distance.spread import in_spreads, pooled_spread, w1
from headviz.analysis.metrics import METRICS
from headviz.errors import BadInput, lookup
from headviz.types import ScoreTable


@dataclass(frozen=True, kw_only=True)
class Distances:
    """M models by one score, all heads and inputs pooled.

    value:  (M, M) W1 in the score's unit, 0 on the diagonal; scaled: divided by `spread`, the pooled standard deviation within
            the M models, one yardstick for the whole matrix; 0 stays 0, NaN where the spread is 0 and the distance is not
    """

    metric: str
    labels: tuple[str, ...]
    value: np.ndarray
    scaled: np.ndarray
    spread: float


def distances(tables: Mapping[str, ScoreTable], metric: str) -> Distances:
    """Every pair of `tables` (label → scores), whatever their shapes. Raises BadInput for fewer than two."""
    row = lookup(METRICS, metric, "score")
    if len(tables) < 2:
        raise BadInput("A distance is between models: give at least two.")
    for label, table in tables.items():
        if metric not in table.metrics:
            raise BadInput(f"The scores of {label} hold no {row.symbol}.")
    values = [table.per_input(metric) for table in tables.values()]
    spread = pooled_spread(values)
    square = np.zeros((len(values), len(values)))
    for i in range(len(values)):
        for j in range(i):
            square[i, j] = square[j, i] = w1(values[i], values[j])
    return Distances(
        metric=metric,
        labels=tuple(tables),
        value=square,
        scaled=in_spreads(square, spread),
        spread=spread,
    )
