"""Figures for print: PDF and SVG through matplotlib, light, 8 pt, in the widths journals and slides want.

Fonts: PDF embeds DejaVu Sans (which comes with matplotlib) as TrueType, so text stays text; SVG draws text as paths, so
it looks the same without the font. The same input gives the same bytes: no dates, fixed ids. Object-oriented API only,
no pyplot; what matplotlib reads from its global settings is set under a lock, for pages draw from many threads.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from headviz.charts import fmt, scales
from headviz.charts.scales import Row
from headviz.charts.tables import caption, inactive_mask
from headviz.errors import lookup
from headviz.types import ScoreTable

#: layout → (width, tallest) in inches; a slide is always 16:9
LAYOUTS: dict[str, tuple[float, float]] = {"column": (3.25, 8.5), "page": (6.75, 8.5), "slide": (10.0, 5.625)}
FORMATS: dict[str, str] = {"pdf": "application/pdf", "svg": "image/svg+xml"}

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 8.0,
    "axes.labelsize": 8.0,
    "axes.titlesize": 8.0,
    "xtick.labelsize": 7.0,
    "ytick.labelsize": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "hatch.linewidth": 0.5,
    "pdf.fonttype": 42,
    "pdf.compression": 6,
    "svg.fonttype": "path",
    "svg.hashsalt": "headviz",
}
_GLOBALS = threading.Lock()
_INK, _MUTED = "#1f2430", "#5b6270"
_LEFT, _RIGHT, _HEAD, _FOOT = (
    0.42,
    0.08,
    0.48,
    0.34,
)  # inches around a map: ticks, title and colour bar, ticks


def print_figure(
    table: ScoreTable,
    metrics: str | Sequence[str],
    rows: Mapping[str, Row],
    *,
    layout: str = "column",
    format: str = "pdf",
    thresholds: Mapping[str, float] | None = None,
) -> bytes:
    """The map of one score, or of several as panels, as a file.

    thresholds: score id → threshold; heads that it calls inactive are hatched. NaN cells are hollow and crossed.
    The file's metadata holds `print_caption`, and a small line under the figure the provenance.
    Raises UnknownName for a layout, format or score that is not there.
    """
    lookup(LAYOUTS, layout, "layout")
    lookup(FORMATS, format, "format")
    ids = _ids(metrics, rows)
    text = print_caption(table, ids, rows, thresholds=thresholds)
    with _GLOBALS, matplotlib.rc_context(_SETTINGS):
        figure = _figure(table, ids, rows, thresholds or {}, layout)
        out = io.BytesIO()
        figure.savefig(out, format=format, metadata=_metadata(format, text, table, ids, rows))
    return out.getvalue()


def print_caption(
    table: ScoreTable,
    metrics: str | Sequence[str],
    rows: Mapping[str, Row],
    *,
    thresholds: Mapping[str, float] | None = None,
) -> str:
    """The caption as text: what is drawn, what hatching means, how many heads it hits, and the provenance."""
    ids = _ids(metrics, rows)
    if len(ids) == 1:
        said = [f"{scales.titled(rows[ids[0]])}, of every head (mean over inputs)."]
    else:
        said = ["Scores of every head (mean over inputs): " + ", ".join(rows[m].symbol for m in ids) + "."]
    said.append("Layer 0 is at the bottom; each map has its own colour scale.")
    given = [m for m in ids if m in (thresholds or {})]
    for m in given:
        mean, row, at = table.mean(m), rows[m], thresholds[m]
        sign = ">" if row.inactive == "high" else "<"
        hits = int(inactive_mask(mean, row, at).sum())
        said.append(f"Hatched: {row.symbol} {sign} {fmt.number(at)}, {fmt.count(hits, mean.size)} of heads.")
    for m in ids:
        if np.isnan(table.mean(m)).any():
            reason = table.reasons.get(m, "").rstrip(".")
            said.append(
                f"Crossed cells: {rows[m].symbol} is not defined" + (f" ({reason})." if reason else ".")
            )
    return " ".join(said) + f"\n{caption(table.provenance, table)}"


def _ids(metrics: str | Sequence[str], rows: Mapping[str, Row]) -> list[str]:
    ids = [metrics] if isinstance(metrics, str) else list(metrics)
    for metric in ids:
        lookup(rows, metric, "score")
    return ids


def _metadata(format_: str, text: str, table: ScoreTable, ids: list[str], rows: Mapping[str, Row]) -> dict:
    title = f"{', '.join(rows[m].symbol for m in ids)} of {table.provenance.request['model']['name']}"
    version = table.provenance.versions.get("headviz", "")
    if format_ == "pdf":
        given = {"Title": title, "Subject": text, "Keywords": f"request {table.provenance.digest}"}
        return {**given, "Creator": f"headviz {version}".strip(), "CreationDate": None}
    given = {"Title": title, "Description": text, "Identifier": table.provenance.digest}
    return {**given, "Creator": f"headviz {version}".strip(), "Date": None}


def _figure(table, ids, rows, thresholds, layout) -> Figure:
    width, tallest = LAYOUTS[layout]
    lines = fmt.wrap(caption(table.provenance, table), int(width * 22))
    note = 0.10 * len(lines) + 0.08  # inches under the panels
    place = _single if len(ids) == 1 else _panels
    figure = place(table, ids, rows, thresholds, layout, (width, tallest), note)
    width, height = figure.get_size_inches()
    at = {"va": "bottom", "ha": "left", "fontsize": 5, "color": _MUTED, "linespacing": 1.25}
    figure.text(0.04 / width, 0.04 / height, "\n".join(lines), **at)
    return figure


def _single(table, ids, rows, thresholds, layout, size, note) -> Figure:
    """One map; where the width allows, the profile of its layers beside it on the same axis."""
    width, tallest = size
    row, (L, H) = rows[ids[0]], table.values.shape[2:]
    inner = width - _LEFT - _RIGHT
    beside = layout != "column"
    map_width = 0.6 * inner if beside else inner
    most = tallest - _HEAD - _FOOT - note
    tall = most if layout == "slide" else float(np.clip(map_width * L / H, 1.0, min(most, 1.6 * map_width)))
    map_width = min(map_width, 2.2 * tall * H / L)
    height = tallest if layout == "slide" else _HEAD + tall + _FOOT + note
    figure = Figure(figsize=(width, height))
    bottom = height - _HEAD - tall

    def box(left, low, wide, high):
        return left / width, low / height, wide / width, high / height

    axes = figure.add_axes(box(_LEFT, bottom, map_width, tall))
    bar = figure.add_axes(box(_LEFT, height - 0.27, min(map_width, 2.2), 0.06))
    title = scales.titled(row, short=not beside)
    _map(axes, bar, table, row, thresholds.get(row.id), title, room=9)
    if beside:
        left = _LEFT + map_width + 0.2
        _profile(
            figure.add_axes(box(left, bottom, width - _RIGHT - left, tall)),
            table.mean(row.id),
            row,
            thresholds.get(row.id),
        )
    return figure


def _panels(table, ids, rows, thresholds, layout, size, note) -> Figure:
    """A grid of maps, every one with its own colour bar; only the outer ones carry the numbers of layers and heads."""
    width, tallest = size
    L, H = table.values.shape[2:]
    across = min({"column": 3, "page": 4, "slide": 6}[layout], len(ids))
    down = -(-len(ids) // across)
    gap, under = 0.14, 0.10
    wide = (width - _LEFT - _RIGHT - gap * (across - 1)) / across
    room = (tallest - note - _FOOT + under) / down - _HEAD - under
    tall = room if layout == "slide" else min(wide * min(L / H, 1.5), room)
    height = tallest if layout == "slide" else down * (_HEAD + tall + under) - under + _FOOT + note
    figure = Figure(figsize=(width, height))
    for k, metric in enumerate(ids):
        line, column = divmod(k, across)
        left, top = _LEFT + column * (wide + gap), height - line * (_HEAD + tall + under)
        axes = figure.add_axes((left / width, (top - _HEAD - tall) / height, wide / width, tall / height))
        bar = figure.add_axes((left / width, (top - 0.27) / height, wide / width, 0.06 / height))
        _map(axes, bar, table, rows[metric], thresholds.get(metric), rows[metric].symbol, room=5)
        if k + across < len(ids):
            axes.set(xticklabels=[], xlabel="")
        if column:
            axes.set(yticklabels=[], ylabel="")
    return figure


def _map(axes, bar, table: ScoreTable, row: Row, threshold, title: str, *, room: int) -> None:
    values = table.mean(row.id)
    L, H = values.shape
    scale = scales.scale_for(row)
    ends = scales.limits(scale, values)
    drawn, low, high = scales.paint(scale, values, ends)
    # vector cells: an embedded picture is smoothed by some viewers; edges in the cells' own colour close the seams
    edges = {"edgecolors": "face", "linewidth": 0.15, "vmin": low, "vmax": high}
    colours = LinearSegmentedColormap.from_list(scale.id, scale.light, N=512)
    x, y = np.arange(H + 1) - 0.5, np.arange(L + 1) - 0.5
    mesh = axes.pcolormesh(x, y, np.ma.masked_invalid(drawn), cmap=colours, **edges)
    _marks(axes, values, row, threshold, scales.is_dark(scale, "light", drawn, low, high))
    G = table.geometry.kv_heads
    if 1 < G < H:
        axes.vlines(np.arange(1, G) * (H // G) - 0.5, -0.5, L - 0.5, color=_INK, linewidth=0.4)
    axes.set(xlim=(-0.5, H - 0.5), ylim=(-0.5, L - 0.5), xticks=_ticks(H, room), yticks=_ticks(L, room))
    axes.set_xlabel("head", labelpad=1.5)
    axes.set_ylabel("layer", labelpad=2)
    _quiet(axes)
    _colorbar(mesh, bar, *scales.ticks(scale, ends, values), title, full=room > 5)


def _colorbar(mesh, axes, at: list[float], texts: list[str], title: str, *, full: bool) -> None:
    """`full`: every tick; otherwise the ends and the middle, whose texts stay over the bar's own width."""
    if not full and len(at) > 3:
        middle = int(np.argmin(np.abs(np.array(at) - (at[0] + at[-1]) / 2)))
        at, texts = [at[i] for i in (0, middle, -1)], [texts[i] for i in (0, middle, -1)]
    colorbar = mesh.get_figure().colorbar(mesh, cax=axes, orientation="horizontal")
    colorbar.set_ticks(at, labels=texts)
    colorbar.outline.set(linewidth=0.4, edgecolor=_MUTED)
    axes.tick_params(length=1.5, pad=1, labelsize=6, colors=_MUTED, labelcolor=_INK)
    axes.set_title(title, loc="left", fontsize=8, pad=2.5, color=_INK)
    if not full:
        low, high = mesh.get_clim()
        for place, text in zip(at, axes.get_xticklabels()):
            near = (place - low) / (high - low)
            text.set_ha("left" if near < 0.03 else "right" if near > 0.97 else "center")


