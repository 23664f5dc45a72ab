"""Attention on the first token against the ALiBi slope, one dot a head, beside what the slope alone would give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame, scales
from headviz.charts.references import ROOM, Reference, bands_by_slope

SYMBOLS = ("circle", "diamond-open", "square-open", "triangle-up-open", "star-open")
_SIGNS = ("●", "◇", "□", "△", "☆")
_PALEST = 0.3  # of the ramp of layers: the first layer is still seen on the page


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """One model's heads. mass: (L, H) 0..1; slopes: (H,) nats a token, None without ALiBi; hover: (L, H) texts."""

    label: str
    mass: np.ndarray
    slopes: tuple[float, ...] | None
    hover: Sequence[Sequence[str]]


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level in grey along the slopes, (K,) each: slope in nats a token, BOS mass; low and high None for a bare line."""

    name: str
    slopes: np.ndarray
    mass: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


def mass_by_slope(
    clouds: Sequence[Cloud],
    levels: Sequence[Level],
    *,
    axis: Literal["slope", "index"],
    lines: dict[str, float],
    theme: str = "light",
    selected: tuple[int, int] | None = None,
    provenance: str = "",
    width: int = frame.NARROW,
    published: Sequence[Reference] = (),
) -> go.Figure:
    """Dots of each model at log2 of their slope, steep at the left, or at their index; layers from pale to strong.

    lines: thresholds by name, drawn across. Models without slopes are left out of the slope axis. Levels go by the slopes
    of the first model on the index axis. published: bands as lines at the top, on the slope axis only.
    """
    shown = [cloud for cloud in clouds if axis == "index" or cloud.slopes is not None]
    figure = frame.start(
        theme, 430, left=56, right=16, top=84, bottom=46, note=provenance, chars=frame.fitting(width)
    )
    for level in levels:
        _level(figure, level, axis, clouds[0].slopes, theme)
    for number, cloud in enumerate(shown):
        _dots(
            figure,
            cloud,
            axis,
            SYMBOLS[number % len(SYMBOLS)],
            theme,
            first=cloud is clouds[0],
            selected=selected,
        )
    published = published if axis == "slope" and shown else ()
    bands_by_slope(figure, published, theme)
    _thresholds(figure, lines, theme)
    _key(figure, shown, levels, theme, published)
    title = "log2 of slope, nats a token; shallow right" if axis == "slope" else "head index"
    across = frame.axis(theme, title, fixedrange=True)
    if axis == "slope":
        across["autorange"] = "reversed"
    figure.update_layout(
        xaxis=across,
        yaxis=frame.axis(
            theme,
            "attention on the first token",
            range=[-0.04, ROOM if published else 1.04],
            tickvals=[0, 0.2, 0.4, 0.6, 0.8, 1],
            fixedrange=True,
        ),
    )
    if not shown:
        frame.nothing(figure, "no model here has slopes", theme)
    return figure


def _places(slopes: np.ndarray, axis: str, own: tuple[float, ...] | None) -> np.ndarray:
    """Where slopes stand: at their log2, or at the index of the head that has them, between indices if need be."""
    if axis == "slope":
        return np.log2(slopes)
    if own is None:
        return np.array([0.0])
    order = np.argsort(own)
    return np.interp(np.log2(slopes), np.log2(np.array(own))[order], order.astype(float))


def _level(figure, level: Level, axis: str, own, theme: str) -> None:
    p = frame.palette(theme)
    if own is None:  # one level for all heads: there is nothing that tells them apart
        x = np.array([-0.5, max(len(level.mass), 1) - 0.5])  # it carries one number a head
        mass, low, high = (
            None if y is None else np.repeat(y[:1], 2) for y in (level.mass, level.low, level.high)
        )
    else:
        x = _places(level.slopes, axis, own)
        by = np.argsort(x)
        x = x[by]
        mass, low, high = (None if y is None else y[by] for y in (level.mass, level.low, level.high))
    if low is not None:
        hidden = {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
        figure.add_scatter(x=x, y=low, name=f"{level.name}, low", **hidden)
        figure.add_scatter(
            x=x, y=high, fill="tonexty", fillcolor=p.shade, name=f"{level.name}, high", **hidden
        )
    figure.add_scatter(
        x=x,
        y=mass,
        mode="lines",
        line={"color": p.null, "width": 2, "dash": "solid" if low is None else "dot"},
        hovertemplate=escape(level.name) + " %{y:.3f}<extra></extra>",
        name=level.name,
    )


def _dots(figure, cloud: Cloud, axis: str, symbol: str, theme: str, *, first: bool, selected) -> None:
    L, H = cloud.mass.shape
    layer, head = (x.ravel() for x in np.indices((L, H)))
    x = np.log2(np.array(cloud.slopes))[head] if axis == "slope" else head
    ramp = scales.colorscale(scales.SCALES["share"], theme)
    depth = _PALEST + (1 - _PALEST) * layer / max(L - 1, 1)
    p = frame.palette(theme)
    picked = np.zeros(L * H, bool)
    if first and selected is not None:
        picked[selected[0] * H + selected[1]] = True
    figure.add_scatter(
        x=x,
        y=cloud.mass.ravel(),
        mode="markers",
        marker={
            "symbol": symbol,
            "size": np.where(picked, 13, 7).tolist(),
            "color": depth.tolist(),
            "colorscale": ramp,
            "cmin": 0,
            "cmax": 1,
            "line": {"width": np.where(picked, 2.5, 0.6 if first else 1.4).tolist(), "color": p.text}
            if first
            else {"width": 1.4},
        },
        customdata=np.stack([layer, head], 1).tolist() if first else None,
        text=[text for line in cloud.hover for text in line],
        hovertemplate="%{text}<extra></extra>",
        name=cloud.label,
    )


def _thresholds(figure, lines: dict[str, float], theme: str) -> None:
    p = frame.palette(theme)
    for name, at in lines.items():
        figure.add_shape(
            type="line", xref="paper", x0=0, x1=1, y0=at, y1=at, name=name,
            line={"color": p.text, "width": 1, "dash": "dash"},
        )  # fmt: skip
        frame.label(
            figure, f"{name} > {fmt.tick(at)}", theme, x=0.005, y=at, yref="y", font={"size": 11, "color": p.muted}
        )  # fmt: skip


def _key(
    figure, shown: Sequence[Cloud], levels: Sequence[Level], theme: str, published: Sequence[Reference]
) -> None:
    ramp, p = scales.colours(scales.SCALES["share"], theme), frame.palette(theme)
    last = max((len(cloud.mass) for cloud in shown), default=1) - 1
    models = "   ".join(f"{_SIGNS[i % len(_SIGNS)]} {escape(cloud.label)}" for i, cloud in enumerate(shown))
    layers = (
        f"<span style='color:{ramp[2]}'>●</span> layer 0 to <span style='color:{ramp[-1]}'>●</span> {last}"
        if len(shown) < 2
        else "faint: first layers, strong: last"
    )
    grey = "   ".join(
        f"<span style='color:{p.null}'>{'━' if level.low is None else '┄'}</span> {escape(level.name)}"
        for level in levels
    )
    if published:
        layers += f"   <span style='color:{p.muted}'>├┤</span> BLOOM’s bands, published, above 1"
    font = {"size": 13, "color": p.text}
    frame.label(figure, models, theme, yshift=44, xshift=-46, name="key", font=font)
    frame.label(figure, layers, theme, yshift=25, xshift=-46, name="layers")
    frame.label(figure, grey, theme, yshift=6, xshift=-46, name="levels")
