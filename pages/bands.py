"""Bands: where do heads collapse onto the first token, and what has the ALiBi slope to do with it?"""

import streamlit as st

from headviz import ui
from headviz.charts import tables
from headviz.types import BandsRequest
from headviz.ui.bands import beginnings, figures, longer, panels, published, take, words
from headviz.ui.bands.controls import controls, thresholds
from headviz.ui.bands.work import Work

# Name in the URL → title, and what draws it.
PANELS = {
    "spread": ("Distribution", panels.distribution),
    "slopes": ("Slopes", panels.slopes),
    "kernel": ("One head by distance", panels.kernel),
    "lengths": ("Longer texts", longer.panel),
    "beginnings": ("BOS lab", beginnings.panel),
    "published": ("Published", published.panel),
    "take": ("Take it away", take.panel),
}


@st.fragment
def body() -> None:
    ui.sync_url("bands")
    said = st.container()
    controls()
    with ui.sentences():
        work = measured()
        if work is None:
            return
        with said:
            ui.caution(work.request.model)
            ui.say(words.sentence(work))
        for note in work.bands.provenance.notes:
            st.caption(f"{note.rstrip('.')}.")
        left, right = st.columns([5, 4], gap="medium")
        with left:
            figures.draw_map(work)
        with right:
            figures.draw_scatter(work)
        ui.look_at(PANELS, "aspect", "What is shown below: each answers one question about the first token.")
        PANELS[ui.value("aspect")][1](work)
        made = work.bands.provenance
        ui.provenance(
            f"{words.first_tokens(work)} {tables.caption(made)} · {made.device}, {made.threads} threads"
        )


def measured() -> Work | None:
    """The measurement at the view's thresholds; None while it is not there."""
    at, asked = thresholds(), ui.score_request()
    request = BandsRequest(model=asked.model, data=asked.data)
    found = ui.answer(
        request,
        start=ui.starts_by_itself(request),
        button="Measure the first token",
        empty="One run of the model over the texts finds how much attention every head gives the first token. Nothing is measured for "
        "this model and text yet.",
    )
    if found is None:
        return None
    return Work(request, found, at, ui.value("band_over") / 100, ui.value("rows") == "later")


ui.page_head("Bands", "Where do heads collapse, and what has the slope to do with it?", "bands")
body()
