"""What a score says of a head, and why, in one sentence."""

from __future__ import annotations

from headviz.analysis.agreement import Dispute, Scored, Verdict
from headviz.analysis.metrics import Metric
from headviz.charts import fmt


def verdict_sentence(verdict: Verdict, row: Metric) -> str:
    """`AWFT is 0.830 (probability), the 4th highest of 270 heads and above the threshold of 0.620, so it calls the head
    inactive: sink. Its layer's mean is 0.410.`"""
    high = row.inactive == "high"
    value = fmt.number(verdict.value) + (f" ({row.unit})" if row.unit else "")
    rank = "" if verdict.rank == 1 else f"{ordinal(verdict.rank)} "
    place = f"the {rank}{'highest' if high else 'lowest'} of {verdict.of:,} heads"
    side = "above" if high else "below"
    if verdict.inactive:
        claim = f"and {side} the threshold of {fmt.number(verdict.threshold)}, so it calls the head inactive"
    else:
        claim = f"and not {side} the threshold of {fmt.number(verdict.threshold)}, so it does not call the head inactive"
    word = row.called if verdict.inactive else row.otherwise
    return (
        f"{row.symbol} is {value}, {place} {claim}{f': {word}' if word else ''}. "
        f"Its layer's mean is {fmt.number(verdict.layer_mean)}."
    )


def dispute_sentences(dispute: Dispute, a: Scored, b: Scored) -> tuple[str, str]:
    """What each of the two scores says of the head."""
    return verdict_sentence(dispute.a, a.row), verdict_sentence(dispute.b, b.row)


def ordinal(place: int) -> str:
    """1st, 2nd, 3rd, 4th … 11th, 21st."""
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place:,}{ending}"
