"""What switching heads off costs, against the share of heads: measured points with intervals, random heads in grey.

What stands in for a head's output, zero or its mean, has a panel of its own; both share the axis of the cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import plotly.graph_objects as go

from headviz.charts import fmt, frame
from headviz.charts.curve_lines import (
    PLACES,
    RANDOM,
    REPLACEMENTS,
    Draw,
    Line,
    Point,
    draw_own,
    draw_points,
    draw_random,
    draw_score,
    score_look,
)
from headviz.charts.scales import Palette

__all__ = ["PLACES", "Draw", "Line", "Point", "cost_curve", "score_curves", "score_look"]


def cost_curve(
    points: Sequence[Point],
    draws: Sequence[Draw] = (),
    *,
    unit: str,
    what: str,
    tolerance: float | None = None,
    now: float | None = None,
    lines: Sequence[Line] = (),
    own: Sequence[Point] = (),
    own_name: str = "this set",
    until: float = 1.0,
    across: str = "share of heads off",
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Change against share of heads off, a panel a replacement that has points; nothing off costs nothing.

    unit: of the change; what: the axis title; tolerance: the change that is still accepted, dashed; now: the share that
    the page shows, marked; lines: other curves, drawn into every panel of their replacement; own: the set that the page shows,
    where no score chose it, and own_name: what to call it; until: the share at which the axis ends, unless `now` or `own` lies
    further, what lies beyond is not drawn. Random heads are grey: mean and range over the draws, and the draws themselves
    where they are fewer than twenty.
    """
    until = max([until, now or 0.0, *(q.share for q in own)])
    points, draws = ([q for q in some if q.share <= until] for some in (points, draws))
    lines = [one for line in lines if (one := _until(line, until)).shares]
    shown = [r for r in REPLACEMENTS if any(q.replace == r for q in (*points, *draws, *lines, *own))] or [
        "zero"
    ]
    shares = [q.share for q in (*points, *draws, *own)] + [share for one in lines for share in one.shares]
    most = max([0.05, *shares, now or 0.0])
    figure = _panels(shown, theme, f"{what}, {unit}", across, most, provenance)
    p = frame.palette(theme)
    for number, replace in enumerate(shown):
        axes = _axes(number)
        for kind in RANDOM:
            mine = [d for d in draws if (d.kind, d.replace) == (kind, replace)]
            draw_random(figure, mine, kind, p, unit, axes, first=number == 0)
        for one in lines:
            if one.replace == replace:
                draw_score(figure, one, theme, unit, axes, first=number == 0)
        draw_points(figure, [q for q in points if q.replace == replace], replace, theme, unit, axes)
        draw_own(figure, [q for q in own if q.replace == replace], own_name, p, unit, axes, first=number == 0)
        _guides(figure, tolerance, now, unit, p, axes, first=number == 0)
    _fit_legend(figure)
    return figure


def score_curves(
    lines: Sequence[Line],
    *,
    unit: str,
    what: str,
    tolerance: float | None = None,
    until: float = 1.0,
    across: str = "share of heads off",
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """The curves of several scores, each in its own colour, random heads in grey; a panel a replacement."""
    return cost_curve(
        [],
        lines=lines,
        unit=unit,
        what=what,
        tolerance=tolerance,
        until=until,
        across=across,
        theme=theme,
        provenance=provenance,
    )


# ---------------------------------------------------------------------------------------------------- the frame


def _until(line: Line, until: float) -> Line:
    kept = [i for i, share in enumerate(line.shares) if share <= until]
    some = {name: tuple(getattr(line, name)[i] for i in kept) for name in ("shares", "changes")}
    return dataclasses.replace(line, **some)


def _axes(number: int) -> dict[str, str]:
    return {"xaxis": "x" if not number else "x2", "yaxis": "y" if not number else "y2"}


def _panels(
    shown: Sequence[str], theme: str, up: str, across: str, most: float, provenance: str
) -> go.Figure:
    figure = frame.start(theme, 400, left=62, right=16, top=52, bottom=46, note=provenance)
    p = frame.palette(theme)
    ends = [(0.0, 1.0)] if len(shown) == 1 else [(0.0, 0.485), (0.515, 1.0)]
    for number, (replace, domain) in enumerate(zip(shown, ends, strict=True)):
        n = "" if not number else "2"
        # set whole: update_layout takes ten times as long, and a slider waits for it
        figure.layout[f"xaxis{n}"] = frame.axis(
            theme, across, tickformat=".0%", range=[-0.01, most * 1.05], domain=domain, nticks=8
        )
        figure.layout[f"yaxis{n}"] = frame.axis(
            theme,
            up if not number else "",
            anchor=f"x{n}",
            matches=None if not number else "y",
            showticklabels=not number,
            zeroline=True,
            zerolinecolor=p.line,
            zerolinewidth=1,
        )
        if len(shown) > 1:
            frame.label(
                figure,
                PLACES[replace],
                theme,
                x=sum(domain) / 2,
                y=1,
                xanchor="center",
                yshift=2,
                name="panel",
            )
    figure.layout.showlegend = True
    figure.layout.legend = {"orientation": "h", "x": 0, "y": 1, "yref": "container", "yanchor": "top",
                            "bgcolor": "rgba(0,0,0,0)", "font": {"size": 12}}  # fmt: skip
    return figure


def _fit_legend(figure: go.Figure) -> None:
    """Room above the panels for the rows that the legend takes, in the narrowest column that pages have."""
    entries = sum(len(trace.name) + 9 for trace in figure.data if trace.showlegend is not False)
    more = 19 * max(0, -(-entries // 85) - 1)
    figure.update_layout(height=figure.layout.height + more, margin={"t": figure.layout.margin.t + more})


def _guides(figure, tolerance, now, unit: str, p: Palette, axes: dict, *, first: bool) -> None:
    x, y = axes["xaxis"], axes["yaxis"]
    if tolerance is not None:
        figure.add_shape(
            type="line", xref=f"{x} domain", x0=0, x1=1, yref=y, y0=tolerance, y1=tolerance, name="tolerance",
            line={"color": p.muted, "width": 1, "dash": "dash"},
        )  # fmt: skip
        if first:
            figure.add_scatter(
                x=[None], y=[None], mode="lines", line={"color": p.muted, "width": 1, "dash": "dash"}, hoverinfo="skip",
                name=f"tolerance {'+' if tolerance > 0 else ''}{fmt.tick(tolerance)} {unit}", **axes,
            )  # fmt: skip
    if now is not None:
        figure.add_shape(
            type="line", yref=f"{y} domain", y0=0, y1=1, xref=x, x0=now, x1=now, name="now",
            line={"color": p.muted, "width": 1, "dash": "dot"},
        )  # fmt: skip
