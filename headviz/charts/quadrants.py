"""Two scores of every head against each other: four quadrants with the thresholds as lines, and a histogram along each axis."""

from __future__ import annotations

from collections.abc import Collection
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.agreement import Group, Quadrants, Scored
from headviz.charts import fmt, frame, groups
from headviz.charts.scales import value_unit
from headviz.types import Geometry

HEIGHT = 560  # px of the plot and its margins, of the scatter and of the map beside it
BINS = 36
_MAIN, _SIDE = (0.0, 0.84), (0.87, 1.0)


def quadrant_scatter(
    a: Scored,
    b: Scored,
    quadrants: Quadrants,
    *,
    theme: str = "light",
    marked: Collection[tuple[int, int]] = (),
    provenance: str = "",
) -> go.Figure:
    """Each head at its two values, marked by its group; a head without one of them is not drawn, and the key says how many.

    marked: heads with a frame; the others are then pale. Points carry customdata [layer, head].
    """
    figure = frame.start(theme, HEIGHT, left=62, right=14, top=70, bottom=46, note=provenance)
    across, xaxis = groups.axis_of(a, theme)
    up, yaxis = groups.axis_of(b, theme)
    x, y = across(a.values), up(b.values)
    known = [group for group in groups.LOOKS if group != "unknown"]
    texts = groups.hover_texts(a, b, quadrants)
    seen = [head for head in marked if not quadrants.masks["unknown"][head]]
    groups.draw_groups(figure, quadrants, x, y, texts, theme=theme, size=7, marked=seen, groups=known)
    lines = (float(across(quadrants.thresholds[0])), float(up(quadrants.thresholds[1])))
    _histogram(figure, x, xaxis["range"], theme, upright=True)
    _histogram(figure, y, yaxis["range"], theme, upright=False)
    figure.layout.xaxis = {**xaxis, "domain": _MAIN, "anchor": "y"}
    figure.layout.yaxis = {**yaxis, "domain": _MAIN, "anchor": "x"}
    bare = frame.axis(theme, grid=False, fixedrange=True, showticklabels=False, ticks="", rangemode="tozero")
    figure.layout.yaxis2 = {**bare, "domain": _SIDE, "anchor": "x"}
    figure.layout.xaxis2 = {**bare, "domain": _SIDE, "anchor": "y"}
    _thresholds(figure, a, b, quadrants, lines, theme)
    _names(figure, a, b, quadrants, theme)
    groups.legend(figure)
    if missing := int(quadrants.masks["unknown"].sum()):
        frame.label(
            figure,
            f"not drawn, a value is not defined: {missing:,}",
            theme,
            x=1,
            xanchor="right",
            y=0,
            yshift=-40,
        )
    return figure


def _histogram(figure: go.Figure, values: np.ndarray, ends, theme: str, *, upright: bool) -> None:
    """Heads a bin, as a filled step line: along the top, or along the right side."""
    p = frame.palette(theme)
    counts, edges = np.histogram(values[np.isfinite(values)], np.linspace(*ends, BINS + 1))
    along = np.repeat(edges, 2)
    high = np.concatenate([[0], np.repeat(counts, 2), [0]])
    place = {"x": along, "y": high, "yaxis": "y2"} if upright else {"x": high, "y": along, "xaxis": "x2"}
    figure.add_scatter(
        mode="lines",
        line={"color": p.null, "width": 1},
        fill="tozeroy" if upright else "tozerox",
        fillcolor=p.shade,
        hoverinfo="skip",
        showlegend=False,
        name="heads",
        **place,
    )


def _thresholds(figure, a: Scored, b: Scored, quadrants: Quadrants, lines, theme: str) -> None:
    p = frame.palette(theme)
    style = {"type": "line", "line": {"color": p.text, "width": 1.3, "dash": "dash"}, "name": "threshold"}
    figure.add_shape(xref="x", yref="paper", x0=lines[0], x1=lines[0], y0=0, y1=1, **style)
    figure.add_shape(yref="y", xref="paper", y0=lines[1], y1=lines[1], x0=0, x1=1, **style)
    said = [
        f"{escape(side.row.symbol)} {'>' if side.row.inactive == 'high' else '<'} "
        f"{fmt.with_unit(line, value_unit(side.row))}"
        for side, line in zip((a, b), quadrants.thresholds)
    ]
    frame.label(figure, "inactive: " + ", ".join(said), theme, x=0, y=1, yshift=4, name="key")


def _names(figure, a: Scored, b: Scored, quadrants: Quadrants, theme: str) -> None:
    """Each quadrant's name and count in its outer corner."""
    far = 0.985
    right, top = a.row.inactive == "high", b.row.inactive == "high"
    corners: dict[Group, tuple[bool, bool]] = {
        "both": (right, top),
        "only_a": (right, not top),
        "only_b": (not right, top),
        "neither": (not right, not top),
    }
    paper = frame.palette(theme).paper
    for group, (at_right, at_top) in corners.items():
        frame.label(
            figure,
            f"<b>{escape(groups.titled(group, quadrants))}</b>",
            theme,
            xref="x domain",
            yref="y domain",
            x=far if at_right else 1 - far,
            y=far if at_top else 1 - far,
            xanchor="right" if at_right else "left",
            yanchor="top" if at_top else "bottom",
            font={"size": 12, "color": groups.colour(group, theme)},
            bgcolor=paper,
            opacity=0.9,
            name=f"quadrant {group}",
        )


def group_map(
    a: Scored,
    b: Scored,
    quadrants: Quadrants,
    *,
    geometry: Geometry,
    theme: str = "light",
    marked: Collection[tuple[int, int]] = (),
    provenance: str = "",
) -> go.Figure:
    """Layer × head, every head in the mark of its group; layer 0 at the bottom, heads that share keys between hairlines."""
    L, H = a.values.shape
    figure = frame.start(theme, HEIGHT, left=44, right=10, top=64, bottom=46, note=provenance)
    y, x = np.indices((L, H))
    size = float(np.clip(0.62 * min((HEIGHT - 110) / L, 300 / H), 3, 14))
    groups.draw_groups(
        figure, quadrants, x, y, groups.hover_texts(a, b, quadrants), theme=theme, size=size, marked=marked
    )
    line = {"color": frame.palette(theme).line, "width": 1}
    step = H // geometry.kv_heads
    if 1 < geometry.kv_heads < H:
        figure.layout.shapes = [
            {"type": "line", "x0": at, "x1": at, "y0": -0.5, "y1": L - 0.5, "line": line, "name": "KV group"}
            for at in (g * step - 0.5 for g in range(1, geometry.kv_heads))
        ]
    heads, layers = frame.thin(H), frame.thin(L, 18)
    fixed = {"fixedrange": True, "grid": False}
    figure.layout.xaxis = frame.axis(
        theme,
        "head",
        range=[-0.6, H - 0.4],
        tickvals=heads,
        ticktext=[*map(str, heads)],
        tickangle=0,
        **fixed,
    )
    figure.layout.yaxis = frame.axis(
        theme, "layer", range=[-0.7, L - 0.3], tickvals=layers, ticktext=[*map(str, layers)], **fixed
    )
    frame.heading(figure, "The same heads, layer by head", theme, yshift=30)
    frame.label(
        figure,
        "a frame: marked" if marked else "what is marked has a frame",
        theme,
        yshift=6,
        name="key",
    )
    return figure
