"""Panel: the cost against the share of heads, and what queues more points."""

from __future__ import annotations

import math

import streamlit as st

from headviz import ui
from headviz.charts import curve, fmt
from headviz.types import ScoreTable
from headviz.ui.ablation.measurements import GRID, Measurements
from headviz.ui.ablation.plan import tolerance


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
        tolerance=tolerance(work.plan) if on_text else -tolerance(work.plan),
        now=None if math.isnan(work.share) else work.share,
        theme=ui.theme(),
    )
    ui.chart(figure, key="curve", name=f"headviz-cost-{work.plan.metric}")


def buttons(work: Measurements) -> None:
    runs = len(work.plans) * len(GRID)
    seconds = work.before.provenance.seconds if work.before is not None else 0.0
    left, right = st.columns(2)
    took = f", about {fmt.duration(runs * seconds)}" if seconds else ""
    if left.button(
        "Whole curve",
        width="stretch",
        help=f"At most {runs} runs{took}; what is measured is kept.",
    ):
        st.session_state.headviz_curve = work.curve_key()
        work.go()
        st.rerun()
    draws = len(work.plans) * work.plan.draws
    took = f", about {fmt.duration(draws * seconds)}" if seconds else ""
    if right.button(
        "Random heads",
        width="stretch",
        disabled=work.static and not work.off.heads,
        help=(
            f"As many random heads, {work.plan.draws} times anywhere and {work.plan.draws} times with as many in each layer"
            if work.static
            else f"Each head off with the same probability on each input, {work.plan.draws} times"
        )
        + f": {draws} runs{took}.",
    ):
        st.session_state.headviz_random = work.key()
        work.go()
        st.rerun()
