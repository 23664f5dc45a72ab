"""What stands over a panel: which arm, seed and pass, in what unit, at which step. Outside of what is drawn again by itself."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.surgery.arms import ARMS
from headviz.ui.surgery.case import Case

# What the panels can be asked for: name of the panel → which controls stand over it.
CONTROLS = {
    "verdict": ("point",),
    "losses": ("loss_as",),
    "classes": ("among",),
    "film": ("run",),
    "elsewhere": ("point",),
    "heads": ("arm", "point"),
    "take": ("run", "point"),
}


def controls(case: Case) -> None:
    """Those of the panel of the view, outside of what is drawn again while the repair runs: a redraw could swallow a click."""
    wanted = CONTROLS.get(ui.value("recovery"), ())
    if not wanted or not case.runs:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        if "loss_as" in wanted:
            st.segmented_control(
                "Loss as",
                ["nats", "perplexity"],
                format_func=str.capitalize,
                required=True,
                help="Nats a token, or perplexity: e to the loss, among how many tokens the model is torn on average.",
                **ui.keyed("loss_as"),
            )
        if "among" in wanted:
            st.segmented_control(
                "Heads",
                ["treated", "untouched", "all"],
                format_func=str.capitalize,
                required=True,
                help="Which heads are counted: those that the arm treats, those that nobody touches, or both.",
                **ui.keyed("among"),
            )
        if {"run", "arm"} & set(wanted):
            _pick_run(case, whole="run" in wanted)
        if "point" in wanted:
            st.segmented_control(
                "Read at",
                ["best", "last"],
                format_func={"best": "Best step", "last": "Last step"}.get,
                required=True,
                help="Each run's best step by the select part, however early it comes, or its last one.",
                **ui.keyed("point"),
            )


def _pick_run(case: Case, *, whole: bool) -> None:
    """Arm, and where one run is meant its seed and pass: as selects, for a plan may have many."""
    arms = list(case.arms)
    if ui.value("arm_shown") not in arms:
        ui.put("arm_shown", arms[0])
    st.selectbox("Arm", arms, format_func=lambda name: ARMS[name].title, width=280,
                 help=ARMS[ui.value("arm_shown")].help, **ui.keyed("arm_shown"))  # fmt: skip
    if not whole:
        return
    seeds = sorted({run.seed for run in case.of(ui.value("arm_shown"))})
    if ui.value("seed_shown") not in seeds:
        ui.put("seed_shown", seeds[0])
    st.selectbox("Seed", seeds, width=90, help="Which of the arm's runs.", **ui.keyed("seed_shown"))
    numbers = sorted({run.number for run in case.of(ui.value("arm_shown"), ui.value("seed_shown"))})
    if ui.value("pass_shown") not in numbers:
        ui.put("pass_shown", numbers[0])
    if len(numbers) > 1:
        st.selectbox(
            "Pass",
            numbers,
            width=90,
            help="The first operation, or the one after it.",
            **ui.keyed("pass_shown"),
        )
