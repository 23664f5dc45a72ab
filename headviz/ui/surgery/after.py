"""Panels: every treated head before and after, and what each treated head is worth alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.charts.forest import Row, forest
from headviz.surgery import outcomes
from headviz.surgery.arms import ARMS
from headviz.surgery.head_changes import MEASURED, HeadChange, changes_between, head_changes
from headviz.surgery.said import NOISE
from headviz.types import HeadTest, RepairRun, head_name
from headviz.ui.surgery import panels, words
from headviz.ui.surgery.case import Case
from headviz.ui.surgery.film import run_name, shown_run

MOST = 24  # heads in the figure of single heads; the table has them all


def panel(case: Case) -> None:
    changes, of = changes_of(case)
    if not changes:
        panels.waiting("No head has been evaluated after surgery yet.")
        return
    st.markdown(sentence(changes))
    st.dataframe(rows(case, changes), hide_index=True, height=420, column_config=_columns())
    st.caption(
        f"{of}. A random head without training has the mass in “random”: a head that sits there has learned nothing that shows here. "
        "AHON is the norm of a head's output before W_O, as the other pages have it; only the norm after W_O tells what reaches the "
        "stream."
    )


def changes_of(case: Case) -> tuple[tuple[HeadChange, ...], str]:
    """The treated heads of the view's arm, mean over the seeds that ended; before one has, those of one run as far as it is."""
    arm, point = ui.value("arm_shown"), ui.value("point")
    if case.stock is not None and outcomes.finished(case.runs, arm):
        seeds = list(outcomes.finished(case.runs, arm))
        of = f"{ARMS[arm].title}, {point} step, mean over {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
        return head_changes(case, case.request, arm, point), of
    run = shown_run(case)
    if run is None:
        return (), ""
    at = case.place(run, point)
    return _of_run(
        case, run, at
    ), f"{ARMS[run.arm].title}, {run_name(run)}, step {int(run.step[at]):,}; the run goes on"


def _of_run(case: Case, run: RepairRun, at: int) -> tuple[HeadChange, ...]:
    after = {name: getattr(run, name)[at] for name in MEASURED}
    return changes_between(case.stock, after, case.stock_classes, case.classes(run)[at], run.heads)


def sentence(changes: tuple[HeadChange, ...]) -> str:
    total = len(changes)
    was, now = (
        sum(x in ("sink", "dead") for x in some)
        for some in ([c.was for c in changes], [c.now for c in changes])
    )

    def mean(of) -> str:
        return fmt.number(float(np.mean([of(change) for change in changes])))

    return (
        f"**{fmt.count(was, total)} treated heads were on the first token, {fmt.count(now, total)} are.** Their mean attention on it "
        f"went from {mean(lambda c: c.before['mass'])} to {mean(lambda c: c.after['mass'])}; a random head at their slopes has "
        f"{mean(lambda c: c.null_mass)}."
    )


def rows(case: Case, changes: tuple[HeadChange, ...]) -> list[dict[str, Any]]:
    """A row a treated head, by layer and head."""
    tests = {(one.layer, one.head): one for one in case.report.tests} if case.report else {}
    found = []
    for one in changes:
        row: dict[str, Any] = {"head": head_name(one.layer, one.head), "class": f"{one.was} → {one.now}"}
        row |= {"mass_before": one.before["mass"], "mass": one.after["mass"], "null": one.null_mass}
        row |= {"full_norm_before": one.before["full_norm"], "full_norm": one.after["full_norm"]}
        if ui.value("arm_shown") == "repair" and (test := tests.get((one.layer, one.head))) is not None:
            row |= {"alone": fmt.interval(test.change, test.low, test.high), "p": test.p_holm}
        for name in ("entropy", "output_norm"):
            row |= {f"{name}_before": one.before[name], name: one.after[name]}
        found.append(row)
    return found


def _columns() -> dict[str, Any]:
    number = {"format": "%.3f", "width": "small"}  # digits alike in every row
    column, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "head": text(width="small"),
        "class": text(help="Before → after; after by the mean over the seeds."),
        "mass_before": column("mass before", help="Attention on the first token, 0 to 1, mean over texts and query rows.", **number),
        "mass": column("mass after", help="The same, after surgery.", **number),
        "null": column("random", help="Mass of a head without preference for content at this slope.", **number),
        "entropy_before": column("entropy before", help="Nats: how widely the head looks. 0 is one token.", **number),
        "entropy": column("after", help="The same, after surgery.", **number),
        "output_norm_before": column("AHON before", help="Norm of the head's output before W_O: high right after surgery too, when it says nothing.", **number),
        "output_norm": column("after", help="The same, after surgery.", **number),
        "full_norm_before": column("after W_O, before", help="Norm of what the head adds to the stream: 0 is a head that is off.", **number),
        "full_norm": column("after", help="The same, after surgery.", **number),
        "alone": text("off alone, nats", help="How much higher the loss of the report part is when this head alone is zeroed in the repaired model, with its 95% interval over documents."),
        "p": column("p (Holm)", help="Two-sided, corrected for all heads that were tested.", format="%.3g", width="small"),
    }  # fmt: skip


def tests(case: Case) -> None:
    """Panel: each treated head off alone."""
    if case.report is None:
        panels.waiting("Single heads are tested at the end: each one is zeroed alone in the repaired model.")
        return
    found = case.report.tests
    if not found:
        st.info("This plan has no arm “Repair”, so there is no treated head to test.", icon=":material/info:")
        return
    clear = [one for one in found if matters(one)]
    st.markdown(
        f"**{fmt.count(len(clear), len(found))} treated heads cost more than noise to lose alone** (report part, first seed, best step; "
        f"p below {NOISE:g} after Holm's correction over {len(found):,} heads)."
    )
    shown = sorted(found, key=lambda one: -one.change)[:MOST]
    figure = forest(
        [
            Row(
                name=head_name(one.layer, one.head),
                arm="repair" if matters(one) else "removed",
                values=((one.change, one.low, one.high),),
                note=f"p {fmt.number(one.p)}, Holm {fmt.number(one.p_holm)}",
            )
            for one in shown
        ],
        ["One head zeroed in the repaired model, report part"],
        zero="the head makes no difference",
        theme=ui.theme(),
        width=panels.WIDE,
        left=72,
        provenance=words.note(case),
    )
    ui.chart(
        figure,
        key="single",
        name=f"headviz-single-heads-{case.digest[:8]}",
        alt="Loss when one treated head is zeroed, with intervals",
    )
    more = f" The {MOST} largest of {len(found):,}; Heads lists all." if len(found) > MOST else ""
    st.caption(
        "Right of 0 the model is worse without the head, so the head does something. Dots: more than noise; crosses: not told from "
        f"noise.{more} Zeroing all of them at once gives the removed arm to the last bit, for only they changed: that is no evidence."
    )


def matters(one: HeadTest) -> bool:
    """Whether losing the head costs more than noise, as the verdict counts it."""
    return one.p_holm < NOISE and one.change > 0
