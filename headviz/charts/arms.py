"""Lines over the steps of a repair, one colour and one marker an arm, in one panel or two; and how each arm looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame

#: arm → (colour on light, colour on dark, marker symbol, dash): the same on every chart, and none of a class's colours
LOOKS: dict[str, tuple[str, str, str, str]] = {
    "repair": ("#0072b2", "#56b4e9", "circle", "solid"),
    "untrained": ("#9c7a00", "#e0c040", "triangle-up", "dot"),
    "no-reinit": ("#b0407a", "#f08abf", "diamond", "dash"),
    "healthy": ("#5b8c2a", "#9ccc65", "square", "dashdot"),
    "removed": ("#5b6270", "#c0c6d0", "x", "dot"),
}
GAP = 0.07  # of the width, between two panels


@dataclass(frozen=True, kw_only=True)
class Course:
    """One number over the steps of one arm: the mean over its seeds, and each seed.

    step: (S,); each: (R, S), one row a run, NaN where it was not measured; name: of the arm, as a person reads it
    """

    arm: str
    name: str
    step: np.ndarray
    each: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Panel:
    """title: what is drawn; unit: of the axis; level: a level to compare with (stock), and its name; band: ± about the level
    that two halves of the text differ by anyway; None where there is none"""

    title: str
    unit: str
    courses: tuple[Course, ...]
    level: float | None = None
    level_name: str = "stock"
    band: float | None = None
    empty: str = "nothing measured yet"


def colour(arm: str, theme: str) -> str:
    """Of an arm on "light" or "dark"; grey for what is no arm."""
    if arm not in LOOKS:
        return frame.palette(theme).null
    light, dark, *_ = LOOKS[arm]
    return dark if theme == "dark" else light


def symbol(arm: str) -> str:
    return LOOKS[arm][2] if arm in LOOKS else "circle-open"


def over_steps(
    panels: Sequence[Panel],
    *,
    steps: int,
    theme: str = "light",
    provenance: str = "",
    width: int = 860,
    marks: Sequence[tuple[int, str]] = (),
    same: bool = False,
) -> go.Figure:
    """Panels side by side over the optimiser steps 0..`steps`, so that the axis stays where it is while a repair runs.

    marks: (step, words) of steps to mark in every panel; same: all panels on one vertical range. An arm without training is a mark at step 0 and a thin line on.
    """
    figure = frame.start(
        theme, 320, left=64, right=16, top=64, bottom=46, note=provenance, chars=frame.fitting(width)
    )
    count = len(panels)
    each = (1 - GAP * 1.4 * (count - 1)) / count
    for number, panel in enumerate(panels):
        n = "" if not number else str(number + 1)
        left = number * (each + GAP * 1.4)
        _axes(figure, panel, n, (left, left + each), steps, theme)
        if same and number:
            figure.layout[f"yaxis{n}"].matches = "y"
        _level(
            figure, panel, n, steps, theme, first=not any(one.level is not None for one in panels[:number])
        )
        for course in panel.courses:
            _draw(figure, course, panel.unit, n, steps, theme, first=_first(panels, number, course.arm))
        if not any(np.isfinite(course.each).any() for course in panel.courses):
            figure.add_scatter(
                x=[None], y=[None], showlegend=False, hoverinfo="skip", **_refs(n)
            )  # or the axes are not drawn
            frame.nothing(figure, panel.empty, theme, n=n)
            if panel.level is None:
                figure.layout[f"yaxis{n}"].showticklabels = False
        for step, words in marks:
            _mark(figure, step, words, n, theme, first=number == 0)
    figure.layout.showlegend = True
    figure.layout.legend = {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top",
                            "bgcolor": "rgba(0,0,0,0)", "font": {"size": 12}}  # fmt: skip
    _fit_legend(figure, width)
    return figure


def _fit_legend(figure: go.Figure, width: int) -> None:
    """Room above the panels for the rows that the legend takes in a column narrower than `width`, as pages may have."""
    entries = sum(
        len(trace.name) + 8 for trace in figure.data if trace.showlegend is not False and trace.name
    )
    more = 19 * max(0, -(-entries // max(24, int(width / 9.5))) - 1)
    figure.update_layout(height=figure.layout.height + more, margin={"t": figure.layout.margin.t + more})


def _first(panels: Sequence[Panel], number: int, arm: str) -> bool:
    """Whether the legend names the arm in this panel: the first one that draws it."""
    before = [course for panel in panels[:number] for course in panel.courses]
    return not any(course.arm == arm and np.isfinite(course.each).any() for course in before)


def _refs(n: str) -> dict[str, str]:
    return {"xaxis": f"x{n}", "yaxis": f"y{n}"}


def _axes(figure: go.Figure, panel: Panel, n: str, domain, steps: int, theme: str) -> None:
    figure.layout[f"xaxis{n}"] = frame.axis(
        theme,
        "optimiser step",
        domain=list(domain),
        range=[-0.03 * steps, 1.03 * steps],
        anchor=f"y{n}",
        nticks=7,
    )
    figure.layout[f"yaxis{n}"] = frame.axis(theme, panel.unit, anchor=f"x{n}", nticks=6)
    frame.label(figure, escape(panel.title), theme, x=domain[0], y=1, yshift=4, name="panel",
                font={"size": 13, "color": frame.palette(theme).text})  # fmt: skip


def _level(figure: go.Figure, panel: Panel, n: str, steps: int, theme: str, *, first: bool) -> None:
    if panel.level is None:
        return
    p = frame.palette(theme)
    if panel.band:
        figure.add_shape(
            type="rect", xref=f"x{n} domain", x0=0, x1=1, yref=f"y{n}", y0=panel.level - panel.band,
            y1=panel.level + panel.band, fillcolor=p.shade, line_width=0, layer="below", name="floor",
        )  # fmt: skip
    figure.add_scatter(
        x=[0, steps],
        y=[panel.level] * 2,
        mode="lines",
        line={"color": p.text, "width": 1.5, "dash": "dash"},
        hovertemplate=f"{escape(panel.level_name)}: {fmt.number(panel.level, 4)} {panel.unit}<extra></extra>",
        name=panel.level_name,
        legendgroup="level",
        showlegend=first,
        **_refs(n),
    )


def _draw(
    figure: go.Figure, course: Course, unit: str, n: str, steps: int, theme: str, *, first: bool
) -> None:
    """Every seed thin, their mean over them; of an arm without steps the level it starts at, thin to the end."""
    if not course.step.size or not np.isfinite(course.each).any():
        return
    tint = colour(course.arm, theme)
    dash = LOOKS[course.arm][3] if course.arm in LOOKS else "solid"
    known = np.isfinite(course.each)
    count = known.sum(0)
    mean = np.divide(
        np.where(known, course.each, 0).sum(0), count, out=np.full(count.shape, np.nan), where=count > 0
    )
    if len(course.each) > 1 and course.step.size > 1:
        x = np.tile(np.append(course.step.astype(float), np.nan), len(course.each))
        y = np.concatenate([np.append(row, np.nan) for row in course.each])
        figure.add_scatter(
            x=_none(x), y=_none(y), mode="lines", line={"color": tint, "width": 1}, opacity=0.45, hoverinfo="skip",
            name=f"{course.name}: seeds", legendgroup=course.arm, showlegend=False, **_refs(n),
        )  # fmt: skip
    texts = [_told(course, unit, i, mean[i], count[i]) for i in range(course.step.size)]
    still = course.step.size == 1
    x, y = (list(course.step), list(mean)) if not still else ([0, steps], [mean[0]] * 2)
    figure.add_scatter(
        x=x,
        y=_none(np.asarray(y, float)),
        mode="lines+markers",
        line={"color": tint, "width": 1.2 if still else 2.2, "dash": dash},
        marker={"color": tint, "symbol": symbol(course.arm), "size": [9, 0] if still else 7},
        text=texts if not still else texts * 2,
        hovertemplate="%{text}<extra></extra>",
        name=escape(course.name),
        legendgroup=course.arm,
        showlegend=first,
        **_refs(n),
    )


def _told(course: Course, unit: str, i: int, mean: float, count: int) -> str:
    head = f"<b>{escape(course.name)}</b>, step {int(course.step[i]):,}"
    if not count:
        return f"{head}<br>not measured"
    said = f"{head}<br>{fmt.number(mean, 4)} {unit}"
    if count > 1:
        low, high = np.nanmin(course.each[:, i]), np.nanmax(course.each[:, i])
        said += f", mean of {count} seeds<br>from {fmt.number(low, 4)} to {fmt.number(high, 4)}"
    return said


def _mark(figure: go.Figure, step: int, words: str, n: str, theme: str, *, first: bool) -> None:
    p = frame.palette(theme)
    figure.add_shape(
        type="line", yref=f"y{n} domain", y0=0, y1=1, xref=f"x{n}", x0=step, x1=step, name="mark",
        line={"color": p.muted, "width": 1, "dash": "dot"},
    )  # fmt: skip
    if first:
        figure.add_scatter(
            x=[None], y=[None], mode="lines", line={"color": p.muted, "width": 1, "dash": "dot"}, hoverinfo="skip",
            name=escape(words), **_refs(n),
        )  # fmt: skip


def _none(values: np.ndarray) -> list:
    """NaN as None: a gap in the line, and valid JSON."""
    return [None if not np.isfinite(value) else float(value) for value in values]
