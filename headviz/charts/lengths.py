"""What longer texts do to collapse: how many heads, and from which slope on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame


@dataclass(frozen=True, kw_only=True)
class At:
    """One length. edge: steepest slope of the band, nats a token, None where there is no band or no slope."""

    tokens: int
    collapsed: int
    heads: int
    edge: float | None
    band: str


def by_length(
    points: Sequence[At], *, theme: str = "light", width: int = frame.NARROW, provenance: str = ""
) -> go.Figure:
    """Above: share of collapsed heads against the length in tokens. Below: log2 of the band's steepest slope."""
    p = frame.palette(theme)
    slopes = any(point.edge is not None for point in points)
    figure = frame.start(
        theme, 420 if slopes else 270, left=62, top=26, bottom=46, note=provenance, chars=frame.fitting(width)
    )
    x = [np.log2(point.tokens) for point in points]
    texts = [
        f"<b>{point.tokens:,} tokens</b><br>collapsed {fmt.count(point.collapsed, point.heads)}<br>{point.band}"
        for point in points
    ]
    look = {
        "mode": "lines+markers",
        "line": {"color": p.accent, "width": 2},
        "marker": {"size": 8},
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
    }
    figure.add_scatter(x=x, y=[100 * point.collapsed / point.heads for point in points], name="collapsed", **look)  # fmt: skip
    ticks = {"tickvals": x, "ticktext": [f"{point.tokens:,}" for point in points], "fixedrange": True}
    up = {"fixedrange": True, "nticks": 5}
    frame.label(figure, "collapsed heads", theme, yshift=4, xshift=-52)
    if slopes:
        edges = [np.nan if point.edge is None else np.log2(point.edge) for point in points]
        figure.add_scatter(x=x, y=edges, xaxis="x2", yaxis="y2", name="edge of the band", **look)
        frame.label(figure, "steepest slope of the band: lower is shallower", theme, y=0.44, yshift=4, xshift=-52)  # fmt: skip
        figure.update_layout(
            xaxis2=frame.axis(theme, "length of a text, tokens", anchor="y2", matches="x", **ticks),
            yaxis2=frame.axis(theme, "log2 slope", anchor="x2", domain=[0.0, 0.44], **up),
        )
    name = "" if slopes else "length of a text, tokens"
    figure.update_layout(
        xaxis=frame.axis(theme, name, anchor="y", **ticks, **({"showticklabels": False} if slopes else {})),
        yaxis=frame.axis(
            theme, "% of heads", anchor="x", domain=[0.58, 1.0] if slopes else [0, 1], rangemode="tozero", **up
        ),
    )  # fmt: skip
    return figure
