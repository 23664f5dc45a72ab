"""Choose score, share and target; the rest under More."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis.metrics import METRICS
from headviz.types import ScoreTable
from headviz.view import SHOTS, TARGETS

TITLES = {"loss": "Loss on the text at the left", "quiz": "The bundled quiz", "mmlu": "MMLU", "own": "Your own questions"}


def controls(table: ScoreTable) -> None:
    score, share, target, more = st.columns([3, 3, 2.6, 1.4], vertical_alignment="top")
    score.selectbox(
        "Score that chooses",
        list(table.metrics),
        format_func=lambda name: METRICS[name].symbol,
        help=METRICS[ui.value("metric")].help,
        **ui.keyed("metric"),
    )
    share.slider(
        "Heads off, % of all",
        0.0,
        30.0 if ui.value("off") <= 30 else 100.0,
        step=0.5,
        format="%.1f%%",
        help="The most inactive heads by this score, on average over the text on which heads are chosen, are switched "
        "off on every input. Measuring starts when you let go.",
        **ui.keyed("off"),
    )
    target.selectbox(
        "Measured on",
        TARGETS,
        format_func=TITLES.get,
        help="Loss: how well the model predicts the next token of the text in the sidebar, in nats; lower is better. "
        "Questions: the share answered right. The bundled quiz is easy and our own; MMLU needs a model that can do it.",
        **ui.keyed("target"),
    )
    with more.popover("More", width="stretch"):
        st.segmented_control(
            "Switch off",
            ["head", "group"],
            format_func={"head": "Single heads", "group": "Whole KV groups"}.get,
            required=True,
            help="Query heads of one KV group share keys and values: only whole groups free memory.",
            **ui.keyed("by"),
        )
        st.toggle(
            "Same number in every layer",
            help="Instead of wherever the score is most extreme.",
            **ui.keyed("even"),
        )
        st.number_input(
            "Random draws",
            min_value=1,
            max_value=100,
            help="How many random sets of each kind stand beside the score: 20 or more for a figure that is quoted.",
            **ui.keyed("draws"),
        )
        if ui.value("target") != "loss":
            question_controls()


def question_controls() -> None:
    st.number_input(
        "Questions a subject",
        min_value=0,
        max_value=1_000,
        help="0 takes all. Fewer are quicker, and resolve less.",
        **ui.keyed("each"),
    )
    st.selectbox(
        "Worked examples (shots)",
        SHOTS,
        help="How many solved questions stand before each one.",
        **ui.keyed("shots"),
    )
    st.selectbox(
        "Scoring",
        ["auto", "letter", "text"],
        help="Letter: the likelier of A to D, as MMLU is scored. Text: the likelier answer text per token, which a small "
        "model can do.",
        **ui.keyed("scoring"),
    )
