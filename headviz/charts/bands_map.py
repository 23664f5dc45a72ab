"""The map of attention on the first token, with the class of every head, its heads by index or by ALiBi slope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from headviz.charts import classes, fmt, frame, scales
from headviz.charts.cells import GL_ABOVE, cell_map, cell_size
from headviz.types import Geometry


def bands_map(
    mass: np.ndarray,
    named: np.ndarray,
    hover: Sequence[Sequence[str]],
    counts: Mapping[str, int],
    *,
    geometry: Geometry,
    order: Sequence[int],
    theme: str = "light",
    selected: tuple[int, int] | None = None,
    provenance: str = "",
    title: str = "Attention on the first token",
) -> go.Figure:
    """mass: (L, H) 0..1; named: (L, H) classes; hover: (L, H) texts; all in the model's own order of heads.

    order: head indices from left to right. A click gives customdata [layer, head], whatever the order.
    """
    order = list(order)
    sorted_by_slope = order != list(range(geometry.heads))
    # heads of one KV group need not be neighbours in another order
    shape = replace(geometry, kv_heads=geometry.heads) if sorted_by_slope else geometry
    scale = scales.SCALES["sink"]
    figure = cell_map(
        np.asarray(mass)[:, order],
        scale,
        [[line[head] for head in order] for line in hover],
        geometry=shape,
        theme=theme,
        title=title,
        key=classes.key(counts, theme),
        hatched=None,
        selected=None if selected is None else (selected[0], order.index(selected[1])),
        provenance=provenance,
        ends=(0.0, 1.0),
        mean_text=fmt.number,
    )
    figure.layout.datarevision = None  # it would not tell of the marks
    _class_marks(figure, np.asarray(named)[:, order], theme)
    if sorted_by_slope:
        _rename(figure, order)
    return figure


def _class_marks(figure: go.Figure, named: np.ndarray, theme: str) -> None:
    """A small mark in every cell: the shape and the colour of its class, with a rim that any cell shows."""
    L, H = named.shape
    size = max(3.0, min(8.0, 0.42 * min(cell_size(L, H))))
    kind = go.Scattergl if L * H > GL_ABOVE else go.Scatter
    for name in scales.CLASSES:
        layer, head = np.nonzero(named == name)
        if not layer.size:
            continue
        figure.add_trace(
            kind(
                x=head.tolist(),
                y=layer.tolist(),
                mode="markers",
                marker={
                    "symbol": classes.symbol(name),
                    "size": size * (0.6 if name == "healthy" else 1.0),
                    "color": classes.colour(name, theme),
                    "line": {
                        "width": 0.5 if name == "healthy" else 1.0,
                        "color": frame.palette(theme).paper,
                    },
                },
                hoverinfo="skip",
                name=name,
            )
        )


def _rename(figure: go.Figure, order: list[int]) -> None:
    """Columns are places in the order of slopes: what names a head gets the head's own index."""
    for trace in figure.data:
        if trace.name == "heads":
            trace.customdata = [[layer, order[place]] for layer, place in trace.customdata]
        if trace.name == "head means":
            rest = [text.split("</b>", 1)[1] for text in np.ravel(trace.text)]
            trace.text = [[f"<b>head {head}</b>{said}" for head, said in zip(order, rest, strict=True)]]
    axis = figure.layout.xaxis
    axis.ticktext = [
        str(order[int(at)]) if at < len(order) - 0.5 else text
        for at, text in zip(axis.tickvals, axis.ticktext, strict=True)
    ]
    for label in figure.layout.annotations:
        if label.name == "x title":
            label.text = "head, from the steepest slope to the shallowest"
