"""The numbers beside the map: before, after, change, and whether it is within tolerance."""

from __future__ import annotations

import streamlit as st

from headviz.analysis import ablation
from headviz.analysis.choose import savings
from headviz.analysis.paired import within_tolerance
from headviz.charts import fmt
from headviz.data import corpora
from headviz.jobs.kinds import job_digest
from headviz.ui.ablation.measurements import Measurements, change_of, change_text
from headviz.ui.ablation.plan import TOLERANCE


def costs(work: Measurements) -> None:
    """The numbers beside the map: before, after, change, and whether it is within tolerance."""
    on_text = work.plan.text is not None
    margin = TOLERANCE["loss" if on_text else "questions"]
    rows = []
    for kind in ("zero", "mean"):
        tree = work.report(kind)
        if tree is None:
            rows.append({"instead": kind, "before": "…", "after": "…", "change": "measuring", "within": ""})
            continue
        after = work.there[job_digest(ablation.measuring(work.plans[kind], work.off))]
        said = within_tolerance(
            change_of(work.plan, work.before, after), margin=margin, worse="higher" if on_text else "lower"
        )
        rows.append(
            {
                "instead": kind,
                "was": f"{fmt.number(tree['baseline'])} → {fmt.number(tree['ablated'])}",
                "change": change_text(tree),
                "within": said.answer,
            }
        )
    limit = f"{margin:g} nats" if on_text else "1 point"
    st.dataframe(
        rows,
        hide_index=True,
        column_config={
            "instead": st.column_config.TextColumn(
                "instead", help="What stands in for the output of a head that is off."
            ),
            "was": st.column_config.TextColumn("loss" if on_text else "accuracy", width="small"),
            "change": st.column_config.TextColumn("change [95%]"),
            "within": st.column_config.TextColumn(
                f"≤ {limit}?",
                width="small",
                help="Yes: even the unlucky end of the 95% interval stays inside. Cannot tell: it would take more text or "
                "questions; that is not the same as no effect.",
            ),
        },
    )
    if work.off.heads:
        freed = savings(work.off, context=512)
        st.caption(
            f"A runtime that skips whole KV groups could save {freed.groups} of {freed.groups_total} "
            f"({fmt.percent(freed.share)} of KV-cache bytes and attention FLOPs). headviz itself saves nothing: it zeroes."
        )
    flagged = "the same inputs: flagged" if ablation.same_inputs(work.plan) else "other text than is measured"
    st.caption(f"Heads are chosen on {corpora.describe(work.plan.chosen_on)}: {flagged}.")
