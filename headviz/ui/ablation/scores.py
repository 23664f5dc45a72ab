"""Panel: which score is best, chosen on one half of what was measured and confirmed on the other."""

from __future__ import annotations

from typing import Any

import streamlit as st

from headviz import ui
from headviz.analysis import sweeps
from headviz.analysis.metrics import METRICS
from headviz.analysis.sweeps import KINDS, Trace
from headviz.analysis.yardsticks import Yardstick
from headviz.charts import curve, fmt
from headviz.types import ScoreTable
from headviz.ui.ablation import sweeping
from headviz.ui.ablation.curve import ACROSS, say_beyond, until
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.traces import Traces
from headviz.ui.ablation.words import limit, margin, reached_words

READS = {
    "never outside": "at least: never outside",
    "ends inside": "not settled: left, came back",
    "not measured": "not measured",
    "never inside": "outside at once",
}


def panel(work: Measurements, table: ScoreTable) -> None:
    if work.before is None:
        st.caption("Scores are ranked against the model as it is, which is being measured.")
        return
    traces = Traces(work.plan, table, work.before)
    sweeping.progress()
    named = {kind: _named(traces, work, kind) for kind in work.plans}
    end = sweeps.common_end([one for some in named.values() for one in _with_a_rank(some, traces.yard)])
    ranked = {
        kind: sweeps.ranking(some, traces.yard, margin(traces.yard), end) for kind, some in named.items()
    }
    halves = "questions" if work.plan.questions is not None else "documents"
    for kind, rows in ranked.items():
        st.markdown(_sentence(rows, traces.yard, kind, halves))
    _table(ranked, traces.yard, end, halves)
    _draw(named, traces, work)
    sweeping.whole_curve(work, traces.known)


def _named(traces: Traces, work: Measurements, kind: str) -> dict[str, Trace]:
    """Curves by score, and of random heads; those without a point are left out."""
    scores = sweeping.chosen_scores(work)
    found = {metric: traces.trace(metric, kind) for metric in scores}
    if work.plan.mode == "per-input":
        found["uniform"] = traces.random_trace(scores[0], kind, "uniform")
        return {name: one for name, one in found.items() if one.shares}
    # every score's draws have the same sizes, where it was measured at the same shares: take who has most
    uniform = [traces.random_trace(metric, kind, KINDS[0]) for metric in scores]
    found["uniform"] = max(uniform, key=lambda one: len(one.shares))
    found |= {f"layer_matched:{metric}": traces.random_trace(metric, kind, KINDS[1]) for metric in scores}
    return {name: one for name, one in found.items() if one.shares}


def _with_a_rank(named: dict[str, Trace], yard: Yardstick) -> list[Trace]:
    why = sweeps.unranked(named, yard, margin(yard))
    return [one for name, one in named.items() if not why[name]]


def title(name: str) -> str:
    kind, _, metric = name.partition(":")
    if metric:
        return f"random, layer by layer as {METRICS[metric].symbol}"
    return METRICS[name].symbol if name in METRICS else "random heads" if kind == "uniform" else name


def _sentence(rows: list[dict[str, Any]], yard: Yardstick, kind: str, halves: str) -> str:
    scores = [row for row in rows if row["score"] in METRICS]
    place = f"With {curve.PLACES[kind]}: "
    if len(scores) < 2:
        one = f"only {title(scores[0]['score'])} is" if scores else "no score is"
        return f"{place}{one} measured. Measure the whole curve of several to rank them."
    best, others = scores[0], scores[1:]
    rest = ", ".join(f"{title(row['score'])} {_told(row)}" for row in others)
    drawn = next((row for row in rows if row["score"] == "uniform"), None)
    rest += f", random heads {_told(drawn)}" if drawn is not None else ""
    return (
        f"{place}**{title(best['score'])}** goes furthest on the first half of the {halves}, and on the second half "
        f"confirms **{_confirmed(best)}** within {limit(yard)} ({rest})."
    )


def _confirmed(row: dict[str, Any]) -> str:
    return reached_words(row["second_within"] / 100, row["second_status"], row["second_bracket"])


def _told(row: dict[str, Any]) -> str:
    return _confirmed(row) + (f", not ranked: {row['unranked']}" if row["unranked"] else "")


