"""Several models by one score on the same axes: how the values spread, and how the score runs along the depth."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.distance import DepthProfile
from headviz.charts import fmt, frame, scales
from headviz.charts.scales import Row

BINS = 48
POINTS = 300  # of a cumulative curve
DASHES = ("dot", "solid", "dash", "longdash", "dashdot")
SIGNS = {"dot": "┄", "solid": "━", "dash": "╌", "longdash": "─ ─", "dashdot": "─ ·"}


def lines(labels, theme: str) -> dict[str, dict]:
    """label → line: the first model grey and dotted, the second in the accent; more differ by their dashes."""
    p = frame.palette(theme)
    colours = (p.text, p.accent, p.accent, p.muted, p.muted)
    return {
        label: {"color": colours[min(i, 4)], "width": 2, "dash": DASHES[i % 5]}
        for i, label in enumerate(labels)
    }


def key_of(drawn: Mapping[str, dict]) -> str:
    """The legend as one line of text, in the lines' own colours."""
    return "   ".join(
        f"<span style='color:{line['color']}'>{SIGNS[line['dash']]} {escape(label)}</span>"
        for label, line in drawn.items()
    )


def distributions(
    values: Mapping[str, np.ndarray],
    row: Row,
    *,
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """Label → (N, L, H) values of each input and head. Above: share of them in each bin. Below: share up to each value, where
    the area between the two lines is W1, the distance, in the unit of the axis.

    Both show the middle 99% of all values; what lies outside is in the end bins. NaN are left out.
    """
    known = {
        label: np.sort(np.ravel(x)[~np.isnan(np.ravel(x))].astype(np.float64)) for label, x in values.items()
    }
    known = {label: x for label, x in known.items() if x.size}
    figure = frame.start(theme, 430, left=62, top=44, bottom=46, note=provenance, chars=frame.fitting(width))
    low, high = _ends(known, row)
    drawn = lines(values, theme)
    _histograms(figure, known, drawn, np.linspace(low, high, BINS + 1), row)
    _cumulative(figure, known, drawn, low, high, row, theme)
    frame.label(figure, key_of(drawn), theme, yshift=20, xshift=-54, name="key", font={"size": 13})
    frame.label(figure, "share of head × input pairs", theme, y=1, xshift=-54, yshift=2)
    area = "share up to a value; the area between is W1" if len(known) == 2 else "share up to a value"
    frame.label(figure, area, theme, y=0.47, xshift=-54, yshift=2)
    shared = {"range": [low, high], "fixedrange": True}
    title = escape(scales.titled(row, short=width < frame.LONG_TITLE))
    up = {"rangemode": "tozero", "nticks": 4, "fixedrange": True}
    figure.update_layout(
        xaxis=frame.axis(theme, grid=False, anchor="y", showticklabels=False, **shared),
        xaxis2=frame.axis(theme, title, grid=False, anchor="y2", **shared),
        yaxis=frame.axis(theme, "", domain=[0.56, 1.0], anchor="x", **up),
        yaxis2=frame.axis(theme, "", domain=[0.0, 0.47], anchor="x2", range=[0, 1.02], fixedrange=True),
        hovermode="x",
    )  # fmt: skip
    if not known:
        frame.nothing(figure, "no value is defined", theme)
    return figure


def _ends(known: Mapping[str, np.ndarray], row: Row) -> tuple[float, float]:
    if scales.scale_for(row).id == "sink":
        return 0.0, 1.0
    if not known:
        return 0.0, 1.0
    low = min(0.0, *(float(np.percentile(x, 0.5)) for x in known.values()))
    high = max(float(np.percentile(x, 99.5)) for x in known.values())
    return low, high if high > low else low + 1


def _histograms(figure, known, drawn, edges: np.ndarray, row: Row) -> None:
    for label, values in known.items():
        counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0] / values.size
        figure.add_scatter(
            x=edges,
            y=[*counts, counts[-1]],
            mode="lines",
            line={**drawn[label], "shape": "hv"},
            text=[fmt.percent(x) for x in (*counts, counts[-1])],
            hovertemplate=f"{escape(label)}: %{{text}} of pairs near {escape(row.symbol)} %{{x:.3g}}<extra></extra>",
            name=label,
        )


def _cumulative(figure, known, drawn, low: float, high: float, row: Row, theme: str) -> None:
    points = np.linspace(low, high, POINTS)
    shade = frame.palette(theme).shade
    for number, (label, values) in enumerate(known.items()):
        share = np.searchsorted(values, points, side="right") / values.size
        fill = {"fill": "tonexty", "fillcolor": shade} if number == 1 and len(known) == 2 else {}
        figure.add_scatter(
            x=points,
            y=share,
            mode="lines",
            line=drawn[label],
            text=[fmt.percent(x) for x in share],
            hovertemplate=f"{escape(label)}: %{{text}} at or below {escape(row.symbol)} %{{x:.3g}}<extra></extra>",
            name=f"{label}, up to",
            xaxis="x2",
            yaxis="y2",
            **fill,
        )


def depth_profiles(
    profiles: Mapping[str, DepthProfile],
    row: Row,
    *,
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """Label → the score along relative depth, 0 the first and 1 the last layer; the band holds 80% of a layer's heads."""
    figure = frame.start(theme, 320, left=62, top=44, bottom=46, note=provenance, chars=frame.fitting(width))
    drawn = lines(profiles, theme)
    for label, one in profiles.items():
        colour = drawn[label]["color"]
        hidden = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(x=one.depth, y=one.low, name=f"{label}, low", **hidden)
        figure.add_scatter(
            x=one.depth, y=one.high, fill="tonexty", fillcolor=_faded(colour), name=f"{label}, band", **hidden
        )
        texts = [
            f"<b>{escape(label)}</b>, layer {i} of {len(one.mean)}<br>mean {fmt.with_unit(m, scales.value_unit(row))}<br>"
            f"80% of its heads {fmt.number(a)} to {fmt.number(b)}"
            for i, (m, a, b) in enumerate(zip(one.mean, one.low, one.high))
        ]
        figure.add_scatter(
            x=one.depth,
            y=one.mean,
            mode="lines+markers",
            line=drawn[label],
            marker={"size": 5},
            text=texts,
            hovertemplate="%{text}<extra></extra>",
            name=label,
        )
    frame.label(figure, key_of(drawn), theme, yshift=20, xshift=-54, name="key", font={"size": 13})
    frame.label(figure, "line: mean of a layer's heads; band: 80% of them", theme, yshift=3, xshift=-54)
    ends = {"range": [0, 1]} if scales.scale_for(row).id == "sink" else {"rangemode": "tozero"}
    across = "depth: 0 first layer, 1 last layer"
    figure.update_xaxes(frame.axis(theme, across, grid=False), range=[-0.02, 1.02], fixedrange=True)
    figure.update_yaxes(frame.axis(theme, escape(scales.titled(row, short=True))), fixedrange=True, **ends)
    return figure


def _faded(colour: str) -> str:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},0.13)"
