"""Answers to requests, and what a person sees until they are there: nothing yet, working, failed, done."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headviz.charts.fmt import duration
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.types import Request, Result
from headviz.ui.state import holder


@st.cache_resource(max_entries=256, show_spinner=False)
def _kept(digest: str, _request: Request) -> Result:
    result = local.result(_request)
    if result is None:
        raise LookupError(digest)
    return result


def cached(request: Request) -> Result | None:
    """The answer if it is there; never starts anything."""
    try:
        return _kept(job_digest(request), request)
    except LookupError:
        return None


def answer(request: Request, *, start: bool, button: str, empty: str) -> Result | None:
    """The answer to a request, or what a person sees until it is there.

    start: begin without being asked (cheap work); otherwise `button` begins it and `empty` says what will happen.
    """
    result = cached(request)
    if result is not None:
        return result
    job = local.view(job_digest(request))
    if job is None and start:
        job = local.ask(request, holder())
    if job is None:
        st.info(empty, icon=":material/play_circle:")
        if st.button(button, type="primary", key=f"ask_{request.kind}"):
            local.ask(request, holder())
            st.rerun()
        return None
    if job.state == "done":
        return cached(request) or _unreadable(request)
    if job.state in ("failed", "cancelled"):
        _ended(job)
    else:
        _working(job.digest)
    return None


def gather(requests: Sequence[Request], *, start: bool) -> dict[str, Result]:
    """The answers that are there, by digest; with `start`, what is missing is queued.

    What this browser session had asked for before, no longer wants, and no worker has begun, is taken back: of a slider
    only the newest position is measured.
    """
    there: dict[str, Result] = {}
    asked = st.session_state.setdefault("headviz_asked", set())
    wanted = {job_digest(request): request for request in requests}
    for digest, request in wanted.items():
        if (found := cached(request)) is not None:
            there[digest] = found
        elif start and local.view(digest) is None:
            local.ask(request, holder())
            asked.add(digest)
    if start:
        for digest in [digest for digest in asked if digest not in wanted]:
            local.withdraw(digest, holder())
            asked.discard(digest)
    return there


@st.fragment(run_every=0.7)
def working_on(digests: tuple[str, ...]) -> None:
    """One line for several jobs: how many are left, what the running one does. The page reruns as answers come in."""
    jobs = [job for digest in digests if (job := local.hold(digest, holder())) is not None]
    if any(job.state == "done" for job in jobs) or not jobs:
        st.rerun()
    failed = [job for job in jobs if job.state == "failed"]
    for job in failed[:1]:
        _ended(job)
    left = [job for job in jobs if job.state not in ("failed", "cancelled")]
    if not left:
        return
    now = next((job for job in left if job.state == "running"), left[0])
    with st.container(border=True, key="working"):
        line, button = st.columns([6, 1], vertical_alignment="center")
        line.progress(
            min(1.0, now.done / now.total) if now.total else 0.0,
            text=f"{len(left)} to measure · {_progress_text(now)}",
        )
        if button.button("Cancel", key="cancel_all", width="stretch"):
            for job in left:
                local.cancel(job.digest, holder())
            st.rerun()


def _unreadable(request: Request) -> None:
    st.warning("The stored answer could not be read and was dropped. It is being computed again.")
    local.retry(job_digest(request), holder())
    st.rerun()


def _ended(job) -> None:
    with st.container(key=f"ended_{job.digest[:8]}"):
        if job.state == "cancelled":
            st.info("This was cancelled before it finished.", icon=":material/cancel:")
        else:
            st.error(job.error or "The job failed.", icon=":material/error:")
        if st.button("Try again", key=f"retry_{job.digest[:8]}", type="primary"):
            local.retry(job.digest, holder())
            st.rerun()
        if job.state == "failed" and st.toggle("Show the log", key=f"log_{job.digest[:8]}"):
            st.code(local.log_tail(job.digest) or "The log is empty.", language=None, height=260)


@st.fragment(run_every=0.6)
def _working(digest: str) -> None:
    """What is being done, how far, how long still, and Cancel. Redraws alone; the page reruns when it is over."""
    job = local.hold(digest, holder())
    if job is None or job.state in ("done", "failed", "cancelled"):
        st.rerun()
    with st.container(border=True, key="working"):
        left, right = st.columns([6, 1], vertical_alignment="center")
        with left:
            share = min(1.0, job.done / job.total) if job.total else 0.0
            st.progress(share, text=_progress_text(job))
        if right.button("Cancel", key=f"cancel_{digest[:8]}", width="stretch"):
            local.cancel(digest, holder())
            st.rerun()


def _progress_text(job) -> str:
    if job.state == "queued":
        return "Waiting for the worker to start" if not job.ahead else f"Waiting: {job.ahead} before this one"
    if job.state in ("interrupted", "stalled"):
        return "The worker stopped; the job is being taken up again"
    text = job.doing or "Starting"
    if job.total:
        text += f" · {job.done:,} of {job.total:,} {job.unit}".rstrip()
    if job.eta_seconds is not None:
        text += f" · about {duration(job.eta_seconds)} left"
    return text


@st.fragment(run_every=3)
def jobs_indicator() -> None:
    """One line in the sidebar: how many jobs run or wait."""
    states = [job.state for job in local.list_jobs()]
    running = sum(state in ("running", "stalled") for state in states)
    waiting = sum(state in ("queued", "interrupted") for state in states)
    if running or waiting:
        local.ensure_worker()
        st.caption(f":orange[●] {running} running" + (f", {waiting} waiting" if waiting else ""))
    else:
        st.caption(":gray[●] No job is running")
