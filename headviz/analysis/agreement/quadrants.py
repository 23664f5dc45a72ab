"""Two scores, four groups of heads: what both call inactive, one alone, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from headviz.analysis.agreement.scored import Scored, order, shared, take
from headviz.errors import BadInput

Group = Literal["both", "only_a", "only_b", "neither", "unknown"]
GROUPS: tuple[Group, ...] = ("both", "only_a", "only_b", "neither", "unknown")


@dataclass(frozen=True, kw_only=True)
class Quadrants:
    """The heads of a model by what two scores say.

    masks:      group → (L, H) bool; every head is in exactly one. "only_a": called inactive by a and not by b.
                "unknown": a score has no value for it
    names:      group → what to call it: "sink but loud"
    thresholds: where the lines are, of a and of b. At a budget: halfway between the last head that is taken and the first
                that is not; their common value if they tie
    count:      heads that each score calls inactive, at a budget; None where thresholds were given
    """

    a: str
    b: str
    masks: dict[Group, np.ndarray]
    names: dict[Group, str]
    thresholds: tuple[float, float]
    count: int | None = None

    def counts(self) -> dict[Group, int]:
        """Heads in each group; they add up to L·H."""
        return {group: int(mask.sum()) for group, mask in self.masks.items()}

    def heads(self, group: Group) -> list[tuple[int, int]]:
        """(layer, head) of a group, sorted."""
        return [(int(layer), int(head)) for layer, head in np.argwhere(self.masks[group])]


def quadrants_at(a: Scored, b: Scored, thresholds: tuple[float, float]) -> Quadrants:
    """The four groups at a threshold of each score, strictly beyond. Raises BadInput for a threshold that is NaN."""
    known = shared(a, b)
    if np.isnan(thresholds).any():
        raise BadInput("A threshold of a score is a number, not NaN.")
    return _grouped(a, b, a.beyond(thresholds[0]), b.beyond(thresholds[1]), known, thresholds, None)


def quadrants_of(a: Scored, b: Scored, count: int) -> Quadrants:
    """The four groups where each score takes its `count` most inactive heads, ties by layer, then head.

    Among the heads that both scores are defined for. Raises BadInput for a count below 0, or above these.
    """
    known = shared(a, b)
    inside = [np.where(known, side.urgency, np.nan) for side in (a, b)]
    taken = [take(urgency, count) for urgency in inside]
    lines = tuple(_line(side, urgency, count) for side, urgency in zip((a, b), inside))
    return _grouped(a, b, *taken, known, lines, count)


def budget(share: float, a: Scored, b: Scored) -> int:
    """Heads that a share (0..1) of all heads is, to the nearest, halves up; no more than both scores are defined for."""
    if not 0 <= share <= 1:
        raise BadInput(f"A share of heads lies between 0 and 1, where 1 is 100%, not at {share:g}.")
    known = shared(a, b)
    return min(int(share * known.size + 0.5), int(known.sum()))


def group_names(a: Scored, b: Scored) -> dict[Group, str]:
    """What to call the groups, from the words of the two rows; from their symbols where the words do not tell them apart."""
    first, second = a.row, b.row
    words = (first.called, first.otherwise, second.called, second.otherwise)
    if all(words) and len(set(words)) == 4:
        only_a, only_b = f"{first.called} but {second.otherwise}", f"{second.called} but {first.otherwise}"
    else:
        only_a, only_b = f"inactive by {first.symbol} alone", f"inactive by {second.symbol} alone"
    return {
        "both": "both",
        "only_a": only_a,
        "only_b": only_b,
        "neither": "neither",
        "unknown": "not defined",
    }


def _grouped(
    a: Scored,
    b: Scored,
    by_a: np.ndarray,
    by_b: np.ndarray,
    known: np.ndarray,
    thresholds: tuple[float, float],
    count: int | None,
) -> Quadrants:
    return Quadrants(
        a=a.row.id,
        b=b.row.id,
        masks={
            "both": by_a & by_b & known,
            "only_a": by_a & ~by_b & known,
            "only_b": by_b & ~by_a & known,
            "neither": ~by_a & ~by_b & known,
            "unknown": ~known,
        },
        names=group_names(a, b),
        thresholds=(float(thresholds[0]), float(thresholds[1])),
        count=count,
    )


def _line(side: Scored, urgency: np.ndarray, count: int) -> float:
    """Where a threshold lies that separates the heads taken from the others; the extreme value for none and for all."""
    numbers = np.ravel(side.values)[order(urgency)[: int((~np.isnan(urgency)).sum())]]
    return float((numbers[max(count - 1, 0)] + numbers[min(count, numbers.size - 1)]) / 2)
