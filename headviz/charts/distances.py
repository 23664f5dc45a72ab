"""Distances between models: of several, as a matrix; of two, layer by layer and beside what no change would give."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.distance import Distance, Distances, Yardstick
from headviz.charts import fmt, frame, scales
from headviz.charts.scales import Row

PALE = 0.25  # spreads: the colours of a matrix reach at least so far, so that next to nothing looks like it


def distance_matrix(
    found: Distances, row: Row, *, theme: str = "light", width: int = frame.NARROW, provenance: str = ""
) -> go.Figure:
    """Every pair of models: W1 in spreads as a number on a colour that is neutral at 0."""
    M = len(found.labels)
    names = [fmt.wrap(label, 18) for label in found.labels]
    text = ["<br>".join(map(escape, parts)) for parts in names]
    tall = max(44, 18 * max(map(len, names)) + 12)
    figure = frame.start(
        theme, 74 + tall * M, left=150, right=14, top=34 + 16 * max(map(len, names)), bottom=10, note=provenance,
        chars=frame.fitting(width),
    )  # fmt: skip
    scale = scales.SCALES["change"]
    known = found.scaled[np.isfinite(found.scaled)]
    top = max(PALE, float(known.max()) if known.size else 0.0)
    drawn, low, high = scales.paint(scale, found.scaled, (-top, top))
    dark = scales.is_dark(scale, theme, drawn, low, high)
    figure.add_heatmap(
        z=drawn,
        zmin=low,
        zmax=high,
        colorscale=scales.colorscale(scale, theme),
        showscale=False,
        xgap=2,
        ygap=2,
        text=[
            [
                f"{escape(a)} and {escape(b)}<br>W1 {fmt.with_unit(found.value[i, j], scales.value_unit(row))}<br>"
                f"{fmt.number(found.scaled[i, j])} spreads"
                for j, b in enumerate(found.labels)
            ]
            for i, a in enumerate(found.labels)
        ],
        hovertemplate="%{text}<extra></extra>",
        name="distances",
    )  # fmt: skip
    for i in range(M):
        for j in range(M):
            frame.label(
                figure, fmt.number(found.scaled[i, j]), theme, xref="x", yref="y", x=j, y=i, xanchor="center",
                yanchor="middle", font={"size": 14, "color": "#ffffff" if dark[i, j] else "#14171d"}, name="distance",
            )  # fmt: skip
    axes = {"tickvals": list(range(M)), "ticktext": text, "fixedrange": True}
    figure.update_xaxes(frame.axis(theme, grid=False), side="top", tickangle=0, **axes)
    figure.update_yaxes(frame.axis(theme, grid=False), autorange="reversed", **axes)
    said = f"Distance by {escape(row.symbol)}, in spreads ({fmt.with_unit(found.spread, scales.value_unit(row))} each)"
    frame.label(
        figure,
        said,
        theme,
        x=0,
        xref="paper",
        y=1,
        xshift=-142,
        yshift=24 + 16 * max(map(len, names)),
        name="key",
    )
    figure.update_layout(margin_t=figure.layout.margin.t + 16, height=figure.layout.height + 16)
    return figure


def layer_distances(
    layers: Sequence[Distance],
    row: Row,
    *,
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """W1 of each layer in spreads of the whole model, with 95% intervals of resampled documents."""
    p = frame.palette(theme)
    figure = frame.start(theme, 280, left=62, top=30, bottom=46, note=provenance, chars=frame.fitting(width))
    value, low, high = (
        np.array([getattr(one, name) for one in layers]) for name in ("scaled", "scaled_low", "scaled_high")
    )
    # noise only adds to W1, so an interval of resamples may lie above its estimate: an error bar never turns round
    figure.add_bar(
        x=list(range(len(layers))),
        y=value,
        marker={"color": p.accent, "line": {"width": 0}},
        error_y={
            "type": "data",
            "symmetric": False,
            "array": np.nan_to_num(np.maximum(high - value, 0)),
            "arrayminus": np.nan_to_num(np.maximum(value - low, 0)),
            "color": p.muted,
            "thickness": 1.2,
            "width": 3,
        },
        text=[
            f"<b>layer {i}</b><br>{fmt.interval(one.scaled, one.scaled_low, one.scaled_high)} spreads<br>"
            f"W1 {fmt.with_unit(one.value, scales.value_unit(row))}"
            for i, one in enumerate(layers)
        ],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
        name="layers",
    )  # fmt: skip
    frame.label(figure, "distance of each layer, 95% intervals", theme, yshift=6, xshift=-54, name="key")
    figure.update_xaxes(
        frame.axis(theme, "layer", grid=False), range=[-0.6, len(layers) - 0.4], fixedrange=True
    )
    top = {} if np.nanmax(np.append(value, 0)) > 0 else {"range": [0, 1]}
    figure.update_yaxes(frame.axis(theme, "W1, spreads"), rangemode="tozero", fixedrange=True, **top)
    return figure


def against_yardstick(
    pooled: Distance, yardstick: Yardstick, *, theme: str = "light", width: int = frame.NARROW
) -> go.Figure:
    """One line: the distance with its interval, and in grey how far halves of one model lie apart."""
    p = frame.palette(theme)
    figure = frame.start(theme, 118, left=12, right=16, top=22, bottom=44, chars=frame.fitting(width))
    ends = [pooled.scaled, pooled.scaled_high, yardstick.scaled_same_high, yardstick.scaled_between]
    top = max([x for x in ends if np.isfinite(x)], default=1.0) * 1.12 or 1.0
    if np.isfinite(yardstick.scaled_same_high):
        figure.add_shape(
            type="rect", x0=0, x1=yardstick.scaled_same_high, y0=-1, y1=2, fillcolor=p.shade, line_width=0, layer="below",
            name="no change",
        )  # fmt: skip
    marks = (
        (pooled.scaled, 1, "all inputs", "circle", pooled.scaled_low, pooled.scaled_high),
        (yardstick.scaled_between, 0, "a half of one against a half of the other", "diamond", np.nan, np.nan),
    )
    for x, y, name, symbol, low, high in marks:
        if not np.isfinite(x):
            continue
        if np.isfinite(low):
            figure.add_scatter(
                x=[low, high], y=[y, y], mode="lines", line={"color": p.accent, "width": 2}, hoverinfo="skip",
                name=f"{name}, 95%",
            )  # fmt: skip
        said = fmt.interval(x, low, high) if np.isfinite(low) else fmt.number(x)
        figure.add_scatter(
            x=[x], y=[y], mode="markers", marker={"color": p.accent, "size": 11, "symbol": symbol}, name=name,
            hovertemplate=f"{name}: {said} spreads<extra></extra>",
        )  # fmt: skip
    frame.label(
        figure, "● distance   ◆ half against half   grey: halves of one model", theme, yshift=4, name="key"
    )
    figure.update_xaxes(frame.axis(theme, "W1, spreads", grid=False), range=[0, top], fixedrange=True)
    figure.update_yaxes(visible=False, range=[-0.7, 1.7], fixedrange=True)
    return figure
