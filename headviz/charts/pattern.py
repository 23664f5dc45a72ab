"""One head on one text: the whole attention pattern, and what the head does token by token."""

from __future__ import annotations

from html import escape, unescape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import frame, scales
from headviz.charts.scales import Scale
from headviz.types import HeadPattern, head_name

MOST = 256  # cells along a side; more would be finer than the pixels
SPACINGS = ("sqrt", "log", "linear")
LOG_FLOOR = 1e-4


def attention_map(
    pattern: HeadPattern,
    *,
    spacing: str = "sqrt",
    pool: str = "max",
    most: int = MOST,
    theme: str = "light",
    provenance: str = "",
    width: int = frame.NARROW,
) -> go.Figure:
    """Weights of each query (down) on each key (across), 0 to 1, in the colours of the sink.

    spacing: "sqrt", "log" (from 10⁻⁴) or "linear" spacing of the colours; the hover gives the weight itself. Above `most`
    tokens, blocks of b × b weights become one cell, their largest ("max") or their mean over real pairs ("mean"), and the
    figure says so. Above the diagonal a key lies in the future: those cells are empty. width: px the page gives at the least.
    """
    weights, starts, block = pooled(pattern.attention, most, pool)
    drawn, low, high, at, texts = _spaced(weights, spacing)
    names = [_token_name(pattern.pieces, int(s), block) for s in starts]
    around = {"left": 64, "right": 14, "top": 88, "bottom": 48}
    figure = frame.start(theme, 540, **around, note=provenance, chars=frame.fitting(width))
    length = min(260, width - 64 - 30)
    bar = frame.colorbar(scales.SCALES["weight"], (0.0, 1.0), None, theme, ypad=20, length=length)
    figure.add_heatmap(
        z=drawn,
        x=names,
        y=names,
        zmin=low,
        zmax=high,
        customdata=weights.astype(np.float32),
        colorscale=scales.colorscale(scales.SCALES["weight"], theme),
        colorbar={**bar, "tickvals": at, "ticktext": texts},
        hovertemplate="query %{y}<br>key %{x}<br>weight %{customdata:.3~g}<extra></extra>",
        hoverongaps=False,
        name="attention",
    )
    frame.heading(figure, f"{head_name(pattern.layer, pattern.head)}: attention weight", theme, yshift=62)
    note = f"{len(pattern.pieces):,} tokens, {spacing} colours"
    if block > 1:
        note += f"; a cell is the {'largest' if pool == 'max' else 'mean'} of {block} × {block}"
    frame.label(figure, note, theme, name="key", yshift=2)
    _token_axes(figure, names, starts, theme)
    return figure


def _token_axes(figure, names: list[str], starts: np.ndarray, theme: str) -> None:
    """Token names as categories, so that the hover says them; only positions are written. A line along the diagonal."""
    ticks = frame.thin(len(names), 10)
    said = {"tickvals": [names[i] for i in ticks], "ticktext": [str(int(starts[i])) for i in ticks]}
    both = {**frame.axis(theme, grid=False), **said, "type": "category", "constrain": "domain"}
    figure.update_xaxes(both, constraintoward="left", scaleanchor="y")
    figure.update_yaxes(both, constraintoward="top", autorange="reversed")
    frame.axis_names(figure, "key position (token)", "query position (token)", theme, room=36)
    end = len(names) - 0.5
    line = {"color": frame.palette(theme).grid, "width": 1}
    figure.add_shape(
        type="path", path=f"M-0.5,-0.5L{end},{end}L-0.5,{end}Z", line=line, layer="below", name="causal"
    )


