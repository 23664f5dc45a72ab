"""The film as a GIF, through matplotlib and Pillow: the same two maps, a frame an evaluation, its provenance below."""

from __future__ import annotations

import io
from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from headviz.charts import fmt, scales
from headviz.charts.export import _GLOBALS, _SETTINGS
from headviz.charts.film import Heads, drift_ends, drift_of, frames_with_stock

WIDTH, DPI = 7.4, 100  # inches, dots an inch
PACE, LAST = 350, 2_000  # ms a frame, and of the last one
_INK, _MUTED = "#1f2430", "#5b6270"


def film_gif(
    step: np.ndarray,
    mass: np.ndarray,
    stock: np.ndarray,
    treated: Heads,
    *,
    provenance: str = "",
    told: Sequence[str] = (),
    before: str = "",
) -> bytes:
    """Arguments as of `film.film`. Light, 740 px wide, loops; the comment inside holds the provenance."""
    labels, words, mass = frames_with_stock(step, mass, stock, told, before)
    drift = drift_of(mass, stock, treated)
    ends = drift_ends(drift)
    with _GLOBALS, matplotlib.rc_context(_SETTINGS):
        figure, meshes, title = _figure(mass[0], drift[0], ends, treated, provenance)
        canvas = FigureCanvasAgg(figure)
        pictures = []
        for i, label in enumerate(labels):
            for mesh, values in zip(meshes, (mass[i], drift[i]), strict=True):
                mesh.set_array(np.ma.masked_invalid(values))
            title.set_text(label + (f": {words[i]}" if words[i] else ""))
            canvas.draw()
            pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    # one palette for all frames: colours must mean the same throughout
    palette = pictures[-1].quantize(colors=255)
    flat = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    out = io.BytesIO()
    flat[0].save(
        out,
        format="GIF",
        save_all=True,
        append_images=flat[1:],
        duration=[PACE] * (len(flat) - 1) + [LAST],
        loop=0,
        disposal=1,
        comment=provenance.encode(),
    )
    return out.getvalue()


def _figure(mass, drift, ends, treated: Heads, provenance: str):
    """The figure, its two meshes, and the text that changes."""
    L, H = mass.shape
    lines = fmt.wrap(provenance, 150)
    left, gap, head, foot = 0.42, 0.5, 0.72, 0.42 + 0.11 * len(lines)
    wide = (WIDTH - left - gap - 0.1) / 2
    tall = L * float(np.clip(wide / H, 0.09, 0.3))
    height = head + tall + foot
    figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor="white")
    meshes = []
    for k, (values, scale, limits, text) in enumerate(
        (
            (mass, scales.SCALES["sink"], (0.0, 1.0), "Attention on the first token"),
            (drift, scales.SCALES["change"], ends, "Drift of untouched heads"),
        )
    ):
        x = left + k * (wide + gap)
        axes = figure.add_axes((x / WIDTH, foot / height, wide / WIDTH, tall / height))
        colours = LinearSegmentedColormap.from_list(scale.id, scale.light, N=256)
        mesh = axes.pcolormesh(
            np.arange(H + 1) - 0.5, np.arange(L + 1) - 0.5, np.ma.masked_invalid(values), cmap=colours,
            vmin=limits[0], vmax=limits[1],
        )  # fmt: skip
        for layer, at in treated:
            axes.add_patch(
                Rectangle((at - 0.5, layer - 0.5), 1, 1, fill=False, edgecolor=_INK, linewidth=1.0)
            )
        axes.set(xlim=(-0.5, H - 0.5), ylim=(-0.5, L - 0.5), xlabel="head", ylabel="layer" if not k else "")
        bar = figure.add_axes(
            ((x + wide * 0.55) / WIDTH, (height - head + 0.12) / height, wide * 0.45 / WIDTH, 0.06 / height)
        )
        figure.colorbar(mesh, cax=bar, orientation="horizontal").set_ticks(
            [limits[0], (limits[0] + limits[1]) / 2, limits[1]], labels=[fmt.tick(v) for v in (limits[0], sum(limits) / 2, limits[1])]
        )  # fmt: skip
        bar.tick_params(length=1.5, pad=1, labelsize=6)
        bar.xaxis.set_ticks_position("top")
        figure.text(x / WIDTH, (height - head + 0.1) / height, text, fontsize=8, color=_INK, va="bottom")
        meshes.append(mesh)
    title = figure.text(left / WIDTH, 1 - 0.08 / height, "", fontsize=8, color=_INK, va="top", weight="bold")
    figure.text(
        0.06 / WIDTH, 0.04 / height, "\n".join(lines), fontsize=5, color=_MUTED, va="bottom", linespacing=1.25
    )
    return figure, meshes, title
