"""What switching heads off costs, against the share of heads: measured points with intervals, random heads in grey.

What stands in for a head's output, zero or its mean, has a panel of its own; both share the axis of the cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from headviz.charts import fmt, frame
from headviz.charts.scales import Palette

#: replacement → (colour on light, colour on dark, marker symbol)
REPLACEMENTS = {"zero": ("#1f6f8b", "#5fb3cf", "circle"), "mean": ("#a5681f", "#e0a95c", "diamond")}
PLACES = {"zero": "zero in their place", "mean": "their mean in their place"}
#: kind of draw → (name, marker symbol, dash)
RANDOM = {
    "uniform": ("random heads", "circle-open", "solid"),
    "layer_matched": ("random, layer by layer", "square-open", "dash"),
}
FEW = 20  # draws below this are shown one by one

#: first word of a score's id → (colour on light, colour on dark, marker symbol): the same on every chart
SCORES = {
    "ahon": ("#0072b2", "#56b4e9", "circle"),
    "awft": ("#d55e00", "#f08a3c", "square"),
    "lthon": ("#007a5a", "#35c495", "diamond"),
    "aeqd": ("#8a5fa8", "#c79be0", "triangle-up"),
    "avvn": ("#9c7a00", "#e0c040", "triangle-down"),
    "ftvvn": ("#b0407a", "#f08abf", "cross"),
    "fullout": ("#5b6270", "#c0c6d0", "x"),
}
DASHES = {"": "dot", "ln": "solid", "hn": "dash"}  # raw, over the layer's mean, over the head's mean


@dataclass(frozen=True, kw_only=True)
class Point:
    """One measured head set. share: achieved, 0..1; change with its 95% interval, in the unit of the curve."""

    share: float
    change: float
    low: float
    high: float
    heads: int | None
    replace: str


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One random head set. kind: `uniform` or `layer_matched`."""

    share: float
    change: float
    kind: str
    replace: str


@dataclass(frozen=True, kw_only=True)
class Line:
    """A whole curve beside others. score: our id of it, or any name; dashed: not measured here."""

    name: str
    score: str
    replace: str
    shares: tuple[float, ...]
    changes: tuple[float, ...]
    dashed: bool = False


def score_look(score: str, theme: str) -> dict[str, str]:
    """Colour, dash and marker of a score's line; grey for random heads and for names that are no score."""
    base, _, form = score.partition("_")
    if base not in SCORES:
        p = frame.palette(theme)
        _, symbol, dash = RANDOM["layer_matched" if score.startswith("layer_matched") else "uniform"]
        return {"color": p.null, "dash": dash, "symbol": symbol}
    light, dark, symbol = SCORES[base]
    return {"color": dark if theme == "dark" else light, "dash": DASHES.get(form, "solid"), "symbol": symbol}


