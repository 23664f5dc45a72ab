"""Surgery: can collapsed heads be brought back? Design a repair, watch it, judge it, compare two."""

import streamlit as st

from headviz import ui
from headviz.ui.surgery import (
    after,
    cautions,
    chooser,
    design,
    film,
    listing,
    moved,
    onward,
    outcome,
    panels,
    take,
    versus,
    work,
)

# Name in the URL → title, and what is under it.
STAGES = {"design": "Design", "watch": "Repairs", "versus": "Compare two"}

# Name in the URL → title, and what draws it from one repair.
PANELS = {
    "verdict": ("Verdict", outcome.panel),
    "losses": ("Loss", panels.losses),
    "classes": ("Classes", panels.class_counts),
    "film": ("Film", film.panel),
    "elsewhere": ("Drift", moved.panel),
    "heads": ("Heads", after.panel),
    "single": ("Single heads", after.tests),
    "training": ("Training", panels.training),
    "onward": ("Continue", onward.panel),
    "take": ("Take it away", take.panel),
}
STILL = ("onward", "take")  # hold widgets: they are drawn once, not every few seconds


@st.fragment
def body() -> None:
    ui.sync_url("surgery")
    said = st.container()
    running = sum(work.is_running(job) for job in work.repairs())
    st.segmented_control(
        "Stage",
        list(STAGES),
        format_func=lambda name: (
            STAGES[name] + (f" ({running} running)" if name == "watch" and running else "")
        ),
        required=True,
        label_visibility="collapsed",
        help="Design a repair; watch and judge those that there are; put two side by side.",
        **ui.keyed("stage"),
    )
    with ui.sentences():
        if ui.value("stage") == "design":
            design.panel(said)
        elif ui.value("stage") == "versus":
            versus.panel(said)
        else:
            watch(said)


def watch(said) -> None:
    """The list of repairs, and the one that is open."""
    listing.table()
    digest = ui.value("operation")
    if not digest:
        with said:
            cautions.at_the_left()
        return
    case = work.case_of(digest)
    with said:
        headline(digest, work.is_running(case.job))
    listing.state(case)
    ui.look_at(PANELS, "recovery", "What is shown below, of the repair that is open.")
    chooser.controls(case)
    shown(digest, work.is_running(case.job))


def headline(digest: str, running: bool) -> None:
    """The sentence; while the repair runs it changes by itself."""
    st.fragment(_headline, run_every=2 if running else None)(digest)


def _headline(digest: str) -> None:
    case = work.case_of(digest)
    ui.caution(case.request.model)
    ui.say(outcome.headline(case))
    if now := listing.running_words(case):
        st.caption(now)


def shown(digest: str, running: bool) -> None:
    """The panel of the view. While the repair runs it is drawn again by itself, and nothing else is."""
    live = running and ui.value("recovery") not in STILL
    st.fragment(_shown, run_every=2 if live else None)(digest)


def _shown(digest: str) -> None:
    with ui.sentences():
        PANELS[ui.value("recovery")][1](work.case_of(digest))


ui.page_head("Surgery", "Can collapsed heads be brought back?", "surgery")
body()
