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
    threshold: float | None = None,
    documents: Sequence[str] = (),
    theme: str = "light",
    provenance: str = "",
    width: int = frame.NARROW,
) -> go.Figure:
    """One head's score on each input, side by side where they coincide. values: (N,), NaN inputs left out and counted.

    A NaN threshold is none; without any value the axis is empty and says so. width: px the page gives at the least.
    """
    threshold = frame.given(threshold)
    values = np.asarray(values, np.float64)
    at = np.flatnonzero(~np.isnan(values))
    seen = values[at]
    p = frame.palette(theme)
    chars = frame.fitting(width)
    figure = frame.start(theme, 170, left=16, top=30, bottom=46, note=provenance, chars=chars)
    figure.update_yaxes(visible=False, range=[-1.05, 1.05], fixedrange=True)
    title = escape(scales.titled(row, short=True))
    if not len(seen):
        figure.update_xaxes(frame.axis(theme, title, grid=False, showline=True, linecolor=p.line))
        figure.update_xaxes(range=[0, 1], tickvals=[])
        frame.nothing(figure, "not defined on these inputs", theme)
        return figure
    low, high = (0.0, 1.0) if scales.scale_for(row).id == "sink" else _spread_ends(seen, threshold)
    unit = scales.value_unit(row)
    names = [f"input {i}" + (f" · {escape(documents[i])}" if len(documents) > i else "") for i in at]
    texts = [f"{n}<br>{escape(row.symbol)} {fmt.with_unit(v, unit)}" for n, v in zip(names, seen)]
    _dots(figure, seen, _swarm(seen, low, high), texts, theme)
    figure.update_xaxes(frame.axis(theme, title), range=[low, high])
    said = f"{len(seen):,} inputs"
    mean = float(seen.mean())
    place = {"type": "line", "x0": mean, "x1": mean, "yref": "y domain", "y0": 0.2, "y1": 0.8}
    figure.add_shape(**place, line={"color": p.text, "width": 2}, name="mean")
    if threshold is not None:
        said += f", inactive in {int(inactive_mask(seen, row, threshold).sum()):,}"
        frame.shade(figure, row, threshold, low, high, theme)
    said += f"; mean {_short(mean, row)}"
    if len(seen) < len(values):
        said += f"; not defined in {len(values) - len(seen):,}"
    frame.label(figure, said, theme, yshift=6, name="key", font={"size": 13, "color": p.text})
    return figure


def _dots(figure, x: np.ndarray, y: np.ndarray, texts: list[str], theme: str) -> None:
    p = frame.palette(theme)
    many = len(x) > 400
    marker = {"size": 5 if many else 8, "color": p.accent, "opacity": 0.45 if many else 0.8}
    figure.add_trace(
        (go.Scattergl if many else go.Scatter)(
            x=x,
            y=y,
            mode="markers",
            marker={**marker, "line": {"color": p.paper, "width": 0.5}},
            text=texts,
            hovertemplate="%{text}<extra></extra>",
            name="inputs",
        )
    )


def _spread_ends(seen: np.ndarray, threshold: float | None) -> tuple[float, float]:
    known = np.concatenate([seen, [] if threshold is None else [threshold]])
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
    width: int = frame.NARROW,
) -> go.Figure:
    """Every score of one head as its percentile among all heads, with the value beside; triangles mark the inactive end.

    width: px the page gives at the least.
    """
    ids = [m for m in (metrics if metrics is not None else table.metrics) if m in rows]
    p = frame.palette(theme)
    around = {"left": 98, "right": 92, "top": 28, "bottom": 46}
    tall, chars = 76 + 24 * len(ids), frame.fitting(width)
    figure = frame.start(theme, tall, **around, note=provenance, chars=chars)
    means = [table.mean(m) for m in ids]
    place = np.array([percentiles(m)[layer, head] for m in means])
    words = [_short(m[layer, head], rows[i]) for i, m in zip(ids, means)]
    _rails(figure, [rows[m] for m in ids], words, theme)
    chosen = [m == selected for m in ids]
    line = {"color": [p.text if c else p.paper for c in chosen], "width": 1.5}
    figure.add_scatter(
        x=place,
        y=np.arange(len(ids)),
        mode="markers",
        marker={"size": [13 if c else 10 for c in chosen], "opacity": 1, "color": p.accent, "line": line},
        text=[
            f"<b>{escape(rows[m].name)}</b><br>{w}<br>percentile {q:.0f}; {rows[m].inactive} means inactive"
            for m, w, q in zip(ids, words, place)
        ],
        hovertemplate="%{text}<extra></extra>",
        name="percentile",
        cliponaxis=False,
    )
    names = [f"<b>{escape(rows[m].symbol)}</b>" if m == selected else escape(rows[m].symbol) for m in ids]
    across = {"range": [-4, 104], "tickvals": [0, 25, 50, 75, 100], "fixedrange": True}
    figure.update_xaxes(frame.axis(theme, "percentile among all heads", **across))
    up = {"tickvals": list(range(len(ids))), "ticktext": names, "range": [len(ids) - 0.4, -0.6]}
    beyond = {"ticklen": 15, "tickcolor": "rgba(0,0,0,0)"}  # names start where the triangles end
    figure.update_yaxes(frame.axis(theme, grid=False, **up), **beyond, fixedrange=True)
    said = f"{head_name(layer, head)}: triangles mark the inactive end"
    frame.label(figure, said, theme, yshift=6, xshift=-90, name="key")
    return figure


def _short(value: float, row: Row) -> str:
    """A value beside its rail: there is room for `0.512×` and `1.23 nats`."""
    text = fmt.with_unit(value, "" if row.normalised else scales.value_unit(row))
    return f"{text}×" if row.normalised and text != fmt.NOT_DEFINED else text


def _rails(figure, rows: Sequence[Row], words: Sequence[str], theme: str) -> None:
    """A grey rail a score, a triangle at its inactive end, the value at the right; a hollow box where there is none."""
    p = frame.palette(theme)
    rail = {"type": "line", "x0": 0, "x1": 100, "line": {"color": p.grid, "width": 6}, "layer": "below"}
    texts = []
    for i, said in enumerate(words):
        text = {"yref": "y", "y": i, "yanchor": "middle", "font": {"size": 12, "color": p.text}}
        texts.append(frame.worded(escape(said), theme, x=1, xshift=18, name="value", **text))
        if said == fmt.NOT_DEFINED:
            texts.append(frame.worded("□", theme, xref="x", x=50, xanchor="center", **text))
    for i, row in enumerate(rows):  # in px from the rail's end: clear of the largest dot at any width
        end = (100, "▸", 12) if row.inactive == "high" else (0, "◂", -12)
        at = {"xref": "x", "x": end[0], "xshift": end[2], "xanchor": "center"}
        at |= {"yref": "y", "y": i, "yanchor": "middle", "font": {"size": 20, "color": p.muted}}
        texts.append(frame.worded(end[1], theme, name="inactive end", **at))
    # one by one, plotly checks all of them again at each: a fifth of a second for twelve scores
    figure.layout.shapes = [rail | {"y0": i, "y1": i} for i in range(len(words))]
    figure.layout.annotations = [*figure.layout.annotations, *texts]
