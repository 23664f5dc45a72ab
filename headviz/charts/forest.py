"""Rows of a change with its 95% interval, one below another: what each remedy costs, what each head alone is worth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import plotly.graph_objects as go

from headviz.charts import arms, fmt, frame

ROW = 34  # px
LEFT = 190


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row. name: as a person reads it; arm: whose colour and marker; values: (change, low, high) a panel, None where it
    was not measured; note: more for the hover; dots: single values behind the change, such as seeds, a tuple a panel"""

    name: str
    arm: str
    values: tuple[tuple[float, float, float] | None, ...]
    note: str = ""
    dots: tuple[tuple[float, ...], ...] = ()


def forest(
    rows: Sequence[Row],
    panels: Sequence[str],
    *,
    unit: str = "nats a token",
    zero: str = "as the stock model",
    theme: str = "light",
    provenance: str = "",
    width: int = 860,
    left: int = LEFT,
    missing: str = "not measured",
    same: bool = False,
) -> go.Figure:
    """Panels side by side over the same rows, from the top; right of zero is a higher loss, which is worse.

    same: all panels on one range of changes
    """
    height = 58 + 58 + ROW * max(len(rows), 2)
    figure = frame.start(
        theme, height, left=left, right=16, top=46, bottom=58, note=provenance, chars=frame.fitting(width)
    )
    p = frame.palette(theme)
    each = (1 - 0.05 * (len(panels) - 1)) / len(panels)
    for number, title in enumerate(panels):
        n = "" if not number else str(number + 1)
        start = number * (each + 0.05)
        low, high = _ends(rows, range(len(panels)) if same else (number,))
        room = 0.08 * (high - low)
        figure.layout[f"xaxis{n}"] = frame.axis(
            theme, f"change of loss, {unit}", domain=[start, start + each], range=[low - room, high + room],
            zeroline=True, zerolinecolor=p.text, zerolinewidth=1.2, nticks=5, anchor="y", tickformat="~g",
        )  # fmt: skip
        frame.label(figure, escape(title), theme, x=start, y=1, yshift=6, name="panel",
                    font={"size": 13, "color": p.text})  # fmt: skip
        if same and number:
            figure.layout[f"xaxis{n}"].matches = "x"
        for place, row in enumerate(rows):
            _row(figure, row, number, place, unit, n, theme, missing)
    figure.layout.yaxis = frame.axis(
        theme,
        range=[len(rows) - 0.4, -0.6],
        tickvals=list(range(len(rows))),
        ticktext=[escape(row.name) for row in rows],
        fixedrange=True,
    ) | {"tickfont": {"size": 12, "color": p.text}}
    frame.label(figure, f"0: {escape(zero)}", theme, x=1, xanchor="right", y=1, yshift=24, name="zero")
    return figure


def _ends(rows: Sequence[Row], panels: Iterable[int]) -> tuple[float, float]:
    """Lowest and highest change of some panels, intervals included, and 0."""
    found = [0.0, -1e-9, 1e-9]
    for number in panels:
        found += [x for row in rows if (value := row.values[number]) for x in value if math.isfinite(x)]
        found += [x for row in rows if row.dots for x in row.dots[number]]
    return min(found), max(found)


def _row(figure, row: Row, number: int, place: int, unit: str, n: str, theme: str, missing: str) -> None:
    axes = {"xaxis": f"x{n}", "yaxis": "y"}
    value = row.values[number]
    if value is None or not math.isfinite(value[0]):
        frame.label(figure, escape(missing), theme, x=0, y=place, xref=f"x{n}", yref="y", xshift=8,
                    yanchor="middle", name="missing")  # fmt: skip
        return
    change, low, high = value
    known = math.isfinite(low) and math.isfinite(high)
    if row.dots and row.dots[number]:
        figure.add_scatter(
            x=list(row.dots[number]), y=[place + 0.27] * len(row.dots[number]), mode="markers", name=f"{row.name}, each",
            marker={"color": arms.colour(row.arm, theme), "symbol": "circle-open", "size": 6}, opacity=0.7,
            text=[f"{escape(row.name)}, one seed: {fmt.signed(x)} {unit}" for x in row.dots[number]],
            hovertemplate="%{text}<extra></extra>", **axes,
        )  # fmt: skip
    tint = arms.colour(row.arm, theme) if row.arm else frame.palette(theme).text
    figure.add_scatter(
        x=[change],
        y=[place],
        mode="markers",
        marker={"color": tint, "symbol": arms.symbol(row.arm) if row.arm else "line-ns-open", "size": 11},
        error_x={
            "type": "data", "symmetric": False, "array": [high - change if known else 0],
            "arrayminus": [change - low if known else 0], "color": tint, "thickness": 2, "width": 6,
        },
        text=[
            f"<b>{escape(row.name)}</b><br>{fmt.signed(change)} {unit} "
            + (f"[{fmt.number(low)}, {fmt.number(high)}]" if known else "(no interval)")
            + (f"<br>{escape(row.note)}" if row.note else "")
        ],
        hovertemplate="%{text}<extra></extra>",
        name=escape(row.name),
        **axes,
    )  # fmt: skip
