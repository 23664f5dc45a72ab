"""The end of the design: what the plan takes, what to know before, the button, and the plan as a file and as a command."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.errors import HeadvizError
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.settings import settings
from headviz.surgery import plan
from headviz.surgery.plan import Measured, Preview
from headviz.types import RepairRequest, ScoreRequest
from headviz.ui.surgery import knobs, scheme, work
from headviz.ui.uploads import upload_problem, uploaded

HEADS_FIRST = "Choose the heads first, above."


@dataclass(frozen=True)
class Planned:
    """The plan of the view with what it will take, or why there is none yet. how: in words, how its heads were chosen; rule:
    the rule that chose them, empty by hand; measured_speed: whether the time follows from a repair of this model"""

    request: RepairRequest | None
    seen: Preview | None = None
    warnings: tuple[str, ...] = ()
    problem: str = ""
    how: str = ""
    rule: str = ""
    measured_speed: bool = False


def planned(asked: ScoreRequest, measured: Measured, chosen) -> Planned:
    """Draws the controls of arms, texts and training, and reads the plan off the view."""
    about = work.facts(asked.model)
    knobs.controls(about)
    told = {"how": chosen.how, "rule": chosen.rule}
    if chosen.problem:
        return Planned(None, problem=HEADS_FIRST, **told)
    try:
        request = scheme.plan(asked, measured, about, chosen.heads)
        plan.check(request, about.geometry, about.longest, settings())
    except HeadvizError as error:
        return Planned(None, problem=str(error), **told)
    speed, known = work.speed(request, measured.bands, about)
    seen = plan.preview(request, about, settings(), speed)
    return Planned(
        request,
        seen,
        plan.warnings(request, about, settings(), seen),
        measured_speed=known,
        **told,
    )


def sentence(made: Planned, measured: Measured, chosen) -> str:
    """What a person would quote of the plan."""
    total = measured.geometry.layers * measured.geometry.heads
    if not chosen.heads:
        return f"**No head is to be treated yet**, of {total:,}."
    said = f"**{fmt.count(len(chosen.heads), total)} heads are to be treated** ({chosen.how})."
    if made.request is None:
        return said
    seen, arms, seeds = made.seen, made.request.arms, made.request.seeds
    return (
        f"{said} {seen.trained:,} numbers are trained, not the {seen.whole:,} of the matrices they lie in; "
        f"{fmt.plural(len(arms), 'arm')} × {fmt.plural(len(seeds), 'seed')}, {fmt.plural(seen.steps, 'step')} in all"
        + ("." if seen.seconds is None else f", {_time(made)} here.")
    )


def _time(made: Planned) -> str:
    """How long, said as what it is: by a measured speed, or by a guess."""
    seconds = made.seen.seconds
    return f"about {fmt.duration(seconds)}" if made.measured_speed else f"very roughly {fmt.roughly(seconds)}"


def panel(made: Planned) -> None:
    if made.request is None:
        if made.problem == HEADS_FIRST:  # what is wrong with the heads stands beside them, in red
            st.caption(HEADS_FIRST)
        else:
            st.error(made.problem, icon=":material/error:")
        files(made)
        return
    numbers(made)
    for warning in made.warnings:
        st.warning(warning, icon=":material/warning:")
    button(made.request)
    files(made)


def numbers(made: Planned) -> None:
    seen = made.seen
    places = st.columns(4)
    places[0].metric(
        "Numbers trained",
        f"{seen.trained:,}",
        help=f"Rows of Q, K and V and columns of W_O of the treated heads; with gradients and the optimiser {fmt.size(seen.optimiser)}. A "
        f"gradient mask would need all {seen.whole:,} of the matrices they lie in, {fmt.size(seen.optimiser_whole)}.",
    )
    places[1].metric(
        "Memory",
        fmt.size(seen.memory + (seen.model or 0)),
        help=f"Model ({fmt.size(seen.model or 0)}), slices, gradients, moments and activations together, rather too large than too small"
        + (
            f"; of {seen.at_once} runs at a time, each with a model of its own. "
            if seen.at_once > 1
            else ". "
        )
        + f"{fmt.size(seen.memory_free)} are free.",
    )
    places[2].metric(
        "Disk",
        fmt.size(seen.disk),
        help=f"What the repair's folder takes at its largest. {fmt.size(seen.disk_free)} are free.",
    )
    places[3].metric(
        "Time here",
        "not known"
        if seen.seconds is None
        else fmt.duration(seen.seconds)
        if made.measured_speed
        else f"≈ {fmt.roughly(seen.seconds)}",
        help=(
            "All arms and seeds one after another, "
            if seen.at_once == 1
            else f"All arms and seeds, {seen.at_once} at a time, "
        )
        + (
            "by the speed of the last repair of this model."
            if made.measured_speed
            else "a rough guess from the model's size and from how fast the first token was measured. Once the repair runs, the time left is "
            "measured."
        ),
    )


def button(request: RepairRequest) -> None:
    digest = job_digest(request)
    job = local.view(digest)
    if job is not None:
        told = "done" if job.state == "done" else job.state
        st.info(f"This very plan was launched before: it is {told}.", icon=":material/info:")
        st.button("Open it", type="primary", on_click=_open, args=(digest,), help="Shows that repair.")
        return
    st.button(
        "Launch",
        type="primary",
        icon=":material/healing:",
        on_click=_launch,
        args=(request,),
        help="Begins the repair in the background. It goes on when this page is closed, and after a restart.",
    )


def _launch(request: RepairRequest) -> None:
    job = local.ask(request, ui.holder())
    _open(job.digest)


def _open(digest: str) -> None:
    ui.put("operation", digest)
    ui.put("stage", "watch")
    ui.put("recovery", "losses")


def files(made: Planned) -> None:
    """The plan as a file, out and in, and as a command."""
    request = made.request
    left, right = st.columns([1, 2], vertical_alignment="top")
    left.download_button(
        "Plan (JSON)",
        (lambda: plan.write_plan(request, rule=made.rule, note=made.how)) if request else b"",
        file_name="headviz-plan.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        disabled=request is None,
        help="Everything that the repair depends on. `python -m headviz repair FILE` runs it; a colleague opens it here.",
    )
    with left.popover("Open a plan", width="stretch"):
        st.file_uploader(
            "Plan (JSON)",
            type=["json"],
            key="surgery_plan",
            on_change=_load,
            help="A plan as headviz writes it. Its model, texts, heads and recipe come into the view.",
        )
        if problem := upload_problem("surgery_plan"):
            st.error(problem)
    if request is not None:
        right.code(work.command(), language="bash", wrap_lines=True)


def _load() -> None:
    """A callback: the uploaded plan into the view, or the sentence of what is wrong with it."""
    if (found := uploaded("surgery_plan", plan.read_plan)) is None:
        return
    (request, rule), upload = found
    from headviz.ui.surgery.design import clone

    clone(request, f"as in {upload.name[:80]}" + (f", by the rule {rule}" if rule else ""))
