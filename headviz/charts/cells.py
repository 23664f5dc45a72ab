"""A layer × head figure of any values: layer 0 at the bottom, heads left to right, one value a cell.

Colour, hatching, outlines and the strips of means share one pair of axes in units of cells, so nothing shifts or overlaps
at any size. Clicks on a plotly heatmap select nothing in Streamlit: transparent markers over the cells carry
customdata [layer, head] and the hover texts, the NaN cells' too.

Streamlit hands every figure to plotly again right after it has drawn it. So the layout says by its `datarevision` that the
cells are the same, and by `clickmode` and `dragmode` what Streamlit would set then: nothing is drawn twice, which a slider
would wait for.
"""

from __future__ import annotations

import hashlib

import numpy as np
import plotly.graph_objects as go

from headviz.charts import frame, scales
from headviz.charts.scales import Scale
from headviz.types import Geometry

TOP, LEFT, RIGHT, BOTTOM = 86, 52, 12, 46
GL_ABOVE = 1000  # heads; SVG markers get slow beyond
GAP, THICK = 0.4, 0.8  # of the strips of means, in cells
STRIP = GAP + THICK
HOME, WIDE = 480, 830  # px of the map's column on pages 1280 and 1920 px wide
TALL = 640  # px that all layers take at the most


def cell_size(layers: int, heads: int) -> tuple[float, float]:
    """(width, height) of a cell in px in the column of a 1280 px page: squarish there, 26 to 40 px high for few layers."""
    room = (HOME - LEFT - RIGHT) / (heads + STRIP)
    height = float(min(TALL / layers, max(26.0 if layers <= 12 else 8.0, min(1.25 * room, 40.0))))
    return min(room, 2 * height), height


def widest(layers: int, heads: int) -> int | None:
    """px of width beyond which a map grows no further, because its cells would be more than about twice as wide as high;
    None: it fills any column. In narrow columns cells get narrower and keep their height, so nothing is blank below."""
    width, height = cell_size(layers, heads)
    if (WIDE - LEFT - RIGHT) / (heads + STRIP) <= 2.2 * height:
        return None
    return round(LEFT + RIGHT + min(1.25 * width, 2.0 * height) * (heads + STRIP))


def map_size(geometry: Geometry, note: str = "") -> tuple[int, int]:
    """(width, height) in px that the map of this model takes where there is room, its margins included."""
    width, height = cell_size(geometry.layers, geometry.heads)
    rows = geometry.layers + (STRIP if geometry.slopes else 0)
    return (
        round(LEFT + RIGHT + width * (geometry.heads + STRIP)),
        round(TOP + BOTTOM + height * rows) + frame.foot(note),
    )


def cell_map(
    values,
    scale: Scale,
    hover,
    *,
    geometry,
    theme,
    title,
    key,
    hatched,
    selected,
    provenance,
    ends,
    mean_text,
    dotted=None,
) -> go.Figure:
    values = np.asarray(values, np.float64)
    L, H = values.shape
    width, height = cell_size(L, H)
    top = bool(geometry.slopes)  # only under ALiBi does a head's index mean something across layers
    rows = L + (STRIP if top else 0)
    around = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    figure = frame.start(theme, map_size(geometry)[1], **around, note=provenance)
    drawn, low, high = scales.paint(scale, values, ends)
    _heat(figure, values, scale, theme, ends)
    _strips(figure, values, scale, theme, ends, mean_text, top)
    dark = scales.is_dark(scale, theme, drawn, low, high)
    hollow = np.isnan(values)
    marks = ((hatched, "inactive", _HATCH), (dotted, "sometimes", _DOT), (hollow, "not defined", _SQUARE))
    figure.layout.shapes = [
        *(
            shape
            for where, name, stroke in marks
            if where is not None
            for shape in _marks(np.asarray(where, bool), dark, name, stroke, theme)
        ),
        *_hairlines(geometry, theme),
        *([] if selected is None else _outline(selected, theme)),
    ]
    if hollow.any():
        key = [*key, f"□ not defined: {int(hollow.sum()):,}"]
    _click_layer(figure, hover, min(width, height))
    figure.layout.datarevision = _revision(values, hover, scale, ends, theme, top)
    frame.heading(figure, title, theme, yshift=62)
    if key:
        frame.label(figure, "   ".join(key), theme, name="key", xshift=-2)
    _axes(figure, L, H, rows, theme, top)
    if (most := widest(L, H)) is not None:
        figure.layout.meta = most
    return figure


