"""All repairs, and the state of one: how far, how long still, cancel, resume, clone and edit."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.charts.fmt import duration
from headviz.errors import BY_NAME, BadInput, HeadvizError
from headviz.jobs import local
from headviz.jobs.folder import ENDED
from headviz.jobs.view import JobView
from headviz.models import catalog
from headviz.surgery.arms import ARMS
from headviz.ui.answers import STATES
from headviz.ui.surgery import words, work
from headviz.ui.surgery.case import Case
from headviz.ui.surgery.design import clone

SHOWN = 12  # repairs of the list, newest first


def pick(digest: str) -> None:
    """A callback: show this repair."""
    ui.put("operation", digest)
    ui.put("stage", "watch")


def design_first() -> None:
    ui.put("stage", "design")


@st.fragment(run_every=3)
def all_repairs(active_before: int) -> None:
    """The list; redraws alone while some of them move, and reruns the page when one of them ends."""
    jobs = work.repairs()
    if sum(work.is_running(job) for job in jobs) != active_before:
        st.rerun()
    rows(jobs)


def table() -> None:
    """Every repair in one row each. Those that do not change any more stand still: a redraw could swallow a click."""
    jobs = work.repairs()
    if not jobs:
        st.info(
            "No repair yet. Under **Design**, heads are chosen by a rule already; **Launch** begins it, and it goes on when this page is "
            "closed.",
            icon=":material/healing:",
        )
        st.button("Design one", type="primary", on_click=design_first)
        return
    active = sum(work.is_running(job) for job in jobs)
    with st.expander(f"All repairs ({len(jobs):,})", expanded=not ui.value("operation")):
        if active:
            all_repairs(active)
        else:
            rows(jobs)


def rows(jobs: list[JobView]) -> None:
    for job in jobs[:SHOWN]:
        chosen = job.digest == ui.value("operation")
        with st.container(border=True, key=f"repair_{job.digest[:12]}"):
            left, middle, right = st.columns([6, 2.6, 1.4], vertical_alignment="center")
            left.markdown(f"**{catalog.short(job.request.model)}**: {words.summary(job.request)}")
            left.caption(f"`{job.digest[:12]}` · asked {job.created:%Y-%m-%d %H:%M}")
            middle.markdown(STATES[job.state])
            middle.caption(progress_words(job))
            right.button(
                "Shown" if chosen else "Open",
                key=f"open_{job.digest}",
                width="stretch",
                disabled=chosen,
                on_click=pick,
                args=(job.digest,),
                help="Shows its curves, film and verdict below.",
            )
    if len(jobs) > SHOWN:
        st.caption(f"{len(jobs) - SHOWN} older repairs: the Jobs page lists all.")


def progress_words(job: JobView) -> str:
    """How far and how long still, or how long it took."""
    if job.state in ENDED:
        return f"took {duration(job.elapsed)}" if job.elapsed else ""
    if job.state == "queued":
        return "waiting for the worker" if not job.ahead else f"{job.ahead} before it"
    parts = [job.doing or "starting"]
    if job.total:
        parts.append(f"{job.done:,} of {job.total:,} {job.unit}".rstrip())
    if job.eta_seconds is not None:
        parts.append(f"about {duration(job.eta_seconds)} left")
    return " · ".join(parts)


@st.fragment(run_every=1)
def pulse(digest: str) -> None:
    """State, progress, time left and Cancel of a repair that runs. Redraws alone; the page reruns when it is over."""
    job = local.hold(digest, ui.holder())
    if job is None or job.state in ENDED:
        st.rerun()
    with st.container(border=True, key="pulse"):
        left, right = st.columns([6, 1], vertical_alignment="center")
        share = min(1.0, job.done / job.total) if job.total else 0.0
        left.progress(share, text=f"{STATES[job.state]} · {progress_words(job)}")
        if right.button(
            "Cancel",
            key=f"cancel_{digest[:8]}",
            width="stretch",
            disabled=job.stopping,
            help="Stops it within two seconds. What it reached is kept; Resume goes on from there.",
        ):
            if local.cancel(digest, ui.holder()) == "others still watch":
                st.toast("Others watch this repair, so it goes on. The Jobs page stops it for everybody.")
            st.rerun()


def state(case: Case) -> None:
    """Which repair this is, and how far: progress while it runs, then what became of it; resume, log, clone."""
    job = case.job
    st.markdown(f"**{catalog.label(case.request.model)}**: {words.summary(case.request)}")
    when = f" · asked {job.created:%Y-%m-%d %H:%M}" if job else ""
    took = (
        f" · {STATES[job.state]}, {progress_words(job)}".rstrip(", ")
        if job and not work.is_running(job)
        else ""
    )
    st.caption(f"`{case.digest[:12]}`{when}{took}")
    if work.is_running(job):
        pulse(case.digest)
    elif job is not None and job.state in ("cancelled", "failed"):
        if job.state == "failed":
            st.error(job.error or "The repair failed.", icon=":material/error:")
        else:
            st.info("This repair was cancelled. What it reached is kept.", icon=":material/cancel:")
        hopeless = issubclass(BY_NAME.get(job.error_type or "", HeadvizError), BadInput)
        if hopeless:
            st.caption("Resuming would end the same: clone the plan, mend it, and launch that.")
        _buttons(case, resume=not hopeless, log=True)
        return
    _buttons(case, resume=False, log=False)


def _buttons(case: Case, *, resume: bool, log: bool) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if resume and st.button(
            "Resume",
            type="primary",
            icon=":material/play_arrow:",
            help="Goes on from the last evaluated step, as if it had never stopped. Where it failed, mend the reason first: room on the disk, say.",
        ):
            local.retry(case.digest, ui.holder())
            st.rerun()
        st.button(
            "Clone and edit",
            icon=":material/content_copy:",
            on_click=clone,
            args=(case.request,),
            help="Opens the plan under Design with everything as it was here, to change it and launch it as another repair.",
        )
        if (
            case.job is not None
            and log
            and st.toggle("Log", key=f"log_{case.digest}", help="The end of what it wrote while it ran.")
        ):
            st.code(local.log_tail(case.digest) or "The log is empty.", language=None, height=240)


def running_words(case: Case) -> str:
    """Which runs have begun and are not over, as far as they were evaluated."""
    told = [
        f"{ARMS[arm].title}, seed {seed}"
        + (f", pass {number}" if case.request.passes > 1 else "")
        + f", step {step:,} of {case.request.steps:,}"
        for arm, seed, number, step in case.running
    ]
    return f"Now: {'; '.join(told)}." if told else ""
