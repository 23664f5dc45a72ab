"""A score along the depth of a model, so that models with other numbers of layers and heads can be laid side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.types import ScoreTable


@dataclass(frozen=True, kw_only=True)
class DepthProfile:
    """One score, layer by layer.

    depth:  (L,) 0 for the first layer, 1 for the last; 0 where there is one layer only
    mean:   (L,) over the layer's heads, of their means over inputs; low, high: (L,) the 10% and 90% quantile of its heads
    NaN in a layer where no head has a value.
    """

    depth: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def depth_profile(table: ScoreTable, metric: str) -> DepthProfile:
    """The score of a table along relative depth."""
    means = table.mean(metric)  # (L, H)
    low, mean, high = np.full((3, len(means)), np.nan)
    for layer, heads in enumerate(means):
        known = heads[~np.isnan(heads)]
        if known.size:
            low[layer], high[layer] = np.quantile(known, (0.1, 0.9))
            mean[layer] = known.mean()
    return DepthProfile(depth=np.arange(len(means)) / max(len(means) - 1, 1), mean=mean, low=low, high=high)
