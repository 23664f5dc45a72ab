"""The film of a recovery: attention on the first token of every head, step by step, beside how far untouched heads drifted.

Two maps, one slider and a play button. A frame carries nothing but the numbers of its two maps, four bytes each, so that
hundreds of heads over a hundred steps stay a few hundred kilobytes and a step redraws in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from headviz.charts import frame, scales
from headviz.charts.cells import strokes
from headviz.types import head_name

Heads = Sequence[tuple[int, int]]
LEFT, RIGHT, TOP, FOOT = 48, 14, 92, 108  # px; below: tick texts, axis title, slider and buttons
BETWEEN = 0.075  # of the width, between the maps
MOST_FRAMES = 100
EDGE = ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5))
PACE = 350  # ms a frame


def film(
    step: np.ndarray,
    mass: np.ndarray,
    stock: np.ndarray,
    treated: Heads,
    *,
    theme: str = "light",
    at: int = -1,
    provenance: str = "",
    width: int = 860,
    told: Sequence[str] = (),
    before: str = "",
) -> go.Figure:
    """step: (S,) evaluated steps; mass: (S, L, H), 0..1; stock: (L, H) before surgery; treated: heads with an outline.

    The first frame is the stock model. at: which of the S evaluations stands, −1 the last; told: (S,) words beside the
    slider, such as how many heads are collapsed still, and `before`: those of the first frame.
    Of more than a hundred evaluations every k-th is shown, and the last. The drift is mass − stock of untouched heads;
    treated ones are hollow there: what happens to them is no drift.
    """
    labels, words, mass = frames_with_stock(step, mass, stock, told, before)
    drift = drift_of(mass, stock, treated)
    ends = drift_ends(drift)
    now = len(labels) - 1 if at < 0 else 1 + int(np.argmin(np.abs(np.array(frames_of(len(step))) - at)))
    L, H = np.shape(stock)
    figure = frame.start(
        theme, height_of(L, H, width), left=LEFT, right=RIGHT, top=TOP, bottom=FOOT, note=provenance,
        chars=frame.fitting(width),
    )  # fmt: skip
    half = (1 - BETWEEN) / 2
    names = [[head_name(i, j) for j in range(H)] for i in range(L)]
    _map(figure, mass[now], scales.SCALES["sink"], (0.0, 1.0), names, "", 0.0, theme, "mass %{z:.3f}")
    _map(
        figure,
        drift[now],
        scales.SCALES["change"],
        ends,
        names,
        "2",
        half + BETWEEN,
        theme,
        "drift %{z:+.3f}",
    )
    for n in ("", "2"):
        outline_treated(figure, treated, theme, n)
    _hollow(figure, treated, theme)
    for n, domain in (("", (0.0, half)), ("2", (half + BETWEEN, 1.0))):
        _axes(figure, n, domain, L, H, theme)
    _titles(figure, half + BETWEEN, theme)
    figure.frames = [
        go.Frame(
            name=label,
            data=[{"type": "heatmap", "z": _short(mass[i])}, {"type": "heatmap", "z": _short(drift[i])}],
            traces=[0, 1],
        )
        for i, label in enumerate(labels)
    ]
    _player(figure, labels, words, now, theme)
    return figure


def frames_of(count: int) -> list[int]:
    """Which of `count` evaluations become frames: all, or every k-th and the last."""
    if count <= MOST_FRAMES:
        return list(range(count))
    every = -(-count // (MOST_FRAMES - 1))
    return sorted({*range(0, count, every), count - 1})


def frames_with_stock(
    step: np.ndarray, mass: np.ndarray, stock: np.ndarray, told: Sequence[str], before: str
) -> tuple[list[str], list[str], np.ndarray]:
    """Label, words and mass (F, L, H) of every frame; the first is the stock model."""
    kept = frames_of(len(step))
    labels = ["before surgery", *(f"step {int(step[i]):,}" for i in kept)]
    words = [before, *(told[i] if len(told) else "" for i in kept)]
    return labels, words, np.concatenate([np.asarray(stock, float)[None], np.asarray(mass, float)[kept]])


def drift_of(mass: np.ndarray, stock: np.ndarray, treated: Heads) -> np.ndarray:
    """(S, L, H) mass − stock, NaN for treated heads."""
    drift = np.asarray(mass, np.float64) - np.asarray(stock, np.float64)
    for layer, head in treated:
        drift[:, layer, head] = np.nan
    return drift


def drift_ends(drift: np.ndarray) -> scales.Limits:
    """Ends of the drift's colours, the same in every frame: symmetric, at least ±0.05, the paper's line for a drifter."""
    known = np.abs(drift[np.isfinite(drift)])
    top = max(0.05, float(np.percentile(known, 99.5)) if known.size else 0.0)
    return -top, top


def height_of(layers: int, heads: int, width: int = 860) -> int:
    """px of the film without its provenance: cells about square in a column `width` px wide, 10 to 34 px high."""
    cell = (width - LEFT - RIGHT) * (1 - BETWEEN) / 2 / heads
    return round(TOP + FOOT + layers * float(np.clip(cell, 10, 34)))


def _short(values: np.ndarray) -> np.ndarray:
    """Four bytes a number are more than a colour shows; plotly sends them as they are, and NaN is a gap."""
    return np.asarray(values, np.float32)


def _map(figure, values, scale, ends, names, n: str, x: float, theme: str, said: str) -> None:
    low, high = ends
    figure.add_heatmap(
        z=_short(values),
        zmin=low,
        zmax=high,
        text=names,
        hovertemplate=f"<b>%{{text}}</b><br>{said}<extra></extra>",
        hoverongaps=False,
        colorscale=scales.colorscale(scale, theme),
        xgap=1,
        ygap=1,
        name="mass" if not n else "drift",
        colorbar=frame.colorbar(scale, ends, None, theme, length=200, ypad=8, x=x),
        xaxis=f"x{n}",
        yaxis=f"y{n}",
    )


def outline_treated(figure: go.Figure, treated: Heads, theme: str, n: str = "") -> None:
    """Two strokes round every treated head, in the text's and the page's colour: seen on any cell. n: of the axes."""
    p = frame.palette(theme)
    where = np.array(sorted(treated), int).reshape(-1, 2)
    if not where.size:
        return
    mask = np.zeros(where.max(0) + 1, bool)
    mask[tuple(where.T)] = True
    for colour, wide, name in ((p.paper, 4, "rim"), (p.text, 2, "treated")):
        x, y = strokes(mask, EDGE)
        figure.add_scatter(
            x=x, y=y, mode="lines", line={"color": colour, "width": wide}, hoverinfo="skip", name=name,
            meta={"heads": len(treated)}, xaxis=f"x{n}", yaxis=f"y{n}",
        )  # fmt: skip


def _hollow(figure, treated: Heads, theme: str) -> None:
    """What the hover says over a treated head of the drift map, which has no colour."""
    figure.add_scatter(
        x=[head for _, head in treated],
        y=[layer for layer, _ in treated],
        mode="markers",
        marker={"symbol": "square", "size": 12, "opacity": 0},
        text=[f"<b>{head_name(*at)}</b><br>treated: its change is no drift" for at in treated],
        hovertemplate="%{text}<extra></extra>",
        name="no drift",
        xaxis="x2",
        yaxis="y2",
    )


def _axes(figure, n: str, domain, L: int, H: int, theme: str) -> None:
    heads, layers = frame.thin(H, 12), frame.thin(L, 14)
    steady: dict[str, Any] = {"grid": False, "fixedrange": True}
    figure.layout[f"xaxis{n}"] = frame.axis(
        theme, "head", domain=list(domain), range=[-0.5, H - 0.5], tickvals=heads, anchor=f"y{n}", **steady
    )
    figure.layout[f"yaxis{n}"] = frame.axis(
        theme, "layer" if not n else "", range=[-0.5, L - 0.5], tickvals=layers, anchor=f"x{n}", **steady
    )


def _titles(figure, x: float, theme: str) -> None:
    for at, text in ((0.0, "Attention on the first token"), (x, "Drift of untouched heads")):
        frame.label(
            figure,
            text,
            theme,
            x=at,
            yshift=44,
            name="title",
            font={"size": 14, "color": frame.palette(theme).text},
        )
    frame.label(figure, "▢ treated", theme, x=1, xanchor="right", yshift=44, name="key")


def _player(figure, labels: Sequence[str], words: Sequence[str], now: int, theme: str) -> None:
    """Play, pause and the slider, under the maps. Steps jump: a fade between two maps would show what nobody measured."""
    p = frame.palette(theme)
    jump = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    play = {"fromcurrent": True, "frame": {"duration": PACE, "redraw": True}, "transition": {"duration": 0}}
    stop = {"mode": "immediate", "frame": {"duration": 0, "redraw": False}, "transition": {"duration": 0}}
    figure.layout.updatemenus = [
        {
            "type": "buttons",
            "direction": "left",
            "showactive": False,
            "x": 0,
            "y": 0,
            "xanchor": "left",
            "yanchor": "top",
            "pad": {"t": 54, "l": 0},
            "font": {"size": 14, "color": p.text},
            "bgcolor": p.paper,
            "bordercolor": p.line,
            "buttons": [
                {"label": "▶", "method": "animate", "args": [None, play]},
                {"label": "❚❚", "method": "animate", "args": [[None], stop]},
            ],
        }
    ]
    figure.layout.sliders = [
        {
            "active": now,
            "x": 0.13,
            "len": 0.87,
            "y": 0,
            "xanchor": "left",
            "yanchor": "top",
            "pad": {"t": 44, "b": 0},
            "font": {"size": 11, "color": "rgba(0,0,0,0)"},  # its own tick texts would be words on words
            "ticklen": 3,
            "tickcolor": p.line,
            "bgcolor": p.grid,
            "activebgcolor": p.accent,
            "bordercolor": p.line,
            "currentvalue": {
                "visible": True,
                "xanchor": "left",
                "offset": 4,
                "font": {"size": 13, "color": p.text},
            },
            "steps": [
                {
                    "label": label + (f": {said}" if said else ""),
                    "method": "animate",
                    "args": [[label], jump],
                }
                for label, said in zip(labels, words, strict=True)
            ],
        }
    ]
