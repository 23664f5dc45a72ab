"""Panel: the cost against the share of heads, and what queues more points."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.charts import curve, fmt
from headviz.jobs.kinds import job_digest
from headviz.types import ScoreTable
from headviz.ui.ablation.measurements import GRID, Measurements
from headviz.ui.ablation.plan import TOLERANCE


def panel(work: Measurements, table: ScoreTable) -> None:
    draw_curve(work)
    buttons(work)


def draw_curve(work: Measurements) -> None:
    on_text = work.plan.text is not None
    figure = curve.cost_curve(
        work.points(),
        work.draws(),
        unit="nats" if on_text else "accuracy",
        what="change in loss" if on_text else "change in accuracy",
        tolerance=TOLERANCE["loss"] if on_text else -TOLERANCE["questions"],
        now=work.off.share,
        theme=ui.theme(),
    )
    ui.chart(figure, key="curve", name=f"headviz-cost-{work.plan.metric}")


def buttons(work: Measurements) -> None:
    runs = 2 * len(GRID)
    seconds = work.before.provenance.seconds if work.before is not None else 0.0
    left, right = st.columns(2)
    took = f", about {fmt.duration(runs * seconds)}" if seconds else ""
    if left.button(
        "Whole curve",
        width="stretch",
        help=f"At most {runs} runs{took}; what is measured is kept.",
    ):
        base = ablation.measuring(work.plan, None)
        st.session_state.headviz_curve = (work.plan.metric, job_digest(base))
        st.rerun()
    draws = 2 * work.plan.draws
    took = f", about {fmt.duration(draws * seconds)}" if seconds else ""
    if right.button(
        "Random heads",
        width="stretch",
        disabled=not work.off.heads,
        help=f"As many random heads, {work.plan.draws} times anywhere and {work.plan.draws} times with as many in each "
        f"layer: {draws} runs{took}.",
    ):
        st.session_state.headviz_random = work.key()
        st.rerun()
