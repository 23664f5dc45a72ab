"""Orders: the map of heads by gradient, and how every score agrees with the measured map."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.order import Agreement
from headviz.charts import fmt, frame, scales
from headviz.charts.cells import cell_map
from headviz.charts.tables import percentiles
from headviz.types import Geometry, head_name

NOT_A_PREDICTION = "an order, not a prediction"


def _small(theme: str) -> dict:
    return {"size": 12, "color": frame.palette(theme).muted}


def gradient_map(
    gradients: np.ndarray,
    *,
    geometry: Geometry,
    theme: str = "light",
    hatched: np.ndarray | None = None,
    selected: tuple[int, int] | None = None,
    reason: str = "",
    provenance: str = "",
) -> go.Figure:
    """Map of the order of heads by gradient: (L, H) absolute gradients, drawn as the share of heads with a smaller one.

    Only places are drawn and said: a gradient is no amount of loss. NaN where there is none, and then `reason` says why.
    """
    share = percentiles(gradients) / 100
    flat = np.asarray(gradients, np.float64).ravel()
    rank = np.empty(flat.size, int)
    rank[np.argsort(flat, kind="stable")] = np.arange(1, flat.size + 1)
    rank = rank.reshape(share.shape)
    hover = [
        [
            f"<b>{head_name(i, j)}</b><br>"
            + (
                f"its gradient is {fmt.NOT_DEFINED}: {escape(reason)}"
                if np.isnan(share[i, j])
                else f"place {rank[i, j]:,} of {flat.size:,} by gradient<br>{NOT_A_PREDICTION}"
            )
            for j in range(geometry.heads)
        ]
        for i in range(geometry.layers)
    ]
    key = [] if hatched is None else [f"╱ off: {fmt.count(int(np.sum(hatched)), flat.size)}"]
    return cell_map(
        share,
        scales.SCALES["share"],
        hover,
        geometry=geometry,
        theme=theme,
        title="Share of heads with a smaller gradient",
        key=key,
        hatched=hatched,
        selected=selected,
        provenance=provenance,
        ends=(0.0, 1.0),
        mean_text=fmt.percent,
    )


def agreement_chart(
    rows: Sequence[Agreement],
    names: Callable[[str], str],
    *,
    ceiling: float = math.nan,
    chosen: str = "",
    hatched: str = "gradient",
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """Each score's rank correlation with the measured map, best on top, 95% intervals as bars.

    names: id → what to write; ceiling: the most that is expected of any score (√reliability), NaN for none
    chosen: the score that chooses the heads, in the accent colour; hatched: the row that is an order by gradient
    """
    p = frame.palette(theme)
    figure = frame.start(
        theme, 62 + 24 * len(rows), left=104, right=14, top=22, bottom=40, note=provenance,
        chars=frame.fitting(width),
    )  # fmt: skip
    y = list(range(len(rows)))[::-1]
    known = [(at, row) for at, row in zip(y, rows) if not math.isnan(row.rho)]
    colour = [p.accent if row.name == chosen else p.text for _, row in known]
    symbol = ["diamond-open" if row.name == hatched else "circle" for _, row in known]
    figure.add_scatter(
        x=[row.rho for _, row in known],
        y=[at for at, _ in known],
        mode="markers",
        marker={"color": colour, "symbol": symbol, "size": 9, "line": {"width": 1.6}},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [0 if math.isnan(row.high) else row.high - row.rho for _, row in known],
            "arrayminus": [0 if math.isnan(row.low) else row.rho - row.low for _, row in known],
            "thickness": 1.2,
            "width": 3,
            "color": p.muted,
        },
        text=[_said(row, names) for _, row in known],
        hovertemplate="%{text}<extra></extra>",
        name="agreement",
    )
    for at, row in zip(y, rows):
        if math.isnan(row.rho):
            frame.label(
                figure, fmt.NOT_DEFINED, theme, xref="x", yref="y", x=0, y=at, yanchor="middle", xshift=6
            )
    if not math.isnan(ceiling):
        figure.add_vline(x=ceiling, line={"color": p.null, "width": 1.5, "dash": "dash"})
        frame.label(
            figure, "most to expect", theme, xref="x", x=ceiling, xanchor="right", y=1, font=_small(theme)
        )
    lowest = min([0.0, *(x for _, row in known for x in (row.rho, row.low) if not math.isnan(x))])
    figure.update_xaxes(
        frame.axis(theme, "rank correlation with the measured cost"),
        range=[max(-1.02, lowest - 0.06), 1.02],
        zeroline=True,
        zerolinecolor=p.line,
        zerolinewidth=1,
        fixedrange=True,
    )
    figure.update_yaxes(
        frame.axis(theme, grid=False),
        tickvals=y,
        ticktext=[_bold(escape(names(row.name)), row.name == chosen) for row in rows],
        range=[-0.7, len(rows) - 0.3],
        fixedrange=True,
    )
    return figure


def _bold(text: str, yes: bool) -> str:
    return f"<b>{text}</b>" if yes else text


def _said(row: Agreement, names) -> str:
    ends = (
        "one document: no interval"
        if math.isnan(row.low)
        else f"95% [{fmt.number(row.low)}, {fmt.number(row.high)}]"
    )
    return f"<b>{escape(names(row.name))}</b><br>{fmt.signed(row.rho)} over {row.heads:,} heads<br>{ends}"
