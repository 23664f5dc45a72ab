"""Colour means one thing: which scale a score is drawn on, its ends, its ticks, and how it looks in each theme.

A scale is a list of colours and a transform. Values are transformed here and drawn linearly, so plotly, matplotlib
and the redraw script agree to the last digit. Every sequential scale has monotone lightness, also as people with
protanopia or deuteranopia see it (a test holds that); on the dark theme `sink` runs from black and gets lighter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from headviz.charts import fmt
from headviz.errors import lookup

Theme = Literal["light", "dark"]
Limits = tuple[float, float]


class Row(Protocol):
    """What charts read of a row of `headviz.analysis.metrics.METRICS`."""

    id: str
    name: str
    symbol: str
    unit: str
    inactive: str
    normalised: bool
    shares_kv: bool
    extra: bool


@dataclass(frozen=True)
class Palette:
    """Neutral colours of a theme. `paper` is the page behind the transparent figure."""

    paper: str
    text: str
    muted: str
    grid: str
    line: str
    accent: str
    shade: str
    null: str


PALETTES: dict[str, Palette] = {
    "light": Palette(
        "#ffffff", "#1f2430", "#5b6270", "#e3e6eb", "#8a909c", "#1f6f8b", "rgba(120,128,142,0.16)", "#9aa0aa"
    ),
    "dark": Palette(
        "#0e1117", "#eceff4", "#a9b0bd", "#2b303b", "#8a909c", "#5fb3cf", "rgba(150,160,178,0.20)", "#7b828e"
    ),
}

FONT = '"Source Sans", "Source Sans Pro", "Source Sans 3", system-ui, -apple-system, "Segoe UI", "Liberation Sans", sans-serif'


@dataclass(frozen=True)
class Scale:
    """`light`, `dark`: colours, evenly spaced from the low end to the high end of the transformed value."""

    id: str
    what: str
    transform: Literal["linear", "log2", "sqrt"]
    light: tuple[str, ...]
    dark: tuple[str, ...]


_CIVIDIS = (
    "#00224e",
    "#083370",
    "#35456c",
    "#4f576c",
    "#666970",
    "#7d7c78",
    "#948e77",
    "#aea371",
    "#c8b866",
    "#e5cf52",
    "#fee838",
)
_VIRIDIS = (
    "#440154",
    "#482475",
    "#414487",
    "#355f8d",
    "#2a788e",
    "#21918c",
    "#22a884",
    "#44bf70",
    "#7ad151",
    "#bddf26",
    "#fde725",
)
_SINK_LIGHT = ("#ffffff", "#fde3c0", "#fdbb6b", "#f5852f", "#d9480f", "#a01a14", "#67000d")
_SINK_DARK = ("#14171d", "#3a2415", "#6b3c12", "#984f0d", "#c25f16", "#e8603c", "#ff7460")
_RATIO_LIGHT = (
    "#5a3205",
    "#a5681f",
    "#dcb878",
    "#f4ecdc",
    "#f3f4f4",
    "#d9efec",
    "#79c3b8",
    "#22857b",
    "#063f38",
)
_RATIO_DARK = (
    "#f6d79b",
    "#cc9546",
    "#8c5f22",
    "#4a361d",
    "#23272e",
    "#1c4541",
    "#1f7a70",
    "#47b3a6",
    "#b1efe5",
)
_CHANGE_LIGHT = (
    "#0b3c78",
    "#2f79b5",
    "#8dbfdd",
    "#dbe8f0",
    "#f5f5f5",
    "#f8e0d5",
    "#ee9d7d",
    "#c8433f",
    "#7a0b22",
)
_CHANGE_DARK = (
    "#a9d3f5",
    "#5ea4da",
    "#2f6ea3",
    "#1f3f5c",
    "#23272e",
    "#5c2c28",
    "#a1453b",
    "#dd7263",
    "#f9bfae",
)
_SHARE_LIGHT = ("#f4f6fa", "#cfdcee", "#9dbbdd", "#6496c7", "#3570ad", "#174a8a", "#082a5c")
_SHARE_DARK = ("#161a21", "#1d2d43", "#25476d", "#2f6598", "#4486bf", "#70abdd", "#b3d7f7")

SCALES: dict[str, Scale] = {
    s.id: s
    for s in (
        Scale(
            "sink", "share of attention on the first token, always 0 to 1", "linear", _SINK_LIGHT, _SINK_DARK
        ),
        Scale("weight", "attention weight, 0 to 1, square-root spaced", "sqrt", _SINK_LIGHT, _SINK_DARK),
        Scale("entropy", "entropy in nats, from 0", "linear", _CIVIDIS, _CIVIDIS),
        Scale("norm", "a raw norm, from 0, its own end for each score", "linear", _VIRIDIS, _VIRIDIS),
        Scale("ratio", "times the layer mean, about 1, log-spaced", "log2", _RATIO_LIGHT, _RATIO_DARK),
        Scale("change", "a change, about 0, symmetric", "linear", _CHANGE_LIGHT, _CHANGE_DARK),
        Scale("share", "share of inputs, or of heads, always 0 to 1", "linear", _SHARE_LIGHT, _SHARE_DARK),
    )
}

#: of every score relative to its layer, on every model: the same colour is the same ratio everywhere
RATIO_ENDS: Limits = (1 / 3, 3.0)

#: class of a head → (colour on light, colour on dark, plotly marker symbol); shape and colour, never colour alone
CLASSES: dict[str, tuple[str, str, str]] = {
    "healthy": ("#0f8f86", "#3fbfb3", "circle"),
    "sink": ("#d9700f", "#f19a45", "square"),
    "dead": ("#111111", "#ffffff", "x"),
    "low entropy": ("#7b3fa0", "#c391e6", "diamond"),
}


def scale_for(row: Row) -> Scale:
    """The scale of a score: by what it measures, so a third-party score gets one from its row too."""
    if row.normalised:
        return SCALES["ratio"]
    if row.id == "awft":
        return SCALES["sink"]
    if row.unit == "nats":
        return SCALES["entropy"]
    return SCALES["norm"]


def value_unit(row: Row) -> str:
    """What to write after a value: "nats", "× layer mean"; nothing after a norm or a probability."""
    if row.normalised:
        return "× own mean" if row.id == "lthon_hn" else "× layer mean"
    return "" if row.unit in ("norm", "probability") else row.unit


def titled(row: Row, *, short: bool = False) -> str:
    """Name (or symbol) and unit, for an axis or a heading; not escaped."""
    unit = row.unit if row.unit == "probability" else value_unit(row)
    return (row.symbol if short else row.name) + (f", {unit}" if unit else "")


def named(scale: str) -> Scale:
    """The scale of that id. Raises UnknownName."""
    return lookup(SCALES, scale, "colour scale")


def limits(scale: Scale, values: np.ndarray) -> Limits:
    """Ends of the colour scale in the unit of the values: fixed, from 0, or symmetric, as the scale's meaning says.

    A raw norm, or the size of a change, whose largest value is over three times its 99th percentile ends at that percentile:
    a few massive heads would leave the rest in one colour. `ticks` then writes ≥, or ≤, at the ends.
    """
    known = np.asarray(values, np.float64)
    known = known[np.isfinite(known)]
    if scale.id in ("sink", "share", "weight"):
        return 0.0, 1.0
    if scale.id == "ratio":
        return RATIO_ENDS
    if known.size == 0:
        return (-1.0, 1.0) if scale.id == "change" else (0.0, 1.0)
    sizes = np.abs(known) if scale.id == "change" else known
    top, near = float(sizes.max()), float(np.percentile(sizes, 99))
    if scale.id in ("norm", "change") and near > 0 and top > 3 * near:
        top = near
    top = top if top > 0 else 1.0
    return (-top, top) if scale.id == "change" else (0.0, top)


def transform(scale: Scale, values: np.ndarray) -> np.ndarray:
    """Values as they are drawn: float64, same shape, NaN stays NaN, zero on a log scale becomes −inf."""
    values = np.asarray(values, np.float64)
    if scale.transform == "log2":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log2(np.where(values < 0, np.nan, values))
    return np.sqrt(values) if scale.transform == "sqrt" else values


def paint(scale: Scale, values: np.ndarray, ends: Limits) -> tuple[np.ndarray, float, float]:
    """(drawn values clipped to the ends, drawn low end, drawn high end)."""
    low, high = (float(x) for x in transform(scale, np.array(ends)))
    return np.clip(transform(scale, values), low, high), low, high


def ticks(scale: Scale, ends: Limits, values: np.ndarray | None = None) -> tuple[list[float], list[str]]:
    """(positions in drawn units, texts in the values' unit). An end that clips some of `values` says ≥ or ≤."""
    low, high = ends
    if scale.transform == "log2":
        reach = int(np.floor(np.log2(high) + 1e-9))
        at = [2.0**k for k in range(-reach, reach + 1)]
        at = [low, *at, high] if high / at[-1] > 1.25 else at
        texts = [ratio_text(x) for x in at]
    elif scale.transform == "sqrt":
        at = [x for x in (0, 0.01, 0.1, 0.25, 0.5, 1.0) if low <= x <= high]
        texts = [fmt.tick(x) for x in at]
    else:
        at = nice_ticks(low, high)
        texts = [fmt.tick(x) for x in at]
    if values is not None and scale.id == "change":
        at, texts = _clipped_change(at, texts, ends, np.asarray(values))
    elif values is not None:
        known = np.asarray(values)[np.isfinite(values)]
        if known.size and known.max() > high * (1 + 1e-6):
            if not np.isclose(at[-1], high):
                step = at[-1] - at[-2] if len(at) > 1 and scale.transform == "linear" else 0
                if step and high - at[-1] < 0.6 * step:
                    at, texts = at[:-1], texts[:-1]
                at, texts = [*at, high], [*texts, _end_text(scale, high)]
            texts[-1] = f"≥{texts[-1]}"
        if known.size and scale.transform == "log2" and known.min() < low * (1 - 1e-6):
            texts[0] = f"≤{texts[0]}"
    return [float(x) for x in transform(scale, np.array(at))], texts


def _clipped_change(
    at: list[float], texts: list[str], ends: Limits, values: np.ndarray
) -> tuple[list[float], list[str]]:
    """≤ and ≥ at an end beyond which there are values; the end takes the place of a tick that would touch it."""
    known, (low, high) = values[np.isfinite(values)], ends
    if not known.size:
        return at, texts
    pairs, near = list(zip(at, texts)), 0.12 * (high - low)
    if known.min() < low * (1 + 1e-6):
        pairs = [(low, f"≤{fmt.tick(low)}"), *(pair for pair in pairs if pair[0] - low > near)]
    if known.max() > high * (1 + 1e-6):
        pairs = [*(pair for pair in pairs if high - pair[0] > near), (high, f"≥{fmt.tick(high)}")]
    return [x for x, _ in pairs], [text for _, text in pairs]


def _end_text(scale: Scale, value: float) -> str:
    return ratio_text(value) if scale.transform == "log2" else fmt.tick(value)


def ratio_text(value: float) -> str:
    inverse = 1 / value
    if value < 1 and np.isclose(inverse, round(inverse)):
        return f"1/{round(inverse)}"
    return fmt.tick(value)


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most`+1 round numbers within [low, high]: multiples of 1, 2, 2.5 or 5 times a power of ten."""
    span = high - low
    if not np.isfinite(span) or span <= 0:
        return [low]
    power = 10.0 ** np.floor(np.log10(span / most))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if span / (m * power) <= most)
    first = np.ceil(low / step - 1e-9)
    last = np.floor(high / step + 1e-9)
    return [float(k * step) for k in np.arange(first, last + 1)]


def colours(scale: Scale, theme: str) -> tuple[str, ...]:
    return scale.dark if theme == "dark" else scale.light


def colorscale(scale: Scale, theme: str) -> list[list]:
    """plotly's form: [[0, "#…"], …, [1, "#…"]]."""
    stops = colours(scale, theme)
    return [[i / (len(stops) - 1), c] for i, c in enumerate(stops)]


def rgb(scale: Scale, theme: str, drawn: np.ndarray, low: float, high: float) -> np.ndarray:
    """(…, 3) colour of drawn values in 0..1; NaN gives NaN."""
    stops = np.array([[int(c[i : i + 2], 16) / 255 for i in (1, 3, 5)] for c in colours(scale, theme)])
    at = (np.asarray(drawn, np.float64) - low) / (high - low) * (len(stops) - 1)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, i]) for i in range(3)], -1)


def is_dark(scale: Scale, theme: str, drawn: np.ndarray, low: float, high: float) -> np.ndarray:
    """Whether a mark on that cell must be light: relative luminance under 0.22, where white has the more contrast."""
    colour = rgb(scale, theme, drawn, low, high)
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722]) < 0.22
