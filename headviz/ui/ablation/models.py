"""Panel: every model measured here, side by side, beside what the paper reports of its own fourteen."""

from __future__ import annotations

import dataclasses
from typing import Any

import streamlit as st

from headviz.analysis import ablation, sweeps
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.analysis.published import MEANS, SOURCE, TABLE2, published_row
from headviz.analysis.tolerance import Tolerance
from headviz.charts import fmt
from headviz.data import corpora
from headviz.types import MeasureRequest, ScoreTable
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.traces import Traces, measured
from headviz.ui.ablation.words import limit, margin
from headviz.ui.answers import cached


def panel(work: Measurements, table: ScoreTable) -> None:
    _here(work.plan)
    _published(work.plan)


# ------------------------------------------------------------------------------------------------ measured here


def _here(plan: Plan) -> None:
    st.markdown("**Measured here**: largest share of heads within the tolerance, % of all")
    index = measured()
    bases = [one for one in index.values() if one.ablation.mode == "none" and _same_kind(one, plan)]
    rows = [row for base in bases for row in _rows(plan, base, index)]
    if not rows:
        st.caption(
            "No curve is measured yet. Measure one under Curve or Scores; other models appear here as they are measured."
        )
        return
    scores = [metric for metric in METRICS if any(metric in row for row in rows)]
    st.dataframe(
        [
            {name: row.get(name, "–") for name in ("model", "mode", "in their place", *scores, *_WHERE)}
            for row in rows
        ],
        hide_index=True,
        column_config={
            "model": st.column_config.TextColumn(help="▶ is the model that this page shows."),
            **{
                metric: st.column_config.TextColumn(
                    METRICS[metric].symbol,
                    help=METRICS[metric].name
                    + ". In brackets: the last share measured inside the tolerance, and the first "
                    "outside. “≥”: no measured point was outside. “Line”: what a straight line says between points that are "
                    "far apart.",
                )
                for metric in scores
            },
        },
    )
    st.caption(
        "Chosen by each score on "
        + corpora.describe(plan.chosen_on)
        + ". Static sets and per-input rules are different things: compare within a mode."
    )


_WHERE = ("tolerance", "measured on")


def _same_kind(base: MeasureRequest, plan: Plan) -> bool:
    """Text beside text, and questions of one set beside each other."""
    if (base.text is None) != (plan.text is None):
        return False
    return base.text is not None or base.questions.source == plan.questions.source


def _rows(plan: Plan, base: MeasureRequest, index: dict[str, MeasureRequest]) -> list[dict[str, Any]]:
    """A row for each way in which heads of this model were switched off on this target."""
    mine = dataclasses.replace(
        ablation.with_share(plan, 0.0), model=base.model, text=base.text, questions=base.questions
    )
    table, before = cached(ablation.scoring(mine)), cached(base)
    if table is None or before is None:
        return []
    rows = []
    for mode, kind in (("static", "zero"), ("static", "mean"), ("per-input", "zero")):
        traces = Traces(dataclasses.replace(mine, mode=mode, replace="zero"), table, before, index)
        found: dict[str, Any] = {}
        for metric in table.metrics:
            trace = traces.trace(metric, kind)
            if trace.shares:
                found[metric] = _cell(trace.within(traces.yard, margin(traces.yard)), len(trace.shares))
        if found:
            rows.append(
                {
                    "model": _marked(f"{base.model.name} · {base.model.dtype}", base.model == plan.model),
                    "measured on": _target(base),
                    "mode": mode,
                    "in their place": kind,
                    "tolerance": limit(traces.yard)
                    + (" of log-probability" if traces.yard.id == "logprob" else ""),
                }
                | found
            )
    return rows


def _cell(edge: Tolerance, points: int) -> str:
    """`12.3% [10.0%–15.2%], 6 points`; with a wide bracket alone, because the number in it is a guess."""
    share, counted = fmt.percent(sweeps.reached(edge)), f"{points} point" + ("" if points == 1 else "s")
    if edge.status == "never outside":
        return f"≥ {share}, {counted}"
    if edge.status == "ends inside":
        return f"not settled after {share}, {counted}"
    bracket = f"{fmt.percent(edge.inside)}–{fmt.percent(edge.outside)}"
    if edge.outside - edge.inside > sweeps.WIDE:
        return f"{bracket} (line: {share}), {counted}"
    return f"{share} [{bracket}], {counted}"


def _marked(name: str, here: bool) -> str:
    return f"▶ {name}" if here else name


def _target(base: MeasureRequest) -> str:
    if base.text is not None:
        return corpora.describe(base.text)
    asked = base.questions
    each = f", {asked.per_subject} each" if asked.per_subject else ""
    return f"{asked.source}, {len(asked.subjects)} subjects{each}, {asked.shots} shots, {asked.scoring}"


# --------------------------------------------------------------------------------------------------- published


def _published(plan: Plan) -> None:
    mine = published_row(plan.model.name)
    st.markdown("**Published**: largest share of heads within 1 point, % of all")
    if mine is not None:
        st.markdown(
            f"The paper reports of {mine.model}: AWFT **{mine.awft_within:.2f}%**, the best of the others "
            f"({METRICS[mine.best_score].symbol}) **{mine.best_within:.2f}%**, from an accuracy of "
            f"{mine.baseline_percent:.2f}%."
        )
    percent = {"format": "%.2f%%", "width": "small"}
    st.dataframe(
        [
            {
                "model": _marked(row.model, row is mine),
                "accuracy": row.baseline_percent,
                "awft": row.awft_within,
                "best": row.best_within,
                "which": METRICS[row.best_score].symbol,
            }
            for row in TABLE2.values()
        ],
        hide_index=True,
        height="content",
        column_config={
            "accuracy": st.column_config.NumberColumn("MMLU, nothing off", **percent),
            "awft": st.column_config.NumberColumn("AWFT", **percent),
            "best": st.column_config.NumberColumn("best other score", **percent),
            "which": st.column_config.TextColumn("which one"),
        },
    )
    st.caption(
        f"{SOURCE}. Means over the models: AWFT {MEANS['awft']:.2f}%, best other {MEANS['best_other']:.2f}%; “best other” is "
        "chosen for each model on the very questions that it is reported on."
    )
