"""What a paper reports, as thin lines beside what is measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import frame

TOP, STEP = (
    1.2,
    0.05,
)  # of the attention axis, which ends at 1: where the first line stands, and how far down the next
ROOM = 1.24  # how far the axis goes with them


@dataclass(frozen=True, kw_only=True)
class Reference:
    """One published model. steepest, shallowest: slopes at the ends of its band; share of its heads that is collapsed, 0..1;
    told: the hover text."""

    name: str
    steepest: float
    shallowest: float
    share: float
    told: str


def bands_by_slope(figure: go.Figure, references: Sequence[Reference], theme: str) -> None:
    """A line for each band at the top of a figure whose x axis is log2 of the slope."""
    for number, one in enumerate(references):
        y = TOP - STEP * number
        figure.add_scatter(
            x=[float(np.log2(one.steepest)), float(np.log2(one.shallowest))],
            y=[y, y],
            hovertemplate=escape(one.told) + "<extra></extra>",
            name=one.name,
            mode="lines+markers",
            line={"color": frame.palette(theme).muted, "width": 1.5},
            marker={"symbol": "line-ns-open", "size": 8, "color": frame.palette(theme).muted},
        )


def shares_at(
    figure: go.Figure, references: Sequence[Reference], at: float, total: int, theme: str, **axes: str
) -> None:
    """A cross for each published share of collapsed heads, as a number of this model's `total` heads, at the threshold `at`."""
    if references:
        figure.add_scatter(
            x=[at] * len(references),
            y=[one.share * total for one in references],
            text=[escape(one.told) for one in references],
            hovertemplate="%{text}<extra></extra>",
            name="as published",
            mode="markers",
            marker={
                "symbol": "x-thin-open",
                "size": 9,
                "color": frame.palette(theme).muted,
                "line": {"width": 1.5},
            },
            **axes,
        )
