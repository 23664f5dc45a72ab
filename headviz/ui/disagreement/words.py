"""The sentence under the title."""

from __future__ import annotations

from headviz.analysis.agreement import spearman
from headviz.charts import fmt
from headviz.charts.contest import contest_sentence
from headviz.ui.disagreement.work import Work


def sentence(work: Work) -> str:
    """What a person would quote: once it is measured, which disputed group costs more; and how far the scores agree."""
    answer = contest_sentence(work.costs, work.quadrants, work.a, work.b)
    return "\n\n".join(part for part in (answer, agreement_words(work)) if part)


def agreement_words(work: Work) -> str:
    counts, names = work.quadrants.counts(), work.quadrants.names
    first, second = work.a.row.symbol, work.b.row.symbol
    total = work.a.values.size
    apart = f"{counts['only_a']} are {names['only_a']}, {counts['only_b']} {names['only_b']}."
    if work.quadrants.count is None:
        return (
            f"{first} calls {fmt.count(counts['both'] + counts['only_a'], total)} heads inactive and {second} "
            f"{fmt.count(counts['both'] + counts['only_b'], total)}; {counts['both']} are in both: {apart}"
        )
    if not work.quadrants.count:
        return "At a share of 0% neither score calls a head inactive."
    at = work.curve.at(work.count)
    rho, _ = spearman(work.a.urgency, work.b.urgency)
    return (
        f"{first} and {second} each call {fmt.count(work.count, total)} heads inactive and agree on {counts['both']} "
        f"({fmt.number(at['chance_overlap'])} by chance): {apart} Rank correlation {fmt.signed(rho)}."
    )
