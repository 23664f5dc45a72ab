"""Stability of scores between texts: the threshold across, and the overlap of the selected heads up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import plotly.graph_objects as go

from headviz.analysis.stability import Stability
from headviz.charts import fmt, frame
from headviz.charts.scales import Row


def stability_chart(
    found: Sequence[Stability],
    rows: Mapping[str, Row],
    *,
    chosen: str = "",
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """A score a point: upper left is a threshold that carries over and selects the same heads. The bar reaches down to the
    pair of texts that agrees least. Scores without a ratio are left out; chosen: the one in the accent colour."""
    p = frame.palette(theme)
    known = [one for one in found if not math.isnan(one.ratio) and not math.isnan(one.mean_jaccard)]
    figure = frame.start(
        theme, 400, left=60, right=24, top=26, bottom=48, note=provenance, chars=frame.fitting(width)
    )
    frame.label(figure, "upper left: same threshold and same heads", theme, yshift=5, xshift=-52, name="key")
    top = max([one.ratio for one in known], default=2.0)
    figure.update_xaxes(
        frame.axis(theme, "largest / smallest threshold (log)"),
        type="log",
        range=[-0.02 * math.log10(max(top, 1.2)) - 0.002, math.log10(max(top, 1.2)) * 1.14],
        tickvals=(at := _ticks(max(top, 1.2))),
        ticktext=[fmt.tick(x) for x in at],
        fixedrange=True,
    )
    figure.update_yaxes(frame.axis(theme, "same heads (Jaccard)"), range=[0, 1.04], fixedrange=True)
    if not known:
        frame.nothing(figure, "no score has a ratio of thresholds here", theme)
        return figure
    chance = known[0].chance
    if not math.isnan(chance):
        figure.add_hline(y=chance, line={"color": p.null, "width": 1.5, "dash": "dash"})
        frame.label(figure, "by chance", theme, x=1, y=chance, yref="y", xanchor="right", name="chance")
    colours = [p.accent if one.metric == chosen else p.text for one in known]
    figure.add_scatter(
        x=[one.ratio for one in known],
        y=[one.mean_jaccard for one in known],
        mode="markers",
        marker={"color": colours, "size": [11 if one.metric == chosen else 8 for one in known]},
        cliponaxis=False,
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [0] * len(known),
            "arrayminus": [one.mean_jaccard - one.least_jaccard for one in known],
            "thickness": 1,
            "width": 3,
            "color": p.muted,
        },
        customdata=[_told(one, rows) for one in known],
        hovertemplate="%{customdata}<extra></extra>",
        name="scores",
    )
    _labels(figure, known, rows, colours, theme, width)
    return figure


def _ticks(top: float) -> list[float]:
    steps = (
        (1, 1.05, 1.1, 1.2)
        if top < 1.3
        else (1, 1.1, 1.25, 1.5, 2)
        if top < 2.5
        else (1, 1.5, 2, 3, 5, 10, 20, 50)
    )
    return [x for x in steps if x <= top * 1.1]


def _labels(figure, known: Sequence[Stability], rows, colours, theme: str, width: int) -> None:
    """A name beside each point, where none of the names and points before it is, as far as there is room: never over the axis
    at the left."""
    low, high = figure.layout.xaxis.range
    across, up = (width - 84) / (high - low), 326 / 1.04  # px
    at = [(math.log10(one.ratio) * across, one.mean_jaccard * up) for one in known]
    taken = [(x - 5, x + 5, y - 5, y + 5) for x, y in at]
    for i in sorted(range(len(known)), key=lambda i: -at[i][1]):
        name = rows[known[i].metric].symbol
        (x, y), long = at[i], 7 * len(name)
        boxes = [
            (side, shift, x + 8 if side == "left" else x - 8 - long, y + shift)
            for shift in sorted(range(-78, 79, 6), key=abs)
            for side in ("left", "right")
        ]
        free = [
            box
            for box in boxes
            if across * low <= box[2]
            and box[2] + long < across * high + 20
            and not any(
                box[2] < b and box[2] + long > a and box[3] - 7 < d and box[3] + 7 > c for a, b, c, d in taken
            )
        ]
        side, shift, left, middle = (free or boxes)[0]
        taken.append((left, left + long, middle - 7, middle + 7))
        frame.label(
            figure, escape(name), theme, xref="x", yref="y", x=math.log10(known[i].ratio), y=known[i].mean_jaccard,
            xanchor=side, yanchor="middle", xshift=8 if side == "left" else -8, yshift=shift,
            font={"size": 12, "color": colours[i]}, name="score",
        )  # fmt: skip


def _told(one: Stability, rows: Mapping[str, Row]) -> str:
    thresholds = "<br>".join(f"{escape(label)}: {fmt.number(x)}" for label, x in one.thresholds.items())
    return (
        f"<b>{escape(rows[one.metric].name)}</b><br>thresholds, largest / smallest {fmt.number(one.ratio)}<br>{thresholds}<br>"
        f"{one.count} heads, Jaccard {fmt.number(one.mean_jaccard)}, at the least {fmt.number(one.least_jaccard)}"
    )
