"""Jobs: what is running, what failed and why, and what is kept."""

import streamlit as st

from headviz import ui
from headviz.charts.fmt import duration, size
from headviz.jobs import local
from headviz.jobs.folder import ENDED
from headviz.reopen import page_of
from headviz.settings import settings
from headviz.ui.ablation import origins
from headviz.ui.answers import STATES

SHOWN = 40  # ended jobs, newest first


def job_row(job) -> None:
    with st.container(border=True, key=f"job_{job.digest[:12]}"):
        left, middle, right = st.columns([5, 3, 2], vertical_alignment="center")
        left.markdown(f"**{job.title}** {ui.describe(job.request)}")
        left.caption(f"`{job.digest[:12]}` · asked {job.created:%Y-%m-%d %H:%M} · attempt {job.attempt}")
        with middle:
            st.markdown(STATES[job.state])
            if job.state == "running" and job.total:
                st.progress(
                    min(1.0, job.done / job.total),
                    text=f"{job.doing} {job.done:,} of {job.total:,} {job.unit}",
                )
            elif job.elapsed:
                st.caption(f"took {duration(job.elapsed)}")
        with right:
            if job.state not in ENDED:
                watched = (
                    f"{job.holders} watch it: this stops it for everybody." if job.holders else "Stops it."
                )
                if st.button("Cancel", key=f"cancel_{job.digest}", width="stretch", help=watched):
                    st.toast(local.cancel(job.digest, ui.holder(), everyone=True))
                    st.rerun()
            elif (
                job.state == "done"
                and (page := page_of(job.request))
                and st.button(
                    "Open", key=f"open_{job.digest}", width="stretch", on_click=opened, args=(job.request,)
                )
            ):
                st.switch_page(f"pages/{page}.py")
        if job.state in ENDED:
            ui.ended(job)


def opened(request) -> None:
    """A callback: the view asks for this again, and says where its heads were chosen, if that is still known."""
    ui.show(request)
    picked = ui.value("picked")
    if picked and ui.value("pick") == "hand":
        origins.carry(request.model, picked)


def all_jobs() -> None:
    jobs = local.list_jobs()
    ended = [job for job in jobs if job.state in ENDED]
    if not jobs:
        st.info("No job yet. Open **Heads** to score the bundled model.", icon=":material/pending_actions:")
    failed = sum(job.state == "failed" for job in ended)
    ui.say(
        f"{len(jobs) - len(ended)} running or waiting, {len(ended)} ended"
        + (f", {failed} of them failed." if failed else ".")
    )
    active_jobs(len(ended))
    for job in ended[:SHOWN]:
        job_row(job)
    if len(ended) > SHOWN:
        st.caption(f"{len(ended) - SHOWN} older jobs are not shown; `python -m headviz jobs` lists all.")


@st.fragment(run_every=2)
def active_jobs(ended_before: int) -> None:
    """Those that change by themselves. Ended ones stay out of it: a redraw every two seconds could swallow a click."""
    jobs = local.list_jobs()
    active = [job for job in jobs if job.state not in ENDED]
    if len(jobs) - len(active) != ended_before:
        st.rerun()
    for job in active:
        job_row(job)


def kept() -> None:
    st.subheader("Results that are kept", anchor=False)
    store = local.store()
    limit = settings().store_limit
    st.markdown(
        f"{len(store.entries())} results, {size(store.size())}"
        + (
            f" of at most {size(limit)} (HEADVIZ_STORE_LIMIT)."
            if limit
            else ". Nothing is ever dropped by itself."
        )
    )
    for sentence in store.problems:
        st.warning(sentence)
    days = st.number_input(
        "Older than, in days",
        min_value=0,
        value=30,
        key="prune_days",
        help="Results older than this are removed when you press the button; they can be computed again.",
    )
    if st.button("Remove them", key="prune"):
        gone = store.prune(older_than=days * 86400)
        st.toast(f"Removed {len(gone)} results.")
        st.rerun()


ui.page_head("Jobs", "What is running, what failed, and why?", "jobs")
with ui.sentences():
    all_jobs()
    kept()
