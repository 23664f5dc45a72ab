"""The map of a score, and the map of how often each head is inactive by it."""

from __future__ import annotations

from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, scales
from headviz.charts.cells import cell_map, map_size
from headviz.charts.scales import Limits, Row
from headviz.charts.tables import kv_group, percentiles, ranks
from headviz.types import Geometry, head_name

__all__ = ["head_map", "inactive_share_map", "map_size"]


def head_map(
    values: np.ndarray,
    row: Row,
    *,
    geometry: Geometry,
    theme: str = "light",
    inactive: np.ndarray | None = None,
    selected: tuple[int, int] | None = None,
    share: np.ndarray | None = None,
    reason: str = "",
    provenance: str = "",
    limits: Limits | None = None,
    marked: str = "inactive",
) -> go.Figure:
    """Map of one score.

    values: (L, H) in the score's unit, NaN where not defined, and then `reason` says why
    inactive: (L, H) bool, drawn as hatching; share: (L, H) share of inputs inactive, for the hover
    selected: (layer, head), outlined
    limits: ends of the colours in the score's unit; by default what `scales.limits` says for these values
    marked: what the hatching means, for the key; what is `inactive` the hover says as well
    """
    scale = scales.scale_for(row)
    hover = _hover(values, row, geometry, inactive, share, reason, marked)
    key = (
        [] if inactive is None else [f"╱ {marked}: {fmt.count(int(np.sum(inactive)), int(np.size(values)))}"]
    )
    return cell_map(
        values,
        scale,
        hover,
        geometry=geometry,
        theme=theme,
        title=escape(scales.titled(row)),
        key=key,
        hatched=inactive,
        selected=selected,
        provenance=provenance,
        ends=limits or scales.limits(scale, values),
        mean_text=lambda x: fmt.with_unit(x, scales.value_unit(row)),
    )


def inactive_share_map(
    share: np.ndarray,
    row: Row,
    *,
    geometry: Geometry,
    theme: str = "light",
    inputs: int = 0,
    selected: tuple[int, int] | None = None,
    provenance: str = "",
    title: str = "",
) -> go.Figure:
    """Map of the share of inputs in which each head is inactive: (L, H) in 0..1, NaN where never defined.

    Always is hatched, sometimes has a dot, never is bare: told apart without colour.
    """
    share = np.asarray(share, np.float64)
    always, never = share == 1, share == 0
    some = (share > 0) & (share < 1)
    names = np.where(always, "always", np.where(never, "never", "sometimes"))
    of = f" of {inputs:,} inputs" if inputs else " of the inputs"
    group = kv_group(geometry)

    def text(i: int, j: int) -> str:
        said = f"inactive in {fmt.percent(share[i, j])}{of}<br>{names[i, j]}"
        known = not np.isnan(share[i, j])
        return f"<b>{head_name(i, j)}</b>{_group_text(geometry, group[j])}<br>" + (
            said if known else fmt.NOT_DEFINED
        )

    hover = [[text(i, j) for j in range(geometry.heads)] for i in range(geometry.layers)]
    return cell_map(
        share,
        scales.SCALES["share"],
        hover,
        geometry=geometry,
        theme=theme,
        title=escape(title) or f"Inactive by {escape(row.symbol)}, share of inputs",
        key=[
            f"╱ always: {int(always.sum()):,}",
            f"▪ sometimes: {int(some.sum()):,}",
            f"never: {int(never.sum()):,}",
        ],
        hatched=always,
        dotted=some,
        selected=selected,
        provenance=provenance,
        ends=(0.0, 1.0),
        mean_text=fmt.percent,
    )


def _hover(values, row, geometry, inactive, share, reason, marked) -> list[list[str]]:
    """(L, H) texts: head, KV group, value, percentile and rank, then what is known beside."""
    place, rank = percentiles(values), ranks(values, row)
    known = int((~np.isnan(values)).sum())
    group = kv_group(geometry)
    tied = " (same for the whole KV group)" if row.shares_kv and geometry.kv_heads < geometry.heads else ""
    texts = []
    for i in range(geometry.layers):
        line = []
        for j in range(geometry.heads):
            parts = [f"<b>{head_name(i, j)}</b>{_group_text(geometry, group[j])}"]
            if np.isnan(values[i, j]):
                parts.append(f"{row.symbol} is {fmt.NOT_DEFINED}" + (f": {escape(reason)}" if reason else ""))
            else:
                parts.append(f"{row.symbol} {fmt.with_unit(values[i, j], scales.value_unit(row))}{tied}")
                parts.append(f"percentile {place[i, j]:.0f} · rank {rank[i, j]:.0f} of {known:,}")
            if marked == "inactive" and inactive is not None and inactive[i, j]:
                parts.append("inactive at this threshold")
            if share is not None and not np.isnan(share[i, j]):
                parts.append(f"inactive in {fmt.percent(share[i, j])} of inputs")
            line.append("<br>".join(parts))
        texts.append(line)
    return texts


def _group_text(geometry: Geometry, group: int) -> str:
    return "" if geometry.kv_heads == geometry.heads else f" · KV group {group}"
