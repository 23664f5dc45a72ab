"""The default share of every page that needs one: the largest whose loss of ability stays within tolerance."""

from __future__ import annotations

from collections.abc import Iterable

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.data import corpora
from headviz.types import ScoreTable
from headviz.ui.ablation.traces import Traces
from headviz.ui.ablation.words import limit, margin

USUAL = 0.20  # of the heads, where nothing is measured that says how many can go
COARSE = 0.051  # of the heads: a curve whose bracket is wider does not say where it leaves the tolerance


def largest_share(plan: Plan, table: ScoreTable | None, metrics: Iterable[str]) -> tuple[float, str]:
    """(share of the heads, 0..1; a sentence that says why) of the best of some scores, with zero in the heads' place.

    plan:  where heads are scored and what is measured; table: its scores, None where they are not there
    Where no curve of these scores is measured closely enough, it is the usual share, and the sentence says so.
    """
    usual = (
        f"{fmt.percent(USUAL)} is the usual share: how many heads can go within tolerance is not measured here yet; the curve "
        "on the Ablation page measures it."
    )
    before = None if table is None else ui.cached(ablation.measuring(plan, None))
    if table is None or before is None:
        return USUAL, usual
    traces = Traces(plan, table, before)
    best, which = 0.0, ""
    for metric in dict.fromkeys(metrics):
        trace = traces.trace(metric, "zero")
        if not trace.shares:
            continue
        edge = trace.within(traces.yard, margin(traces.yard))
        if edge.status == "crosses" and edge.outside - edge.inside <= COARSE and edge.share > best:
            best, which = edge.share, METRICS[metric].symbol
    if round(best * table.geometry.layers * table.geometry.heads) < 1:
        return USUAL, usual
    return best, (
        f"{fmt.percent(best)} is the largest share that {which} keeps within {limit(traces.yard)}, zero in their place, measured "
        f"on {corpora.describe(plan.text or plan.questions)}."
    )
