"""One head: how it is picked (click, or its name typed), its scores in depth, and what it attends to on one text."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz.analysis.metrics import METRICS
from headviz.charts import fmt, pattern, spread, tables
from headviz.charts.scales import value_unit
from headviz.errors import BadInput
from headviz.readers import parse_head
from headviz.types import PatternRequest, ScoreRequest, ScoreTable, head_name
from headviz.ui.answers import answer
from headviz.ui.parts import chart, provenance, provenance_text
from headviz.ui.state import keyed, pick_head, put, starts_by_itself, theme, value

PAPERS = [name for name in METRICS if not METRICS[name].extra]


def chosen_head(table: ScoreTable) -> tuple[int, int]:
    """The head in depth: the one that was picked, or, until somebody picks one, the most inactive."""
    if value("head"):
        layer, head = parse_head(value("head"))
        if layer < table.geometry.layers and head < table.geometry.heads:
            return layer, head
        st.warning(
            f"{head_name(layer, head)} is not in this model: it has layers 0 to {table.geometry.layers - 1} and heads "
            f"0 to {table.geometry.heads - 1}. Shown instead: the most inactive head."
        )
    first = tables.ranking(table, METRICS[value("metric")]).iloc[0]
    return int(first["layer"]), int(first["head"])


def head_clicked() -> None:
    """A redrawn chart sends an empty selection: that is no deselection."""
    points = st.session_state.map["selection"]["points"]
    if points and "customdata" in points[0]:
        place = points[0]["customdata"]
        layer, head = (place["0"], place["1"]) if isinstance(place, dict) else place[:2]
        pick_head(head_name(int(layer), int(head)))


def head_typed() -> None:
    text = st.session_state.head_box.strip()
    try:
        pick_head(head_name(*parse_head(text)) if text else "")
    except BadInput as error:
        put("head_problem", str(error))


def head_details(table: ScoreTable, at: tuple[int, int], threshold: float) -> None:
    st.session_state.setdefault("head_box", value("head"))
    st.text_input(
        "Head",
        key="head_box",
        persist_state="session",
        placeholder="click a cell, or type L03.H07",
        on_change=head_typed,
        help="Layer and head, both counted from zero. Clicking a cell of the map does the same.",
    )
    if problem := st.session_state.get("head_problem"):
        st.warning(problem)
    row = METRICS[value("metric")]
    layer, head = at
    frame = tables.ranking(table, row, threshold).query("layer == @layer and head == @head").iloc[0]
    geometry = table.geometry
    size = geometry.heads // geometry.kv_heads
    first = head // size * size
    group = f"KV group {head // size}" + (f" (heads {first} to {first + size - 1})" if size > 1 else "")
    if np.isnan(frame["value"]):
        why = table.reasons.get(row.id, row.undefined)
        st.markdown(f"**{head_name(layer, head)}** has no {row.symbol} here: {why} {group}.")
        return
    verdict = "inactive" if frame["inactive"] else "active"
    st.markdown(
        f"**{head_name(layer, head)}** is **{verdict}** by {row.symbol}: "
        f"{fmt.with_unit(frame['value'], value_unit(row))}, percentile {fmt.number(frame['percentile'])}, "
        f"rank {frame['rank']} of {geometry.layers * geometry.heads} "
        f"(1 is the most inactive). Inactive in {fmt.percent(frame['inactive_share'])} of the inputs. {group}."
    )
    chart(
        spread.head_scores(
            table,
            METRICS,
            layer=layer,
            head=head,
            selected=row.id,
            metrics=PAPERS,
            theme=theme(),
            provenance=tables.caption(table.provenance, table),
        ),
        key="head_scores",
        name="head-scores",
    )
    chart(
        spread.head_inputs(
            table.per_input(row.id)[:, layer, head],
            row,
            threshold=threshold,
            documents=table.documents,
            theme=theme(),
            provenance=tables.caption(table.provenance, table),
        ),
        key="head_inputs",
        name="head-inputs",
    )


def look_inside(request: ScoreRequest, table: ScoreTable, at: tuple[int, int]) -> None:
    """On demand: what the chosen head attends to on one input."""
    name = head_name(*at)
    st.toggle(
        f"Look inside one text: what {name} attends to, token by token",
        help="Runs the model once on one input and keeps the head's whole attention pattern: where each token looks, "
        "how much of it goes to the first token, and how long the vectors are that it writes.",
        **keyed("inside"),
    )
    if not value("inside"):
        return
    st.selectbox(
        "Input",
        range(len(table.lengths)),
        format_func=lambda i: f"{i}: {table.documents[i]}, {table.lengths[i]} tokens",
        help="One of the inputs that were scored.",
        **keyed("input"),
    )
    asked = PatternRequest(
        model=request.model, data=request.data, input=value("input"), layer=at[0], head=at[1]
    )
    found = answer(
        asked,
        start=starts_by_itself(request),
        button=f"Look inside {name}",
        empty=(f"One run of the model on this input shows what {name} attends to."),
    )
    if found is None:
        return
    note = tables.caption(found.provenance, found)
    width = st.columns([1, 1])
    with width[0]:
        chart(
            pattern.attention_map(found, theme=theme(), provenance=note),
            key="attention_map",
            name=f"attention-{name}",
        )
    with width[1]:
        chart(
            pattern.attention_tracks(found, theme=theme(), provenance=note),
            key="attention_tracks",
            name=f"tracks-{name}",
        )
    provenance(f"{found.document} · {provenance_text(found)}")
