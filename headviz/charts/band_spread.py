"""Is attention on the first token bimodal? Heads by their mass and class, and how many are collapsed as the threshold moves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.bands import count_above
from headviz.charts import classes, fmt, frame, scales
from headviz.charts.references import Reference, shares_at

BINS = 50


def mass_spread(
    mass: np.ndarray,
    named: np.ndarray,
    *,
    sink: float,
    dead: float,
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
    published: Sequence[Reference] = (),
) -> go.Figure:
    """Above: heads in each bin of mass, stacked by class. Below: heads above each threshold. mass, named: (L, H).

    The grey band from 0.4 to 0.6 marks where a threshold of one half decides by little. published: shares of collapsed heads
    (above 0.5), as crosses in the lower figure.
    """
    p, mass = frame.palette(theme), np.asarray(mass, np.float64)
    figure = frame.start(theme, 430, left=56, top=44, bottom=46, note=provenance, chars=frame.fitting(width))
    edges = np.linspace(0, 1, BINS + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    for name in scales.CLASSES:
        counts = np.histogram(mass[named == name], edges)[0]
        figure.add_bar(
            x=middle,
            y=counts,
            width=1 / BINS,
            marker={"color": classes.colour(name, theme), "line": {"width": 0.5, "color": p.paper}},
            hovertemplate=f"{name}: %{{y}} heads at %{{x:.2f}}<extra></extra>",
            name=name,
        )
    thresholds = np.linspace(0, 1, 201)
    figure.add_scatter(
        x=thresholds,
        y=count_above(mass, thresholds),
        xaxis="x2",
        yaxis="y2",
        mode="lines",
        line={"color": p.accent, "width": 2, "shape": "hv"},
        hovertemplate="%{y} heads above %{x:.3f}<extra></extra>",
        name="heads above the threshold",
    )
    shares_at(figure, published, 0.5, mass.size, theme, xaxis="x2", yaxis="y2")
    for n in ("", "2"):
        _marks(figure, n, sink, dead, theme)
    _axes(figure, theme)
    counts = {name: int((named == name).sum()) for name in scales.CLASSES}
    frame.label(figure, "   ".join(classes.key(counts, theme)), theme, yshift=22, xshift=-46, name="key")
    frame.label(figure, "heads, by class; grey: 0.4 to 0.6", theme, yshift=3, xshift=-46)
    below = "heads above the threshold" + ("; ✕ BLOOM’s share as published" if published else "")
    frame.label(figure, below, theme, y=0.45, xshift=-46, yshift=3)
    return figure


def _marks(figure: go.Figure, n: str, sink: float, dead: float, theme: str) -> None:
    p = frame.palette(theme)
    refs = {"xref": f"x{n}", "yref": f"y{n} domain", "y0": 0, "y1": 1}
    figure.add_shape(
        type="rect", **refs, x0=0.4, x1=0.6, fillcolor=p.shade, line_width=0, layer="below", name="between"
    )
    for name, at in (("sink", sink), ("dead", dead)):
        figure.add_shape(
            type="line", **refs, x0=at, x1=at, name=name, line={"color": p.text, "width": 1.3, "dash": "dash"}
        )
        if not n:
            where = {"xanchor": "right", "xshift": -3} if at > 0.9 else {"xshift": 3}
            frame.label(
                figure, f"{name} > {fmt.tick(at)}", theme, x=at, xref="x", yanchor="top",
                font={"size": 11, "color": p.muted}, **where,
            )  # fmt: skip


def _axes(figure: go.Figure, theme: str) -> None:
    shared = {"range": [0, 1], "fixedrange": True, "grid": False}
    up = {"rangemode": "tozero", "nticks": 4, "fixedrange": True}
    title = "attention on the first token, mean over inputs; below: the threshold"
    figure.update_layout(
        barmode="stack",
        bargap=0,
        xaxis=frame.axis(theme, anchor="y", showticklabels=False, **shared),
        xaxis2=frame.axis(theme, title, anchor="y2", **shared),
        yaxis=frame.axis(theme, "heads", domain=[0.56, 1.0], anchor="x", **up),
        yaxis2=frame.axis(theme, "heads", domain=[0.0, 0.44], anchor="x2", **up),
    )