def _profile(axes, values: np.ndarray, row: Row, threshold) -> None:
    """Mean over heads of each layer and the range of its heads, on the layers' axis of the map beside it."""
    known = ~np.isnan(values).all(1)
    y, seen = np.flatnonzero(known), values[known]
    axes.fill_betweenx(
        y, np.nanmin(seen, 1), np.nanmax(seen, 1), color="#1f6f8b", alpha=0.18, linewidth=0, label="all heads"
    )
    axes.plot(np.nanmean(seen, 1), y, color="#1f6f8b", linewidth=1, marker="o", markersize=1.8, label="mean")
    if threshold is not None:
        axes.axvline(threshold, color=_INK, linewidth=0.8, linestyle="--", label="threshold")
    axes.set(ylim=(-0.5, len(values) - 0.5), yticks=_ticks(len(values), 9), yticklabels=[])
    axes.set_xlabel(scales.titled(row, short=True), labelpad=1.5)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=3,
        frameon=False,
        fontsize=7,
        borderpad=0.2,
        handlelength=1.4,
    )
    _quiet(axes)


def _quiet(axes) -> None:
    axes.tick_params(colors=_MUTED, labelcolor=_INK, pad=1.5)
    for side in axes.spines.values():
        side.set_color(_MUTED)


def _ticks(count: int, room: int) -> list[int]:
    step = next(s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200) if count / s <= room)
    return list(range(0, count, step))


def _marks(axes, values, row: Row, threshold, dark) -> None:
    """One stroke through inactive cells, light on dark ones; hollow crossed boxes where the score is not defined."""
    if threshold is not None:
        for on_dark, colour in ((False, "#14171d"), (True, "#ffffff")):
            at = np.argwhere(inactive_mask(values, row, threshold) & (dark == on_dark))
            strokes = [[(j - 0.32, i - 0.32), (j + 0.32, i + 0.32)] for i, j in at]
            axes.add_collection(LineCollection(strokes, colors=colour, linewidths=0.6, gid="inactive"))
    for i, j in np.argwhere(np.isnan(values)):
        axes.add_patch(
            Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=_MUTED, linewidth=0.3, hatch="xxxx")
        )
