"""A short script that draws a map again from the CSV beside it, with pandas and matplotlib alone."""

from __future__ import annotations

import json

import numpy as np

from headviz.charts import scales
from headviz.charts.scales import Row
from headviz.charts.tables import caption
from headviz.types import ScoreTable

CSV_NAME = "scores.csv"

_SCRIPT = '''"""{title}

{caption}

Draws the figure again from {csv} beside this file: python {name} [OUT.pdf | OUT.svg | OUT.png]
Needs pandas and matplotlib.
"""

import sys
import textwrap
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

METRIC = {metric}
TITLE = {label}
THRESHOLD = {threshold}  # heads {side} are inactive; None: do not mark them
COLOURS = {colours}
LOW, HIGH = {low}, {high}  # ends of the colours
TICKS, TICK_TEXTS = {at}, {texts}  # places on the colour bar, {spacing}
CAPTION = {caption_text}

here = Path(__file__).resolve().parent
scores = pd.read_csv(here / {csv_text}, comment="#").query("metric == @METRIC")
values = scores.pivot(index="layer", columns="head", values="mean").to_numpy()  # (layers, heads)
with np.errstate(divide="ignore"):
    drawn = np.clip({transform}, LOW, HIGH)

plt.rcParams.update({{"font.size": 8, "pdf.fonttype": 42, "svg.fonttype": "path"}})
layers, heads = values.shape
figure, axes = plt.subplots(figsize=(3.25, 1.2 + min(3.25 * layers / heads, 4.5)), layout="constrained")
image = axes.imshow(
    np.ma.masked_invalid(drawn), origin="lower", aspect="auto", interpolation="none", vmin=LOW, vmax=HIGH,
    cmap=LinearSegmentedColormap.from_list("score", COLOURS, N=512),
)
if THRESHOLD is not None:
    for layer, head in np.argwhere(values {sign} THRESHOLD):
        shade = np.dot(image.cmap(image.norm(drawn[layer, head]))[:3], (0.2126, 0.7152, 0.0722))
        stroke = "white" if shade < 0.5 else "black"
        axes.plot((head - 0.3, head + 0.3), (layer - 0.3, layer + 0.3), color=stroke, linewidth=0.7)
for layer, head in np.argwhere(np.isnan(values)):
    axes.add_patch(plt.Rectangle((head - 0.5, layer - 0.5), 1, 1, fill=False, linewidth=0.3, hatch="xxxx"))
for group in range({size}, heads, {size}):  # heads that share keys and values
    axes.axvline(group - 0.5, color="black", linewidth=0.4)
axes.set(xlabel="head", ylabel="layer")
bar = figure.colorbar(image, orientation="horizontal", location="top", aspect=40)
bar.set_ticks(TICKS, labels=TICK_TEXTS)
bar.set_label(textwrap.fill(TITLE, 44))
figure.supxlabel(textwrap.fill(CAPTION, 90), fontsize=4, color="gray")
out = sys.argv[1] if len(sys.argv) > 1 else here / {out}
figure.savefig(out, dpi=300)
'''


def redraw_script(
    table: ScoreTable,
    row: Row,
    *,
    threshold: float | None = None,
    csv_name: str = CSV_NAME,
    name: str = "redraw.py",
) -> str:
    """Python text that draws `row`'s map from `tables.long_csv` saved as `csv_name` beside it.

    Colours, their ends and the threshold are written into the script: it shows what the page showed.
    """
    values = table.mean(row.id)
    scale = scales.scale_for(row)
    ends = scales.limits(scale, values)
    _, low, high = scales.paint(scale, values, ends)
    at, texts = scales.ticks(scale, ends, values)
    G, H = table.geometry.kv_heads, table.geometry.heads
    line = caption(table.provenance, table)
    return _SCRIPT.format(
        title=f"{row.name}, every head of {table.provenance.request['model']['name']}.".replace('"""', "'''"),
        caption=line.replace("\\", "/").replace('"""', "'''"),
        caption_text=_text(line),
        csv=csv_name,
        csv_text=_text(csv_name),
        name=name,
        metric=_text(row.id),
        label=_text(scales.titled(row)),
        threshold=None if threshold is None else float(threshold),
        side="above it" if row.inactive == "high" else "below it",
        sign=">" if row.inactive == "high" else "<",
        colours=json.dumps(scale.light),
        low=float(low),
        high=float(high),
        at=[float(np.round(x, 9)) for x in at],
        texts=json.dumps(texts, ensure_ascii=False),
        spacing="in powers of 2" if scale.transform == "log2" else "in the score's unit",
        transform="np.log2(values)" if scale.transform == "log2" else "values",
        size=H // G if 1 < G < H else H,
        out=_text(f"{row.id}.pdf"),
    )


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
