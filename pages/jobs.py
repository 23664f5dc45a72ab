"""Jobs: what is running, what failed and why, and what is kept."""

import streamlit as st

from headviz import ui
from headviz.charts.fmt import duration, size
from headviz.jobs import local
from headviz.jobs.folder import ENDED
from headviz.settings import settings

STATES = {
    "running": ":orange[●] running",
    "queued": ":gray[○] waiting",
    "interrupted": ":orange[○] taken up again",
    "stalled": ":orange[●] no sign of life",
    "done": ":green[●] done",
    "failed": ":red[●] failed",
    "cancelled": ":gray[×] cancelled",
}


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
                and job.request is not None
                and st.button("Open", key=f"open_{job.digest}", width="stretch")
            ):
                ui.show(job.request)
                st.switch_page(
                    "pages/ablation.py"
                    if job.kind in ("measure", "prompt-score", "generate", "gradient", "map")
                    else "pages/heads.py"
                )
        if job.state in ENDED:
            ui.ended(job)


@st.fragment(run_every=2)
def all_jobs() -> None:
    jobs = local.list_jobs()
    if not jobs:
        st.info("No job yet. Open **Heads** to score the bundled model.", icon=":material/pending_actions:")
        return
    active = [job for job in jobs if job.state not in ENDED]
    ended = [job for job in jobs if job.state in ENDED]
    failed = sum(job.state == "failed" for job in ended)
    ui.say(
        f"{len(active)} running or waiting, {len(ended)} ended"
        + (f", {failed} of them failed." if failed else ".")
    )
    for job in [*active, *ended[:40]]:
        job_row(job)
    if len(ended) > 40:
        st.caption(f"{len(ended) - 40} older jobs are not shown; `python -m headviz jobs` lists all.")


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
