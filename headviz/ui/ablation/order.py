"""Where the heads that are off stand among measured sets, by gradient: at once, before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import streamlit as st

from headviz import ui
from headviz.analysis import order
from headviz.analysis.choose import HeadSet
from headviz.analysis.metrics import METRICS
from headviz.analysis.order import Place
from headviz.charts import fmt, frame
from headviz.charts.order import NOT_A_PREDICTION
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.types import DataRef, GradientRequest, HeadGradients
from headviz.ui.ablation import sweeping
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.traces import Traces

FEW = 3  # sets, this one among them, below which a place says nothing
RANDOM = {"uniform": "random", "layer_matched": "random by layer"}


def asking(work: Measurements) -> GradientRequest:
    """Gradients on the text on which heads are chosen; where those are questions, on the text at the left."""
    text = work.plan.chosen_on if isinstance(work.plan.chosen_on, DataRef) else ui.data_ref()
    return order.gradient_request(work.plan.model, text)


def gradients(work: Measurements) -> HeadGradients | None:
    """The gradients, if they are there."""
    return ui.cached(asking(work))


@dataclass(frozen=True, kw_only=True)
class Stop:
    """A measured head set on the strip. name: what it is, short; cost: its measured change, as text with its unit."""

    name: str
    cost: str


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
    if place.of < FEW:
        st.caption("By gradient: this position has a place once two other sets of heads are measured here.")
        return
    with st.container(key="order_strip"):
        st.html(strip_html(place, [stop for _, stop in measured], ui.theme()))
    seconds = fmt.duration(found.provenance.seconds)
    st.caption(
        "Measured sets from the smallest to the largest sum of their heads’ absolute gradients"
        + (f" (once, {seconds})" if found.provenance.seconds else "")
        + f". {order.SOURCE}."
    )


def strip_html(found: Place, measured: Sequence[Stop], theme: str) -> str:
    """Measured sets side by side in the order of their gradients, smallest first, the present one a hatched bar between them.

    Places, no values: the gradient has no scale that means anything in nats or points. Neighbours are named. HTML, which is
    on screen ten times sooner than a plotly figure: it is what a moved slider tells before anything is measured.
    """
    p = frame.palette(theme)
    mine = (
        f"<span title='this position: place {found.rank} of {found.of}&#10;{NOT_A_PREDICTION}' style='flex: 1; "
        f"border: 1.5px solid {p.accent}; background: repeating-linear-gradient(-45deg, {p.accent} 0 1.5px, transparent "
        "1.5px 6px)'></span>"
    )
    bars = [
        f"<span title='{escape(stop.name)}&#10;measured {escape(stop.cost)}&#10;place {at + (at >= found.rank - 1) + 1} of "
        f"{found.of}' style='flex: 1; background: {p.null}'></span>"
        for at, stop in enumerate(measured[which] for which in found.order)
    ]
    bars.insert(found.rank - 1, mine)
    small = f"font-size: .75rem; color: {p.muted}; min-height: 1rem"
    before, after = (
        "" if which is None else f"{word} {escape(measured[which].name)}, {escape(measured[which].cost)}"
        for word, which in (("after", found.below), ("before", found.above))
    )
    return (
        f"<div>By gradient: place {found.rank} of {found.of} <i>({NOT_A_PREDICTION})</i></div>"
        f"<div style='{small}'>{before}</div>"
        f"<div style='display: flex; gap: {'6px' if found.of < 30 else '1px'}; height: 38px' role='img' aria-label='By "
        f"gradient this position has place {found.rank} of {found.of} among measured ones'>{''.join(bars)}</div>"
        f"<div style='{small}; text-align: right'>{after}</div>"
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
    traces = Traces(work.plans["zero"], work.table, work.before)
    seen, names = {work.off.heads, ()}, _names(work, traces)
    for request in traces.known.values():
        asked = request.ablation
        if (asked.mode, asked.replace) != ("static", "zero") or asked.heads in seen:
            continue
        seen.add(asked.heads)
        off = HeadSet(heads=asked.heads, geometry=work.off.geometry)
        cost = f"{fmt.signed(traces.cost(request))} {traces.yard.unit}"
        yield off, Stop(name=f"{names.get(asked.heads, 'another set,')} {fmt.percent(off.share)}", cost=cost)


def _names(work: Measurements, traces: Traces) -> dict[tuple, str]:
    """Who chose a measured set, where that is one of the chosen scores or chance beside it. The first one counts."""
    names: dict[tuple, str] = {}
    for metric in sweeping.chosen_scores(work):
        for spot, beside in traces.spots(metric, "zero"):
            names.setdefault(spot.request.ablation.heads, METRICS[metric].symbol)
            for kind, several in beside.items():
                for one in several:
                    names.setdefault(one.ablation.heads, RANDOM[kind])
    for kind, several in work.controls().items():
        for one in several:
            names.setdefault(one.ablation.heads, RANDOM[kind])
    return names
