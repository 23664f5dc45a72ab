"""How far scores agree: at every budget beside chance, and all scores against all."""

from __future__ import annotations

from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.analysis.agreement import Agreement, Matrices, Scored
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt, frame, scales

#: what is drawn → (axis title, what it counts)
MEASURES: dict[str, tuple[str, str]] = {
    "overlap": ("heads in common", "heads that both scores take"),
    "jaccard": ("Jaccard", "heads in both, of heads in either"),
    "precision": ("precision", "share of one score's heads that the other takes too"),
}


def agreement_curve(
    curve: Agreement,
    a: Scored,
    b: Scored,
    *,
    measure: str = "jaccard",
    count: int | None = None,
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """One measure over k, the heads that each score may take, beside what a random set of k heads gives.

    Grey: the exact mean over random sets, and the middle 95% of them; count: the budget on the page, a dotted line
    """
    p = frame.palette(theme)
    title = MEASURES[measure][0]
    figure = frame.start(theme, 380, left=62, right=16, top=40, bottom=46, note=provenance)
    k = curve.k.astype(np.float64)
    low, high = (_from_overlap(edge, k, measure) for edge in (curve.chance_low, curve.chance_high))
    for name, values, style in (
        ("95% of random sets", low, {"width": 0}),
        ("", high, {"width": 0}),
    ):
        figure.add_scatter(
            x=k, y=values, mode="lines", line={**style, "color": p.null}, hoverinfo="skip", name=name or "95% of random sets",
            showlegend=not name, fill=None if name else "tonexty", fillcolor=p.shade,
        )  # fmt: skip
    chance, found = getattr(curve, f"chance_{measure}"), getattr(curve, measure)
    figure.add_scatter(
        x=k, y=chance, mode="lines", line={"color": p.null, "width": 1.5, "dash": "dash"}, name="by chance",
        customdata=np.stack([low, high], -1),
        hovertemplate="%{x} random heads: %{y:.3~g}, 95% [%{customdata[0]:.3~g}, %{customdata[1]:.3~g}]<extra></extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=k, y=found, mode="lines", line={"color": p.accent, "width": 2},
        name=escape(f"{a.row.symbol} and {b.row.symbol}"),
        hovertemplate=f"%{{x}} heads each: {title} %{{y:.3~g}}<extra></extra>",
    )  # fmt: skip
    figure.layout.xaxis = frame.axis(
        theme, "heads that each score may take", range=[0, float(k[-1])], rangemode="tozero"
    )
    figure.layout.yaxis = frame.axis(
        theme, title, rangemode="tozero", **({} if measure == "overlap" else {"range": [0, 1.02]})
    )
    if count:
        figure.add_shape(
            type="line", x0=count, x1=count, yref="y domain", y0=0, y1=1, name="now",
            line={"color": p.muted, "width": 1, "dash": "dot"},
        )  # fmt: skip
    figure.layout.showlegend = True
    figure.layout.legend = {
        "orientation": "h",
        "x": 0,
        "y": 1.0,
        "yanchor": "bottom",
        "bgcolor": "rgba(0,0,0,0)",
    }
    return figure


def _from_overlap(overlap: np.ndarray, k: np.ndarray, measure: str) -> np.ndarray:
    if measure == "overlap":
        return overlap.astype(np.float64)
    return overlap / (2 * k - overlap) if measure == "jaccard" else overlap / k


def score_matrix(
    found: Matrices,
    what: str,
    *,
    chosen: tuple[str, str] = ("", ""),
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """All scores against all, `what` = "rho" or "jaccard", in clustered order. Squares carry customdata [row, column].

    chosen: the two scores on the page, framed in both triangles
    """
    order = list(found.order)
    ids = [found.metrics[i] for i in order]
    names = [escape(METRICS[one].symbol) for one in ids]
    values = getattr(found, what)[np.ix_(order, order)]
    rho = what == "rho"
    scale = scales.SCALES["change" if rho else "share"]
    ends = (-1.0, 1.0) if rho else (0.0, 1.0)
    drawn, low, high = scales.paint(scale, values, ends)
    figure = frame.start(
        theme, 430, left=92, right=10, top=86, bottom=84, note=provenance, chars=frame.fitting(330)
    )
    figure.add_heatmap(
        z=drawn, zmin=low, zmax=high, colorscale=scales.colorscale(scale, theme), xgap=1, ygap=1, hoverinfo="skip", name=what,
        colorbar=frame.colorbar(scale, ends, None, theme, ypad=20),
    )  # fmt: skip
    _numbers(figure, values, scales.is_dark(scale, theme, drawn, low, high))
    _squares(figure, found, values, order, ids, rho)
    _frames(figure, ids, chosen, theme)
    title = "Rank correlation" if rho else f"Jaccard of the {found.count} most inactive heads"
    frame.heading(figure, title, theme, yshift=62)
    ticks = {"tickvals": list(range(len(ids))), "fixedrange": True, "grid": False}
    small = {"tickfont": {"size": 11, "color": frame.palette(theme).muted}}
    ends_ = [-0.5, len(ids) - 0.5]
    figure.layout.xaxis = frame.axis(theme, ticktext=names, tickangle=-60, range=ends_, **ticks) | small
    figure.layout.yaxis = frame.axis(theme, ticktext=names, range=ends_[::-1], **ticks) | small
    return figure


def _numbers(figure: go.Figure, values: np.ndarray, dark: np.ndarray) -> None:
    for on_dark, colour in ((False, "#14171d"), (True, "#ffffff")):
        where = np.argwhere((dark == on_dark) & ~np.isnan(values))
        figure.add_scatter(
            x=where[:, 1], y=where[:, 0], mode="text", hoverinfo="skip", name="numbers",
            text=[_short(values[i, j]) for i, j in where], textfont={"size": 10, "color": colour},
        )  # fmt: skip


def _short(value: float) -> str:
    """`.62`, `−.31`, `1`: two digits are what a cell has room for."""
    text = f"{abs(value):.2f}"
    text = "1" if text == "1.00" else text[1:]
    return f"−{text}" if value < -0.005 else text


def _squares(figure: go.Figure, found: Matrices, values: np.ndarray, order, ids, rho: bool) -> None:
    """What is clicked on: a heatmap's own cells select nothing in Streamlit."""
    K = len(ids)
    rows, columns = (axis.ravel() for axis in np.indices((K, K)))
    texts = []
    for i, j in zip(rows, columns):
        one, other = METRICS[ids[i]].symbol, METRICS[ids[j]].symbol
        left_out = int(found.left_out[order[i], order[j]])
        said = f"<b>{escape(one)} and {escape(other)}</b><br>"
        said += f"{'rank correlation' if rho else 'Jaccard'} {fmt.number(values[i, j])}"
        said += f"<br>{left_out} heads left out: a value is not defined" if left_out else ""
        texts.append(said + ("<br>click: compare these two" if i != j else ""))
    invisible = {"marker": {"opacity": 0}}
    figure.add_scatter(
        x=columns, y=rows, mode="markers", marker={"symbol": "square", "size": 20, "opacity": 0},
        selected=invisible, unselected=invisible, customdata=[[ids[i], ids[j]] for i, j in zip(rows, columns)],
        text=texts, hovertemplate="%{text}<extra></extra>", name="pairs",
    )  # fmt: skip


def _frames(figure: go.Figure, ids: list[str], chosen: tuple[str, str], theme: str) -> None:
    if chosen[0] not in ids or chosen[1] not in ids:
        return
    i, j = ids.index(chosen[0]), ids.index(chosen[1])
    for x, y in {(i, j), (j, i)}:
        figure.add_shape(
            type="rect", x0=x - 0.5, x1=x + 0.5, y0=y - 0.5, y1=y + 0.5, name="chosen",
            line={"color": frame.palette(theme).text, "width": 2.5},
        )  # fmt: skip
