"""Compare: what changed between two models? Delta map, movers, distances beside what no change would give."""

import streamlit as st

from headviz import ui
from headviz.analysis.metrics import METRICS
from headviz.ui.compare import figures, panels, stable, take
from headviz.ui.compare.others import compared, pick_more, pick_others, pinned
from headviz.ui.compare.work import Work, gathered, sentence

# Name in the URL → title, and what draws it; `stable` is of the model at the left alone.
PANELS = {
    "distributions": ("Distributions", panels.distribution),
    "scores": ("All scores", panels.scores),
    "layers": ("Layers", panels.layers),
    "movers": ("Movers", panels.movers),
    "stable": ("Stability", lambda work: stable.panel()),
    "take": ("Take it away", take.panel),
}


@st.fragment
def body() -> None:
    if st.session_state.pop("headviz_repin", False):
        st.rerun()  # the whole page: the link in its head pins the models
    ui.sync_url("compare")
    said, pair = st.container(), controls()
    with ui.sentences():
        requests, problems = compared()
        for problem in problems:
            st.warning(problem)
        tables = gathered(requests)
        names = list(requests)
        if names[0] not in tables or len(tables) < 2:
            look(None)
            return
        work = Work(requests, tables, names[0], chosen(pair, names, tables))
        if ui.value("metric") not in work.metrics():
            ui.put("metric", work.metrics()[0])
        with said:
            ui.say(sentence(work, ui.value("metric")))
        for note in notes(work):
            st.caption(note)
        figures.matrix(work)
        figures.main(work)
        look(work)
        for name in (work.first, work.other):
            ui.provenance(ui.provenance_text(work.tables[name]))


def controls():
    """Against what, by which score; the place of the choice of a pair is given back."""
    others, score, pair, more = st.columns([4, 2, 2, 1.2], vertical_alignment="bottom")
    pick_others(others)
    row = METRICS[ui.value("metric")]
    score.selectbox(
        "Score",
        list(METRICS),
        format_func=lambda name: METRICS[name].symbol,
        help=f"{row.name}. {row.help}",
        **ui.keyed("metric"),
    )
    with more.popover("More", width="stretch"):
        pick_more()
    return pair


def chosen(where, names: list[str], tables) -> str:
    """The other model that is looked at; a choice where there are several."""
    there = [name for name in names[1:] if name in tables]
    if len(there) == 1:
        return there[0]
    ui.put("pair", min(ui.value("pair"), len(there)))
    where.selectbox(
        "Looked at",
        range(1, len(there) + 1),
        format_func=lambda i: there[i - 1],
        help="Which of the others the map, the movers and the panels below compare with the model at the left.",
        **ui.keyed("pair"),
    )
    return there[ui.value("pair") - 1]


def notes(work: Work) -> list[str]:
    """What a reader must know of the comparison and of the scores."""
    found = list(work.comparison(ui.value("metric")).notes)
    for table in work.pair:
        found += table.provenance.notes
    return [f"{note.rstrip('.')}." for note in dict.fromkeys(found)]


def look(work: Work | None) -> None:
    """The panels; without a comparison, stability alone."""
    there = list(PANELS) if work is not None else ["stable"]
    ui.look_at(PANELS, "differs", "What is shown below: each answers one question about the two models.")
    if ui.value("differs") in there:
        PANELS[ui.value("differs")][1](work)


ui.page_head("Compare", "What changed between two models?", "compare", pinned)
body()
