"""Where the sink is: how much attention each of the first tokens gets, and on which of them each head looks most."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.sinkplace import HeadSinks, ModelSink
from headviz.charts import fmt, frame, scales
from headviz.charts.pattern import visible


def sink_positions(
    sink: ModelSink, heads: HeadSinks, *, theme: str = "light", provenance: str = ""
) -> go.Figure:
    """Above, mean attention by position, the model's strongest early column in the colour of the sink; below, for how many
    heads each position is the strongest. A position that no input is long enough for has no bar, and the hover says so."""
    p = frame.palette(theme)
    positions = np.arange(len(sink.by_position))
    figure = frame.start(theme, 400, left=62, right=16, top=34, bottom=46, note=provenance)
    strong = scales.colours(scales.SCALES["sink"], theme)[4]
    figure.add_bar(
        x=positions,
        y=np.nan_to_num(sink.by_position),
        marker={"color": [strong if i == sink.position else p.null for i in positions], "line": {"width": 0}},
        text=[
            f"token {i}: "
            + (f"{fmt.number(w)} of the attention<br>{n} inputs" if n else "no input is long enough")
            for i, w, n in zip(positions, sink.by_position, sink.inputs)
        ],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
        name="attention",
    )
    count = np.bincount(heads.position.ravel(), minlength=len(positions))
    figure.add_bar(
        x=positions,
        y=count,
        yaxis="y2",
        marker={"color": p.null, "line": {"width": 0}},
        hovertemplate="token %{x}: the strongest of these for %{y} heads<extra></extra>",
        name="heads",
    )
    figure.layout.xaxis = frame.axis(
        theme, "position of the token", grid=False, range=[-0.6, len(positions) - 0.4], anchor="y2", dtick=1 if len(positions) <= 20 else 4
    )  # fmt: skip
    figure.layout.yaxis = frame.axis(theme, "mean attention", domain=[0.56, 1], rangemode="tozero", nticks=5)
    figure.layout.yaxis2 = frame.axis(theme, "heads", domain=[0, 0.42], rangemode="tozero", nticks=4)
    frame.label(
        figure,
        f"strongest: token {sink.position} ‹{visible(sink.piece)}›, {fmt.number(sink.weight)}",
        theme,
        yshift=6,
        name="key",
    )
    return figure
