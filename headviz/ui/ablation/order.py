"""Where the heads that are off stand among measured sets, by gradient: at once, before anything is measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import streamlit as st

from headviz import ui
from headviz.analysis import ablation, order
from headviz.analysis.choose import HeadSet
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.charts.order import Stop, order_strip
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.types import DataRef, GradientRequest, HeadGradients
from headviz.ui.ablation.measurements import GRID, Measurements

ON_QUESTIONS = 100  # a change in accuracy is told in points


def asking(work: Measurements) -> GradientRequest:
    """Gradients on the text on which heads are chosen; where those are questions, on the text at the left."""
    text = work.plan.chosen_on if isinstance(work.plan.chosen_on, DataRef) else ui.data_ref()
    return order.gradient_request(work.plan.model, text)


def gradients(work: Measurements) -> HeadGradients | None:
    """The gradients, if they are there."""
    return ui.cached(asking(work))


# ---------------------------------------------------------------------------------------------------- the strip


def strip(work: Measurements) -> None:
    """The place of this position among what is measured; computing the gradients once nothing else waits."""
    if work.plan.mode != "static":
        st.caption("By gradient, only one set of heads for all inputs has a place.")
        return
    request = asking(work)
    found = ui.cached(request)
    if found is None:
        _wait(work, request)
        return
    measured = list(measured_sets(work))
    place = order.place(found.values, work.off.mask(), [off.mask() for off, _ in measured])
    ui.chart(
        order_strip(place, [stop for _, stop in measured], theme=ui.theme()),
        key="order_strip",
        name="headviz-order",
        alt=f"By gradient this position has place {place.rank} of {place.of} among measured ones",
    )
    seconds = fmt.duration(found.provenance.seconds)
    st.caption(
        "Measured sets from the smallest to the largest sum of their heads’ absolute gradients"
        + (f" (once, {seconds})" if found.provenance.seconds else "")
        + f". {order.SOURCE}."
    )


def _wait(work: Measurements, request: GradientRequest) -> None:
    """Nothing is measured any more: begin, where that is cheap, or offer to. Shows how far it is."""
    digest = job_digest(request)
    job, measuring = local.view(digest), bool(work.missing()) and work.started
    if job is None and not measuring and ui.starts_by_itself(request):
        job = local.ask(request, ui.holder())
    if job is not None:
        if not measuring:
            ui.working_on((digest,), "order")
        return
    if ui.starts_by_itself(request):
        st.caption("By gradient: its place follows when this is measured.")
    elif st.button(
        "Order by gradient",
        key="ask_gradient",
        help="One pass forward and back over a little text: where any position of the slider stands among measured ones, "
        "at once. An order, never an amount of loss.",
    ):
        local.ask(request, ui.holder())
        st.rerun()


def measured_sets(work: Measurements) -> Iterator[tuple[HeadSet, Stop]]:
    """(set, what to write) of each other static set measured on this target with zero in its place, once each."""
    if work.before is None:
        return
    seen = {work.off.heads, ()}
    for off, name in _candidates(work):
        if off.heads in seen:
            continue
        seen.add(off.heads)
        after = ui.cached(ablation.measuring(work.plans["zero"], off))
        if after is not None:
            yield off, Stop(name=name, cost=_cost(work, after))


def _candidates(work: Measurements) -> Iterator[tuple[HeadSet, str]]:
    """Sets that pages ask for: of the chosen scores at the shares of the curve, and random ones at this position."""
    listed = [m for m in ui.value("scores").split(",") if m]
    for metric in dict.fromkeys([work.plan.metric, *listed]):
        for share in GRID:
            plan = dataclasses.replace(
                work.plans["zero"], metric=metric, share=share, heads=None, threshold=None
            )
            off = ablation.chosen(plan, work.table)
            yield off, f"{METRICS[metric].symbol} {fmt.percent(off.share)}"
    for kind, requests in ablation.controls(work.plans["zero"], work.off).items():
        name = "random" if kind == "uniform" else "random by layer"
        for request in requests:
            off = HeadSet(heads=request.ablation.heads, geometry=work.off.geometry)
            yield off, f"{name} {fmt.percent(off.share)}"


def _cost(work: Measurements, after) -> str:
    before, now = ablation.headline(work.plan, work.before, after)
    if work.plan.text is not None:
        return f"{fmt.signed(now - before)} nats"
    return f"{fmt.signed((now - before) * ON_QUESTIONS)} points"
