"""Panel: take the head set away, as a file, as code, and with what was measured of it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import streamlit as st

from headviz import recipes
from headviz.analysis import ablation
from headviz.analysis.headfile import write_heads
from headviz.charts.curve import Point
from headviz.data import corpora
from headviz.errors import BadInput
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import ScoreTable
from headviz.ui.ablation.checkpoint import checkpoints
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.traces import Traces


def panel(work: Measurements, table: ScoreTable) -> None:
    if work.plan.mode == "per-input":
        st.info(
            "The rule decides on every input anew, so there is no one set of heads to take away, and no weights that do "
            "the same. Choose one set for all inputs.",
            icon=":material/info:",
        )
        measured(work, st)
        return
    left, middle, right = st.columns(3)
    head_set(work, left)
    measured(work, middle)
    points(work, right)
    code(work)
    checkpoints(work)


def head_set_text(work: Measurements) -> str:
    """The file: the heads, their model, and how they were chosen."""
    plan = work.plan
    how = {"chosen": plan.origin, "chosen_on": ablation.chosen_tree(plan)}
    if plan.by_score:
        how = {
            "metric": plan.metric,
            "turned": plan.turned,
            "by": plan.by,
            "per_layer": plan.per_layer,
            "chosen_on": ablation.chosen_tree(plan),
        }
        how |= {"share_asked": plan.share} if plan.threshold is None else {"threshold": plan.threshold}
    return write_heads(work.off, model=plan.model.name, revision=plan.model.revision, how=how)


def head_set(work: Measurements, where) -> None:
    where.download_button(
        "Head set (JSON)",
        head_set_text(work),
        file_name="headviz-heads.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        help="Which heads are off; `python -m headviz ablate --heads FILE` and `checkpoint --heads FILE` read it back.",
    )


def measured(work: Measurements, where) -> None:
    trees = [tree for kind in ("zero", "mean") if (tree := work.report(kind))]
    where.download_button(
        "Measurements (JSON)",
        json.dumps(trees, indent=1, default=str),
        file_name="headviz-ablation.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        disabled=not trees,
        help="Change, interval, random heads, and where heads were chosen and measured.",
    )


def points(work: Measurements, where) -> None:
    traces = Traces(work.plan, work.table, work.before) if work.before is not None else None
    rows = [one for kind in work.plans for one in traces.points(work.plan.metric, kind)] if traces else []
    where.download_button(
        "Curve points (CSV)",
        points_csv(traces, rows) if traces else "",
        file_name="headviz-curve.csv",
        mime="text/csv",
        on_click="ignore",
        width="stretch",
        disabled=not rows,
        help="Every measured point of this score: share of heads off, change with its 95% interval. With accuracies, "
        "`python -m headviz tolerance FILE` reads it, zero and mean apart.",
    )


def points_csv(traces: Traces, rows: Sequence[Point]) -> str:
    """A row a measured point; the first of a replacement is nothing off. What is counted names the column, as the curve
    has it: `acc` (a fraction), `loss` (nats a token), or `logprob` of the right answer (nats)."""
    yard, plan, base = traces.yard, traces.plan, traces.level
    out = io.StringIO()
    value = "acc" if yard.id == "accuracy" else yard.id
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["model", "revision", "score", "replace", "share", "heads", value, "change", "ci_low", "ci_high", "chosen_on", "measured_on"]
    )  # fmt: skip
    always = (plan.model.name, plan.model.revision[:12], plan.metric)
    where = (corpora.describe(plan.chosen_on), corpora.describe(plan.text or plan.questions))
    for replace in dict.fromkeys(row.replace for row in rows):
        writer.writerow([*always, replace, 0, 0, base, 0, 0, 0, *where])
        for row in rows:
            if row.replace == replace:
                change, low, high = (x / yard.scale for x in (row.change, row.low, row.high))
                numbers = (row.share, row.heads, base + change, change, low, high)
                writer.writerow([*always, replace, *numbers, *where])
    return out.getvalue()


def code(work: Measurements) -> None:
    st.markdown(
        "**As Python**, with nothing but torch and transformers. Zero stands in for each head's output."
    )
    if not work.off.heads:
        st.caption("No head is off.")
        return
    place = catalog.folder_here(work.plan.model, settings())
    try:
        text = recipes.heads_code(
            work.plan.model, work.off.heads, work.off.geometry, place=str(place) if place else ""
        )
    except BadInput as error:
        st.caption(str(error))
        return
    st.code(text, language="python", wrap_lines=True)
    st.caption(
        "What the page measured with the mean in their place cannot be written into weights: a head's mean has a value of "
        "its own at the first position."
    )
    if work.plan.model.source != "hub":
        st.caption("The folder is where headviz keeps this model on this machine.")
