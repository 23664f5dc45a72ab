"""Heads by hand: clicks and boxes on the map, the score's set to start from, and head sets from files."""

from __future__ import annotations

import hashlib
import json

import streamlit as st

from headviz import ui
from headviz.analysis.headfile import read_origin, read_places
from headviz.analysis.metrics import METRICS
from headviz.readers import parse_heads, write_heads
from headviz.types import DataRef, ModelRef, QuestionsRef, ScoreTable, head_name, plain
from headviz.ui.uploads import upload_problem, uploaded_heads

Places = tuple[DataRef | QuestionsRef | None, ...]  # as `Plan.origin_on`
HAND = "by hand"


def by_hand() -> bool:
    """Whether clicks on the map change the set."""
    return ui.value("pick") == "hand" and ui.value("mode") == "static"


def draws_boxes() -> bool:
    """Whether the pointer draws a box over many heads: with Streamlit's charts, either clicks or boxes select."""
    return st.session_state.get("hand_box", False)


def clicked() -> None:
    """A callback of the map: a click adds or removes a head, a box adds its heads, or removes them where all are off.

    By a score, a click picks the head for every page. A redrawn chart sends an empty selection: that is none.
    """
    event = st.session_state.map["selection"]
    heads = {
        (int(place["0"]), int(place["1"])) if isinstance(place, dict) else (int(place[0]), int(place[1]))
        for point in event["points"]
        if (place := point.get("customdata"))
    }
    if not heads:
        return
    if not by_hand():
        if len(heads) == 1:
            ui.pick_head(head_name(*heads.pop()))
        return
    off = set(parse_heads(ui.value("picked")))
    whom = ui.value("by_whom")
    if whom and not whom.startswith(HAND):
        whom = f"{HAND}, from {whom}"
    seen = st.session_state.get("headviz_map_on", (None,))  # who clicks, chooses by what the map shows
    put_set(off - heads if heads <= off else off | heads, (*places_now(), *seen), whom)


def map_shows(*places: DataRef | QuestionsRef) -> None:
    """What the numbers on the map are of, for clicks on it."""
    st.session_state.headviz_map_on = places


def put_set(heads, places: Places = (), whom: str = "") -> None:
    """places: where it was chosen, as far as anybody knows; whom: by whom, where that is not simply by hand."""
    picked = write_heads(heads)
    told = json.dumps([plain(place) for place in dict.fromkeys(places)], separators=(",", ":"))
    ui.put("picked", picked)
    ui.put("picked_on", _name(picked) + told)
    ui.put("by_whom", whom)


def places_now() -> Places:
    """Where the view's set by hand was chosen: nowhere for no heads, not known where the view says it of another set."""
    picked, told = ui.value("picked"), ui.value("picked_on")
    if not picked:
        return ()
    if not told.startswith(_name(picked)):
        return (None,)
    try:
        return read_places(json.loads(told[8:]))
    except ValueError:
        return (None,)


def _name(picked: str) -> str:
    return hashlib.sha256(picked.encode()).hexdigest()[:8]


def edit(heads, place: DataRef | QuestionsRef, metric: str) -> None:
    """A callback: go on by hand from this set, which the score chose there."""
    _go_on(heads, (place,), f"{HAND}, from the set of {METRICS[metric].symbol}")


def _go_on(heads, places: Places, whom: str) -> None:
    ui.put("pick", "hand")
    ui.put("mode", "static")
    put_set(heads, places, whom)


def pick_changed() -> None:
    """A callback: who goes on by hand for the first time starts from what the score had chosen."""
    by_score = st.session_state.get("headviz_by_score")
    if ui.value("pick") == "hand" and not ui.value("picked") and by_score:
        edit(*by_score)


def load_file(model: ModelRef, table: ScoreTable) -> None:
    """A callback: the uploaded head set, or the sentence of what is wrong with it."""
    if found := uploaded_heads("head_file", model, table.geometry):
        read, upload = found
        _go_on(read.heads, read_origin(upload.getvalue()), upload.name[:100])


def hand_controls(model: ModelRef, table: ScoreTable) -> None:
    """In the place of the slider: what the set is, and how to change it as a whole."""
    count = len(parse_heads(ui.value("picked")))
    total = table.geometry.layers * table.geometry.heads
    st.markdown(
        f"**By hand**: {count} of {total} heads",
        help="Click a head on the map to switch it off or on again; with Box, drag over many.",
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Clear", on_click=put_set, args=((),), help="Switch every head on again.")
        with st.popover("File"):
            file_loader(model, table)
        st.toggle(
            "Box",
            key="hand_box",
            help="Drag a box over the map to switch off every head in it; over heads that are all off, to switch them on. "
            "Clicks do nothing meanwhile.",
        )


def file_loader(model: ModelRef, table: ScoreTable) -> None:
    st.file_uploader(
        "Head set (JSON)",
        type=["json"],
        key="head_file",
        on_change=load_file,
        args=(model, table),
        help="A head set as headviz writes it under “Take it away”, or any JSON with `model` and `heads`. It must be for this "
        "model.",
    )
    if problem := upload_problem("head_file"):
        st.error(problem)
