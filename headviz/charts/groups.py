"""How the groups of two scores look: a colour and a shape each, the same in the scatter, the map, and the chart of costs."""

from __future__ import annotations

from collections.abc import Collection
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.agreement import Group, Quadrants, Scored
from headviz.charts import fmt, frame, scales
from headviz.charts.scales import value_unit
from headviz.types import head_name

GL_ABOVE = 1000  # heads; SVG markers get slow beyond

#: group → (colour on light, colour on dark, plotly marker symbol)
LOOKS: dict[Group, tuple[str, str, str]] = {
    "both": ("#111111", "#ffffff", "x"),
    "only_a": ("#d9700f", "#f19a45", "square"),
    "only_b": ("#b3256e", "#f07cb4", "triangle-down"),
    "neither": ("#0f8f86", "#3fbfb3", "circle"),
    "unknown": ("#8a909c", "#8a909c", "circle-open"),
}


def colour(group: Group, theme: str) -> str:
    light, dark, _ = LOOKS[group]
    return dark if theme == "dark" else light


def titled(group: Group, quadrants: Quadrants) -> str:
    """`sink but loud: 32`"""
    return f"{quadrants.names[group]}: {int(quadrants.masks[group].sum()):,}"


def hover_texts(a: Scored, b: Scored, quadrants: Quadrants) -> np.ndarray:
    """(L, H) of texts: head, both values, group."""
    L, H = a.values.shape
    groups = np.full((L, H), "", object)
    for group, mask in quadrants.masks.items():
        groups[mask] = quadrants.names[group]

    def text(i: int, j: int) -> str:
        lines = [f"<b>{head_name(i, j)}</b>"]
        for side in (a, b):
            value = fmt.with_unit(float(side.values[i, j]), value_unit(side.row))
            lines.append(f"{escape(side.row.symbol)} {value}")
        return "<br>".join([*lines, escape(groups[i, j])])

    return np.array([[text(i, j) for j in range(H)] for i in range(L)], dtype=object)


def draw_groups(
    figure: go.Figure,
    quadrants: Quadrants,
    x: np.ndarray,
    y: np.ndarray,
    texts: np.ndarray,
    *,
    theme: str,
    size: float,
    marked: Collection[tuple[int, int]] = (),
    groups: Collection[Group] = tuple(LOOKS),
) -> None:
    """One trace a group at (L, H) places x and y; customdata [layer, head] for clicks; a frame round marked heads.

    While some are marked, the others are pale.
    """
    chosen = np.zeros(np.shape(x), bool)
    for layer, head in marked:
        chosen[layer, head] = True
    kind = go.Scattergl if chosen.size > GL_ABOVE else go.Scatter
    steady: dict[str, Any] = {"marker": {"opacity": 1}}
    for group in groups:
        where = quadrants.masks[group]
        if not where.any():
            continue
        pale = np.where(chosen[where] | (not chosen.any()), 1.0, 0.3)
        figure.add_trace(
            kind(
                x=x[where].tolist(),
                y=y[where].tolist(),
                mode="markers",
                marker={
                    "symbol": LOOKS[group][2],
                    "color": colour(group, theme),
                    "size": size,
                    "opacity": pale.tolist(),
                    "line": {"width": 0},
                },
                selected=steady,
                unselected=steady,
                customdata=np.argwhere(where).tolist(),
                text=texts[where].tolist(),
                hovertemplate="%{text}<extra></extra>",
                name=escape(titled(group, quadrants)),
                meta={"group": group},
            )
        )
    if chosen.any():
        line = {"color": frame.palette(theme).text, "width": 1.6}
        figure.add_trace(
            kind(
                x=x[chosen].tolist(),
                y=y[chosen].tolist(),
                mode="markers",
                marker={"symbol": "square-open", "size": size + 6, "color": line["color"], "line": line},
                selected=steady,
                unselected=steady,
                hoverinfo="skip",
                showlegend=False,
                name="marked",
            )
        )


def legend(figure: go.Figure, *, y: float = 1.0) -> None:
    """The groups in one line above the plot, or as many as it takes."""
    figure.layout.showlegend = True
    figure.layout.legend = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "y": y,
        "yref": "container",
        "yanchor": "top",
        "bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 12},
        "itemclick": False,
        "itemdoubleclick": False,
    }


def axis_of(side: Scored, theme: str) -> tuple[Any, dict]:
    """(how values are placed, settings of the axis) of a score: a share from 0 to 1, a norm or a ratio in powers."""
    known = side.values[np.isfinite(side.values)]
    title = escape(scales.titled(side.row, short=True))
    positive = bool(known.size) and float(known.min()) > 0
    if positive and (side.row.normalised or side.row.unit == "norm"):
        low, high = float(known.min()), float(known.max())
        room = 0.06 * max(np.log2(high / low), 1)
        at = _powers(low, high)
        texts = [scales.ratio_text(x) if side.row.normalised else fmt.tick(x) for x in at]
        return np.log2, frame.axis(
            theme,
            title,
            range=[float(np.log2(low) - room), float(np.log2(high) + room)],
            tickvals=np.log2(at).tolist(),
            ticktext=texts,
            fixedrange=True,
        )
    low, high = (
        (0.0, 1.0) if side.row.unit == "probability" else (min(0.0, float(known.min())), float(known.max()))
    )
    room = 0.03 * ((high - low) or 1.0)
    at = scales.nice_ticks(low, high)
    return (lambda x: x), frame.axis(
        theme,
        title,
        range=[low - room, high + room],
        tickvals=at,
        ticktext=[fmt.tick(x) for x in at],
        fixedrange=True,
    )


def _powers(low: float, high: float) -> list[float]:
    """Powers of two, or of four, ten …, between the ends: about six of them."""
    span = np.log2(high / low)
    step = max(1, int(np.ceil(span / 6)))
    first, last = int(np.ceil(np.log2(low) / step)), int(np.floor(np.log2(high) / step))
    return [2.0 ** (step * k) for k in range(first, last + 1)] or [float(np.sqrt(low * high))]
