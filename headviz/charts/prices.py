"""What each disputed group costs to lose, with intervals, beside random heads: one row a group, zero and mean side by side."""

from __future__ import annotations

from html import escape

import plotly.graph_objects as go

from headviz.analysis.agreement import Group, Quadrants
from headviz.analysis.groupcosts import REPLACEMENTS, GroupCost, GroupCosts
from headviz.charts import fmt, frame, groups
from headviz.charts.curve import PLACES

ROW = 46  # px
_LEFT = 196


def group_costs(
    costs: GroupCosts, quadrants: Quadrants, *, theme: str = "light", provenance: str = ""
) -> go.Figure:
    """Change against nothing off: each group's mark with its 95% interval, each random draw a grey dot.

    Below a group, random heads with as many in each layer as it has; at the end, random heads anywhere: of one size once.
    """
    rows = _rows(costs, quadrants)
    height = 66 + 58 + ROW * len(rows)
    figure = frame.start(theme, height, left=_LEFT, right=16, top=46, bottom=46, note=provenance)
    for panel, kind in enumerate(REPLACEMENTS):
        axes = {"xaxis": "x" if not panel else "x2", "yaxis": "y"}
        for place, (what, one, _) in enumerate(rows):
            mine = costs.of(one.group, kind)
            if mine is None:
                continue
            if what == "group":
                _mark(figure, mine, place, costs, quadrants, theme, axes)
            else:
                _dots(figure, mine, what, place, costs, theme, axes)
    _axes(figure, costs, rows, theme)
    return figure


def _rows(costs: GroupCosts, quadrants: Quadrants) -> list[tuple[str, GroupCost, str]]:
    """(what, the group it belongs to, its words) from the top."""
    rows, sizes = [], []
    for group in dict.fromkeys(one.group for one in costs.costs):
        one = next(cost for cost in costs.costs if cost.group == group)
        rows.append(("group", one, f"<b>{one.heads} {escape(quadrants.names[group])}</b>"))
        if one.random.get("layer_matched") or _drawn(costs, group, "layer_matched"):
            rows.append(("layer_matched", one, "random, as many in each layer"))
        if one.heads not in [size for size, _ in sizes]:
            sizes.append((one.heads, one))
    rows += [
        ("uniform", one, f"{size} random heads anywhere")
        for size, one in sizes
        if _drawn(costs, one.group, "uniform")
    ]
    return rows


def _drawn(costs: GroupCosts, group: Group, kind: str) -> bool:
    return any(one.random.get(kind) for one in costs.costs if one.group == group)


def _mark(
    figure, one: GroupCost, place: int, costs: GroupCosts, quadrants: Quadrants, theme: str, axes
) -> None:
    scale, unit = costs.yard.scale, costs.yard.unit
    tint = groups.colour(one.group, theme)
    x, low, high = one.change * scale, one.low * scale, one.high * scale
    known = low == low
    figure.add_scatter(
        x=[x],
        y=[place],
        mode="markers",
        marker={"color": tint, "symbol": groups.LOOKS[one.group][2], "size": 12},
        error_x={
            "type": "data", "symmetric": False, "array": [high - x if known else 0], "arrayminus": [x - low if known else 0],
            "color": tint, "thickness": 2, "width": 6,
        },
        text=[
            f"{one.heads} heads, {escape(quadrants.names[one.group])}<br>{PLACES[one.replace]}<br>"
            f"{fmt.signed(x)} {unit} " + (f"[{fmt.number(low)}, {fmt.number(high)}]" if known else "(no interval)")
        ],
        hovertemplate="%{text}<extra></extra>",
        name=f"{one.group}, {one.replace}",
        **axes,
    )  # fmt: skip


def _dots(figure, one: GroupCost, kind: str, place: int, costs: GroupCosts, theme: str, axes) -> None:
    several = [change * costs.yard.scale for change in one.random.get(kind, ())]
    if not several:
        return
    mean, p = sum(several) / len(several), frame.palette(theme)
    figure.add_scatter(
        x=several,
        y=[place] * len(several),
        mode="markers",
        marker={"color": p.null, "symbol": "circle" if kind == "uniform" else "square", "size": 7, "opacity": 0.8},
        text=[f"one random draw: {fmt.signed(x)} {costs.yard.unit}<br>mean of {len(several)}: {fmt.signed(mean)}" for x in several],
        hovertemplate="%{text}<extra></extra>",
        name=f"{kind} of {one.group}, {one.replace}",
        **axes,
    )  # fmt: skip
    figure.add_scatter(
        x=[mean], y=[place], mode="markers", hoverinfo="skip", name="mean", **axes,
        marker={"symbol": "line-ns-open", "size": 16, "color": p.muted, "line": {"width": 2}},
    )  # fmt: skip


def _axes(figure: go.Figure, costs: GroupCosts, rows, theme: str) -> None:
    p = frame.palette(theme)
    numbers = [
        x * costs.yard.scale
        for one in costs.costs
        for x in (one.change, one.low, one.high, *(c for some in one.random.values() for c in some))
        if x == x
    ]
    low, high = min(0.0, *numbers), max(0.0, *numbers)
    room = 0.06 * ((high - low) or 1.0)
    title = f"{costs.yard.what}, {costs.yard.unit}"
    for n, kind, domain in (("", "zero", (0.0, 0.485)), ("2", "mean", (0.515, 1.0))):
        figure.layout[f"xaxis{n}"] = frame.axis(
            theme, title, domain=domain, range=[low - room, high + room], zeroline=True, zerolinecolor=p.line,
            zerolinewidth=1, nticks=6, anchor="y",
        )  # fmt: skip
        frame.label(
            figure, PLACES[kind], theme, x=sum(domain) / 2, y=1, xanchor="center", yshift=4, name="panel"
        )
    figure.layout.yaxis = frame.axis(
        theme,
        range=[len(rows) - 0.4, -0.6],
        tickvals=list(range(len(rows))),
        ticktext=[text for *_, text in rows],
        fixedrange=True,
    ) | {"tickfont": {"size": 12, "color": p.text}}