def cost_curve(
    points: Sequence[Point],
    draws: Sequence[Draw] = (),
    *,
    unit: str,
    what: str,
    tolerance: float | None = None,
    now: float | None = None,
    lines: Sequence[Line] = (),
    across: str = "share of heads off",
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Change against share of heads off, a panel a replacement that has points; nothing off costs nothing.

    unit: of the change; what: the axis title; tolerance: the change that is still accepted, dashed; now: the share that
    the page shows, marked; lines: other curves, drawn into every panel of their replacement. Random heads are grey: mean and
    range over the draws, and the draws themselves where they are fewer than twenty.
    """
    shown = [r for r in REPLACEMENTS if any(q.replace == r for q in (*points, *draws, *lines))] or ["zero"]
    shares = [q.share for q in (*points, *draws)] + [share for one in lines for share in one.shares]
    most = max([0.05, *shares, now or 0.0])
    figure = _panels(shown, theme, f"{what}, {unit}", across, most, provenance)
    p = frame.palette(theme)
    for number, replace in enumerate(shown):
        axes = _axes(number)
        for kind in RANDOM:
            mine = [d for d in draws if (d.kind, d.replace) == (kind, replace)]
            _random(figure, mine, kind, p, unit, axes, first=number == 0)
        for one in lines:
            if one.replace == replace:
                _score(figure, one, theme, unit, axes, first=number == 0)
        _points(figure, [q for q in points if q.replace == replace], replace, theme, unit, axes)
        _guides(figure, tolerance, now, unit, p, theme, axes, last=number == len(shown) - 1)
    return figure


def score_curves(
    lines: Sequence[Line],
    *,
    unit: str,
    what: str,
    tolerance: float | None = None,
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
        across=across,
        theme=theme,
        provenance=provenance,
    )


# ---------------------------------------------------------------------------------------------------- the frame


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


def _guides(figure, tolerance, now, unit: str, p: Palette, theme: str, axes: dict, *, last: bool) -> None:
    x, y = axes["xaxis"], axes["yaxis"]
    if tolerance is not None:
        figure.add_shape(
            type="line", xref=f"{x} domain", x0=0, x1=1, yref=y, y0=tolerance, y1=tolerance, name="tolerance",
            line={"color": p.muted, "width": 1, "dash": "dash"},
        )  # fmt: skip
        if last:
            text = f"tolerance {fmt.signed(tolerance)} {unit}"
            place = {"xref": f"{x} domain", "x": 1, "xanchor": "right", "yref": y, "y": tolerance}
            frame.label(figure, text, theme, yanchor="bottom" if tolerance > 0 else "top", **place)
    if now is not None:
        figure.add_shape(
            type="line", yref=f"{y} domain", y0=0, y1=1, xref=x, x0=now, x1=now, name="now",
            line={"color": p.muted, "width": 1, "dash": "dot"},
        )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- the lines


def _points(figure, points: Sequence[Point], replace: str, theme: str, unit: str, axes: dict) -> None:
    if not points:
        return
    light, dark, symbol = REPLACEMENTS[replace]
    colour = dark if theme == "dark" else light
    ordered = sorted(points, key=lambda q: q.share)
    figure.add_scatter(
        x=[0.0, *(q.share for q in ordered)],
        y=[0.0, *(q.change for q in ordered)],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [0.0, *(q.high - q.change for q in ordered)],
            "arrayminus": [0.0, *(q.change - q.low for q in ordered)],
            "thickness": 1.2,
            "width": 3,
        },
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"color": colour, "symbol": symbol, "size": 8},
        text=["nothing off", *(_hover(q, unit) for q in ordered)],
        hovertemplate="%{text}<extra></extra>",
        name=f"replaced by {'zero' if replace == 'zero' else 'the mean'}",
        **axes,
    )


def _hover(q: Point, unit: str) -> str:
    heads = (
        f"{q.heads} heads, {fmt.percent(q.share)}"
        if q.heads is not None
        else f"{fmt.percent(q.share)} of the heads"
    )
    return f"{heads}<br>{fmt.signed(q.change)} {unit} [{fmt.number(q.low)}, {fmt.number(q.high)}]"


def _score(figure, one: Line, theme: str, unit: str, axes: dict, *, first: bool) -> None:
    look = score_look(one.score, theme)
    order = sorted(range(len(one.shares)), key=lambda i: one.shares[i])
    shares, changes = [one.shares[i] for i in order], [one.changes[i] for i in order]
    if not shares or shares[0] > 1e-5:
        shares, changes = [0.0, *shares], [0.0, *changes]
    figure.add_scatter(
        x=shares,
        y=changes,
        mode="lines+markers",
        line={"color": look["color"], "width": 2, "dash": "dash" if one.dashed else look["dash"]},
        marker={"color": look["color"], "symbol": look["symbol"], "size": 7},
        text=[f"{fmt.percent(x)} off: {fmt.signed(y)} {unit}" for x, y in zip(shares, changes, strict=True)],
        hovertemplate=f"{one.name}<br>%{{text}}<extra></extra>",
        name=one.name,
        legendgroup=one.name,
        showlegend=first,
        **axes,
    )


def _random(figure, draws, kind: str, p: Palette, unit: str, axes: dict, *, first: bool) -> None:
    """Mean and range over the draws at each share, and single draws where they are few."""
    if not draws:
        return
    name, symbol, dash = RANDOM[kind]
    there: dict[float, list[float]] = {}
    for draw in sorted(draws, key=lambda d: d.share):
        there.setdefault(draw.share, []).append(draw.change)
    shares = [0.0, *there]
    ends = [(0.0, 0.0), *((min(some), max(some)) for some in there.values())]
    figure.add_scatter(
        x=shares + shares[::-1],
        y=[high for _, high in ends] + [low for low, _ in ends][::-1],
        fill="toself",
        fillcolor=p.shade,
        mode="lines",
        line={"width": 0, "color": p.null},
        hoverinfo="skip",
        showlegend=False,
        name=f"{name}: range",
        **axes,
    )
    means = [sum(some) / len(some) for some in there.values()]
    figure.add_scatter(
        x=shares,
        y=[0.0, *means],
        mode="lines+markers",
        line={"color": p.null, "width": 1.5, "dash": dash},
        marker={"color": p.null, "symbol": symbol, "size": 8, "line": {"width": 1.5}},
        text=["nothing off", *(
            f"{name}, mean of {len(some)}<br>{fmt.percent(share)} off: {fmt.signed(mean)} {unit}, "
            f"from {fmt.signed(min(some))} to {fmt.signed(max(some))}"
            for (share, some), mean in zip(there.items(), means, strict=True)
        )],
        hovertemplate="%{text}<extra></extra>",
        name=name,
        legendgroup=name,
        showlegend=first,
        **axes,
    )  # fmt: skip
    single = [(share, one) for share, some in there.items() if 1 < len(some) < FEW for one in some]
    if single:
        figure.add_scatter(
            x=[share for share, _ in single],
            y=[one for _, one in single],
            mode="markers",
            marker={"color": p.null, "symbol": symbol, "size": 5},
            text=[
                f"{name}, one draw<br>{fmt.percent(share)} off: {fmt.signed(one)} {unit}"
                for share, one in single
            ],
            hovertemplate="%{text}<extra></extra>",
            name=f"{name}: draws",
            showlegend=False,
            **axes,
        )
