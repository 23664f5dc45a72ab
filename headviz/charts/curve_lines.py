"""The lines of a cost curve: measured points with intervals, whole curves of scores, random heads; and how each looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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
NEIGHBOURS = 0.075  # of the heads: random draws are joined by a line no further than this, half as far again as a grid step

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


def joined(shares: Sequence[float], *columns: Sequence) -> tuple[list, ...]:
    """Shares (P,), sorted, and columns of theirs, with a None between neighbours that are too far apart for a line."""
    rows: list[tuple] = []
    for row in zip(shares, *columns, strict=True):
        if rows and row[0] - rows[-1][0] > NEIGHBOURS:
            rows.append((None,) * len(row))
        rows.append(row)
    return tuple(map(list, zip(*rows, strict=True)))


def score_look(score: str, theme: str) -> dict[str, str]:
    """Colour, dash and marker of a score's line; grey for random heads and for names that are no score."""
    base, _, form = score.partition("_")
    if base not in SCORES:
        p = frame.palette(theme)
        _, symbol, dash = RANDOM["layer_matched" if score.startswith("layer_matched") else "uniform"]
        return {"color": p.null, "dash": dash, "symbol": symbol}
    light, dark, symbol = SCORES[base]
    return {"color": dark if theme == "dark" else light, "dash": DASHES.get(form, "solid"), "symbol": symbol}


def draw_points(
    figure: go.Figure, points: Sequence[Point], replace: str, theme: str, unit: str, axes: dict
) -> None:
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


def draw_own(
    figure: go.Figure, points: Sequence[Point], name: str, p: Palette, unit: str, axes: dict, *, first: bool
) -> None:
    """A set that no score of the curve chose: a star of its own, on no line."""
    if not points:
        return
    figure.add_scatter(
        x=[q.share for q in points],
        y=[q.change for q in points],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [q.high - q.change for q in points],
            "arrayminus": [q.change - q.low for q in points],
            "thickness": 1.2,
            "width": 3,
        },
        mode="markers",
        marker={"color": p.text, "symbol": "star", "size": 13},
        text=[f"{escape(name)}<br>{_hover(q, unit)}" for q in points],
        hovertemplate="%{text}<extra></extra>",
        name=escape(name),
        legendgroup="own",
        showlegend=first,
        **axes,
    )


def _hover(q: Point, unit: str) -> str:
    heads = (
        f"{q.heads} heads, {fmt.percent(q.share)}"
        if q.heads is not None
        else f"{fmt.percent(q.share)} of the heads"
    )
    return f"{heads}<br>{fmt.signed(q.change)} {unit} [{fmt.number(q.low)}, {fmt.number(q.high)}]"


def draw_score(figure: go.Figure, one: Line, theme: str, unit: str, axes: dict, *, first: bool) -> None:
    look = score_look(one.score, theme)
    order = sorted(range(len(one.shares)), key=lambda i: one.shares[i])
    shares, changes = [one.shares[i] for i in order], [one.changes[i] for i in order]
    if not shares or shares[0] > 1e-5:
        shares, changes = [0.0, *shares], [0.0, *changes]
    text = [f"{fmt.percent(x)} off: {fmt.signed(y)} {unit}" for x, y in zip(shares, changes, strict=True)]
    if one.score.startswith(tuple(RANDOM)):
        shares, changes, text = joined(shares, changes, text)
    figure.add_scatter(
        x=shares,
        y=changes,
        mode="lines+markers",
        line={"color": look["color"], "width": 2, "dash": "dash" if one.dashed else look["dash"]},
        marker={"color": look["color"], "symbol": look["symbol"], "size": 7},
        text=text,
        hovertemplate=f"{one.name}<br>%{{text}}<extra></extra>",
        name=one.name,
        legendgroup=one.name,
        showlegend=first,
        **axes,
    )


def draw_random(
    figure: go.Figure, draws: Sequence[Draw], kind: str, p: Palette, unit: str, axes: dict, *, first: bool
) -> None:
    """Mean and range over the draws at each share, and single draws where they are few. Between shares that are far apart
    nothing is drawn: nothing was measured there."""
    if not draws:
        return
    name, symbol, dash = RANDOM[kind]
    there: dict[float, list[float]] = {}
    for draw in sorted(draws, key=lambda d: d.share):
        there.setdefault(draw.share, []).append(draw.change)
    means = {share: sum(some) / len(some) for share, some in there.items()}
    text = [
        f"{name}, mean of {len(some)}<br>{fmt.percent(share)} off: {fmt.signed(means[share])} {unit}, "
        f"from {fmt.signed(min(some))} to {fmt.signed(max(some))}"
        for share, some in there.items()
    ]
    x, y, up, down, text = joined(
        [0.0, *there],
        [0.0, *means.values()],
        [0.0, *(max(some) - means[share] for share, some in there.items())],
        [0.0, *(means[share] - min(some) for share, some in there.items())],
        ["nothing off", *text],
    )
    figure.add_scatter(
        x=x,
        y=y,
        error_y={"type": "data", "symmetric": False, "array": up, "arrayminus": down, "thickness": 3, "width": 0,
                 "color": p.shade},
        mode="lines+markers",
        line={"color": p.null, "width": 1.5, "dash": dash},
        marker={"color": p.null, "symbol": symbol, "size": 8, "line": {"width": 1.5}},
        text=text,
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
