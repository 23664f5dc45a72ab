"""The default share of every page that needs one: the largest whose loss of ability stays within tolerance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.analysis.sweeps import WIDE
from headviz.charts import fmt
from headviz.data import corpora
from headviz.errors import HeadvizError
from headviz.types import Ablation, MeasureRequest, ScoreTable
from headviz.ui.ablation.plan import asked_now, base_plan
from headviz.ui.ablation.traces import Traces
from headviz.ui.ablation.words import limit, margin

USUAL = 0.20  # of the heads, where nothing is measured that says how many can go


class Within(NamedTuple):
    """share: of the heads, 0..1; why: a sentence; found: whether it was measured, and is not just the usual share."""

    share: float
    why: str
    found: bool


def share_here(metrics: Iterable[str]) -> Within:
    """The same for the model, text and target of the view. Begins nothing: where no baseline is measured, nothing more is
    looked up, because finding out where heads are chosen can take seconds."""
    try:
        asked = asked_now()
        text = ui.data_ref() if asked is None else None
        nothing_off = MeasureRequest(model=ui.model_ref(), questions=asked, text=text, ablation=Ablation())
        if ui.cached(nothing_off) is None:
            return Within(USUAL, _usual(), False)
        plan = base_plan()
    except (
        HeadvizError
    ) as error:  # such as questions that cannot be had here: who asks for a share needs none of them
        return Within(
            USUAL, f"{fmt.percent(USUAL)} is the usual share; no other is measured here: {error}", False
        )
    return largest_share(plan, ui.cached(ablation.scoring(plan)), metrics)


def _usual() -> str:
    return f"{not_measured()[:-1]}; the curve on the Ablation page measures it."


def not_measured() -> str:
    return f"{fmt.percent(USUAL)} is the usual share: how many heads can go within tolerance is not measured here yet."


def largest_share(plan: Plan, table: ScoreTable | None, metrics: Iterable[str]) -> Within:
    """The largest share of the best of some scores, with zero in the heads' place.

    plan:  where heads are scored and what is measured; table: its scores, None where they are not there
    Where no curve of these scores is measured closely enough, it is the usual share, and the sentence says so.
    """
    before = None if table is None else ui.cached(ablation.measuring(plan, None))
    if table is None or before is None:
        return Within(USUAL, _usual(), False)
    traces = Traces(plan, table, before)
    best, which = 0.0, ""
    for metric in dict.fromkeys(metrics):
        trace = traces.trace(metric, "zero")
        if not trace.shares:
            continue
        edge = trace.within(traces.yard, margin(traces.yard))
        if edge.status == "crosses" and edge.outside - edge.inside <= WIDE and edge.share > best:
            best, which = edge.share, METRICS[metric].symbol
    if round(best * table.geometry.layers * table.geometry.heads) < 1:
        return Within(USUAL, _usual(), False)
    return Within(
        best,
        f"{fmt.percent(best)} is the largest share that {which} keeps within {limit(traces.yard)}, zero in their place, measured "
        f"on {corpora.describe(plan.text or plan.questions)}.",
        True,
    )
