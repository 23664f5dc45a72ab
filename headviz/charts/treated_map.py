"""The map on which a repair is designed: attention on the first token, classes, and the treated heads outlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts.bands_map import bands_map
from headviz.charts.film import outline_treated
from headviz.types import Geometry


def treated_map(
    mass: np.ndarray,
    named: np.ndarray,
    hover: Sequence[Sequence[str]],
    counts: Mapping[str, int],
    treated: Sequence[tuple[int, int]],
    *,
    geometry: Geometry,
    theme: str = "light",
    provenance: str = "",
    title: str = "Attention on the first token",
) -> go.Figure:
    """As `bands_map` in the order of heads, with a 2 px outline round the treated heads and their number in the key."""
    figure = bands_map(
        mass,
        named,
        hover,
        counts,
        geometry=geometry,
        order=range(geometry.heads),
        theme=theme,
        provenance=provenance,
        title=escape(title),
    )
    outline_treated(figure, treated, theme)
    # what is clicked stays on top
    figure.data = (
        *(one for one in figure.data if one.name != "heads"),
        *(one for one in figure.data if one.name == "heads"),
    )
    for label in figure.layout.annotations:
        if label.name == "key":
            label.text = f"▢ treated: {len(treated):,}   {label.text}"
    return figure
