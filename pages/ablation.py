"""Ablation: what does switching them off cost? A slider, the measured cost, the curve, random heads beside it."""

import dataclasses
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass

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

SENT = 0.15  # seconds: what a rerun finds not yet sent is dropped, and what is not yet drawn is drawn together with it, later
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


@dataclass(frozen=True, kw_only=True)
class Now:
    """What the view stands for. plan, found: the plan, and how its share came about, where the page has found it; work: what
    is measured of it, None while the scores that choose are not there."""

    plan: Plan
    found: Within | None
    work: Measurements | None

    @property
    def sentence(self) -> str:
        return expected.sentence(self.plan) if self.work is None else sentence(self.work)


@st.fragment
def body() -> None:
    ui.sync_url("ablation")
    said = st.container()
    controls()
    work = moving(uuid.uuid4().hex, said)
    if work is None:
        return
    with ui.sentences():
        ui.look_at(
            PANELS, "look", "What is shown below: each answers one question about the heads that are off."
        )
        PANELS[ui.value("look")][1](work, work.table)
        if work.before is not None:
            ui.provenance(ui.measured_text(work.before))


@st.fragment
def moving(run: str, said) -> Measurements | None:
    """Slider, sentence, map and costs: what is drawn at once, alone, when the slider moves. The page around it follows.

    run: a name for this run of the page, the same when only this fragment runs again; said: the place of the sentence, to
    which only this writes, or Streamlit would not let it
    """
    alone = st.session_state.get("headviz_page_run") == run
    st.session_state.headviz_page_run = run
    with ui.sentences():
        try:
            work = drawn(said)
        except HeadvizError:
            if alone:
                st.rerun()  # the whole page says it
            raise
    if alone:
        time.sleep(SENT)
        st.rerun()
    return work


def drawn(said) -> Measurements | None:
    """Raises a HeadvizError, one sentence."""
    above, beside = st.columns([5, 4], gap="medium", vertical_alignment="bottom")
    try:
        now = read()
    except HeadvizError:
        knob(above)
        raise
    with said:
        ui.say(now.sentence)
    return moved(now, above, beside)


def read() -> Now:
    """Raises a HeadvizError, one sentence."""
    plan = plan_now()
    table = ui.cached(ablation.scoring(plan))
    if table is None:
        return Now(plan=plan, found=None, work=None)
    if plan.threshold is not None:
        plan = dataclasses.replace(plan, threshold=settle(plan, table))
    plan, found = auto.settle(plan, table)
    work = Measurements(plan, table)
    if plan.by_score and work.static:
        st.session_state.headviz_by_score = (work.off.heads, plan.chosen_on, plan.metric)
    return Now(plan=plan, found=found, work=work)


def knob(where) -> None:
    """What decides how many heads are off, on a page that cannot show what that costs."""
    table = None
    with suppress(HeadvizError):
        plan = plan_now()
        table = ui.cached(ablation.scoring(plan))
    if table is not None:
        strictness(where, plan, table)
        return
    with where:
        share_slider()


def moved(now: Now, above, beside) -> Measurements | None:
    if now.work is None:
        knob(above)
        asked = ablation.scoring(now.plan)
        there = ui.answer(
            asked,
            start=ui.starts_by_itself(asked) and is_small(now.plan),
            button="Score and measure",
            empty="Heads are chosen by their scores, and this model has none yet on the text on which they are chosen.",
        )
        if there is not None:  # since we looked
            st.rerun()
        return None
    work = now.work
    strictness(above, work.plan, work.table)
    with beside:
        auto.line(work, now.found)
    progress = st.container()
    left, right = st.columns([5, 4], gap="medium")
    with right:
        numbers, place = st.container(), st.container()

    def strip() -> None:
        with place:
            order.strip(work)

    new = work.cost("zero") is None
    if new:  # it is what tells of a position that is not measured yet
        strip()
    with left:
        draw_map(work, work.table)
    if not new:
        strip()
    with numbers:
        costs(work)
    with progress:  # at the end: runs that begin take the processor from what is drawn
        started(work)
    return work


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
    return figure.update_layout(dragmode="select", clickmode="event") if boxes else figure


def picked_head(table: ScoreTable) -> tuple[int, int] | None:
    """The head that is picked on every page, where this model has it."""
    if not ui.value("head"):
        return None
    layer, head = parse_head(ui.value("head"))
    there = layer < table.geometry.layers and head < table.geometry.heads
    return (layer, head) if there else None


ui.page_head("Ablation", "What does switching them off cost?", "ablation")
body()
