"""Panels of one repair: losses, classes, where the mass went, how the training went. All from what is there, none jumps."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.charts.arms import Panel, over_steps
from headviz.charts.class_steps import Counted, classes_over_steps
from headviz.surgery.arms import ARMS
from headviz.types import RepairRun
from headviz.ui.surgery import words
from headviz.ui.surgery.case import Case

WIDE = 860  # px that a figure of this page is laid out for


def losses(case: Case) -> None:
    """Training and held-out loss, arms overlaid, the stock model's line beside them."""
    as_nats = ui.value("loss_as") == "nats"
    shown = (lambda x: x) if as_nats else np.exp
    unit = "nats a token" if as_nats else "perplexity"

    def panel(title: str, name: str, level: float | None, empty: str) -> Panel:
        courses = tuple(case.course(arm, lambda run: shown(getattr(run, name))) for arm in case.arms)
        return Panel(title=title, unit=unit, courses=courses, level=level, empty=empty)

    level = None if case.stock is None else float(shown(np.float64(case.stock.select)))
    draw(
        case,
        "losses",
        [
            panel("Training text", "train_loss", None, "no step yet"),
            panel("Held-out text, select part", "select", level, "not evaluated yet"),
        ],
        "Loss over the optimiser steps, arms overlaid",
    )
    st.caption(
        "Thick: mean over the seeds; thin: each seed. Dashed: the model before surgery. The select part decides when to stop and "
        "which step is best, so it flatters; the report part, under Verdict, is only judged by. An arm that is not trained is a "
        "level."
    )
    if case.runs:
        st.dataframe(loss_rows(case), hide_index=True, column_config=_loss_columns(unit))


def loss_rows(case: Case) -> list[dict]:
    """A row a run: its best and its last step."""
    as_nats = ui.value("loss_as") == "nats"
    rows = []
    for run in case.runs:
        value = np.asarray(run.select, float) if as_nats else np.exp(np.asarray(run.select, float))
        best = case.place(run, "best")
        rows.append(
            {
                "arm": ARMS[run.arm].title,
                "seed": run.seed,
                "pass": run.number,
                "start": float(value[0]),
                "best": float(value[best]),
                "at": int(run.best),
                "last": float(value[-1]),
                "of": int(run.step[-1]),
                "ended": words.ending(run.ended),
            }
        )
    return rows


def _loss_columns(unit: str) -> dict:
    number = {"format": "%.4g"}
    column = st.column_config.NumberColumn
    return {
        "start": column(
            "after surgery", help=f"Held-out loss on the select part at step 0, {unit}.", **number
        ),
        "best": column("best", help=f"Lowest held-out loss of the run, {unit}.", **number),
        "at": column("at step", help="The step of the lowest loss, the earliest of equals."),
        "last": column("last", help=f"Held-out loss at the newest evaluation, {unit}.", **number),
        "of": column("step", help="The newest evaluated step."),
        "ended": st.column_config.TextColumn("", help="Why the run ended, or that it is not over."),
    }


def class_counts(case: Case) -> None:
    """Heads in each class over the steps, arm by arm."""
    if case.stock is None:
        waiting("The model before surgery is being measured; its classes come first.")
        return
    which = ui.value("among")
    panels, totals = [], []
    for arm in case.arms:
        step, counts, before, total = case.counted(arm, which)
        panels.append(Counted(name=ARMS[arm].title, step=step, counts=counts, before=before))
        totals.append(total)
    if not panels:
        waiting("No arm has been evaluated yet.")
        return
    figure = classes_over_steps(
        panels,
        steps=case.last_step,
        total=max(totals),
        theme=ui.theme(),
        width=WIDE,
        provenance=words.note(case),
    )
    ui.chart(
        figure,
        key="class_steps",
        name=f"headviz-classes-{case.digest[:8]}",
        alt="Heads of each class over the steps",
    )
    at = case.at
    st.caption(
        f"Mean over the seeds. Dead above {fmt.tick(at.dead)} of the attention on the first token, sink above {fmt.tick(at.sink)}, "
        f"low entropy below {fmt.tick(at.low_entropy)} nats. **A head counts as healthy because it looks away from the first token; "
        "that it does something is another matter**: see the norm after W_O, the arm that was not trained, and the single-head tests."
    )


