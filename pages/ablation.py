"""Ablation: what does switching them off cost? A slider, the measured cost, the curve, random heads beside it."""

import dataclasses

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.charts import heatmap, tables
from headviz.data import corpora
from headviz.errors import HeadvizError
from headviz.readers import parse_head
from headviz.types import ScoreTable
from headviz.ui.ablation import (
    alone,
    auto,
    curve,
    expected,
    models,
    order,
    scores,
    shown,
    subjects,
    take,
    text,
)
from headviz.ui.ablation.controls import controls, settle, share_slider, strictness
from headviz.ui.ablation.costs import costs
from headviz.ui.ablation.hand import by_hand, clicked, draws_boxes, edit, map_shows
from headviz.ui.ablation.measurements import Measurements, sentence
from headviz.ui.ablation.plan import is_small, plan_now
from headviz.ui.within import Within

# Name in the URL → title, and what draws it from the measurements and the scores that chose.
PANELS = {
    "curve": ("Curve", curve.panel),
    "scores": ("Scores", scores.panel),
    "models": ("Models", models.panel),
    "subjects": ("Subjects", subjects.panel),
    "order": ("Each head alone", alone.panel),
    "text": ("Side by side", text.panel),
    "take": ("Take it away", take.panel),
}


@st.fragment
def body() -> None:
    ui.sync_url("ablation")
    said = st.container()
    slider = controls()
    with ui.sentences():
        plan, table, found = scored(slider, said)
        if table is None:
            return
        work = Measurements(plan, table)
        if plan.by_score and work.static:
            st.session_state.headviz_by_score = (work.off.heads, plan.chosen_on, plan.metric)
        with said:
            ui.say(sentence(work))
            auto.line(work, found)
        progress = st.container()
        left, right = st.columns([5, 4], gap="medium")
        with right:
            numbers, place = st.container(), st.container()
        with (
            place
        ):  # first, although it stands below: it is what a moved slider tells before anything is measured
            order.strip(work)
        with left:
            draw_map(work, table)
        with numbers:
            costs(work)
        ui.look_at(
            PANELS, "look", "What is shown below: each answers one question about the heads that are off."
        )
        PANELS[ui.value("look")][1](work, table)
        with progress:  # at the end: runs that begin take the processor from what is drawn
            started(work)
        if work.before is not None:
            ui.provenance(ui.measured_text(work.before))


def scored(slider, said) -> tuple[Plan, ScoreTable | None, Within | None]:
    """The plan; the scores that choose, None while they are not there; and how the share came about, where the page has found
    it. Fills the slider's place in any case, and without scores that of the sentence."""
    try:
        plan = plan_now()
        asked = ablation.scoring(plan)
        if ui.cached(asked) is None:
            with said:
                ui.say(expected.sentence(plan))
        table = ui.answer(
            asked,
            start=ui.starts_by_itself(asked) and is_small(plan),
            button="Score and measure",
            empty="Heads are chosen by their scores, and this model has none yet on the text on which they are chosen.",
        )
    except HeadvizError:
        with slider:
            share_slider()
        raise
    if table is None:
        with slider:
            share_slider()
        return plan, None, None
    if plan.threshold is not None:
        plan = dataclasses.replace(plan, threshold=settle(plan, table))
    plan, found = auto.settle(plan, table)
    strictness(slider, plan, table)
    return plan, table, found


def started(work: Measurements) -> None:
    """How far the measurements are, or the button that begins them where they take long."""
    work.begin()
    missing = work.missing()
    if missing and work.started:
        ui.working_on(missing)
    elif missing:
        st.info(
            f"{len(missing)} runs of this model on {corpora.describe(work.plan.questions or work.plan.text)} take a while, so "
            f"they wait for you: {expected.what(work.plan)}; "
            f"{expected.time_words(work.plan, work.table, len(missing))}.",
            icon=":material/play_circle:",
        )
        st.button("Measure", type="primary", on_click=work.go)


def draw_map(work: Measurements, table: ScoreTable) -> None:
    row, note = METRICS[work.plan.metric], tables.caption(table.provenance, table)
    shown.switch()
    map_shows(shown.shown_of(work))
    boxes, picked = by_hand() and draws_boxes(), picked_head(table)
    figure = shown.shown_map(work, table, picked)
    if figure is None and work.static:
        key = (table.provenance.digest, row.id, work.off.heads, picked or (), ui.theme(), boxes)
        figure = ui.once(lambda: score_map(work, table, picked, note, boxes), "map", *key)
    elif figure is None:
        figure = heatmap.inactive_share_map(
            work.off_share_map(),
            row,
            geometry=table.geometry,
            theme=ui.theme(),
            inputs=len(table.lengths),
            selected=picked,
            provenance=note,
            title=f"Beyond the threshold of {row.symbol}, share of the inputs that chose",
        )
    ui.chart(
        figure,
        key="map",
        on_select=clicked,
        box=boxes,
        name=f"headviz-off-{row.id}",
        alt="Map of the score, heads that are off hatched",
    )
    if work.static and not by_hand():
        st.button(
            "Edit this set",
            on_click=edit,
            args=(work.off.heads, work.plan.chosen_on, row.id),
            help="Go on by hand: these heads are off, and clicks on the map add or remove some.",
        )


def score_map(work: Measurements, table: ScoreTable, picked: tuple[int, int] | None, note: str, boxes: bool):
    """The score that chooses, what is off hatched. boxes: the mouse draws boxes on it."""
    row = METRICS[work.plan.metric]
    figure = heatmap.head_map(
        table.mean(row.id),
        row,
        geometry=table.geometry,
        theme=ui.theme(),
        inactive=work.off.mask(),
        marked="off",
        selected=picked,
        provenance=note,
    )
    return figure.update_layout(dragmode="select") if boxes else figure


def picked_head(table: ScoreTable) -> tuple[int, int] | None:
    """The head that is picked on every page, where this model has it."""
    if not ui.value("head"):
        return None
    layer, head = parse_head(ui.value("head"))
    there = layer < table.geometry.layers and head < table.geometry.heads
    return (layer, head) if there else None


ui.page_head("Ablation", "What does switching them off cost?", "ablation")
body()
