"""Rows with intervals for print: a PDF or PNG one column wide, light, 8 pt, its provenance inside."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Literal

import matplotlib
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from headviz.charts import arms, fmt
from headviz.charts.export import _GLOBALS, _SETTINGS
from headviz.charts.forest import Row

WIDTH = {1: 3.25, 2: 6.75}  # inches: one panel fits a column, two take a page
DPI = 200  # of a PNG
TITLE = "Remove, leave, repair"
_INK, _MUTED = "#1f2430", "#5b6270"
_MARKERS = {"circle": "o", "triangle-up": "^", "diamond": "D", "square": "s", "x": "X"}


def print_forest(
    rows: Sequence[Row],
    panels: Sequence[str],
    *,
    unit: str = "nats a token",
    provenance: str = "",
    format: Literal["pdf", "png"] = "pdf",
) -> bytes:
    """The figure of `forest.forest` as a file; the same rows give the same bytes."""
    width = WIDTH[min(len(panels), 2)]
    lines = fmt.wrap(provenance, int(width * 22))
    head, foot = 0.25, 0.38 + 0.1 * len(lines)
    tall = 0.24 * max(len(rows), 2)
    height = head + tall + foot
    with _GLOBALS, matplotlib.rc_context(_SETTINGS):
        left = _left(rows)
        figure = Figure(figsize=(width, height))
        each = (width - left - 0.08 - 0.15 * (len(panels) - 1)) / len(panels)
        for number, title in enumerate(panels):
            axes = figure.add_axes(
                ((left + number * (each + 0.15)) / width, foot / height, each / width, tall / height)
            )
            axes.axvline(0, color=_INK, linewidth=0.6)
            for place, row in enumerate(rows):
                _row(axes, row, number, place)
            axes.set(ylim=(len(rows) - 0.4, -0.6), yticks=range(len(rows)))
            axes.set_yticklabels([row.name for row in rows] if not number else [])
            axes.set_xlabel(f"change of loss, {unit}", labelpad=2)
            axes.set_title(title, loc="left", pad=3)
            axes.locator_params(axis="x", nbins=5)
            axes.tick_params(colors=_MUTED, labelcolor=_INK)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        figure.text(
            0.04 / width,
            0.04 / height,
            "\n".join(lines),
            fontsize=5,
            color=_MUTED,
            va="bottom",
            linespacing=1.25,
        )
        out = io.BytesIO()
        figure.savefig(out, format=format, dpi=DPI, metadata=_metadata(format, provenance))
    return out.getvalue()


def _left(rows: Sequence[Row]) -> float:
    """Inches left of the first panel: room for the longest name."""
    font, size = FontProperties(family=_SETTINGS["font.family"]), _SETTINGS["ytick.labelsize"]
    longest = max(
        (TextPath((0, 0), row.name, size, prop=font).get_extents().width for row in rows), default=0
    )
    return max(1.25, longest / 72 + 0.18)  # points; ticks and pad


def _metadata(format: str, provenance: str) -> dict[str, str | None]:
    if format == "png":
        return {"Title": TITLE, "Description": provenance, "Software": "headviz"}
    return {"Title": TITLE, "Subject": provenance, "Creator": "headviz", "CreationDate": None}


def _row(axes, row: Row, number: int, place: int) -> None:
    value = row.values[number]
    if value is None or not math.isfinite(value[0]):
        axes.text(0, place, " not measured", fontsize=6, color=_MUTED, va="center")
        return
    change, low, high = value
    tint = arms.colour(row.arm, "light") if row.arm else _INK
    if math.isfinite(low) and math.isfinite(high):
        axes.plot([low, high], [place, place], color=tint, linewidth=1)
    axes.plot(
        [change],
        [place],
        marker=_MARKERS.get(arms.symbol(row.arm), "|"),
        color=tint,
        markersize=4,
        linestyle="",
    )
