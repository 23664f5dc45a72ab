"""How a score spreads: over heads and over input × head pairs, layer by layer, and one head among all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame, scales
from headviz.charts.scales import Row
from headviz.charts.tables import inactive_mask, percentiles
from headviz.types import ScoreTable, head_name

BINS = 40


def distribution(
    means: np.ndarray,
    per_input: np.ndarray,
    row: Row,
    *,
    threshold: float | None = None,
    kind: str = "histogram",
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Two panels on one axis: heads by their mean over inputs, and every input × head pair.

    means: (L, H); per_input: (N, L, H); kind: "histogram" or "ecdf". The threshold is an edge of the bins, so no bar is
    half inactive; its inactive side is shaded, and each panel says how many are in it. Values beyond the drawn range (from
    the heads' own range and the pairs' 0.5th to 99.5th percentile) are counted in the end bins.
    """
    heads, pairs = (np.asarray(x, np.float64).ravel() for x in (means, per_input))
    heads, pairs = heads[~np.isnan(heads)], pairs[~np.isnan(pairs)]
    figure = frame.start(theme, 360, left=58, top=34, bottom=44, note=provenance)
    edges = _edges(heads, pairs, row, threshold)
    panels = ((heads, "heads", "", (0.57, 1.0)), (pairs, "input × head pairs", "2", (0.0, 0.43)))
    for values, what, n, up in panels:
        draw = _steps if kind == "ecdf" else _bars
        draw(figure, values, edges, row, threshold, theme, what, n)
        title = "share" if kind == "ecdf" else "count"
        figure.update_layout(
            {
                f"yaxis{n}": frame.axis(
                    theme, title, domain=list(up), anchor=f"x{n}", rangemode="tozero", nticks=4
                )
            }
        )
        said = f"{what}: {len(values):,}"
        if threshold is not None:
            said = (
                f"{what}: {fmt.count(int(inactive_mask(values, row, threshold).sum()), len(values))} inactive"
            )
        frame.label(
            figure,
            said,
            theme,
            y=up[1],
            yshift=3,
            name=what,
            font={"size": 13, "color": frame.palette(theme).text},
        )
    shared = {"range": [edges[0], edges[-1]]}
    figure.update_layout(
        bargap=0,
        xaxis=frame.axis(theme, grid=False, anchor="y", showticklabels=False, **shared),
        xaxis2=frame.axis(theme, _titled(row), grid=False, anchor="y2", **shared),
    )
    if threshold is not None:
        for n in ("", "2"):
            _shade(figure, row, threshold, edges[0], edges[-1], theme, n)
    return figure


def _edges(heads, pairs, row: Row, threshold) -> np.ndarray:
    """Bin edges that hit the threshold; from 0, or 0 to 1 for a share of attention."""
    if scales.scale_for(row).id == "sink":
        low, high = 0.0, 1.0
    else:
        near = np.percentile(pairs, (0.5, 99.5)) if pairs.size else np.array([0.0, 1.0])
        known = np.concatenate([heads, near, [] if threshold is None else [threshold]])
        low, high = float(min(known.min(), 0)), float(known.max())
        high = high * 1.02 if high > low else low + 1
    step = (high - low) / BINS
    if threshold is None or not low < threshold < high:
        return np.linspace(low, high, BINS + 1)
    below = max(1, round((threshold - low) / step))
    return np.concatenate(
        [
            np.linspace(low, threshold, below, endpoint=False),
            np.linspace(threshold, high, max(1, BINS - below) + 1),
        ]
    )


def _bars(figure, values, edges, row, threshold, theme, what, n) -> None:
    p = frame.palette(theme)
    off = (
        inactive_mask((edges[1:] + edges[:-1]) / 2, row, threshold)
        if threshold is not None
        else np.zeros(len(edges) - 1, bool)
    )
    # a value equal to the threshold is not inactive: bins are closed on that side where inactive does not lie
    clipped = np.clip(values, edges[0], edges[-1])
    if row.inactive == "high":
        counts = np.histogram(-clipped, -edges[::-1])[0][::-1]
    else:
        counts = np.histogram(clipped, edges)[0]
    spans = [f"{fmt.number(a)} to {fmt.number(b)}" for a, b in zip(edges[:-1], edges[1:])]
    figure.add_bar(
        x=(edges[1:] + edges[:-1]) / 2,
        y=counts,
        width=np.diff(edges) * 0.94,
        marker={
            "color": p.accent,
            "line": {"width": 0},
            "pattern": {
                "shape": ["/" if x else "" for x in off],
                "fillmode": "overlay",
                "fgcolor": p.paper,
                "fgopacity": 0.9,
                "size": 6,
                "solidity": 0.3,
            },
        },
        text=spans,
        textposition="none",
        hovertemplate=f"{escape(row.symbol)} %{{text}}<br>%{{y:,}} {what}<extra></extra>",
        name=what,
        xaxis=f"x{n}",
        yaxis=f"y{n}",
    )


def _steps(figure, values, edges, row, threshold, theme, what, n) -> None:
    at = np.unique(np.concatenate([np.linspace(edges[0], edges[-1], 241), edges]))
    share = np.searchsorted(np.sort(values), at, "right") / max(len(values), 1)
    figure.add_scatter(
        x=at,
        y=share,
        mode="lines",
        line={"color": frame.palette(theme).accent, "width": 2, "shape": "hv"},
        text=[fmt.percent(s) for s in share],
        hovertemplate=f"%{{text}} of {what}<br>at {escape(row.symbol)} ≤ %{{x:.3~g}}<extra></extra>",
        name=what,
        xaxis=f"x{n}",
        yaxis=f"y{n}",
    )


