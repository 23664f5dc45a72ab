"""The slider's own position: the largest share that the score keeps within tolerance, as far as that is measured."""

from __future__ import annotations

import dataclasses
import math

import streamlit as st

from headviz import ui
from headviz.analysis import ablation, sweeps
from headviz.analysis.ablation import Plan
from headviz.charts import fmt
from headviz.types import MeasureRequest, ScoreTable
from headviz.ui.ablation import curve, sweeping
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.traces import Traces
from headviz.ui.ablation.words import limit
from headviz.ui.within import Within, largest_share, not_measured

ROUNDS = 3  # halvings after the whole curve, until the bracket is below 1% of the heads


def applies(plan: Plan) -> bool:
    return ui.value("strict") == "auto" and plan.by_score and plan.mode == "static"


def settle(plan: Plan, table: ScoreTable) -> tuple[Plan, Within | None]:
    """The plan at the share that the page finds by itself, and why; as it was where somebody has moved the slider.

    While points come in the share stays: else each of them would move it, and begin runs of its own.
    """
    if not applies(plan):
        return plan, None
    if going():
        return plan, None
    found = largest_share(plan, table, (plan.metric,))
    heads = table.geometry.layers * table.geometry.heads
    share = math.floor(found.share * heads + 1e-6) / heads  # whole heads, and not one more than stays inside
    ui.put("off", 100 * share)
    return dataclasses.replace(plan, share=share), found


def going() -> bool:
    return sweeping.left() or st.session_state.get("headviz_inside") is not None


def line(work: Measurements, found: Within | None) -> None:
    """Under the sentence: where the share comes from, and what finds it."""
    if found is None:
        return
    if found.found or work.before is None or not work.started:
        st.caption(found.why)
        return
    missing = whole(work)
    runs = len(missing) + ROUNDS
    with st.container(horizontal=True, vertical_alignment="center", key="find"):
        st.caption(not_measured(), width="content")
        st.button(
            f"Find the largest within {limit(work.yard)}",
            key="find_share",
            on_click=find,
            args=(work, missing),
            help=f"Measures this score at 5, 10 … 30% with zero in the heads' place, then halves the bracket: about {runs} runs, "
            f"{fmt.duration(runs * sweeping.seconds_a_run(work))}. The slider goes there once it is known.",
        )


def whole(work: Measurements) -> list[MeasureRequest]:
    """What is missing of this score's curve, zero in the heads' place."""
    asked = []
    for share in sweeps.GRID:
        plan = dataclasses.replace(ablation.with_share(work.plan, share), replace="zero")
        asked.append(ablation.measuring(plan, ablation.chosen(plan, work.table)))
    return [one for one in dict.fromkeys(asked) if ui.cached(one) is None]


def find(work: Measurements, missing: list[MeasureRequest]) -> None:
    """A callback: the curve of this score, and then inside of its bracket."""
    sweeping.queue(missing)
    traces = Traces(work.plan, work.table, work.before)
    st.session_state.headviz_inside = curve.inside_of(traces, work.plan)
    ui.put("look", "curve")
