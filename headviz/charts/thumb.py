"""One head on one text, small: its pattern, and the tokens that it looks at most."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from headviz.charts import frame, scales
from headviz.charts.pattern import pooled
from headviz.types import HeadPattern, head_name

SIDE = 64  # cells along a side


def top_tokens(pattern: HeadPattern, most: int = 3) -> list[tuple[int, str, float]]:
    """(position, text, weight) of the keys with the most attention, mean over the queries that can look there, 0..1.

    The last quarter of the text does not count: few queries see it, and a token's look at itself would pass for a target.
    """
    T = len(pattern.pieces)
    total = np.nansum(pattern.attention, 0, dtype=np.float64) / np.arange(
        T, 0, -1
    )  # key j is seen by T − j queries
    total = total[: max(1, 3 * T // 4)]
    return [(int(j), pattern.pieces[j], float(total[j])) for j in np.argsort(-total, kind="stable")[:most]]


def pattern_thumb(pattern: HeadPattern, *, theme: str = "light") -> go.Figure:
    """The whole pattern without words: queries down, keys across, in the colours of the sink, square-root spaced."""
    weights, starts, _ = pooled(pattern.attention, SIDE)
    scale = scales.SCALES["weight"]
    drawn, low, high = scales.paint(scale, weights, (0.0, 1.0))
    figure = frame.start(theme, 220, left=34, right=6, top=6, bottom=30)
    figure.add_heatmap(
        z=drawn, zmin=low, zmax=high, colorscale=scales.colorscale(scale, theme), showscale=False, customdata=weights,
        x=starts, y=starts, hoverongaps=False, name=head_name(pattern.layer, pattern.head),
        hovertemplate="query %{y}, key %{x}: weight %{customdata:.2~g}<extra></extra>",
    )  # fmt: skip
    small = {"grid": False, "fixedrange": True, "nticks": 4}
    figure.layout.xaxis = frame.axis(theme, "key", **small)
    figure.layout.yaxis = frame.axis(theme, "query", **small) | {"autorange": "reversed"}
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        axis.tickfont.size, axis.title.font.size, axis.title.standoff = 10, 11, 2
    return figure