def elsewhere(case: Case) -> None:
    """Do sinks vanish or move? Mass of treated and untouched heads; drift; what a treated head writes."""
    if case.stock is None:
        waiting("The model before surgery is being measured.")
        return
    stock = case.stock
    some = case.arms[0] if case.arms else case.request.arms[0]
    inside, outside = case.among("treated", some), case.among("untouched", some)

    def total(which: str):
        return lambda run: run.mass[:, case.among(which, run.arm)].sum(1, dtype=np.float64)

    draw(
        case,
        "relocated",
        [
            _of(
                case,
                "Attention on the first token, treated heads",
                "sum over heads",
                total("treated"),
                stock.mass[inside].sum(),
            ),
            _of(
                case, "… and all other heads", "sum over heads", total("untouched"), stock.mass[outside].sum()
            ),
        ],
        "Total attention on the first token of treated and of untouched heads",
    )
    st.caption(
        "Where the left one falls and the right one rises, the sinks have moved. The dashed line is the model before surgery; as many "
        f"heads without preference for content would have {fmt.number(random_total(case, inside))} on the left."
        + (
            " Healthy heads are an arm with other treated heads, so its dashed line lies elsewhere."
            if "healthy" in case.arms
            else ""
        )
    )
    draw(
        case,
        "drift",
        [
            _of(case, "Drift of untouched heads, 95th percentile", "|change of mass|", lambda run: drift(case, run), floor(case)),
            _of(case, "Norm after W_O, treated heads", "median norm", lambda run: written(case, run), float(np.median(stock.full_norm[inside]))),
        ],
        "Drift of untouched heads, and what treated heads write",
    )  # fmt: skip
    st.caption(
        "Left: how far the attention of heads that nobody treated moved; the dashed line is what the same model differs by on two "
        "halves of the text, so below it there is nothing to see. Right: the length of what a treated head adds to the stream. It is "
        "0 right after surgery, when a head looks awake and says nothing."
    )


def random_total(case: Case, mask: np.ndarray) -> float:
    """What the heads of a mask (L, H) would have on the first token in all from their slopes alone."""
    return float(np.broadcast_to(case.stock.null_mass, mask.shape)[mask].sum(dtype=np.float64))


def drift(case: Case, run: RepairRun) -> np.ndarray:
    """(S,) 95th percentile of |mass − stock| over heads that no pass up to this one treats."""
    mask = np.ones(case.shape, bool)
    for at in case.touched(run):
        mask[at] = False
    moved = np.abs(run.mass[:, mask].astype(np.float64) - case.stock.mass[mask])
    return np.percentile(moved, 95, axis=1) if mask.any() else np.full(len(run.step), np.nan)


def floor(case: Case) -> float:
    """95th percentile of the difference between the two halves of the text, same model, all heads."""
    return float(np.percentile(np.abs(case.stock.half_mass[0] - case.stock.half_mass[1]), 95))


def written(case: Case, run: RepairRun) -> np.ndarray:
    """(S,) median norm after W_O of the pass's treated heads."""
    where = tuple(np.array(run.heads, int).T)
    return np.median(run.full_norm[:, *where].astype(np.float64), axis=1)


def training(case: Case) -> None:
    """Rate, gradient norm, speed: is the training sound?"""
    draw(
        case,
        "rate",
        [
            _of(case, "Learning rate", "mean of the steps since", lambda run: run.rate),
            _of(
                case,
                "Gradient norm before clipping",
                "norm",
                lambda run: run.gradient_norm,
                case.request.recipe.clip or None,
                "clip",
            ),
        ],
        "Learning rate and gradient norm",
    )
    draw(
        case,
        "speed",
        [_of(case, "Speed", "tokens a second", lambda run: run.tokens_per_second)],
        "Tokens a second",
    )
    st.caption("At step 0 there is nothing to show: no step was taken yet.")


