"""Disagreement: who is right, the sink or the norm? Four groups of heads by two scores, and the price of each."""

import streamlit as st

from headviz import ui
from headviz.analysis import ablation, agreement
from headviz.types import SinkPlaces
from headviz.ui.ablation.plan import base_plan, is_small
from headviz.ui.disagreement import agree, brush, budget, cards, costs, demo, sink, take
from headviz.ui.disagreement.words import sentence
from headviz.ui.disagreement.work import Work, scored, sink_request

# Name in the URL → title, and what draws it.
FACETS = {
    "costs": ("What they cost", costs.panel),
    "agreement": ("Agreement", agree.curve_panel),
    "matrix": ("All scores", agree.matrix_panel),
    "sink": ("Where the sink is", sink.panel),
    "cards": ("Most disputed", cards.panel),
    "take": ("Take it away", take.panel),
}


@st.fragment
def body() -> None:
    ui.sync_url("disagreement")
    if ui.value("step"):
        demo.stepper()
        with ui.sentences():
            if (work := gathered(None)) is not None:
                demo.show(work)
                ui.provenance(ui.provenance_text(work.table))
        return
    said = st.container()
    place = budget.controls()
    with ui.sentences():
        work = gathered(place)
        if work is None:
            return
        with said:
            ui.say(sentence(work))
        if work.why:
            st.caption(work.why)
        brush.charts(work)
        ui.look_at(FACETS, "facet", "What is shown below: each answers one question about the two scores.")
        FACETS[ui.value("facet")][1](work)
        ui.provenance(ui.provenance_text(work.table))


def gathered(place) -> Work | None:
    """Scores, groups and plan; None while the scores are not there. place: where how strict goes; None: the share of the
    view."""
    plan = base_plan()
    asked = ablation.scoring(plan)
    table = ui.answer(
        asked,
        start=ui.starts_by_itself(asked) and is_small(plan),
        button="Score every head",
        empty="The two scores are compared head by head, and this model has not been scored on this text yet.",
    )
    if table is None:
        return None
    places = None
    if ui.value("follow") != "first" and "awft" in (ui.value("first"), ui.value("second")):
        places = ui.answer(
            sink_request(plan),
            start=ui.starts_by_itself(asked),
            button="Find the sink",
            empty="AWFT is to follow the strongest early token, which one pass over the inputs finds.",
            key="follow",
        )
        if places is None:
            return None
    return grouped(place, plan, table, places)


def grouped(place, plan, table, places: SinkPlaces | None) -> Work:
    a, b = (scored(table, ui.value(name), places) for name in ("first", "second"))
    if place is not None:
        share, why = budget.strictness(place, plan, table, a, b)
    else:
        share, why = ui.value("budget") / 100, ""
    if share is None:
        quadrants = agreement.quadrants_at(a, b, (ui.value("line_first"), ui.value("line_second")))
    else:
        quadrants = agreement.quadrants_of(a, b, agreement.budget(share, a, b))
    return Work(plan=plan, table=table, a=a, b=b, quadrants=quadrants, share=share, why=why)


ui.page_head(
    "Disagreement", "Who is right about which heads are inactive: the sink, or the norm?", "disagreement"
)
if not ui.value("step"):
    st.button(
        "Show me in four steps",
        key="demo",
        icon=":material/play_arrow:",
        on_click=demo.begin,
        help="A guided tour with the bundled model, which ends in which of the disputed heads the model misses more. It "
        "measures while you read, for a few minutes on two cores.",
    )
body()