def _heat(figure, values, scale, theme, ends) -> None:
    drawn, low, high = scales.paint(scale, values, ends)
    figure.add_heatmap(
        z=drawn,
        zmin=low,
        zmax=high,
        colorscale=scales.colorscale(scale, theme),
        xgap=1,
        ygap=1,
        hoverinfo="skip",
        name="scores",
        colorbar=frame.colorbar(scale, ends, values, theme, ypad=20),
    )


def _strips(figure, values, scale, theme, ends, mean_text, top) -> None:
    """Means per layer at the right, and for ALiBi per head on top, in the same colours."""
    L, H = values.shape
    same = {
        "colorscale": scales.colorscale(scale, theme),
        "showscale": False,
        "ygap": 1,
        "xgap": 1,
        "hovertemplate": "%{text}<extra></extra>",
    }

    def add(means, name, words, **place) -> None:
        drawn, low, high = scales.paint(scale, means, ends)
        texts = [f"{words(i)}<br>mean of its heads {mean_text(m)}" for i, m in enumerate(means)]
        shape = (-1, 1) if name == "layer means" else (1, -1)
        figure.add_heatmap(
            z=drawn.reshape(shape),
            text=np.reshape(texts, shape),
            zmin=low,
            zmax=high,
            name=name,
            **place,
            **same,
        )

    add(
        _means(values, 1),
        "layer means",
        lambda i: f"<b>layer {i}</b>",
        x=[H - 0.5 + GAP, H - 0.5 + STRIP],
        y0=0,
        dy=1,
    )
    if top:
        add(
            _means(values, 0),
            "head means",
            lambda j: f"<b>head {j}</b>, all layers",
            x0=0,
            dx=1,
            y=[L - 0.5 + GAP, L - 0.5 + STRIP],
        )


def _means(values: np.ndarray, along: int) -> np.ndarray:
    known = ~np.isnan(values)
    total, seen = np.where(known, values, 0).sum(along), known.sum(along)
    return np.divide(total, seen, out=np.full(total.shape, np.nan), where=seen > 0)


# each mark is a list of (x, y) offsets from the middle of its cell, in cells
_HATCH = ((-0.34, -0.34), (0.34, 0.34))
_SQUARE = ((-0.36, -0.36), (0.36, -0.36), (0.36, 0.36), (-0.36, 0.36), (-0.36, -0.36))
_DOT = ((-0.05, 0.0), (0.05, 0.0))


CROSS = ((-0.34, -0.34), (0.34, 0.34), (np.nan, np.nan), (-0.34, 0.34), (0.34, -0.34))


def strokes(where: np.ndarray, shape) -> tuple[list, list]:
    """(x, y) of one line trace that draws `shape` in every marked cell; None parts the strokes."""
    offsets = np.array([*shape, (np.nan, np.nan)])
    points = np.argwhere(where)[:, None, ::-1] + offsets  # (n, stroke, xy)
    flat = np.where(np.isnan(points), None, points.round(2).astype(object)).reshape(-1, 2)
    return flat[:, 0].tolist(), flat[:, 1].tolist()


