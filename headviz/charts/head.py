"""One head among all: its score on every input, and all its scores as percentiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame, scales
from headviz.charts.scales import Row
from headviz.charts.tables import inactive_mask, percentiles
from headviz.types import ScoreTable, head_name


def head_inputs(
    values: np.ndarray,
    row: Row,
    *,
    layer: int,
    head: int,
    threshold: float | None = None,
    documents: Sequence[str] = (),
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """One head's score on each input, side by side where they coincide. values: (N,), NaN inputs left out and counted."""
    values = np.asarray(values, np.float64)
    at = np.flatnonzero(~np.isnan(values))
    seen = values[at]
    p = frame.palette(theme)
    figure = frame.start(theme, 170, left=16, top=30, bottom=46, note=provenance)
    low, high = (0.0, 1.0) if scales.scale_for(row).id == "sink" else _spread_ends(seen, threshold)
    names = [f"input {i}" + (f" · {escape(documents[i])}" if len(documents) > i else "") for i in at]
    many = len(seen) > 400
    figure.add_trace(
        (go.Scattergl if many else go.Scatter)(
            x=seen,
            y=_swarm(seen, low, high),
            mode="markers",
            marker={
                "size": 5 if many else 8,
                "color": p.accent,
                "opacity": 0.45 if many else 0.8,
                "line": {"color": p.paper, "width": 0.5},
            },
            text=[
                f"{n}<br>{escape(row.symbol)} {fmt.with_unit(v, scales.value_unit(row))}"
                for n, v in zip(names, seen)
            ],
            hovertemplate="%{text}<extra></extra>",
            name="inputs",
        )
    )
    figure.update_xaxes(frame.axis(theme, escape(scales.titled(row))), range=[low, high])
    figure.update_yaxes(visible=False, range=[-1.05, 1.05], fixedrange=True)
    said = f"{head_name(layer, head)} on {len(seen):,} inputs"
    if len(seen):
        mean = float(seen.mean())
        said += f", mean {fmt.with_unit(mean, scales.value_unit(row))}"
        line = {"color": p.text, "width": 2}
        figure.add_shape(
            type="line", x0=mean, x1=mean, yref="y domain", y0=0.2, y1=0.8, line=line, name="mean"
        )
    if threshold is not None:
        said += f"; inactive in {fmt.count(int(inactive_mask(seen, row, threshold).sum()), len(seen))}"
        frame.shade(figure, row, threshold, low, high, theme)
    if len(seen) < len(values):
        said += f"; not defined in {len(values) - len(seen):,}"
    frame.label(figure, said, theme, yshift=6, name="key", font={"size": 13, "color": p.text})
    return figure


def _spread_ends(seen: np.ndarray, threshold: float | None) -> tuple[float, float]:
    known = np.concatenate([seen, [] if threshold is None else [threshold]])
    if not known.size:
        return 0.0, 1.0
    pad = 0.06 * (known.max() - known.min()) or 0.05 * abs(known.max()) or 0.5
    return float(known.min() - pad), float(known.max() + pad)


def _swarm(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Heights that set coinciding points apart: those within one of 60 columns alternate up and down from the middle."""
    column = np.floor((values - low) / (high - low) * 60).astype(int)
    height = np.zeros(len(values))
    for c in np.unique(column):
        at = np.flatnonzero(column == c)
        step = min(0.22, 1.9 / len(at))
        place = np.arange(len(at))
        height[at] = (place + 1) // 2 * np.where(place % 2, 1, -1) * step
    return height


def head_scores(
    table: ScoreTable,
    rows: Mapping[str, Row],
    *,
    layer: int,
    head: int,
    metrics: Sequence[str] | None = None,
    selected: str = "",
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Every score of one head as its percentile among all heads, with the value beside; triangles mark the inactive end."""
    ids = [m for m in (metrics if metrics is not None else table.metrics) if m in rows]
    p = frame.palette(theme)
    figure = frame.start(theme, 76 + 24 * len(ids), left=104, right=130, top=28, bottom=46, note=provenance)
    means = [table.mean(m) for m in ids]
    place = np.array([percentiles(m)[layer, head] for m in means])
    value = [float(m[layer, head]) for m in means]
    y = np.arange(len(ids))
    for i, metric in enumerate(ids):
        row = rows[metric]
        figure.add_shape(
            type="line", x0=0, x1=100, y0=i, y1=i, line={"color": p.grid, "width": 6}, layer="below"
        )
        words = fmt.with_unit(value[i], scales.value_unit(row))
        text = {"yref": "y", "y": i, "yanchor": "middle", "font": {"size": 12, "color": p.text}}
        frame.label(figure, escape(words), theme, x=1, xshift=6, name="value", **text)
        if words == fmt.NOT_DEFINED:
            frame.label(figure, "□", theme, xref="x", x=50, xanchor="center", **text)
    ends = [rows[m].inactive == "high" for m in ids]
    figure.add_scatter(
        x=[102.5 if high else -2.5 for high in ends],
        y=y,
        mode="markers",
        marker={
            "symbol": ["triangle-right" if h else "triangle-left" for h in ends],
            "size": 8,
            "color": p.line,
        },
        hoverinfo="skip",
        name="inactive end",
    )
    figure.add_scatter(
        x=place,
        y=y,
        mode="markers",
        marker={
            "size": [13 if m == selected else 10 for m in ids],
            "opacity": 1,
            "color": p.accent,
            "line": {"color": [p.text if m == selected else p.paper for m in ids], "width": 1.5},
        },
        text=[
            f"<b>{escape(rows[m].name)}</b><br>{fmt.with_unit(v, scales.value_unit(rows[m]))}<br>percentile {q:.0f}; "
            f"{rows[m].inactive} means inactive"
            for m, v, q in zip(ids, value, place)
        ],
        hovertemplate="%{text}<extra></extra>",
        name="percentile",
        cliponaxis=False,
    )
    figure.update_xaxes(
        frame.axis(theme, "percentile among all heads"),
        range=[-5, 105],
        tickvals=[0, 25, 50, 75, 100],
        fixedrange=True,
    )
    names = [f"<b>{escape(rows[m].symbol)}</b>" if m == selected else escape(rows[m].symbol) for m in ids]
    figure.update_yaxes(
        frame.axis(theme, grid=False, ticks=""),
        tickvals=y,
        ticktext=names,
        range=[len(ids) - 0.4, -0.6],
        fixedrange=True,
    )
    frame.label(
        figure,
        f"{head_name(layer, head)}: triangles mark the inactive end",
        theme,
        yshift=6,
        xshift=-90,
        name="key",
    )
    return figure
