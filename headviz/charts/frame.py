"""The empty plotly figure all charts start from: no template, transparent, fonts and neutral colours of the theme.

Use `st.plotly_chart(figure, theme=None)`: Streamlit's own theme would change the colours that carry meaning.
"""

from __future__ import annotations

import math
from html import escape

import plotly.graph_objects as go

from headviz.charts import fmt, scales
from headviz.charts.scales import FONT, PALETTES, Limits, Palette, Row, Scale
from headviz.errors import lookup

FOOT = 8  # px between the provenance and the lower edge
CLEAR = 6  # px between an axis title and the provenance
SMALL = 11
WIDE = 80  # characters of a provenance line that fit the map's column, 460 px on a page 1280 px wide
NARROW = 300  # px that a chart is laid out for when nobody says how wide its column is
LONG_TITLE = 460  # px from which the whole name of every score fits on an axis


def palette(theme: str) -> Palette:
    """Neutral colours of "light" or "dark". Raises UnknownName."""
    return lookup(PALETTES, theme, "theme")


def fitting(width: int) -> int:
    """Characters of a provenance line that fit a chart `width` px wide, also in the fallback font, which is wider."""
    return max(24, int((width - 16) / 5.6))


def foot(note: str, chars: int = WIDE) -> int:
    """px that the provenance takes below a figure."""
    lines = len(fmt.wrap(note, chars))
    return CLEAR + 14 * lines + FOOT if lines else 0


def given(threshold: float | None) -> float | None:
    """The threshold, None where there is none or it is NaN: a score without values has no quantile to cut at."""
    return None if threshold is None or math.isnan(threshold) else threshold


def start(
    theme: str, height: int, *, left=56, right=16, top=16, bottom=48, note: str = "", chars: int = WIDE
) -> go.Figure:
    """An empty figure of fixed height. `note` (the provenance) goes below, wrapped at `chars`, and adds its own height."""
    p = palette(theme)
    lines = fmt.wrap(note, chars)
    height, bottom = height + foot(note, chars), bottom + foot(note, chars)
    layout = go.Layout(
        height=height,
        autosize=True,
        margin={"l": left, "r": right, "t": top, "b": bottom, "pad": 0, "autoexpand": False},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 13, "color": p.text},
        showlegend=False,
        hovermode="closest",
        hoverlabel={
            "bgcolor": p.paper,
            "bordercolor": p.line,
            "align": "left",
            "font": {"family": FONT, "size": 13, "color": p.text},
        },
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": p.muted, "activecolor": p.accent, "orientation": "h"},
    )
    figure = go.Figure(layout=layout)
    figure.layout.template = None  # plotly's own; an empty one would make the browser draw everything twice
    if lines:
        figure.add_annotation(
            text="<br>".join(escape(line) for line in lines),
            name="provenance",
            xref="paper",
            yref="paper",
            x=0,
            y=0,
            xanchor="left",
            yanchor="bottom",
            xshift=8 - left,
            yshift=FOOT - bottom,
            align="left",
            showarrow=False,
            font={"size": SMALL, "color": p.muted},
        )
    return figure


def axis(theme: str, title: str = "", *, grid: bool = True, **more) -> dict:
    """Settings of one axis: thin ticks outside, light grid, no zero line."""
    p = palette(theme)
    return {
        "title": {"text": title, "font": {"size": 13, "color": p.text}, "standoff": 8},
        "tickfont": {"size": 12, "color": p.muted},
        "showgrid": grid,
        "gridcolor": p.grid,
        "gridwidth": 1,
        "zeroline": False,
        "showline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": p.line,
        "automargin": False,
        **more,
    }


