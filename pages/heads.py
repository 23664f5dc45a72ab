"""Heads: which heads are inactive by this score? Map, threshold, distribution, one head in depth."""

import math

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis.metrics import METRICS, Metric, inactive
from headviz.charts import heatmap, multiples, spread, tables
from headviz.types import ScoreRequest, ScoreTable
from headviz.ui.one_head import chosen_head, head_clicked, head_details, look_inside
from headviz.ui.threshold import controls, sentence, settle, threshold_now, why_this_share
from headviz.view import PANELS

PANEL_TITLES = dict(
    zip(
        PANELS,
        ["Distribution", "All twelve scores", "Layers", "Ranking", "What was fed", "Take it away"],
        strict=True,
    )
)


def draw_map(table: ScoreTable, off: np.ndarray, threshold: float, at: tuple[int, int]) -> None:
    row = METRICS[ui.value("metric")]
    note = tables.caption(table.provenance, table)
    if ui.value("shows") == "score":
        figure = heatmap.head_map(
            table.mean(row.id),
            row,
            geometry=table.geometry,
            theme=ui.theme(),
            inactive=off,
            selected=at,
            share=tables.inactive_share(table, row, threshold),
            reason=table.reasons.get(row.id, ""),
            provenance=note,
        )
    else:
        figure = heatmap.inactive_share_map(
            tables.inactive_share(table, row, threshold),
            row,
            geometry=table.geometry,
            theme=ui.theme(),
            inputs=len(table.lengths),
            selected=at,
            provenance=note,
        )
    ui.chart(
        figure,
        key="map",
        on_select=head_clicked,
        name=f"headviz-{row.id}",
        alt=f"Map of {row.name}, layers by heads, inactive heads hatched",
    )


def panel(request: ScoreRequest, table: ScoreTable, threshold: float | None) -> None:
    st.segmented_control(
        "Below the map",
        PANELS,
        format_func=PANEL_TITLES.get,
        required=True,
        label_visibility="collapsed",
        help="What to show below the map.",
        **ui.keyed("panel"),
    )
    row, note = METRICS[ui.value("metric")], tables.caption(table.provenance, table)
    shown = ui.value("panel")
    if shown == "distribution":
        ui.chart(
            spread.distribution(
                table.mean(row.id),
                table.per_input(row.id),
                row,
                threshold=threshold,
                theme=ui.theme(),
                provenance=note,
                width=700,
            ),
            key="distribution",
            name=f"distribution-{row.id}",
        )
    elif shown == "scores":
        all_scores(table)
    elif shown == "layers":
        ui.chart(
            spread.layer_profile(
                table.mean(row.id), row, threshold=threshold, theme=ui.theme(), provenance=note, width=700
            ),
            key="layers",
            name=f"layers-{row.id}",
        )
    elif shown == "ranking":
        ranking(table, threshold)
    elif shown == "inputs":
        what_was_fed(table)
    else:
        ui.take_away(request, table, row, threshold)


def score_clicked() -> None:
    points = st.session_state.all_scores["selection"]["points"]
    if points and "customdata" in points[0]:
        place = points[0]["customdata"]
        ui.put("metric", place["0"] if isinstance(place, dict) else place[0])


def all_scores(table: ScoreTable) -> None:
    st.caption(
        "Click a map to make it the large one. Each has the colours of its own quantity; LN scores are relative "
        "to the mean of their layer."
    )
    ui.chart(
        multiples.small_multiples(
            {name: table.mean(name) for name in table.metrics},
            METRICS,
            selected=ui.value("metric"),
            theme=ui.theme(),
            provenance=tables.caption(table.provenance, table),
        ),
        key="all_scores",
        on_select=score_clicked,
        name="headviz-all-scores",
    )


