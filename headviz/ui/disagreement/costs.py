"""Panel: what each disputed group costs to lose, beside random heads."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.charts import fmt
from headviz.charts.prices import group_costs
from headviz.data import corpora
from headviz.jobs import local, many
from headviz.jobs.kinds import job_digest
from headviz.ui.disagreement.work import Work

GROUP = "disagreement"  # of jobs: what this page asks for, and takes back where it no longer wants it


def panel(work: Work) -> None:
    if not work.plans:
        st.info(
            "The two scores call the same heads inactive here: there is nothing to dispute.",
            icon=":material/info:",
        )
        return
    where(work)
    progress(work, wanted=st.session_state.get("headviz_costs") == key(work))
    figure(work)


def key(work: Work) -> tuple:
    """What costs are asked for: which groups, measured on what, beside how many draws."""
    return tuple(job_digest(request) for request in work.requests)


def missing(work: Work) -> list:
    return [request for request in work.requests if ui.cached(request) is None]


def ask(work: Work) -> None:
    """A callback: begin, also what was cancelled or failed before."""
    st.session_state.headviz_costs = key(work)
    many.queue(missing(work), ui.holder())


def progress(work: Work, *, wanted: bool) -> None:
    """How far the measurements are, or the button that begins them."""
    ui.gather(work.requests if wanted else (), start=True, group=GROUP)
    left = missing(work)
    if not left:
        return
    jobs = {job_digest(request): local.view(job_digest(request)) for request in left} if wanted else {}
    stopped = [job for job in jobs.values() if job is not None and job.state in ("cancelled", "failed")]
    if wanted and not stopped:
        ui.working_on(tuple(jobs), group=GROUP)
        return
    if failed := next((job for job in stopped if job.state == "failed"), None):
        ui.ended(failed)
    groups = " and ".join(
        f"{len(plan.heads)} heads that are {work.quadrants.names[group]}"
        for group, plan in work.plans.items()
    )
    before = ui.cached(ablation.measuring(work.plan, None))
    took = f", about {fmt.duration(len(left) * before.provenance.seconds)}" if before is not None else ""
    st.button(
        "What does each group cost?",
        type="primary",
        key="ask_costs",
        on_click=ask,
        args=(work,),
        help=f"Switches off {groups}, by zero and by their mean, beside {work.plan.draws} random draws of each kind: "
        f"{len(left)} runs are missing{took}. Each is kept.",
    )
    if stopped:
        st.caption("It was stopped before all was measured; what is there is shown.")


def figure(work: Work) -> None:
    if work.costs is None or not work.costs.costs:
        st.caption("No cost is measured yet.")
        return
    before = ui.cached(ablation.measuring(work.plan, None))
    ui.chart(
        group_costs(work.costs, work.quadrants, theme=ui.theme(), provenance=ui.measured_text(before)),
        key="group_costs",
        name="headviz-group-costs",
        alt="What each group of heads costs to lose, with intervals, beside random heads",
    )
    st.caption(
        "Bars: 95% intervals, documents taken as independent. Grey: single random draws, with a stroke at their mean. A draw "
        "“with as many in each layer” takes away what a group costs only for the layers that it lies in."
    )


def where(work: Work) -> None:
    plan = work.plan
    scored, measured = (corpora.describe(one) for one in (plan.chosen_on, plan.text or plan.questions))
    if ablation.same_inputs(plan):
        st.warning(
            f"Heads are grouped by their scores on the very inputs that are measured ({measured}): costs look smaller than on "
            "new text.",
            icon=":material/warning:",
        )
    else:
        st.caption(f"Heads are grouped by their scores on {scored}; costs are measured on {measured}.")
