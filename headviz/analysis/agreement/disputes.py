"""The heads that two scores disagree about most, each with what there is to know about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.analysis.agreement.scored import Scored, mean_ranks, order, shared
from headviz.types import ScoreTable, head_name


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What one score says of one head.

    value:      its mean over inputs; layer_mean: the mean of its layer's heads, for comparison
    rank:       1 for the most inactive of `of` heads, ties by layer, then head
    percentile: 0 for the most active head, 1 for the most inactive; equal heads share theirs; 0.5 for a head alone
    inactive:   whether the score calls it inactive: strictly beyond `threshold`
    """

    metric: str
    value: float
    layer_mean: float
    rank: int
    of: int
    percentile: float
    threshold: float
    inactive: bool


@dataclass(frozen=True, kw_only=True)
class Dispute:
    """A head that is inactive to one score and active to the other.

    gap:    percentile of a − percentile of b, −1..1: above 0, it is a that calls it inactive
    others: score → value for every score of the table, the two included; NaN where not defined
    """

    layer: int
    head: int
    name: str
    gap: float
    a: Verdict
    b: Verdict
    others: dict[str, float]


def disputes(
    table: ScoreTable, a: Scored, b: Scored, thresholds: tuple[float, float], most: int | None = None
) -> tuple[Dispute, ...]:
    """The heads that both scores are defined for, most disputed first: by |gap|, ties by layer, then head.

    thresholds: where a and b begin to call a head inactive, for the verdicts; they do not change the order
    most:       how many at most; None for all
    """
    known = shared(a, b)
    places = np.argwhere(known)  # (n, 2)
    sides = [_ranked(side, known) for side in (a, b)]
    # from ranks, which are exact in halves: equal gaps must tie
    gap = (sides[0][1] - sides[1][1]) / max(len(places) - 1, 1)  # (n,)
    means = {metric: table.mean(metric) for metric in table.metrics}
    found = []
    for i in order(np.abs(gap))[:most]:
        layer, head = (int(place) for place in places[i])
        first, second = (
            _verdict(score, side, i, layer, head, threshold)
            for score, side, threshold in zip((a, b), sides, thresholds)
        )
        found.append(
            Dispute(
                layer=layer,
                head=head,
                name=head_name(layer, head),
                gap=float(gap[i]),
                a=first,
                b=second,
                others={metric: float(values[layer, head]) for metric, values in means.items()},
            )
        )
    return tuple(found)


def _ranked(score: Scored, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """((n,) place, 1 the most inactive, (n,) mean rank, 1 the most active) of the known heads."""
    urgency = score.urgency[known]
    place = np.empty(urgency.size, dtype=np.int64)
    place[order(urgency)] = np.arange(1, urgency.size + 1)
    return place, mean_ranks(urgency)


def _verdict(
    score: Scored, side: tuple[np.ndarray, np.ndarray], i: int, layer: int, head: int, threshold: float
) -> Verdict:
    n = side[0].size
    return Verdict(
        metric=score.row.id,
        value=float(score.values[layer, head]),
        layer_mean=float(np.nanmean(score.values[layer])),  # this head has a value, so the layer has one
        rank=int(side[0][i]),
        of=n,
        percentile=float((side[1][i] - 1) / (n - 1)) if n > 1 else 0.5,
        threshold=float(threshold),
        inactive=bool(score.beyond(threshold)[layer, head]),
    )
