"""Answers to requests, and what a person sees until they are there: nothing yet, working, failed, done."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from headviz.charts.fmt import duration
from headviz.errors import BY_NAME, BadInput, HeadvizError
from headviz.jobs import local, many
from headviz.jobs.folder import ENDED
from headviz.jobs.kinds import job_digest
from headviz.jobs.view import JobView
from headviz.types import Request, Result
from headviz.ui.state import holder

# of a job, as a line says it
STATES = {
    "running": ":orange[●] running",
    "queued": ":gray[○] waiting",
    "interrupted": ":orange[○] taken up again",
    "stalled": ":orange[●] no sign of life",
    "done": ":green[●] done",
    "failed": ":red[●] failed",
    "cancelled": ":gray[×] cancelled",
}


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


def cached_of(requests: Sequence[Request]) -> list[Result]:
    """The answers that are there, in the order of the requests: quicker than one by one where most are not."""
    there = many.there(map(job_digest, requests))
    found = [cached(request) for request in requests if job_digest(request) in there]
    return [result for result in found if result is not None]


def answer(request: Request, *, start: bool, button: str, empty: str, key: str = "") -> Result | None:
    """The answer to a request, or what a person sees until it is there.

    start: begin without being asked (cheap work); otherwise `button` begins it and `empty` says what will happen.
    key:   tells several of these on one page apart, side by side
    """
    result = cached(request)
    if result is not None:
        return result
    job = local.view(job_digest(request))
    if job is None and start:
        job = local.ask(request, holder())
    if job is None:
        st.info(empty, icon=":material/play_circle:")
        if st.button(button, type="primary", key=f"ask_{key or request.kind}"):
            local.ask(request, holder())
            st.rerun()
        return None
    if job.state == "done":
        return cached(request) or _unreadable(request)
    if job.state in ENDED:
        ended(job)
    elif job.digest in _left():
        _left_alone(job)
    else:
        _working(job.digest, key)
    return None


def forget(request: Request) -> None:
    """Drop the answer: what it tells of is there no more. Asking again computes it again."""
    digest = job_digest(request)
    local.store().prune(digests=(digest,))
    _kept.clear(digest, request)


def gather(requests: Sequence[Request], *, start: bool, group: str = "") -> dict[str, Result]:
    """The answers that are there, by digest; with `start`, what is missing is queued.

    What this browser session had asked for before, no longer wants, and no worker has begun, is taken back: of a slider
    only the newest position is measured. Each `group` of requests on a page minds its own.
    """
    there: dict[str, Result] = {}
    asked = st.session_state.setdefault(f"headviz_asked_{group}", set())
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


@st.fragment(run_every=0.3)
def working_on(digests: tuple[str, ...], group: str = "") -> None:
    """One line for several jobs: how many are left, what the running one does. The page reruns as answers come in.

    group: tells several such lines on one page apart
    """
    mine = [digest for digest in digests if digest not in _left()]
    jobs = [job for digest in mine if (job := local.hold(digest, holder())) is not None]
    if any(job.state == "done" for job in jobs):
        st.rerun()
    stopped = [job for job in jobs if job.state in ("failed", "cancelled")]
    for job in stopped[:1]:
        ended(job)
    left = [job for job in jobs if job.state not in ("failed", "cancelled")]
    if not left:
        return
    now = next((job for job in left if job.state == "running"), left[0])
    with st.container(
        border=True,
        key=f"working_{group}" if group else "working",
        horizontal=True,
        vertical_alignment="center",
    ):
        st.progress(
            min(1.0, now.done / now.total) if now.total else 0.0,
            text=f"{len(left)} to measure · {_progress_text(now)}",
        )
        if st.button("Cancel", key=f"cancel_all_{group}" if group else "cancel_all", width="content"):
            for job in left:
                _give_up(job.digest)
            st.rerun()


def _unreadable(request: Request) -> None:
    st.warning("The stored answer could not be read and was dropped. It is being computed again.")
    local.retry(job_digest(request), holder())
    st.rerun()


def ended(job: JobView) -> None:
    """What became of a job that failed or was cancelled; trying again where that can help; its log on request."""
    if job.state == "cancelled":
        st.info("This was cancelled before it finished.", icon=":material/cancel:")
    elif job.state == "failed":
        st.error(job.error or "The job failed.", icon=":material/error:")
    fixable = issubclass(BY_NAME.get(job.error_type or "", HeadvizError), BadInput)
    if (
        job.state != "done"
        and not fixable
        and st.button("Try again", key=f"retry_{job.digest}", type="primary")
    ):
        _left().discard(job.digest)
        local.retry(job.digest, holder())
        st.rerun()
    if job.state == "failed" and fixable:
        st.caption("Trying again would end the same: change the model or the data at the left.")
    if st.toggle(
        "Log", key=f"log_{job.digest}", help="The end of what the worker wrote while it ran this job."
    ):
        st.code(local.log_tail(job.digest) or "The log is empty.", language=None, height=240)


def _left() -> set[str]:
    """Jobs that this browser session waits for no longer while others do."""
    return st.session_state.setdefault("headviz_left", set())


def _give_up(digest: str) -> None:
    """Cancel, as far as it is ours to cancel: a job that another session watches goes on."""
    if local.cancel(digest, holder()) == "others still watch":
        _left().add(digest)


def _left_alone(job: JobView) -> None:
    others = f"{job.holders} other still waits" if job.holders == 1 else f"{job.holders} others still wait"
    st.info(f"You no longer wait for this, and {others} for it, so it goes on.", icon=":material/group:")
    again, stop, _ = st.columns([1, 1, 3])
    if again.button("Wait again", key=f"again_{job.digest}", width="stretch"):
        _left().discard(job.digest)
        st.rerun()
    if stop.button("Stop it for everybody", key=f"stop_{job.digest}", width="stretch"):
        local.cancel(job.digest, holder(), everyone=True)
        st.rerun()


@st.fragment(run_every=0.6)
def _working(digest: str, key: str = "") -> None:
    """What is being done, how far, how long still, and Cancel. Redraws alone; the page reruns when it is over."""
    job = local.hold(digest, holder())
    if job is None or job.state in ENDED:
        st.rerun()
    with st.container(border=True, key=f"working_{key}" if key else "working"):
        left, right = st.columns([2, 1] if key else [6, 1], vertical_alignment="center")
        with left:
            share = min(1.0, job.done / job.total) if job.total else 0.0
            st.progress(share, text=_progress_text(job))
        if right.button("Cancel", key=f"cancel_{digest[:8]}", width="stretch"):
            _give_up(digest)
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
