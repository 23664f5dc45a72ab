"""The controls of questions: which, how many, and how they are asked; and questions of one's own."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.data import questions
from headviz.errors import HeadvizError
from headviz.settings import settings
from headviz.types import Silent
from headviz.view import SHOTS

_EXAMPLE = '{"question": "What is 2 + 2?", "choices": ["3", "4", "5", "6"], "answer": "B"}'


@st.cache_resource(ttl=600, max_entries=16, show_spinner=False)
def _subjects(source: str, revision: str) -> tuple[str, ...]:
    return questions.subjects_of(source, revision, settings())


def subjects_that_are_not_there() -> None:
    """The way out of a link with a subject that the set does not have: a button beside the sentence that says so."""
    target, chosen = ui.value("target"), [name for name in ui.value("subjects").split(",") if name]
    if target == "loss" or not chosen:
        return
    try:
        there = _subjects(target, ui.value("questions") if target == "own" else "")
    except HeadvizError:  # its sentence stands in the page already
        return
    known = [name for name in chosen if name in there]
    if known == chosen:
        return
    gone = ", ".join(name for name in chosen if name not in there)
    st.button(
        f"Leave out {gone[:60]}" if known else "Ask about all subjects",
        key="leave_out",
        icon=":material/backspace:",
        on_click=lambda: ui.put("subjects", ",".join(known)),
        help="Subjects are chosen under More, by their names in the set.",
    )


def _subjects_changed() -> None:
    ui.put("subjects", ",".join(st.session_state.subjects_box))


def question_controls() -> None:
    target = ui.value("target")
    chosen = [name for name in ui.value("subjects").split(",") if name]
    try:
        there = _subjects(target, ui.value("questions") if target == "own" else "")
    except HeadvizError:  # its sentence stands in the page already
        there = ()
    st.session_state.subjects_box = chosen
    st.multiselect(
        "Subjects",
        [*there, *(name for name in chosen if name not in there)],
        placeholder="all",
        key="subjects_box",
        on_change=_subjects_changed,
        format_func=lambda name: name.replace("_", " "),
        help="Which subjects are asked about. None chosen: all of them. Fewer are quicker, and say less.",
    )
    left, right = st.columns(2)
    left.number_input(
        "Questions a subject",
        min_value=0,
        max_value=1_000,
        help="0 takes all. Fewer are quicker, and resolve less. They are drawn with the seed in the sidebar.",
        **ui.keyed("each"),
    )
    right.selectbox(
        "Half",
        ["all", "first", "second"],
        help="Choose among scores on the first half of the questions and confirm on the second: a winner that was picked on "
        "the same questions looks better than it is. Where heads are chosen on the other half, all stands for the second.",
        **ui.keyed("half"),
    )
    left.selectbox(
        "Worked examples (shots)",
        SHOTS,
        help="How many solved questions stand before each one. auto: 5 for MMLU, as in the paper, else none.",
        **ui.keyed("shots"),
    )
    right.selectbox(
        "Scoring",
        ["auto", "letter", "text"],
        help="Letter: the likelier of A to D, as MMLU is scored. Text: the likelier answer text per token, which a small "
        "model can do. auto: letter for MMLU, else text.",
        **ui.keyed("scoring"),
    )
    st.toggle(
        "Chat template",
        help="Ask in the form of a conversation that the model was tuned on: worked examples become earlier turns. For "
        "models tuned for chat.",
        **ui.keyed("template"),
    )


def own_questions() -> None:
    """Questions that a person gives; what is kept is named by its sha256, which is all that the URL holds."""
    kept = ui.value("questions")
    told, give = st.columns([3, 1.4], vertical_alignment="center")
    if kept:
        told.caption(_summary(kept))
    else:
        told.caption("No questions yet: give a file of them, or paste some.")
    with give.popover("Give questions" if not kept else "Give others", width="stretch"):
        pasted = st.text_area(
            "Paste questions, one a line, as JSON",
            placeholder=_EXAMPLE,
            height=140,
            help="Each line: question, choices, and the answer as a letter or a number from 0; if you like also subject, "
            "and split = dev for a worked example.",
        )
        upload = st.file_uploader(
            "or upload a file",
            type=["jsonl", "csv"],
            help="jsonl as above, or a csv with columns question, choices (written as JSON) and answer. It stays on this "
            "machine.",
        )
        if st.button("Use these questions", type="primary", disabled=not (pasted.strip() or upload)):
            name, data = (upload.name, upload.getvalue()) if upload else ("pasted.jsonl", pasted.encode())
            try:
                revision = questions.import_questions(data, name, settings())
            except HeadvizError as error:
                st.error(str(error), icon=":material/error:")
            else:
                ui.put("questions", revision)
                ui.put("subjects", "")
                st.rerun()


@st.cache_resource(max_entries=32, show_spinner=False)
def _summary(revision: str) -> str:
    try:
        asked = questions.resolve_questions("own", revision=revision, shots=0, settings=settings())
        items = questions.read_questions(asked, settings(), Silent()).items
    except HeadvizError as error:
        return str(error)
    many, several = ("" if len(some) == 1 else "s" for some in (items, asked.subjects))
    return f"{len(items):,} question{many} in {len(asked.subjects)} subject{several}: “{items[0].question.strip()[:80]} …”"