def _of(
    case: Case, title: str, unit: str, of, level: float | None = None, level_name: str = "stock"
) -> Panel:
    courses = tuple(case.course(arm, of) for arm in case.arms)
    named = "two halves of the text" if title.startswith("Drift") else level_name
    return Panel(
        title=title,
        unit=unit,
        courses=courses,
        level=None if level is None else float(level),
        level_name=named,
    )


def draw(case: Case, key: str, panels: list[Panel], alt: str) -> None:
    passes = {run.number for run in case.runs}
    marks = [
        ((number - 1) * case.request.steps, f"pass {number} begins")
        for number in sorted(passes)
        if number > 1
    ]
    figure = over_steps(
        panels, steps=case.last_step, theme=ui.theme(), width=WIDE, provenance=words.note(case), marks=marks
    )
    ui.chart(figure, key=key, name=f"headviz-{key}-{case.digest[:8]}", alt=alt)


def waiting(sentence: str) -> None:
    """What is not shown yet says so."""
    st.info(sentence, icon=":material/hourglass_empty:")


# What the panels can be asked for: name of the panel → which controls stand over it.
CONTROLS = {
    "verdict": ("point",),
    "losses": ("loss_as",),
    "classes": ("among",),
    "film": ("run",),
    "heads": ("arm", "point"),
    "take": ("run", "point"),
}


def controls(case: Case) -> None:
    """Those of the panel of the view, outside of what is drawn again while the repair runs: a redraw could swallow a click."""
    wanted = CONTROLS.get(ui.value("recovery"), ())
    if not wanted or not case.runs:
        return
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        if "loss_as" in wanted:
            st.segmented_control(
                "Loss as",
                ["nats", "perplexity"],
                format_func=str.capitalize,
                required=True,
                help="Nats a token, or perplexity: e to the loss, among how many tokens the model is torn on average.",
                **ui.keyed("loss_as"),
            )
        if "among" in wanted:
            st.segmented_control(
                "Heads",
                ["treated", "untouched", "all"],
                format_func=str.capitalize,
                required=True,
                help="Which heads are counted: those that the arm treats, those that nobody touches, or both.",
                **ui.keyed("among"),
            )
        if {"run", "arm"} & set(wanted):
            _pick_run(case, whole="run" in wanted)
        if "point" in wanted:
            st.segmented_control(
                "Read at",
                ["best", "last"],
                format_func={"best": "Best step", "last": "Last step"}.get,
                required=True,
                help="Each run's best step by the select part, however early it comes, or its last one.",
                **ui.keyed("point"),
            )


def _pick_run(case: Case, *, whole: bool) -> None:
    """Arm, and where one run is meant its seed and pass: as selects, for a plan may have many."""
    arms = list(case.arms)
    if ui.value("arm_shown") not in arms:
        ui.put("arm_shown", arms[0])
    st.selectbox("Arm", arms, format_func=lambda name: ARMS[name].title, width=280,
                 help=ARMS[ui.value("arm_shown")].help, **ui.keyed("arm_shown"))  # fmt: skip
    if not whole:
        return
    seeds = sorted({run.seed for run in case.of(ui.value("arm_shown"))})
    if ui.value("seed_shown") not in seeds:
        ui.put("seed_shown", seeds[0])
    st.selectbox("Seed", seeds, width=90, help="Which of the arm's runs.", **ui.keyed("seed_shown"))
    numbers = sorted({run.number for run in case.of(ui.value("arm_shown"), ui.value("seed_shown"))})
    if ui.value("pass_shown") not in numbers:
        ui.put("pass_shown", numbers[0])
    if len(numbers) > 1:
        st.selectbox(
            "Pass",
            numbers,
            width=90,
            help="The first operation, or the one after it.",
            **ui.keyed("pass_shown"),
        )
