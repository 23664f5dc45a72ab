"""Heads that changed most from one model to another: bars about 0, each with its 95% interval."""

from __future__ import annotations

from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.distance import HeadChanges
from headviz.charts import fmt, frame, scales
from headviz.charts.scales import Row
from headviz.types import head_name

SURE = 0.05  # of p over all heads at once


def movers_chart(
    changes: HeadChanges,
    row: Row,
    *,
    most: int = 14,
    theme: str = "light",
    selected: tuple[int, int] | None = None,
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """The `most` heads with the largest change, the largest on top; a click gives customdata [layer, head].

    A pale bar is a change that chance can explain once all heads are counted (p by Holm, paired only).
    """
    places = changes.movers(most)
    figure = frame.start(
        theme, 74 + 24 * max(len(places), 4), left=70, right=14, top=26, bottom=44, note=provenance,
        chars=frame.fitting(width),
    )  # fmt: skip
    unit = scales.value_unit(row)
    frame.label(figure, "largest changes; pale: within chance", theme, yshift=5, xshift=-62, name="key")
    figure.update_xaxes(
        frame.axis(theme, escape(f"change of {row.symbol}" + (f", {unit}" if unit else ""))),
        zeroline=True,
        zerolinecolor=frame.palette(theme).line,
        fixedrange=True,
    )
    if not places:
        figure.update_yaxes(frame.axis(theme, grid=False), range=[0, 1], tickvals=[])
        figure.update_xaxes(range=[-1, 1], tickvals=[0])
        frame.nothing(figure, "no head has a change", theme)
        return figure
    _bars(figure, changes, places, unit, theme)
    figure.update_yaxes(
        frame.axis(theme, grid=False),
        tickvals=list(range(len(places)))[::-1],
        ticktext=[
            f"<b>{head_name(*at)}</b>" if at == selected else head_name(*at)
            for at in places
        ],
        range=[-0.7, len(places) - 0.3],
        fixedrange=True,
    )  # fmt: skip
    if not any(changes.change[at] for at in places):
        figure.update_xaxes(range=[-1, 1], tickvals=[0])
    return figure


def _bars(figure, changes: HeadChanges, places, unit: str, theme: str) -> None:
    colours = scales.colours(scales.SCALES["change"], theme)
    value, low, high = (
        np.array([x[at] for at in places]) for x in (changes.change, changes.low, changes.high)
    )
    known = ~np.isnan(low)
    figure.add_bar(
        x=value,
        y=list(range(len(places)))[::-1],
        orientation="h",
        width=0.7,
        marker={
            "color": [colours[7] if x > 0 else colours[1] for x in value],
            "opacity": [1.0 if _sure(changes, at) else 0.4 for at in places],
            "line": {"width": 0},
        },
        error_x={
            "type": "data",
            "symmetric": False,
            "array": np.where(known, high - value, 0),
            "arrayminus": np.where(known, value - low, 0),
            "color": frame.palette(theme).muted,
            "thickness": 1.2,
            "width": 3,
        },
        customdata=[list(at) for at in places],
        text=[told(changes, at, unit) for at in places],
        textposition="none",
        hovertemplate="%{text}<extra></extra>",
        name="movers",
    )


def _sure(changes: HeadChanges, at: tuple[int, int]) -> bool:
    """Beyond chance over all heads at once; where that is not known, beyond its own interval."""
    if not np.isnan(changes.p_holm[at]):
        return bool(changes.p_holm[at] < SURE)
    return bool(changes.low[at] > 0 or changes.high[at] < 0)


def told(changes: HeadChanges, at: tuple[int, int], unit: str) -> str:
    """The hover of one head."""
    lines = [f"<b>{head_name(*at)}</b>", f"{fmt.signed(changes.change[at])} {unit}".rstrip()]
    if np.isnan(changes.low[at]):
        lines.append("no interval")
    else:
        lines.append(f"95% [{fmt.number(changes.low[at])}, {fmt.number(changes.high[at])}]")
    if not np.isnan(changes.p_holm[at]):
        lines.append(f"p over all heads {fmt.number(changes.p_holm[at])}")
    return "<br>".join(lines)