def _marks(where: np.ndarray, dark: np.ndarray, name: str, stroke, theme: str) -> list[dict]:
    """The same stroke in every marked cell: light strokes on dark cells, dark on light. In cell units, so it always fits."""
    p = frame.palette(theme)
    width = 4 if stroke is _DOT else 1.2
    return [
        {
            "type": "path",
            "path": _path(where & (dark == on_dark), stroke),
            "line": {"color": p.line if stroke is _SQUARE else colour, "width": width},
            "name": name,
        }
        for on_dark, colour in ((False, "#14171d"), (True, "#ffffff"))
        if (where & (dark == on_dark)).any()
    ]


def _path(where: np.ndarray, stroke) -> str:
    """SVG path, in cells, with one stroke in every marked cell; it begins with an M in each."""
    cells = np.argwhere(where)[:, None, ::-1] + np.array(stroke)  # (n, points of the stroke, xy)
    return "".join("M" + "L".join(f"{x:.2f},{y:.2f}" for x, y in points) for points in cells.tolist())


def _revision(values: np.ndarray, *told) -> str:
    """Another text for other cells: all that the traces and their colour bar are made of."""
    return hashlib.sha256(values.tobytes() + repr(told).encode()).hexdigest()[:16]


def _click_layer(figure, hover, size: float) -> None:
    L, H = len(hover), len(hover[0])
    figure.update_layout(clickmode="event+select", dragmode="pan")
    # arrays of objects are written as lists are, and not looked through item by item
    cells = np.indices((L, H)).reshape(2, -1).astype(object)
    kind = go.Scattergl if L * H > GL_ABOVE else go.Scatter
    invisible = {"marker": {"opacity": 0}}
    figure.add_trace(
        kind(
            x=cells[1],
            y=cells[0],
            mode="markers",
            marker={"symbol": "square", "size": max(4.0, size - 1), "opacity": 0, "color": "#808080"},
            selected=invisible,
            unselected=invisible,
            customdata=cells.T,
            text=np.array([text for line in hover for text in line], object),
            hovertemplate="%{text}<extra></extra>",
            name="heads",
        )
    )


def _hairlines(geometry: Geometry, theme: str) -> list[dict]:
    """Lines between KV groups, where there are some."""
    size = geometry.heads // geometry.kv_heads
    if geometry.kv_heads in (1, geometry.heads):
        return []
    line = {"color": frame.palette(theme).text, "width": 1}
    return [
        {
            "type": "line",
            "x0": x,
            "x1": x,
            "y0": -0.5,
            "y1": geometry.layers - 0.5,
            "line": line,
            "name": "KV group",
        }
        for x in (g * size - 0.5 for g in range(1, geometry.kv_heads))
    ]


def _outline(selected, theme: str) -> list[dict]:
    """Two frames, one in the text's and one in the page's colour: seen on any cell."""
    layer, head = selected
    p = frame.palette(theme)
    return [
        {
            "type": "rect",
            "x0": head - reach,
            "x1": head + reach,
            "y0": layer - reach,
            "y1": layer + reach,
            "line": {"color": colour, "width": width},
            "name": "selected",
        }
        for reach, colour, width in ((0.5, p.text, 2.5), (0.40, p.paper, 1))
    ]


def _axes(figure, L, H, rows, theme, top) -> None:
    heads, layers = frame.thin(H), frame.thin(L, 18)
    frame.axis_names(figure, "head", "layer", theme, x=(H / 2) / (H + STRIP), y=(L / 2) / rows)
    # set whole: update_xaxes takes ten times as long, and a slider waits for it
    figure.layout.xaxis = frame.axis(
        theme,
        grid=False,
        fixedrange=True,
        range=[-0.5, H - 0.5 + STRIP],
        tickvals=[*heads, H - 0.5 + GAP + THICK / 2],
        ticktext=[*map(str, heads), "mean"],
        tickangle=0,
    )
    figure.layout.yaxis = frame.axis(
        theme,
        grid=False,
        fixedrange=True,
        range=[-0.5, rows - 0.5],
        tickvals=[*layers, L - 0.5 + GAP + THICK / 2] if top else layers,
        ticktext=[*map(str, layers), "mean"] if top else [*map(str, layers)],
    )
