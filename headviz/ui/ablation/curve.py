"""Panel: the cost against the share of heads, how far it stays within tolerance, and what measures more of it."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from headviz import ui
from headviz.analysis import ablation, changes, sweeps
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.analysis.sweeps import GRID
from headviz.analysis.tolerance import Tolerance
from headviz.charts import curve, fmt
from headviz.types import ScoreTable
from headviz.ui.ablation import overlay, sweeping
from headviz.ui.ablation.controls import USUAL
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.traces import Traces
from headviz.ui.ablation.words import chance_words, margin, share_words

ACROSS = {"static": "share of heads off", "per-input": "share of heads off, each input its own (mean)"}


def panel(work: Measurements, table: ScoreTable) -> None:
    if work.before is None:
        st.caption("The curve begins with the model as it is, which is being measured.")
        return
    traces = Traces(work.plan, table, work.before)
    edges = {kind: _edge(traces, work, kind) for kind in work.plans}
    _measure_inside(traces, work, edges)
    sweeping.progress()
    _words(traces, work, edges)
    published = overlay.chosen()
    _draw(traces, work, published)
    _buttons(traces, work, edges)
    sweeping.whole_curve(work, traces.known)
    overlay.panel(published, apart=not overlay.fits(traces))


def _edge(traces: Traces, work: Measurements, kind: str) -> Tolerance | None:
    found = traces.trace(work.plan.metric, kind)
    return found.within(traces.yard, margin(traces.yard)) if found.shares else None


def _words(traces: Traces, work: Measurements, edges: dict[str, Tolerance | None]) -> None:
    if traces.yard.id == "logprob":
        st.markdown(chance_words(float(changes.correct(work.before, traces.scoring).mean())))
    if not any(edges.values()):
        st.markdown("No point of this score is measured yet.")
        return
    said = "; ".join(
        f"{curve.PLACES[kind]}: {share_words(edge, traces.yard)}" for kind, edge in edges.items()
    )
    symbol, plan = METRICS[work.plan.metric].symbol, work.plan
    apart = (
        ""
        if plan.by_score or not work.off.heads
        else f", not this set, {plan.origin}, which is the star in the figure"
    )
    st.markdown(f"Heads chosen by **{symbol}**{apart}. With {said}.")
    st.caption(
        "Straight lines between measured points, last crossing, as in the paper; the points are estimates, and their 95% "
        "intervals are in the figure."
    )


def _draw(traces: Traces, work: Measurements, published: tuple[curve.Line, ...]) -> None:
    yard = traces.yard
    points = [one for kind in work.plans for one in traces.points(work.plan.metric, kind)]
    draws = [one for kind in work.plans for one in traces.draws(work.plan.metric, kind)]
    by_score = work.plan.by_score or not work.off.heads
    own = [] if by_score else [one for kind in work.plans for one in traces.own(work.off, kind)]
    allowed = ui.value(yard.tolerance)
    share = work.off.share if work.plan.mode == "static" else None
    figure = curve.cost_curve(
        points,
        draws,
        unit=yard.unit,
        what=yard.what,
        tolerance=allowed if yard.worse == "higher" else -allowed,
        now=share,
        own=own,
        own_name=f"this set, {work.plan.origin}",
        until=until(),
        lines=published if overlay.fits(traces) else (),
        across=ACROSS[work.plan.mode],
        theme=ui.theme(),
        provenance=ui.measured_text(work.before),
    )
    ui.chart(figure, key="curve", name=f"headviz-cost-{work.plan.metric}")
    say_beyond([q.share for q in (*points, *draws)], max(share or 0.0, until()))


def until() -> float:
    """The share at which axes end: where the slider does, and a step of the whole curve more, because what is off under the
    paper's rule is more or less than was asked for."""
    return 1.0 if ui.value("wide") else USUAL / 100 + GRID[0]


def say_beyond(shares: Iterable[float], end: float) -> None:
    """That some points are not drawn, where that is so."""
    if beyond := {share for share in shares if share > end}:
        st.caption(
            f"Measured up to {fmt.percent(max(beyond))}; beyond {fmt.percent(end)} nothing is drawn unless the slider goes to "
            "100%."
        )


# ---------------------------------------------------------------------------------------------- measuring more


def inside_of(traces: Traces, plan: Plan) -> tuple:
    """What is measured inside of: another score, target or tolerance ends it."""
    return (ablation.with_share(plan, 0.0), traces.base, margin(traces.yard))


def _next(traces: Traces, work: Measurements, edges: dict[str, Tolerance | None]) -> list:
    """The middle of each bracket that is still wide."""
    found = []
    for kind, edge in edges.items():
        if edge is not None:
            spots = [spot for spot, _ in traces.spots(work.plan.metric, kind)]
            middle = sweeps.inside(traces.at(work.plan.metric, kind), traces.table, spots, edge)
            found += [middle] if middle is not None else []
    return found


def _measure_inside(traces: Traces, work: Measurements, edges: dict[str, Tolerance | None]) -> None:
    """While it is on: whenever the queue is empty, the next middle goes into it."""
    wanted = st.session_state.get("headviz_inside")
    if wanted is None:
        return
    if wanted != inside_of(traces, work.plan):
        st.session_state.headviz_inside = None
        return
    if not sweeping.left():
        if middles := _next(traces, work, edges):
            sweeping.queue(middles)
        else:
            st.session_state.headviz_inside = None
            st.rerun()  # the slider may stand at the share that is known now
    wide = [
        f"{curve.PLACES[kind]} between {fmt.percent(edge.inside)} and {fmt.percent(edge.outside)}, about "
        f"{sweeps.halvings(edge)} runs more"
        for kind, edge in edges.items()
        if edge is not None and sweeps.halvings(edge)
    ]
    st.caption("Measuring inside: " + "; ".join(wide) + ".")


def _buttons(traces: Traces, work: Measurements, edges: dict[str, Tolerance | None]) -> None:
    seconds = sweeping.seconds_a_run(work)
    left, right = st.columns(2)
    runs = sum(sweeps.halvings(edge) for edge in edges.values() if edge is not None)
    going = st.session_state.get("headviz_inside") is not None
    if left.button(
        "Measure inside",
        key="measure_inside",
        width="stretch",
        disabled=going or not _next(traces, work, edges),
        help="Halves the bracket between the last share inside the tolerance and the first outside, until it is below 1% of "
        f"the heads: about {runs} runs, {fmt.duration(runs * seconds)}.",
    ):
        st.session_state.headviz_inside = inside_of(traces, work.plan)
        st.rerun()
    missing = _random_here(traces, work)
    right.button(
        "Random heads at this share",
        key="measure_random",
        width="stretch",
        disabled=not missing,
        on_click=sweeping.queue,
        args=(missing,),
        help=f"As many random heads, {work.plan.draws} times anywhere and {work.plan.draws} times with as many in each layer, "
        f"for either replacement: {len(missing)} runs are missing, about {fmt.duration(len(missing) * seconds)}. A figure "
        "that is quoted should rest on 20 draws or more.",
    )


def _random_here(traces: Traces, work: Measurements) -> list:
    """Random draws beside what is off now that are not measured yet."""
    if work.plan.mode == "per-input":
        asked = work.controls()["uniform"]  # once it is measured how many the rule switches off
    else:
        asked = [
            one
            for plan in work.plans.values()
            for several in ablation.controls(plan, work.off).values()
            for one in several
        ]
    there = set(traces.known.values())
    return [one for one in dict.fromkeys(asked) if one not in there]
