"""Mean loss against position, with heads off and without: what a long input loses that a short one does not show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, frame
from headviz.charts.curve import REPLACEMENTS
from headviz.types import TextLosses

BINS = 22  # at most; the first ones are single positions
_NAMES = {"zero": "replaced by zero", "mean": "replaced by the mean"}
_RANDOM = {"uniform": "random heads", "layer_matched": "random, layer by layer"}


@dataclass(frozen=True)
class Bins:
    """Log-spaced stretches of positions. Position t, from 1, has t tokens before it.

    first, last: (B,) positions of each bin, both included; inputs: (B,) how many inputs reach it; tokens: (B,) how many
    losses it averages; weights: (T−1,) how many inputs reach each position
    """

    first: np.ndarray
    last: np.ndarray
    inputs: np.ndarray
    tokens: np.ndarray
    weights: np.ndarray

    @property
    def middle(self) -> np.ndarray:
        """(B,) where a bin is drawn: the middle on a log axis."""
        return np.sqrt(self.first * self.last)

    def mean(self, by_position: np.ndarray) -> np.ndarray:
        """(B,) mean loss of the tokens in each bin, from (T−1,) means over inputs."""
        total = np.nan_to_num(by_position) * self.weights
        return np.add.reduceat(total, self.first - 1) / self.tokens


def bins_of(losses: TextLosses, most: int = BINS) -> Bins:
    """The bins of a measurement: every one holds a position that some input reaches."""
    length = int(losses.predicted.max())  # the last position
    weights = (losses.predicted[:, None] > np.arange(len(losses.by_position))).sum(0)
    first = np.unique(np.round(np.geomspace(1, length + 1, most + 1)).astype(int))[:-1]
    last = np.append(first[1:] - 1, length)
    tokens = np.array([weights[a - 1 : b].sum() for a, b in zip(first, last, strict=True)])
    return Bins(first, last, weights[first - 1], tokens, weights)


def loss_by_position(
    before: TextLosses,
    after: Mapping[str, TextLosses],
    random: Mapping[str, Sequence[TextLosses]] | None = None,
    *,
    theme: str = "light",
    provenance: str = "",
) -> go.Figure:
    """Above the mean loss in nats, below its change against the model as it is; both on the same inputs.

    after: `zero`, `mean` or both; random: draws of `uniform` and `layer_matched`, in grey: range and mean over draws.
    Positions run on a log axis, and neighbours are averaged in bins. Only means over inputs are kept for a position, so
    there is no interval; the hover says how many inputs a bin stands on.
    """
    p = frame.palette(theme)
    bins = bins_of(before)
    base = bins.mean(before.by_position)
    figure = frame.start(theme, 470, left=62, right=16, top=58, bottom=46, note=provenance)
    for kind, several in (random or {}).items():
        if several:
            means = np.stack([bins.mean(one.by_position) for one in several])  # (draws, B)
            _band(figure, bins, means, kind, p, "y")
            _band(figure, bins, means - base, kind, p, "y2")
    _line(figure, bins, base, "as it is", p.text, "circle", "y")
    _line(figure, bins, np.zeros_like(base), "as it is", p.text, "circle", "y2", change=True)
    for replace, (light, dark, symbol) in REPLACEMENTS.items():
        if replace in after:
            colour = dark if theme == "dark" else light
            mean = bins.mean(after[replace].by_position)
            _line(figure, bins, mean, _NAMES[replace], colour, symbol, "y")
            _line(figure, bins, mean - base, _NAMES[replace], colour, symbol, "y2", change=True)
    _axes(figure, bins, theme)
    return figure


def _axes(figure: go.Figure, bins: Bins, theme: str) -> None:
    p = frame.palette(theme)
    most = int(bins.last[-1])
    at = [10**k * m for k in range(7) for m in (1, 2, 5) if 10**k * m <= most]
    figure.update_layout(
        xaxis=frame.axis(theme, "position: tokens that stand before it")
        | {"type": "log", "range": [-0.05, float(np.log10(most)) + 0.05], "anchor": "y2"}
        | {"tickmode": "array", "tickvals": at, "ticktext": [f"{x:,}" for x in at]},
        yaxis=frame.axis(theme, "loss, nats") | {"domain": [0.47, 1]},
        yaxis2=frame.axis(theme, "change, nats", zeroline=True, zerolinecolor=p.line) | {"domain": [0, 0.37]},
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "bgcolor": "rgba(0,0,0,0)"},
    )


def _line(
    figure: go.Figure,
    bins: Bins,
    values: np.ndarray,
    name: str,
    colour: str,
    symbol: str,
    axis: str,
    *,
    change: bool = False,
) -> None:
    shown = fmt.signed if change else fmt.number
    figure.add_scatter(
        x=bins.middle.tolist(),
        y=values.tolist(),
        yaxis=axis,
        mode="lines+markers",
        line={"color": colour, "width": 2},
        marker={"color": colour, "symbol": symbol, "size": 6},
        text=[f"{name}: {shown(x)} nats<br>{place}" for x, place in zip(values, _places(bins), strict=True)],
        hovertemplate="%{text}<extra></extra>",
        name=name,
        legendgroup=name,
        showlegend=axis == "y",
    )


def _band(figure: go.Figure, bins: Bins, means: np.ndarray, kind: str, p: frame.Palette, axis: str) -> None:
    """Range over draws (shaded for `uniform`, dotted edges for `layer_matched`) and their mean; means (draws, B)."""
    name = f"{_RANDOM[kind]} ({len(means)} draw{'s' if len(means) > 1 else ''})"
    uniform = kind == "uniform"
    group = {"legendgroup": name, "yaxis": axis, "x": bins.middle.tolist()}
    edge = {"color": p.null, "width": 0 if uniform else 1, "dash": "dot"}
    low, mean, high = means.min(0), means.mean(0), means.max(0)
    figure.add_scatter(y=low.tolist(), mode="lines", line=edge, hoverinfo="skip", showlegend=False, **group)
    fill = {"fill": "tonexty", "fillcolor": p.shade} if uniform else {}
    figure.add_scatter(
        y=high.tolist(), mode="lines", line=edge, hoverinfo="skip", showlegend=False, **fill, **group
    )
    shown = fmt.number if axis == "y" else fmt.signed
    figure.add_scatter(
        y=mean.tolist(),
        mode="lines",
        line={"color": p.null, "width": 2, "dash": "solid" if uniform else "dot"},
        text=[
            f"{name}: {shown(m)} nats, from {shown(a)} to {shown(b)}<br>{place}"
            for a, m, b, place in zip(low, mean, high, _places(bins), strict=True)
        ],
        hovertemplate="%{text}<extra></extra>",
        name=name,
        showlegend=axis == "y",
        **group,
    )


def _places(bins: Bins) -> list[str]:
    """What a bin stands on: `positions 33 to 45, 16 inputs, 208 tokens`."""
    rows = zip(bins.first, bins.last, bins.inputs, bins.tokens, strict=True)
    return [
        f"{f'position {a:,}' if a == b else f'positions {a:,} to {b:,}'}, {n:,} input{'s' if n > 1 else ''}, {t:,} "
        f"token{'s' if t > 1 else ''}"
        for a, b, n, t in rows
    ]
