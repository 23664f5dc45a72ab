"""Panel: take the head set and its measurements away."""

from __future__ import annotations

import json

import streamlit as st

from headviz.analysis.headfile import write_heads
from headviz.data import corpora
from headviz.types import ScoreTable
from headviz.ui.ablation.measurements import Measurements


def panel(work: Measurements, table: ScoreTable) -> None:
    how = {
        "metric": work.plan.metric,
        "share_asked": work.plan.share,
        "chosen_on": corpora.describe(work.plan.chosen_on),
    }
    text = write_heads(work.off, model=work.plan.model.name, revision=work.plan.model.revision, how=how)
    left, right = st.columns(2)
    left.download_button(
        "Head set (JSON)",
        text,
        file_name="headviz-heads.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        help="Which heads are off; `python -m headviz ablate --heads FILE` reads it back.",
    )
    trees = [tree for kind in ("zero", "mean") if (tree := work.report(kind))]
    right.download_button(
        "Measurements (JSON)",
        json.dumps(trees, indent=1, default=str),
        file_name="headviz-ablation.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        disabled=not trees,
        help="Change, interval, random heads, and where heads were chosen and measured.",
    )