def ranking(table: ScoreTable, threshold: float | None) -> None:
    row = METRICS[ui.value("metric")]
    frame = tables.ranking(table, row, threshold)
    st.dataframe(
        frame[["rank", *(name for name in frame.columns if name not in ("rank", "layer", "head"))]],
        hide_index=True,
        height=420,
        column_config={
            "rank": st.column_config.NumberColumn("rank", help="1 is the most inactive head by this score."),
            "name": st.column_config.TextColumn("head"),
            "value": st.column_config.NumberColumn(row.symbol, format="%.4g", help=row.help),
            "percentile": st.column_config.NumberColumn(
                "percentile",
                format="%.1f",
                help="Share of all heads with a smaller value, ties counted half.",
            ),
            "inactive": st.column_config.CheckboxColumn("inactive on average"),
            "inactive_share": st.column_config.ProgressColumn(
                "inputs in which inactive", min_value=0, max_value=1, format="percent"
            ),
            "kv_group": st.column_config.NumberColumn(
                "KV group", help="Query heads that share one key and value head (grouped-query attention)."
            ),
        },
    )
    if row.shares_kv and table.geometry.kv_heads < table.geometry.heads:
        st.caption(
            "Heads of one KV group share their value vectors, so this score ties them by construction."
        )


def what_was_fed(table: ScoreTable) -> None:
    """The tokens as fed, so that nobody has to guess about BOS tokens and cuts."""
    count = int(table.first_is_bos.sum())
    st.markdown(
        f"{len(table.lengths)} inputs, {int(table.lengths.sum()):,} tokens. "
        + (f"A BOS token stands first in {count} of them." if count else "No BOS token stands first.")
    )
    if not ui.value("inside"):  # else it is chosen above
        st.selectbox(
            "Show input",
            range(len(table.lengths)),
            format_func=lambda i: f"{i}: {table.documents[i]}, {table.lengths[i]} tokens",
            help="The text as the model saw it, token by token.",
            **ui.keyed("input"),
        )
    shown = ui.value("input")
    ids = table.tokens[shown, : table.lengths[shown]]
    ui.token_strip([table.pieces[str(int(i))] for i in ids])


@st.fragment
def body(request: ScoreRequest, table: ScoreTable) -> None:
    ui.sync_url("heads")
    settle(table)
    threshold = threshold_now(table)
    off = inactive(table.mean(ui.value("metric")), ui.value("metric"), threshold)
    ui.say(sentence(table, off, threshold))
    if why := why_this_share():
        st.caption(why)
    for note in table.provenance.notes:
        st.caption(note)
    controls(table)
    at = chosen_head(table)
    left, right = st.columns([5, 3], gap="medium")
    with left:
        draw_map(table, off, threshold, at)
    with right:
        head_details(table, at, threshold)
    look_inside(request, table, at)
    panel(request, table, None if math.isnan(threshold) else threshold)
    ui.provenance(ui.provenance_text(table))


def before(table: ScoreTable, row: Metric) -> None:
    """What was shown last, dimmed and without controls, while something else is computed."""
    st.caption("Below, dimmed: what was shown before.")
    with st.container(key="stale"):
        figure = heatmap.head_map(
            table.mean(row.id),
            row,
            geometry=table.geometry,
            theme=ui.theme(),
            reason=table.reasons.get(row.id, ""),
            provenance=tables.caption(table.provenance, table),
        )
        ui.chart(figure, key="map_before", name=f"headviz-{row.id}")


ui.page_head("Heads", "Which heads are inactive by this score?", "heads")
with ui.sentences():
    request = ui.score_request()
    table = ui.answer(
        request,
        start=ui.starts_by_itself(request),
        button="Score every head",
        empty="This model has not been scored on this data yet. Scoring loads the model in the background and runs it "
        f"over {request.data.inputs} inputs of at most {request.data.tokens} tokens; you can leave the page meanwhile.",
    )
    if table is not None:
        st.session_state.last_heads = table
        body(request, table)
    elif "last_heads" in st.session_state:
        before(st.session_state.last_heads, METRICS[ui.value("metric")])
