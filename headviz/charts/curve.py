"""What switching heads off costs, against the share of heads: measured points with intervals, random heads in grey."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from headviz.charts import fmt, frame

#: replacement → (colour on light, colour on dark, marker symbol)
REPLACEMENTS = {"zero": ("#1f6f8b", "#5fb3cf", "circle"), "mean": ("#a5681f", "#e0a95c", "diamond")}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured head set. share: achieved, 0..1; change with its 95% interval, in the unit of the curve."""

    share: float
    change: float
    low: float
    high: float
    heads: int
    replace: str


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One random head set. kind: `uniform` or `layer_matched`."""

    share: float
    change: float
    kind: str
    replace: str


def cost_curve(
    points: Sequence[Point],
    draws: Sequence[Draw] = (),
    *,
    unit: str,
    what: str,
    tolerance: float | None = None,
    now: float | None = None,
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Change against share of heads off, one line a replacement; nothing off costs nothing.

    unit: of the change; what: the axis title; tolerance: the change that is still accepted, dashed; now: the share that
    the page shows, marked. Random draws are grey: circles anywhere, squares with the same number in each layer.
    """
    p = frame.palette(theme)
    figure = frame.start(theme, 380, left=62, right=16, top=12, bottom=46, note=provenance)
    _random(figure, draws, p.null, unit)
    for replace, (light, dark, symbol) in REPLACEMENTS.items():
        _line(
            figure,
            [q for q in points if q.replace == replace],
            replace,
            dark if theme == "dark" else light,
            symbol,
            unit,
        )
    if tolerance is not None:
        figure.add_hline(y=tolerance, line={"color": p.muted, "width": 1, "dash": "dash"})
        frame.label(
            figure,
            f"tolerance {fmt.signed(tolerance)} {unit}",
            theme,
            x=1,
            xanchor="right",
            yref="y",
            y=tolerance,
        )
    if now is not None:
        figure.add_vline(x=now, line={"color": p.muted, "width": 1, "dash": "dot"})
    most = max([0.05, *(q.share for q in points), *(d.share for d in draws), now or 0.0])
    figure.update_xaxes(frame.axis(theme, "share of heads off"), tickformat=".0%", range=[-0.01, most + 0.02])
    figure.update_yaxes(
        frame.axis(theme, f"{what}, {unit}"), zeroline=True, zerolinecolor=p.line, zerolinewidth=1
    )
    figure.update_layout(
        showlegend=True, legend={"x": 0.02, "y": 0.98, "yanchor": "top", "bgcolor": "rgba(0,0,0,0)"}
    )
    return figure


def _line(figure, points: Sequence[Point], replace: str, colour: str, symbol: str, unit: str) -> None:
    if not points:
        return
    ordered = sorted(points, key=lambda q: q.share)
    figure.add_scatter(
        x=[0.0, *(q.share for q in ordered)],
        y=[0.0, *(q.change for q in ordered)],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [0.0, *(q.high - q.change for q in ordered)],
            "arrayminus": [0.0, *(q.change - q.low for q in ordered)],
            "thickness": 1.2,
            "width": 3,
        },
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"color": colour, "symbol": symbol, "size": 9},
        text=["nothing off", *(_hover(q, unit) for q in ordered)],
        hovertemplate="%{text}<extra></extra>",
        name=f"replaced by {'zero' if replace == 'zero' else 'the mean'}",
    )


def _hover(q: Point, unit: str) -> str:
    change = fmt.signed(q.change)
    return f"{q.heads} heads, {fmt.percent(q.share)}<br>{change} {unit} [{fmt.number(q.low)}, {fmt.number(q.high)}]"


def _random(figure, draws: Sequence[Draw], grey: str, unit: str) -> None:
    for kind, symbol, name in (
        ("uniform", "circle-open", "random heads"),
        ("layer_matched", "square-open", "random, layer by layer"),
    ):
        mine = [d for d in draws if d.kind == kind]
        if mine:
            figure.add_scatter(
                x=[d.share for d in mine],
                y=[d.change for d in mine],
                mode="markers",
                marker={"color": grey, "symbol": symbol, "size": 8, "line": {"width": 1.5}},
                text=[
                    f"{name}, {d.replace}<br>{fmt.percent(d.share)} off: {fmt.signed(d.change)} {unit}"
                    for d in mine
                ],
                hovertemplate="%{text}<extra></extra>",
                name=name,
            )
