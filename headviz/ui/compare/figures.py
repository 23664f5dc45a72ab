"""The large figures of the compare page: map and movers of two models of one shape, profiles of others, the matrix of several."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis.metrics import METRICS
from headviz.charts import distances, tables
from headviz.charts.delta import delta_map
from headviz.charts.movers import movers_chart
from headviz.charts.scales import value_unit
from headviz.readers import parse_head
from headviz.types import head_name
from headviz.ui.compare import panels
from headviz.ui.compare.work import ANCESTRY, Work


def matrix(work: Work) -> None:
    """More than two models: every pair, before one pair is looked at."""
    if len(work.tables) < 3:
        return
    row = METRICS[ui.value("metric")]
    ui.chart(
        distances.distance_matrix(work.distances(row.id), row, theme=ui.theme(), width=700),
        key="matrix",
        name=f"headviz-distances-{row.id}",
        alt="Distances between all pairs of models",
    )


def main(work: Work) -> None:
    one = work.comparison(ui.value("metric"))
    if one.changes is None:
        st.info(one.reason, icon=":material/info:")
        panels.profiles(work)
        return
    left, right = st.columns([5, 4], gap="medium")
    with left:
        change_map(work)
    with right:
        movers(work)
    st.caption(ANCESTRY)


def change_map(work: Work) -> None:
    row = METRICS[ui.value("metric")]
    one = work.comparison(row.id)
    a, b = work.pair
    ui.chart(
        delta_map(
            one.changes.change,
            value_unit(row),
            one.changes.low,
            one.changes.high,
            geometry=a.geometry,
            title=f"Change of {row.symbol}",
            theme=ui.theme(),
            selected=picked(work),
            reason=a.reasons.get(row.id) or b.reasons.get(row.id) or row.undefined,
            provenance=f"{work.other} · less {work.first} · {tables.caption(b.provenance, b)}",
        ),
        key="change_map",
        on_select=lambda: clicked("change_map"),
        name=f"headviz-change-{row.id}",
        alt=f"Map of the change of {row.name} from {work.first} to {work.other}",
    )


def movers(work: Work) -> None:
    row = METRICS[ui.value("metric")]
    one = work.comparison(row.id)
    ui.chart(
        movers_chart(one.changes, row, theme=ui.theme(), selected=picked(work), width=380),
        key="movers",
        on_select=lambda: clicked("movers"),
        name=f"headviz-movers-{row.id}",
        alt="The heads that changed most",
    )
    at = picked(work)
    if at is not None:
        before, after = (table.mean(row.id)[at] for table in work.pair)
        st.caption(
            f"Picked on every page: **{head_name(*at)}**, {before:.4g} in {work.first}, {after:.4g} in {work.other}."
        )
    else:
        st.caption("Click a head, on the map or on its bar, to pick it on every page.")
    if one.changes.note:
        st.caption(one.changes.note)


def clicked(key: str) -> None:
    """A redrawn chart sends an empty selection: that is no deselection."""
    points = st.session_state[key]["selection"]["points"]
    if points and "customdata" in points[0]:
        place = points[0]["customdata"]
        layer, head = (place["0"], place["1"]) if isinstance(place, dict) else place[:2]
        ui.pick_head(head_name(int(layer), int(head)))


def picked(work: Work) -> tuple[int, int] | None:
    """The head that is picked on every page, where these models have it."""
    if not ui.value("head"):
        return None
    layer, head = parse_head(ui.value("head"))
    shape = work.pair[0].geometry
    return (layer, head) if layer < shape.layers and head < shape.heads else None
