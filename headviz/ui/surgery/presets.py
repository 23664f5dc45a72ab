"""Presets of the paper: which heads it treated, what that trains, and what it reports of it. Its released checkpoints."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from headviz import ui
from headviz.readers import write_heads
from headviz.surgery.layouts import trained_numbers, treat, whole_numbers
from headviz.surgery.paper import HOW_TO_COMPARE, PRESETS, RELEASED, Preset
from headviz.types import Geometry

WIDTHS = {"bloom-560m": 1024, "bloom-1b7": 2048}  # model sizes of the paper's models


def menu() -> None:
    """In a popover: one preset, what the paper reports, and the button that takes it."""
    name = st.selectbox(
        "Preset",
        list(PRESETS),
        format_func=lambda one: PRESETS[one].title,
        key="surgery_preset",
        help="Operations of “Surgical Repair of Collapsed Attention Heads in ALiBi Transformers” (arXiv 2603.09616).",
    )
    row = PRESETS[name]
    st.markdown(row.help)
    if counted := numbers(row):
        st.markdown(counted)
    st.markdown("**The paper reports**\n" + "".join(f"\n* {said}" for said in row.published))
    if row.doubts:
        st.markdown("**To know before**\n" + "".join(f"\n* {said}" for said in row.doubts))
    st.button(
        "Take this preset",
        type="primary",
        on_click=take,
        args=(name,),
        help="Puts the heads (or the rule), the paper's recipe and its steps into the plan"
        + (
            f", and {row.base} at the left; it comes from the hub when something is measured."
            if _model(row)
            else "."
        ),
    )
    with st.expander("The authors' released checkpoints"):
        st.caption(HOW_TO_COMPARE)
        for released in RELEASED.values():
            query = urlencode({"model": "bigscience/bloom-1b7", "against": released.name})
            st.markdown(
                f"[{released.title}](compare?{query}) (`{released.name}`): perplexity as published, {released.published}."
            )


def numbers(row: Preset) -> str:
    """How many numbers the preset trains, on a skeleton of the paper's model; empty for a rule, whose heads are not known."""
    shape = skeleton(row)
    if shape is None or not row.heads:
        return ""
    treatment = treat(row.heads, shape)
    return (
        f"Trains {trained_numbers(treatment, True) / 1e6:.1f}M numbers, not the {whole_numbers(treatment, True) / 1e6:.1f}M of the "
        "matrices they lie in."
    )


def skeleton(row: Preset) -> Geometry | None:
    """The shape of the preset's model, without its weights."""
    hidden = next((size for name, size in WIDTHS.items() if name in row.base), WIDTHS["bloom-1b7"])
    return Geometry(
        family="bloom", layers=row.layers, heads=row.of_heads, kv_heads=row.of_heads, head_dim=hidden // row.of_heads,
        hidden=hidden,
    )  # fmt: skip


def _model(row: Preset) -> str:
    """The hub id that the preset is for; empty where it is another repair's result."""
    return "" if " " in row.base else row.base


def take(name: str) -> None:
    """A callback: the preset into the view."""
    row = PRESETS[name]
    if _model(row):
        ui.put("model", _model(row))
        ui.put("revision", "")
    ui.put("recipe", "paper")
    ui.put("train_tokens", row.tokens)
    ui.put("repair_steps", row.steps)
    ui.put("every", row.every)
    ui.put("treat_by", "hand" if row.heads else "rule")
    ui.put("treated", write_heads(row.heads))
    ui.put("treated_from", f"as in the paper: {row.title}" if row.heads else "")
    if row.rule:
        ui.put("treat_rule", row.rule)
