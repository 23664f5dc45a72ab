"""The map of a change, or of a difference between two: blue below 0, red above, neutral at 0."""

from __future__ import annotations

from html import escape

import numpy as np
import plotly.graph_objects as go

from headviz.charts import fmt, scales
from headviz.charts.cells import cell_map
from headviz.charts.scales import Limits
from headviz.charts.tables import kv_group, percentiles
from headviz.types import Geometry, head_name


def delta_map(
    values: np.ndarray,
    unit: str,
    low: np.ndarray | None = None,
    high: np.ndarray | None = None,
    *,
    geometry: Geometry,
    title: str,
    theme: str = "light",
    what: str = "change",
    notes: np.ndarray | None = None,
    hatched: np.ndarray | None = None,
    marked: str = "off",
    selected: tuple[int, int] | None = None,
    reason: str = "",
    key: tuple[str, ...] = (),
    limits: Limits | None = None,
    provenance: str = "",
) -> go.Figure:
    """Map of a change of every head, on colours that are symmetric about 0.

    values: (L, H) in `unit` ("" for a ratio), NaN where there is none, and then `reason` says why
    low, high: (L, H) ends of the 95% interval, for the hover; None where there is none
    what: the word before the value in the hover; notes: (L, H) of texts, the hover's last line, "" for none
    hatched: (L, H) bool, and what that means in `marked`; key: more to say above the map
    limits: ends of the colours, in `unit`; by default what `scales.limits` says for a change
    """
    values = np.asarray(values, np.float64)
    scale = scales.SCALES["change"]
    said = [*key]
    if hatched is not None:
        said.insert(0, f"╱ {marked}: {fmt.count(int(np.sum(hatched)), values.size)}")

    def text(i: int, j: int) -> str:
        group = "" if geometry.kv_heads == geometry.heads else f" · KV group {groups[j]}"
        lines = [f"<b>{head_name(i, j)}</b>{group}"]
        if np.isnan(values[i, j]):
            lines.append(f"{what} is {fmt.NOT_DEFINED}" + (f": {escape(reason)}" if reason else ""))
            return "<br>".join(lines)
        lines.append(f"{what} {_signed(values[i, j], unit)}")
        if low is not None and high is not None:
            known = not np.isnan(low[i, j])
            lines.append(
                f"95% [{fmt.number(low[i, j])}, {fmt.number(high[i, j])}]" if known else "no interval"
            )
        lines.append(f"percentile {place[i, j]:.0f}")
        if notes is not None and notes[i, j]:
            lines.append(escape(str(notes[i, j])))
        if hatched is not None and hatched[i, j]:
            lines.append(marked)
        return "<br>".join(lines)

    groups, place = kv_group(geometry), percentiles(values)
    hover = [[text(i, j) for j in range(geometry.heads)] for i in range(geometry.layers)]
    return cell_map(
        values,
        scale,
        hover,
        geometry=geometry,
        theme=theme,
        title=escape(title + (f", {unit}" if unit else "")),
        key=said,
        hatched=hatched,
        selected=selected,
        provenance=provenance,
        ends=limits or scales.limits(scale, values),
        mean_text=lambda x: _signed(x, unit),
    )


def _signed(value: float, unit: str) -> str:
    return fmt.NOT_DEFINED if np.isnan(value) else f"{fmt.signed(value)} {unit}".rstrip()
