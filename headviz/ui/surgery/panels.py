"""Panels of one repair: losses, classes, how the training went. All from what is there, and none jumps."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.charts.arms import Panel, over_steps
from headviz.charts.class_steps import Counted, classes_over_steps
from headviz.surgery.arms import ARMS
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
    number = {"format": "%.3f" if unit.startswith("nats") else "%.2f"}  # digits alike in every row
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


def training(case: Case) -> None:
    """Rate, gradient norm, speed: is the training sound?"""
    draw(
        case,
        "rate",
        [
            lines_of(case, "Learning rate", "mean of the steps since", lambda run: run.rate),
            lines_of(
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
        [lines_of(case, "Speed", "tokens a second", lambda run: run.tokens_per_second)],
        "Tokens a second",
    )
    st.caption("At step 0 there is nothing to show: no step was taken yet.")


def lines_of(
    case: Case, title: str, unit: str, of, level: float | None = None, level_name: str = "stock"
) -> Panel:
    courses = tuple(case.course(arm, of) for arm in case.arms)
    return Panel(
        title=title,
        unit=unit,
        courses=courses,
        level=None if level is None else float(level),
        level_name=level_name,
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
