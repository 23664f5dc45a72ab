"""Ablation: what does switching them off cost? A slider, the measured cost, the curve, random heads beside it."""

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.metrics import METRICS
from headviz.charts import heatmap, tables
from headviz.types import ScoreTable
from headviz.ui.ablation import curve, subjects, take, text
from headviz.ui.ablation.controls import controls
from headviz.ui.ablation.costs import costs
from headviz.ui.ablation.measurements import Measurements, sentence
from headviz.ui.ablation.plan import plan_now

# Name in the URL → title, and what draws it from the measurements and the scores that chose.
PANELS = {
    "curve": ("Curve", curve.panel),
    "subjects": ("Subjects", subjects.panel),
    "text": ("Side by side", text.panel),
    "take": ("Take it away", take.panel),
}


@st.fragment
def body(table: ScoreTable) -> None:
    ui.sync_url("ablation")
    with ui.sentences():
        work = Measurements(plan_now(), table)
        ui.say(sentence(work.off, work.report("zero"), work.report("mean")))
        controls(table)
        if missing := work.missing():
            ui.working_on(missing)
        left, right = st.columns([5, 4], gap="medium")
        with left:
            draw_map(work, table)
        with right:
            costs(work)
        st.segmented_control(
            "Look at",
            list(PANELS),
            format_func=lambda name: PANELS[name][0],
            required=True,
            label_visibility="collapsed",
            help="What is shown below: each answers one question about the heads that are off.",
            **ui.keyed("look"),
        )
        PANELS[ui.value("look")][1](work, table)
        if work.before is not None:
            ui.provenance(ui.measured_text(work.before))


def draw_map(work: Measurements, table: ScoreTable) -> None:
    row = METRICS[work.plan.metric]
    figure = heatmap.head_map(
        table.mean(row.id),
        row,
        geometry=table.geometry,
        theme=ui.theme(),
        inactive=work.off.mask(),
        marked="off",
        provenance=tables.caption(table.provenance, table),
    )
    ui.chart(
        figure, key="map", name=f"headviz-off-{row.id}", alt="Map of the score, heads that are off hatched"
    )


ui.page_head("Ablation", "What does switching them off cost?", "ablation")
with ui.sentences():
    asked = ablation.scoring(plan_now())
    scores = ui.answer(
        asked,
        start=ui.starts_by_itself(asked),
        button="Score and measure",
        empty="Heads are chosen by their scores, and this model has none yet on the text on which they are chosen.",
    )
    if scores is not None:
        body(scores)
