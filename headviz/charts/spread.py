"""How a score spreads: over heads, over input × head pairs, and layer by layer."""

from __future__ import annotations

from html import escape
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame, scales
from headviz.charts.head import head_inputs, head_scores
from headviz.charts.scales import Row
from headviz.charts.tables import inactive_mask

__all__ = ["distribution", "head_inputs", "head_scores", "layer_profile"]

BINS = 40


def distribution(
    means: np.ndarray,
    per_input: np.ndarray,
    row: Row,
    *,
    threshold: float | None = None,
    theme: str = "light",
    provenance: str = "",
    width: int = frame.NARROW,
) -> go.Figure:
    """Two panels on one axis: heads by their mean over inputs, and every input × head pair.

    means: (L, H); per_input: (N, L, H). The threshold (NaN is none) is an edge of the bins, so no bar is half inactive; its
    inactive side is shaded, and each panel says how many are in it. Values beyond the drawn range (from the heads' own range
    and the pairs' 0.5th to 99.5th percentile) are counted in the end bins. width: px the page gives at the least.
    """
    threshold = frame.given(threshold)
    heads, pairs = (np.asarray(x, np.float64).ravel() for x in (means, per_input))
    heads, pairs = heads[~np.isnan(heads)], pairs[~np.isnan(pairs)]
    chars = frame.fitting(width)
    figure = frame.start(theme, 360, left=58, top=34, bottom=44, note=provenance, chars=chars)
    edges = _edges(heads, pairs, row, threshold)
    panels = ((heads, "heads", "", (0.57, 1.0)), (pairs, "input × head pairs", "2", (0.0, 0.43)))
    for values, what, n, up in panels:
        _panel(figure, values, edges, row, threshold, theme, what, n, up)
    title = escape(scales.titled(row, short=width < frame.LONG_TITLE))
    shared = {"range": [edges[0], edges[-1]]} | ({} if heads.size or pairs.size else {"tickvals": []})
    figure.update_layout(
        bargap=0,
        xaxis=frame.axis(theme, grid=False, anchor="y", showticklabels=False, **shared),
        xaxis2=frame.axis(theme, title, grid=False, anchor="y2", **shared),
    )
    return figure


def _panel(figure, values, edges, row, threshold, theme, what, n, up) -> None:
    axis = {"domain": list(up), "anchor": f"x{n}", "rangemode": "tozero", "nticks": 4}
    said = f"{what}: {len(values):,}"
    if not len(values):
        said = f"{what}: no value is defined"
        line = frame.palette(theme).line
        axis |= {"range": [0, 1], "tickvals": []}
        figure.add_shape(
            type="line",
            xref=f"x{n} domain",
            yref=f"y{n} domain",
            x0=0,
            x1=1,
            y0=0,
            y1=0,
            line_color=line,
            line_width=1,
        )
        figure.add_scatter(x=[], y=[], xaxis=f"x{n}", yaxis=f"y{n}", name=what)
    else:
        _bars(figure, values, edges, row, threshold, theme, what, n)
        if threshold is not None:
            hits = int(inactive_mask(values, row, threshold).sum())
            said = f"{what}: {fmt.count(hits, len(values))} inactive"
            frame.shade(figure, row, threshold, edges[0], edges[-1], theme, n)
    figure.update_layout({f"yaxis{n}": frame.axis(theme, "count" if len(values) else "", **axis)})
    font = {"size": 13, "color": frame.palette(theme).text}
    frame.label(figure, said, theme, y=up[1], xshift=-50, yshift=3, name=what, font=font)


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
    spans = [f"{fmt.number(a)} to {fmt.number(b)}" for a, b in pairwise(edges)]
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


def layer_profile(
    values: np.ndarray,
    row: Row,
    *,
    threshold: float | None = None,
    theme: str = "light",
    provenance: str = "",
    width: int = frame.NARROW,
) -> go.Figure:
    """Mean over heads of each layer, its middle half of heads and its whole range. values: (L, H); NaN heads left out.

    A NaN threshold is none. width: px the page gives at the least.
    """
    threshold = frame.given(threshold)
    stats = _layer_stats(values)
    mean, least, q25, q75, most = stats
    p = frame.palette(theme)
    chars = frame.fitting(width)
    figure = frame.start(theme, 280, left=58, top=30, bottom=46, note=provenance, chars=chars)
    layers = np.arange(len(values))
    if np.isnan(mean).all():
        figure.update_xaxes(frame.axis(theme, "layer", grid=False, showline=True, linecolor=p.line))
        figure.update_xaxes(range=[-0.5, len(values) - 0.5])
        figure.update_yaxes(
            frame.axis(theme, escape(scales.titled(row, short=True))), range=[0, 1], tickvals=[]
        )
        figure.add_scatter(x=[], y=[], name="mean")
        frame.nothing(figure, "no value is defined", theme)
        return figure
    for low, high, opacity, name in ((least, most, 0.16, "all heads"), (q25, q75, 0.30, "middle half")):
        hidden = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(x=layers, y=low, name=f"{name}, low", **hidden)
        figure.add_scatter(
            x=layers, y=high, fill="tonexty", fillcolor=_faded(p.accent, opacity), name=name, **hidden
        )
    texts = [
        f"<b>layer {i}</b><br>mean {fmt.with_unit(m, scales.value_unit(row))}<br>middle half {fmt.number(a)} to {fmt.number(b)}<br>"
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
    figure.update_layout(hovermode="x")  # anywhere over a layer, not only on its point
    top = {"range": [0, 1]} if scales.scale_for(row).id == "sink" else {"rangemode": "tozero"}
    figure.update_xaxes(frame.axis(theme, "layer", grid=False), range=[-0.5, len(values) - 0.5])
    figure.update_yaxes(frame.axis(theme, escape(scales.titled(row, short=True))), **top)
    said = "line: mean of the heads; bands: middle half, all"
    frame.label(figure, said, theme, yshift=6, xshift=-50, name="key")
    if threshold is not None:
        low, high = _reach(top, least, most, threshold)
        frame.shade(figure, row, threshold, low, high, theme, along="y")
        if "range" not in top:
            figure.update_yaxes(range=[low, high], rangemode=None)
    return figure


def _layer_stats(values: np.ndarray) -> np.ndarray:
    """(5, L): mean, least, lower and upper quartile, most of each layer; NaN where a layer has no value."""
    values = np.asarray(values, np.float64)
    known = ~np.isnan(values).all(1)
    stats = np.full((5, len(values)), np.nan)
    if known.any():
        stats[0, known] = np.nanmean(values[known], 1)
        stats[1:, known] = np.nanpercentile(values[known], (0, 25, 75, 100), axis=1)
    return stats


def _reach(top: dict, least, most, threshold: float) -> tuple[float, float]:
    if "range" in top:
        return 0.0, 1.0
    values = np.concatenate([least[np.isfinite(least)], most[np.isfinite(most)], [threshold, 0.0]])
    return float(values.min()), float(values.max()) * 1.05 or 1.0


def _faded(colour: str, opacity: float) -> str:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},{opacity})"