def pooled(attention: np.ndarray, most: int = MOST, pool: str = "max") -> tuple[np.ndarray, np.ndarray, int]:
    """(cells (S, S) with NaN above the diagonal, first token of each cell (S,), tokens a cell) of a (T, T) pattern."""
    T = len(attention)
    block = max(1, -(-T // most))
    S = -(-T // block)
    causal = np.tril(np.ones((T, T), bool))
    padded = np.full((S * block, S * block), np.nan, np.float32)
    padded[:T, :T] = np.where(causal, attention, np.nan)
    tiles = padded.reshape(S, block, S, block).swapaxes(1, 2).reshape(S, S, -1)  # (S, S, block²)
    known = ~np.isnan(tiles)
    if pool == "max":
        cells = np.where(known, tiles, -1).max(-1)
    else:
        cells = np.where(known, tiles, 0).sum(-1) / np.maximum(known.sum(-1), 1)
    return np.where(known.any(-1), cells, np.nan), np.arange(S) * block, block


def _spaced(weights: np.ndarray, spacing: str) -> tuple[np.ndarray, float, float, list[float], list[str]]:
    if spacing == "log":
        at = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
        return (
            np.log10(np.maximum(weights, LOG_FLOOR)),
            -4.0,
            0.0,
            [-4, -3, -2, -1, 0],
            ["≤0.0001", *(f"{x:g}" for x in at[1:])],
        )
    scale: Scale = scales.SCALES["weight" if spacing == "sqrt" else "share"]
    ends = (0.0, 1.0)
    drawn, low, high = scales.paint(scale, weights, ends)
    return drawn, low, high, *scales.ticks(scale, ends)


def _token_name(pieces, start: int, block: int) -> str:
    """`12 ‹·the›`, or for a block `12–15 ‹·the …›`: unique, and readable where the token is a space or a line break."""
    stop = min(start + block, len(pieces)) - 1
    where = f"{start}" if stop == start else f"{start}–{stop}"
    return f"{where} ‹{visible(pieces[start])}{' …' if stop > start else ''}›"


def plain_piece(piece: str) -> str:
    """`visible` for a place where markup is text: inside the backticks of Markdown, which it cannot end."""
    return unescape(visible(piece)).replace("`", "'")


def visible(piece: str) -> str:
    """A token's text on one line, spaces and breaks shown, markup harmless, at most 24 characters."""
    text = piece.replace(" ", "·").replace("\n", "↵").replace("\t", "⇥").replace("\r", "␍")
    return escape(text if len(text) <= 24 else text[:23] + "…")


TRACKS: tuple[tuple[str, str, str], ...] = (
    ("sink", "weight on the first token", ""),
    ("entropy", "entropy of the query", "nats"),
    ("output_norm", "head output norm", ""),
    ("value_norm", "value norm", ""),
)


def attention_tracks(
    pattern: HeadPattern, *, theme: str = "light", provenance: str = "", width: int = frame.NARROW
) -> go.Figure:
    """Four aligned lines over the tokens: weight on the first token and entropy per query, output norm, value norm.

    width: px the page gives at the least.
    """
    p = frame.palette(theme)
    T = len(pattern.pieces)
    chars = frame.fitting(width)
    around = {"left": 58, "right": 16, "top": 28, "bottom": 48}
    figure = frame.start(theme, 540, **around, note=provenance, chars=chars)  # as high as the map beside
    texts = [f"{t} ‹{visible(x)}›" for t, x in enumerate(pattern.pieces)]
    gap = 0.07  # for the words above each
    room = (1 - gap * (len(TRACKS) - 1)) / len(TRACKS)
    for k, (field, words, unit) in enumerate(TRACKS):
        n = "" if k == 0 else str(k + 1)
        top = 1 - k * (room + gap)
        up = [max(top - room, 0), top]
        figure.add_scatter(
            x=np.arange(T),
            y=getattr(pattern, field),
            mode="lines+markers" if T <= 80 else "lines",
            line={"color": p.accent, "width": 1.5},
            marker={"size": 4},
            text=texts,
            hovertemplate=f"%{{text}}<br>{words} %{{y:.3~g}}{' ' + unit if unit else ''}<extra></extra>",
            name=field,
            xaxis="x",
            yaxis=f"y{n}",
        )
        ends = {"range": [0, 1.02]} if field == "sink" else {"rangemode": "tozero"}
        figure.update_layout({f"yaxis{n}": frame.axis(theme, unit, domain=up, anchor="x", nticks=4, **ends)})
        frame.label(figure, words, theme, y=up[1], yshift=1, font={"size": 13, "color": p.text}, name=field)
    last = f"y{len(TRACKS)}"
    figure.update_layout(
        xaxis=frame.axis(theme, "token position", grid=False, anchor=last, range=[-0.5, T - 0.5]),
        hoversubplots="axis",
        hovermode="x",
    )
    return figure