def _reads(row: dict[str, Any]) -> str:
    """What is not known of the halves' figures, and why there is no rank."""
    said = [READS.get(row[f"{half}_status"], "") for half in sweeps.HALVES]
    halves = [f"{number}: {one}" for number, one in zip(("1st", "2nd"), said, strict=True) if one]
    words = halves if said[0] != said[1] else said[:1]
    why = f"not ranked: {row['unranked']}" if row["unranked"] else ""
    return "; ".join(one for one in (*words, why) if one)


def _table(ranked: dict[str, list[dict[str, Any]]], yard: Yardstick, end: float, halves: str) -> None:
    rows = [
        {
            "rank": None if row["unranked"] else number + 1,
            "score": title(row["score"]),
            "in their place": kind,
            "chosen": row["first_within"],
            "confirmed": row["second_within"],
            "all": row["share_within"],
            "reads": _reads(row),
            "bracket": _bracket(row),
            "area_chosen": row["first_area"] * yard.scale,
            "area_confirmed": row["second_area"] * yard.scale,
            "points": row["points"],
        }
        for kind, several in ranked.items()
        for number, row in enumerate(several)
    ]
    if not any(row["reads"] for row in rows):
        rows = [{name: value for name, value in row.items() if name != "reads"} for row in rows]
    percent = {"format": "%.1f%%", "width": "small"}
    area = {"format": "%.3f", "width": "small"}
    better = "Lower is better." if yard.worse == "higher" else "Higher is better."
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        column_config={
            "rank": st.column_config.NumberColumn(width="small"),
            "chosen": st.column_config.NumberColumn(
                "1st half",
                help=f"Largest share of heads within {limit(yard)}, on the half of the {halves} on which scores are ranked.",
                **percent,
            ),
            "confirmed": st.column_config.NumberColumn(
                "2nd half",
                help=f"The same on the other half of the {halves}, which had no say in the ranking: the figure to quote.",
                **percent,
            ),
            "all": st.column_config.NumberColumn("both", help="The same on both halves together.", **percent),
            "reads": st.column_config.TextColumn(
                "reads",
                help="What is not known of the numbers before. “At least”: no measured point is outside the tolerance. “Not settled”: "
                "the curve left it and came back, and the number is the last share before it left. “Not ranked”: others go "
                "further than this one was measured.",
            ),
            "bracket": st.column_config.TextColumn(
                "bracket", help="Last share measured inside the tolerance, and first outside; on both halves."
            ),
            "area_chosen": st.column_config.NumberColumn(
                "area, 1st",
                help=f"Mean change in {yard.unit} from nothing off to {fmt.percent(end)}, the range that all rows cover. "
                + better,
                **area,
            ),
            "area_confirmed": st.column_config.NumberColumn(
                "area, 2nd", help="The same on the other half.", **area
            ),
            "points": st.column_config.NumberColumn(
                "points", width="small", help="How many shares were measured."
            ),
        },
    )
    how = "every other document" if halves == "documents" else "half of each subject"
    st.caption(
        f"% of all heads within {limit(yard)}. Halves: {how} against the rest, both from the same runs. Area: mean change, "
        f"{yard.unit}, from nothing off to {fmt.percent(end)} of the heads."
    )


def _bracket(row: dict[str, Any]) -> str:
    inside, outside = row["bracket"]
    return (
        ""
        if inside != inside
        else fmt.percent(inside) + (f" – {fmt.percent(outside)}" if outside == outside else " –")
    )


def _draw(named: dict[str, dict[str, Trace]], traces: Traces, work: Measurements) -> None:
    yard = traces.yard
    lines = [
        curve.Line(
            name=title(name),
            score=name,
            replace=kind,
            shares=one.shares,
            changes=tuple(yard.scale * x for x in one.changes),
        )
        for kind, several in named.items()
        for name, one in several.items()
    ]
    if not lines:
        return
    allowed = ui.value(yard.tolerance)
    figure = curve.score_curves(
        lines,
        unit=yard.unit,
        what=yard.what,
        tolerance=allowed if yard.worse == "higher" else -allowed,
        until=until(),
        across=ACROSS[work.plan.mode],
        theme=ui.theme(),
        provenance=ui.measured_text(work.before),
    )
    ui.chart(figure, key="score_curves", name="headviz-scores")
    say_beyond([share for one in lines for share in one.shares], until())