def colorbar(scale: Scale, ends: Limits, values, theme: str, *, length=260, **more) -> dict:
    """A thin bar lying above the plot, its ticks in the unit of the values. Its title is a `heading`: a bar's own
    title is centred on the bar, so long names would leave the figure on the left."""
    p = palette(theme)
    at, texts = scales.ticks(scale, ends, values)
    return {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "xpad": 0,
        "y": 1,
        "yanchor": "bottom",
        "ypad": 8,
        "lenmode": "pixels",
        "len": length,
        "thickness": 10,
        "outlinewidth": 1,
        "outlinecolor": p.line,
        "tickmode": "array",
        "tickvals": at,
        "ticktext": texts,
        "tickfont": {"size": 12, "color": p.muted},
        "ticks": "outside",
        "ticklen": 3,
        "tickangle": 0,
        "tickcolor": p.line,
        **more,
    }


def label(figure: go.Figure, text: str, theme: str, *, x=0.0, y=1.0, **more) -> None:
    """Small text at a place given in shares of the plot."""
    figure.add_annotation(**worded(text, theme, x=x, y=y, **more))


def worded(text: str, theme: str, *, x=0.0, y=1.0, **more) -> dict:
    """`label` as a dict: many of them are quicker put into the layout at once."""
    settings = {
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "showarrow": False,
        "align": "left",
        "font": {"size": 12, "color": palette(theme).muted},
    }
    return {"text": text, "x": x, "y": y, **settings, **more}


def nothing(figure: go.Figure, words: str, theme: str, *, n: str = "") -> None:
    """Words in the middle of a panel that has nothing to draw."""
    at = {"xref": f"x{n} domain", "yref": f"y{n} domain", "xanchor": "center", "yanchor": "middle"}
    font = {"size": 13, "color": palette(theme).muted}
    label(figure, words, theme, x=0.5, y=0.5, **at, font=font, name="nothing")


def heading(figure: go.Figure, text: str, theme: str, *, yshift: float, **more) -> None:
    """The title of a figure and of its colours, at the left above the plot."""
    label(
        figure,
        text,
        theme,
        yshift=yshift,
        font={"size": 14, "color": palette(theme).text},
        name="title",
        **more,
    )


def axis_names(figure: go.Figure, across: str, up: str, theme: str, *, x=0.5, y=0.5, room=28) -> None:
    """Axis titles as labels tied to the axes as drawn: plotly puts the title of a constrained axis inside the plot.

    x, y: middle of each, in shares of its axis; room: px that the tick texts of the y axis take.
    """
    text = {"xref": "x domain", "yref": "y domain", "font": {"size": 13, "color": palette(theme).text}}
    label(
        figure, across, theme, x=x, y=0, xanchor="center", yanchor="top", yshift=-22, name="x title", **text
    )
    place = {"xanchor": "right", "yanchor": "middle", "xshift": -room, "textangle": -90}
    label(figure, up, theme, x=0, y=y, name="y title", **place, **text)


def shade(
    figure, row: Row, threshold: float, low: float, high: float, theme: str, n: str = "", along: str = "x"
) -> None:
    """The inactive side as a grey band and the threshold as a dashed line, across one panel."""
    p = palette(theme)
    other = "y" if along == "x" else "x"
    ends = (threshold, high) if row.inactive == "high" else (low, threshold)
    refs = {f"{along}ref": f"{along}{n}", f"{other}ref": f"{other}{n} domain", f"{other}0": 0, f"{other}1": 1}
    figure.add_shape(
        type="rect",
        **refs,
        **{f"{along}0": ends[0], f"{along}1": ends[1]},
        fillcolor=p.shade,
        line_width=0,
        layer="below",
        name="inactive side",
    )
    line = {"color": p.text, "width": 1.5, "dash": "dash"}
    figure.add_shape(
        type="line", **refs, **{f"{along}0": threshold, f"{along}1": threshold}, line=line, name="threshold"
    )


def thin(count: int, room: int = 16) -> list[int]:
    """Indices to write on an axis of `count` cells: every 1st, 2nd, 5th, 10th … so that at most `room` are written."""
    for step in (1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100, 128):
        if count / step <= room:
            return list(range(0, count, step))
    return list(range(0, count, -(-count // room)))
