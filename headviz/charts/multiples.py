"""All scores at a glance: one small map each, every map on the scale of its own meaning."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame, scales
from headviz.charts.cells import CROSS, strokes
from headviz.charts.scales import Row

LEFT, RIGHT, TOP = 10, 10, 8
HEAD = 40  # px for the two lines above each map
GAP = 14


def small_multiples(
    means: Mapping[str, np.ndarray],
    rows: Mapping[str, Row],
    *,
    theme: str = "light",
    selected: str = "",
    width: int = 900,
    metrics: Sequence[str] | None = None,
    provenance: str = "",
) -> go.Figure:
    """Small maps of several scores, raw above its LN twin on a wide page.

    means: score id → (L, H) mean over inputs; metrics: which and in what order (default: the twelve of the paper that are
    there); selected: the id to frame; width: px the page gives, six columns from 760 on, else three. A transparent marker
    over each map carries customdata [id] for the click that chooses it.
    """
    ids = list(metrics) if metrics is not None else paper_order(means, rows)
    columns = 6 if width >= 760 else 3
    count = -(-len(ids) // columns)
    L, H = np.shape(means[ids[0]])
    each = (width - LEFT - RIGHT - GAP * (columns - 1)) / columns
    tall = float(np.clip(each * min(L / H, 1.15), 70, 190))
    height = round(TOP + count * (HEAD + tall) + (count - 1) * GAP)
    around = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": 6}
    figure = frame.start(theme, height + 12, **around, note=provenance, chars=frame.fitting(width))
    inner = height + 12 - TOP - 6
    figure.update_layout(height=figure.layout.margin.t + figure.layout.margin.b + inner)
    for k, metric in enumerate(ids):
        line, column = divmod(k, columns)
        left = column * (each + GAP) / (width - LEFT - RIGHT)
        right = left + each / (width - LEFT - RIGHT)
        upper = 1 - (line * (HEAD + tall + GAP) + HEAD) / inner
        _one(
            figure,
            k,
            means[metric],
            rows[metric],
            theme,
            (left, min(right, 1)),
            (upper - tall / inner, upper),
            metric == selected,
        )
        _click(figure, k, metric, rows[metric], (L, H), min(each, tall))
    return figure


def paper_order(known: Container[str], rows: Mapping[str, Row]) -> list[str]:
    """The paper's twelve in its order, raw scores first, as far as they are known; the extras are left out."""
    return [m for m, row in rows.items() if m in known and not row.extra]


def _click(figure, k: int, metric: str, row: Row, shape: tuple[int, int], side: float) -> None:
    """What is clicked on: a heatmap's own cells select nothing in Streamlit. Its hover leaves the cells' own alone."""
    L, H = shape
    name = "" if k == 0 else str(k + 1)
    across = max(1, round(H / 3))
    x, y = (
        points.ravel() for points in np.meshgrid(np.arange(0, H, across), np.arange(0, L, max(1, L // 6)))
    )
    figure.add_scatter(
        x=x,
        y=y,
        mode="markers",
        marker={"symbol": "square", "size": side / 3, "opacity": 0},
        customdata=[[metric]] * len(x),
        hovertemplate=f"{escape(row.name)}: click to make it the large map<extra></extra>",
        xaxis=f"x{name}",
        yaxis=f"y{name}",
        name="choose",
        unselected={"marker": {"opacity": 0}},
        selected={"marker": {"opacity": 0}},
    )


def _one(figure, k: int, values, row: Row, theme: str, across, up, chosen: bool) -> None:
    p = frame.palette(theme)
    scale = scales.scale_for(row)
    ends = scales.limits(scale, values)
    drawn, low, high = scales.paint(scale, values, ends)
    L, H = np.shape(values)
    name = "" if k == 0 else str(k + 1)
    figure.add_heatmap(
        z=drawn,
        zmin=low,
        zmax=high,
        colorscale=scales.colorscale(scale, theme),
        showscale=False,
        customdata=np.asarray(values, np.float32),
        hovertemplate=f"L%{{y:02d}}.H%{{x:02d}} · {escape(row.symbol)} %{{customdata:.3~g}}<extra></extra>",
        name=row.id,
        xaxis=f"x{name}",
        yaxis=f"y{name}",
    )
    if (hollow := np.isnan(np.asarray(values, np.float64))).any():
        x, y = strokes(hollow, CROSS)
        line = {"color": p.line, "width": 0.7}
        place = {"xaxis": f"x{name}", "yaxis": f"y{name}", "meta": {"cells": int(hollow.sum())}}
        figure.add_scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", name=fmt.NOT_DEFINED, **place)
    bare = {
        "showgrid": False,
        "zeroline": False,
        "showticklabels": False,
        "ticks": "",
        "fixedrange": True,
        "showline": True,
        "mirror": True,
        "linecolor": p.accent if chosen else p.grid,
        "linewidth": 2.5 if chosen else 1,
    }
    figure.update_layout(
        {
            f"xaxis{name}": {**bare, "domain": list(across), "anchor": f"y{name}", "range": [-0.5, H - 0.5]},
            f"yaxis{name}": {**bare, "domain": list(up), "anchor": f"x{name}", "range": [-0.5, L - 0.5]},
        }
    )
    title = f"<b>{escape(row.symbol)}</b>" if chosen else escape(row.symbol)
    colour = p.accent if chosen else p.text
    frame.label(
        figure, title, theme, x=across[0], y=up[1], yshift=17, font={"size": 13, "color": colour}, name=row.id
    )
    frame.label(
        figure,
        _span(scale, ends, row, values),
        theme,
        x=across[0],
        y=up[1],
        yshift=1,
        font={"size": 11, "color": p.muted},
    )


def _span(scale, ends, row: Row, values) -> str:
    if np.isnan(values).all():
        return fmt.NOT_DEFINED
    texts = (
        scales.ticks(scale, ends, np.asarray(values))[1]
        if scale.transform == "log2"
        else [fmt.tick(x) for x in ends]
    )
    unit = "×" if scale.id == "ratio" else scales.value_unit(row)
    return f"{texts[0]} … {texts[-1]}" + (f" {escape(unit)}" if unit else "")
