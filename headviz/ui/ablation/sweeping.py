"""Measuring many points: what is queued for this browser session, how far it is, and cancel."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Sequence

import streamlit as st

from headviz import ui
from headviz.analysis import ablation, sweeps
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.jobs import local, many
from headviz.jobs.kinds import job_digest
from headviz.types import MeasureRequest, canonical
from headviz.ui.ablation import origins
from headviz.ui.ablation.measurements import Measurements

PAUSE = 2.0  # seconds between two redraws of the page while points come in


def _queue() -> dict[str, MeasureRequest]:
    """Digest → request, of what this browser session has queued and not seen done."""
    return st.session_state.setdefault("headviz_sweep", {})


def queue(requests: Sequence[MeasureRequest]) -> None:
    """Ask for all of these, in this order; what is measured already is left alone."""
    many.queue(requests, ui.holder())
    _queue().update({job_digest(one): one for one in requests})


def stop() -> None:
    """Take back what has not begun, stop what runs, and measure inside no further."""
    many.take_back(_queue(), ui.holder())
    _queue().clear()
    st.session_state.headviz_inside = None


def left() -> bool:
    return bool(_queue())


def progress() -> None:
    """How far the queue is. The page is drawn anew as points come in."""
    if _queue():
        _progress(tuple(_queue()))


@st.fragment(run_every=1.0)
def _progress(digests: tuple[str, ...]) -> None:
    seen = many.standing(digests, ui.holder())
    for digest in seen.done:
        _queue().pop(digest, None)
    if seen.problem:
        st.error(seen.problem, icon=":material/error:")
    if seen.ended:
        for digest in seen.ended:
            _queue().pop(digest, None)
        st.session_state.headviz_inside = None
        job = local.view(seen.ended[0])
        if job is not None:
            ui.ended(job)
    if gone := [_queue()[digest] for digest in seen.gone if digest in _queue()]:
        many.queue(gone, ui.holder())  # the slider took it back
    if _queue():
        _line(seen, len(digests))
    if seen.done and (not _queue() or time.monotonic() - st.session_state.get("headviz_drawn", 0.0) > PAUSE):
        st.session_state.headviz_drawn = time.monotonic()
        st.rerun()


def _line(seen: many.Standing, asked: int) -> None:
    with st.container(border=True, key="working_sweep"):
        text, button = st.columns([6, 1], vertical_alignment="center")
        said = f"{len(seen.left)} of the queue left to measure"
        if seen.running is not None:
            said += f" · {seen.running.doing or 'starting'}"
            if seen.running.total:
                said += f" · {seen.running.done:,} of {seen.running.total:,} {seen.running.unit}"
        text.progress(len(seen.done) / asked, text=said)
        if button.button("Cancel", key="cancel_sweep", width="stretch"):
            stop()
            st.rerun()


# -------------------------------------------------------------------------------------------------- whole curves


def seconds_a_run(work: Measurements) -> float:
    """What a run takes, from those on the page; the baseline counts only alone, because it may have loaded the model."""
    there = list(work.there.values())
    runs = [one for one in there if one is not work.before] or [work.before]
    return sum(one.provenance.seconds for one in runs) / len(runs)


def chosen_scores(work: Measurements) -> list[str]:
    """The scores of the view that this model has, the current one first."""
    wanted = [work.plan.metric, *ui.value("scores").split(",")]
    return [one for one in dict.fromkeys(wanted) if one in work.table.metrics]


def _keep_scores() -> None:
    ui.put("scores", ",".join(one for one in METRICS if one in st.session_state.scores_box))


@st.cache_resource(max_entries=32, show_spinner=False)
def _sweep(plan: bytes, scores: str, metrics: tuple[str, ...], kinds: tuple[str, ...], _plan, _table):
    """Digest → request of the whole curve. It takes a while with many draws, and a slider must not wait for it."""
    return {job_digest(one): one for one in sweeps.sweep(_plan, _table, metrics, kinds)}


def _measure_all(work: Measurements, metrics: tuple[str, ...], missing: list[MeasureRequest]) -> None:
    """A callback: queue them, and keep where their heads were chosen for who opens one of these jobs."""
    queue(missing)
    if work.static:
        for metric in metrics:
            for share in sweeps.GRID:
                one = dataclasses.replace(ablation.with_share(work.plan, share), metric=metric)
                off = ablation.chosen(one, work.table)
                origins.remember(one.model, off.heads, ablation.chosen_by(one), origins.chooser(one))


def whole_curve(work: Measurements, measured: Collection[str]) -> None:
    """Choose scores; how many runs and how long; the button that queues them. The baseline is there.

    measured: digests of what is there
    """
    wanted = [one for one in ui.value("scores").split(",") if one in work.table.metrics]
    # each time: a box that comes back from another panel is empty in the browser unless it is told its value
    st.session_state.scores_box = wanted
    left_, right = st.columns([3, 2], vertical_alignment="bottom")
    left_.multiselect(
        "Scores to compare",
        list(work.table.metrics),
        format_func=lambda name: METRICS[name].symbol,
        key="scores_box",
        on_change=_keep_scores,
        help="Each of these chooses heads at 5, 10 … 30% of all; random heads of the same number are measured beside them, "
        "as many times as “Random draws” under More says. The current score is always among them.",
    )
    plan = ablation.with_share(work.plan, 0.0)
    metrics = tuple(chosen_scores(work))
    requests = _sweep(
        canonical(plan), work.table.provenance.digest, metrics, tuple(work.plans), plan, work.table
    )
    missing = [one for key, one in requests.items() if key not in measured]
    took = f", about {fmt.duration(len(missing) * seconds_a_run(work))}" if missing else ""
    right.button(
        "Measure the whole curve",
        key="measure_curve",
        width="stretch",
        disabled=not missing,
        on_click=_measure_all,
        args=(work, metrics, missing),
        help="Runs one after another; each is kept, whatever becomes of the rest, and points appear as they come in.",
    )
    st.caption(
        f"{fmt.count(len(missing), len(requests))} runs are missing{took}: {len(metrics)} scores at "
        f"{len(sweeps.GRID)} shares, {' and '.join(work.plans)} in their place, {work.plan.draws} random draw{'' if work.plan.draws == 1 else 's'} of each kind."
        if missing
        else f"All {len(requests):,} runs of the whole curve are measured."
    )
