"""How many heads are of each class, step by step: a panel an arm, the classes' own colours and shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import classes, fmt, frame
from headviz.charts.scales import CLASSES

UNDER = 44  # px between two rows of panels
TALL = 190  # px of a panel


@dataclass(frozen=True, kw_only=True)
class Counted:
    """name: of the arm; step: (S,); counts: class → (S,) heads, mean over seeds; before: class → heads of the stock model"""

    name: str
    step: np.ndarray
    counts: Mapping[str, np.ndarray]
    before: Mapping[str, int]


def classes_over_steps(
    panels: Sequence[Counted],
    *,
    steps: int,
    total: int,
    theme: str = "light",
    provenance: str = "",
    width: int = 860,
) -> go.Figure:
    """Counts 0..`total` against steps 0..`steps`; left of step 0, open marks: the stock model before surgery."""
    across = len(panels) if len(panels) <= 3 else 2 if len(panels) == 4 else 3
    down = -(-len(panels) // across)
    gap = 0.05
    tall = down * TALL + (down - 1) * UNDER
    figure = frame.start(
        theme,
        62 + 46 + tall,
        left=52,
        right=12,
        top=62,
        bottom=46,
        note=provenance,
        chars=frame.fitting(width),
    )
    wide = (1 - gap * (across - 1)) / across
    named = [name for name in CLASSES if any(_there(panel, name) for panel in panels)]
    for k, panel in enumerate(panels):
        line, column = divmod(k, across)
        n = "" if not k else str(k + 1)
        x, top = column * (wide + gap), 1 - line * (TALL + UNDER) / tall
        figure.layout[f"xaxis{n}"] = frame.axis(
            theme,
            "optimiser step" if k + across >= len(panels) else "",
            domain=[x, x + wide],
            range=[-0.11 * steps, 1.04 * steps],
            anchor=f"y{n}",
            nticks=5,
        )
        figure.layout[f"yaxis{n}"] = frame.axis(
            theme, "heads" if not column else "", domain=[max(top - TALL / tall, 0), top], anchor=f"x{n}",
            range=[-0.05 * total, 1.07 * total], nticks=5,
        )  # fmt: skip
        frame.label(figure, escape(panel.name), theme, x=x, y=top, yshift=3, name="panel",
                    font={"size": 13, "color": frame.palette(theme).text})  # fmt: skip
        for name in named:
            _line(figure, panel, name, steps, total, n, theme, first=k == 0)
        if not panel.step.size:
            frame.nothing(figure, "not begun", theme, n=n)
    figure.layout.showlegend = True
    figure.layout.legend = {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top",
                            "bgcolor": "rgba(0,0,0,0)", "font": {"size": 12}}  # fmt: skip
    return figure


def _there(panel: Counted, name: str) -> bool:
    return bool(panel.before.get(name)) or bool(np.any(panel.counts.get(name, 0)))


def _line(
    figure, panel: Counted, name: str, steps: int, total: int, n: str, theme: str, *, first: bool
) -> None:
    tint, mark = classes.colour(name, theme), classes.symbol(name)
    step = np.asarray(panel.step, float)
    counts = np.asarray(panel.counts.get(name, np.zeros(len(step))), float)
    still = len(step) == 1
    x = [0.0, float(steps)] if still else step.tolist()
    y = [float(counts[0])] * 2 if still else counts.tolist()
    texts = [
        f"<b>{escape(panel.name)}</b>, step {int(s):,}<br>{name}: {fmt.tick(c)} of {total:,} heads"
        for s, c in zip(step, counts, strict=True)
    ]
    figure.add_scatter(
        x=x, y=y, mode="lines+markers", line={"color": tint, "width": 1.2 if still else 2},
        marker={"color": tint, "symbol": mark, "size": [8, 0] if still else 6},
        text=texts * 2 if still else texts, hovertemplate="%{text}<extra></extra>", name=name, legendgroup=name,
        showlegend=first, xaxis=f"x{n}", yaxis=f"y{n}",
    )  # fmt: skip
    before = int(panel.before.get(name, 0))
    figure.add_scatter(
        x=[-0.065 * steps], y=[before], mode="markers",
        marker={"color": tint, "symbol": f"{mark}-open", "size": 9, "line": {"width": 1.6}},
        text=[f"<b>stock, before surgery</b><br>{name}: {before:,} of {total:,} heads"],
        hovertemplate="%{text}<extra></extra>", name=f"{name}, stock", legendgroup=name, showlegend=False,
        xaxis=f"x{n}", yaxis=f"y{n}",
    )  # fmt: skip
