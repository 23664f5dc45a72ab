"""Heads: which heads are inactive by this score? Map, threshold, distribution, one head in depth."""

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis.metrics import METRICS, inactive, threshold_at
from headviz.charts import fmt, heatmap, multiples, pattern, spread, tables
from headviz.charts.scales import value_unit
from headviz.errors import BadInput
from headviz.types import PatternRequest, ScoreRequest, ScoreTable, head_name
from headviz.view import PANELS, parse_head

PANEL_TITLES = dict(
    zip(
        PANELS,
        ["Distribution", "All twelve scores", "Layers", "Ranking", "What was fed", "Take it away"],
        strict=True,
    )
)
PAPERS = [name for name in METRICS if not METRICS[name].extra]
RULES = {"share": "Share called inactive", "value": "Value of the score"}
SHOWS = {"score": "The score", "inactive": "How often inactive"}


# ----------------------------------------------------------------------------------------------- threshold


def threshold_bounds(table: ScoreTable) -> tuple[float, float]:
    """Slider ends for a threshold on the chosen score: the range of its per-input values."""
    known = table.per_input(ui.value("metric"))
    known = known[~np.isnan(known)]
    low, high = float(known.min()), float(known.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def threshold_now(table: ScoreTable) -> float:
    """The threshold in force, in the unit of the score."""
    metric = ui.value("metric")
    if ui.value("rule") == "share":
        return threshold_at(table.per_input(metric), metric, ui.value("share") / 100)
    return ui.value("threshold")


def keep_selection_across_rules(table: ScoreTable) -> None:
    """Callback: a new score, or a new way of choosing, starts from the share that was in force."""
    metric = ui.value("metric")
    if ui.value("rule") == "value":
        ui.put("threshold", threshold_at(table.per_input(metric), metric, ui.value("share") / 100))


def controls(table: ScoreTable) -> None:
    score, how, slider, shows = st.columns([3, 2.4, 3.6, 2.2], vertical_alignment="bottom")
    score.selectbox(
        "Score",
        list(table.metrics),
        format_func=lambda name: f"{METRICS[name].symbol}: {METRICS[name].name}",
        help=METRICS[ui.value("metric")].help,
        on_change=keep_selection_across_rules,
        args=(table,),
        **ui.keyed("metric"),
    )
    how.segmented_control(
        "Threshold by",
        list(RULES),
        format_func=lambda rule: {"share": "Share", "value": "Value"}[rule],
        required=True,
        help="Share: call the most extreme so many percent of all input × head pairs inactive (the paper's rule: the "
        "threshold is that quantile over all inputs, layers and heads). Value: set the threshold itself.",
        on_change=keep_selection_across_rules,
        args=(table,),
        **ui.keyed("rule"),
    )
    with slider:
        threshold_slider(table)
    shows.segmented_control(
        "Map shows",
        list(SHOWS),
        format_func=lambda shown: {"score": "Score", "inactive": "How often"}[shown],
        required=True,
        help="Score: its mean over the inputs. How often: in what share of the inputs the head is inactive, so that a "
        "head that is always idle differs from one that is idle on some texts.",
        **ui.keyed("shows"),
    )


def threshold_slider(table: ScoreTable) -> None:
    row = METRICS[ui.value("metric")]
    beyond = "above" if row.inactive == "high" else "below"
    if ui.value("rule") == "share":
        st.slider(
            "Called inactive, % of input × head pairs",
            0.0,
            100.0,
            step=0.5,
            format="%.1f%%",
            help=f"Heads with {row.symbol} {beyond} the threshold are called inactive. The threshold is set so that "
            "this share of all pairs of one input and one head lies beyond it.",
            **ui.keyed("share"),
        )
        return
    low, high = threshold_bounds(table)
    ui.put("threshold", min(max(ui.value("threshold"), low), high))
    st.slider(
        f"Inactive {beyond}" + (f", {row.unit}" if row.unit else ""),
        low,
        high,
        step=(high - low) / 500,
        format="%.4g",
        help=f"Heads with {row.symbol} {beyond} this value are called inactive.",
        **ui.keyed("threshold"),
    )


def sentence(table: ScoreTable, off: np.ndarray, threshold: float) -> str:
    """What a person would quote of this view."""
    row = METRICS[ui.value("metric")]
    values = table.per_input(row.id)
    known = ~np.isnan(values)
    pairs, hits = int(known.sum()), int(inactive(values, row.id, threshold).sum())
    share = tables.inactive_share(table, row, threshold)
    beyond = "above" if row.inactive == "high" else "below"
    text = (
        f"With {row.symbol} {beyond} {fmt.with_unit(threshold, value_unit(row))}, **{fmt.count(int(off.sum()), off.size)} heads "
        f"are inactive on average**, and {fmt.count(hits, pairs)} input × head pairs. "
        f"{int((share == 1).sum())} heads are inactive in every input, {int(((share > 0) & (share < 1)).sum())} in some."
    )
    if off.any():
        layer = int(off.sum(1).argmax())
        text += f" Most are in layer {layer}: {int(off[layer].sum())} of {off.shape[1]}."
    if missing := int((~known).sum()):
        text += f" {fmt.count(missing, known.size)} values are not defined: {table.reasons.get(row.id, row.undefined)}"
    return text


# ------------------------------------------------------------------------------------------ map and one head


def chosen_head(table: ScoreTable) -> tuple[int, int]:
    """The head in depth: the one that was picked, or, until somebody picks one, the most inactive."""
    if ui.value("head"):
        layer, head = parse_head(ui.value("head"))
        if layer < table.geometry.layers and head < table.geometry.heads:
            return layer, head
        st.warning(
            f"{head_name(layer, head)} is not in this model: it has layers 0 to {table.geometry.layers - 1} and heads "
            f"0 to {table.geometry.heads - 1}. Shown instead: the most inactive head."
        )
    first = tables.ranking(table, METRICS[ui.value("metric")]).iloc[0]
    return int(first["layer"]), int(first["head"])


def head_clicked() -> None:
    """A redrawn chart sends an empty selection: that is no deselection."""
    points = st.session_state.map["selection"]["points"]
    if points and "customdata" in points[0]:
        place = points[0]["customdata"]
        layer, head = (place["0"], place["1"]) if isinstance(place, dict) else place[:2]
        ui.put("head", head_name(int(layer), int(head)))
        ui.put("head_box", ui.value("head"))


def head_typed() -> None:
    text = st.session_state.head_box.strip()
    try:
        ui.put("head", head_name(*parse_head(text)) if text else "")
        ui.put("head_problem", "")
    except BadInput as error:
        ui.put("head_problem", str(error))


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


def head_details(table: ScoreTable, at: tuple[int, int], threshold: float) -> None:
    st.session_state.setdefault("head_box", ui.value("head"))
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
    row = METRICS[ui.value("metric")]
    layer, head = at
    frame = tables.ranking(table, row, threshold).query("layer == @layer and head == @head").iloc[0]
    geometry = table.geometry
    size = geometry.heads // geometry.kv_heads
    first = head // size * size
    group = f"KV group {head // size}" + (f" (heads {first} to {first + size - 1})" if size > 1 else "")
    verdict = "inactive" if frame["inactive"] else "active"
    st.markdown(
        f"**{head_name(layer, head)}** is **{verdict}** by {row.symbol}: "
        f"{fmt.with_unit(frame['value'], value_unit(row))}, percentile {fmt.number(frame['percentile'])}, "
        f"rank {frame['rank']} of {geometry.layers * geometry.heads} "
        f"(1 is the most inactive). Inactive in {fmt.percent(frame['inactive_share'])} of the inputs. {group}."
    )
    ui.chart(
        spread.head_scores(
            table, METRICS, layer=layer, head=head, selected=row.id, metrics=PAPERS, theme=ui.theme()
        ),
        key="head_scores",
        name="head-scores",
    )
    ui.chart(
        spread.head_inputs(
            table.per_input(row.id)[:, layer, head],
            row,
            layer=layer,
            head=head,
            threshold=threshold,
            documents=table.documents,
            theme=ui.theme(),
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
        **ui.keyed("inside"),
    )
    if not ui.value("inside"):
        return
    ui.put("input", min(ui.value("input"), len(table.lengths) - 1))
    st.selectbox(
        "Input",
        range(len(table.lengths)),
        format_func=lambda i: f"{i}: {table.documents[i]}, {table.lengths[i]} tokens",
        help="One of the inputs that were scored.",
        **ui.keyed("input"),
    )
    asked = PatternRequest(
        model=request.model, data=request.data, input=ui.value("input"), layer=at[0], head=at[1]
    )
    found = ui.answer(
        asked,
        start=ui.starts_by_itself(request),
        button=f"Look inside {name}",
        empty=(f"One run of the model on this input shows what {name} attends to."),
    )
    if found is None:
        return
    tokens, width = len(found.pieces), st.columns([1, 1])
    with width[0]:
        ui.chart(
            pattern.attention_map(found, theme=ui.theme()), key="attention_map", name=f"attention-{name}"
        )
    with width[1]:
        ui.chart(
            pattern.attention_tracks(found, theme=ui.theme()), key="attention_tracks", name=f"tracks-{name}"
        )
    ui.provenance(f"{found.document} · {tokens} tokens · {tables.caption(found.provenance, found)}")


# --------------------------------------------------------------------------------------------------- panels


def panel(request: ScoreRequest, table: ScoreTable, threshold: float) -> None:
    st.segmented_control(
        "Below the map",
        PANELS,
        format_func=PANEL_TITLES.get,
        required=True,
        label_visibility="collapsed",
        help="What to show below the map.",
        **ui.keyed("panel"),
    )
    row = METRICS[ui.value("metric")]
    shown = ui.value("panel")
    if shown == "distribution":
        ui.chart(
            spread.distribution(
                table.mean(row.id), table.per_input(row.id), row, threshold=threshold, theme=ui.theme()
            ),
            key="distribution",
            name=f"distribution-{row.id}",
        )
    elif shown == "scores":
        all_scores(table)
    elif shown == "layers":
        ui.chart(
            spread.layer_profile(table.mean(row.id), row, threshold=threshold, theme=ui.theme()),
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
        ),
        key="all_scores",
        on_select=score_clicked,
        name="headviz-all-scores",
    )


def ranking(table: ScoreTable, threshold: float) -> None:
    row = METRICS[ui.value("metric")]
    frame = tables.ranking(table, row, threshold)
    st.dataframe(
        frame[["rank", "name", "value", "percentile", "inactive", "inactive_share", "kv_group"]],
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
    for note in table.provenance.notes:
        st.info(note)
    ui.put("input", min(ui.value("input"), len(table.lengths) - 1))
    st.selectbox(
        "Show input",
        range(len(table.lengths)),
        format_func=lambda i: f"{i}: {table.documents[i]}, {table.lengths[i]} tokens",
        help="The text as the model saw it, token by token.",
        **(ui.keyed("input") if not ui.value("inside") else {"key": "fed"}),
    )
    shown = ui.value("input") if not ui.value("inside") else st.session_state.fed
    ids = table.tokens[shown, : table.lengths[shown]]
    ui.token_strip([table.pieces[str(int(i))] for i in ids])


# ----------------------------------------------------------------------------------------------------- page


@st.fragment
def body(request: ScoreRequest, table: ScoreTable) -> None:
    ui.sync_url("heads")
    if ui.value("metric") not in table.metrics:
        ui.put("metric", table.metrics[0])
    threshold = threshold_now(table)
    off = inactive(table.mean(ui.value("metric")), ui.value("metric"), threshold)
    ui.say(sentence(table, off, threshold))
    controls(table)
    at = chosen_head(table)
    left, right = st.columns([5, 3], gap="medium")
    with left:
        draw_map(table, off, threshold, at)
    with right:
        head_details(table, at, threshold)
    look_inside(request, table, at)
    panel(request, table, threshold)
    ui.provenance(ui.provenance_text(table))


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
        st.session_state.last_heads = (request, table)
        body(request, table)
    elif "last_heads" in st.session_state:
        st.caption("Below, dimmed: what was shown before.")
        with st.container(key="stale"):
            body(*st.session_state.last_heads)