def _shade(
    figure, row: Row, threshold: float, low: float, high: float, theme: str, n: str = "", along: str = "x"
) -> None:
    """The inactive side as a grey band and the threshold as a dashed line, across one panel."""
    p = frame.palette(theme)
    other = "y" if along == "x" else "x"
    ends = (threshold, high) if row.inactive == "high" else (low, threshold)
    refs = {f"{along}ref": f"{along}{n}", f"{other}ref": f"{other}{n} domain", f"{other}0": 0, f"{other}1": 1}
    figure.add_shape(
        type="rect",
        **refs,
        **{f"{along}0": ends[0], f"{along}1": ends[1]},
        fillcolor=p.shade,
        line_width=0,
        layer="below",
        name="inactive side",
    )
    line = {"color": p.text, "width": 1.5, "dash": "dash"}
    figure.add_shape(
        type="line", **refs, **{f"{along}0": threshold, f"{along}1": threshold}, line=line, name="threshold"
    )


def layer_profile(
    values: np.ndarray,
    row: Row,
    *,
    threshold: float | None = None,
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Mean over heads of each layer, its middle half of heads and its whole range. values: (L, H); NaN heads left out."""
    values = np.asarray(values, np.float64)
    known = ~np.isnan(values).all(1)
    stats = np.full((5, len(values)), np.nan)
    if known.any():
        stats[0, known] = np.nanmean(values[known], 1)
        stats[1:, known] = np.nanpercentile(values[known], (0, 25, 75, 100), axis=1)
    mean, least, q25, q75, most = stats
    p = frame.palette(theme)
    figure = frame.start(theme, 280, left=58, top=30, bottom=46, note=provenance)
    layers = np.arange(len(values))
    for low, high, opacity, name in ((least, most, 0.16, "all heads"), (q25, q75, 0.30, "middle half")):
        hidden = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(x=layers, y=low, name=f"{name}, low", **hidden)
        figure.add_scatter(
            x=layers, y=high, fill="tonexty", fillcolor=_faded(p.accent, opacity), name=name, **hidden
        )
    texts = [
        f"<b>layer {i}</b><br>mean {fmt.with_unit(m, row.unit)}<br>middle half {fmt.number(a)} to {fmt.number(b)}<br>"
        f"all heads {fmt.number(s)} to {fmt.number(t)}"
        for i, (m, s, a, b, t) in enumerate(stats.T)
    ]
    figure.add_scatter(
        x=layers,
        y=mean,
        mode="lines+markers",
        line={"color": p.accent, "width": 2},
        marker={"size": 5},
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        name="mean",
    )
    top = {"range": [0, 1]} if scales.scale_for(row).id == "sink" else {"rangemode": "tozero"}
    figure.update_xaxes(frame.axis(theme, "layer", grid=False), range=[-0.5, len(values) - 0.5])
    figure.update_yaxes(frame.axis(theme, _titled(row, short=True)), **top)
    frame.label(
        figure, "line: mean of the layer's heads; bands: middle half, all", theme, yshift=6, name="key"
    )
    if threshold is not None:
        low, high = _reach(top, least, most, threshold)
        _shade(figure, row, threshold, low, high, theme, along="y")
        if "range" not in top:
            figure.update_yaxes(range=[low, high], rangemode=None)
    return figure


def _reach(top: dict, least, most, threshold: float) -> tuple[float, float]:
    if "range" in top:
        return 0.0, 1.0
    values = np.concatenate([least[np.isfinite(least)], most[np.isfinite(most)], [threshold, 0.0]])
    return float(values.min()), float(values.max()) * 1.05 or 1.0


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
            text=[f"{n}<br>{escape(row.symbol)} {fmt.with_unit(v, row.unit)}" for n, v in zip(names, seen)],
            hovertemplate="%{text}<extra></extra>",
            name="inputs",
        )
    )
    figure.update_xaxes(frame.axis(theme, _titled(row)), range=[low, high])
    figure.update_yaxes(visible=False, range=[-1.05, 1.05], fixedrange=True)
    said = f"{head_name(layer, head)} on {len(seen):,} inputs"
    if len(seen):
        mean = float(seen.mean())
        said += f", mean {fmt.with_unit(mean, row.unit)}"
        line = {"color": p.text, "width": 2}
        figure.add_shape(
            type="line", x0=mean, x1=mean, yref="y domain", y0=0.2, y1=0.8, line=line, name="mean"
        )
    if threshold is not None:
        said += f"; inactive in {fmt.count(int(inactive_mask(seen, row, threshold).sum()), len(seen))}"
        _shade(figure, row, threshold, low, high, theme)
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
        words = fmt.with_unit(value[i], row.unit)
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
            f"<b>{escape(rows[m].name)}</b><br>{fmt.with_unit(v, rows[m].unit)}<br>percentile {q:.0f}; "
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


def _titled(row: Row, *, short: bool = False) -> str:
    unit = f", {escape(row.unit)}" if row.unit and row.unit != "1" else ""
    return escape(row.symbol if short else row.name) + unit


def _faded(colour: str, opacity: float) -> str:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{opacity})"
