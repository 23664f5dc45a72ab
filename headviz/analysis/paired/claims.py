"""What may be claimed from a change: within tolerance or not, above chance or not, ahead of random heads or not."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from headviz.analysis.paired.accuracy import FEW, PairedChange
from headviz.analysis.paired.intervals import as_right, lower_bound
from headviz.analysis.paired.means import FEW_CLUSTERS, MeanChange
from headviz.errors import BadInput


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the loss stays within `margin`, and how many questions (or documents) it would take to say so.

    answer: "yes": the one-sided 95% bound is inside the margin; "no": it is outside on the other side, so the loss is
            larger than the margin; "cannot tell": neither, which is not "no effect"
    bound:  the one-sided 95% bound on how bad it may be, as a change with its sign; NaN where there is none
    needed: questions (documents for a mean) for "yes" in four of five tries if nothing really changed on balance and
            answers flip as often as here; 0 where too little was seen to say: fewer than 10 flips, or 20 documents
    """

    answer: Literal["yes", "no", "cannot tell"]
    margin: float
    bound: float
    needed: int


def within_tolerance(
    change: PairedChange | MeanChange, *, margin: float = 0.01, worse: Literal["lower", "higher"] = "lower"
) -> Verdict:
    """Non-inferiority: is the change, at one-sided 95%, not worse than `margin`?

    margin: above 0, in the unit of the change: 0.01 is one accuracy point, or 0.01 nats; worse: which way is bad,
    "higher" for a loss. A bound exactly on the margin does not suffice. Raises BadInput for a margin of 0 or less.
    """
    if not margin > 0:
        raise BadInput(f"A tolerance is larger than zero, not {margin}: 0.01 stands for one point.")
    if worse not in ("lower", "higher"):
        raise BadInput(f"Worse is 'lower' or 'higher', not {worse!r}.")
    bad, good = (
        (-change.bound_low, -change.bound_high) if worse == "lower" else (change.bound_high, change.bound_low)
    )
    answer: Literal["yes", "no", "cannot tell"] = (
        "yes" if bad < margin else "no" if good > margin else "cannot tell"
    )
    if isinstance(change, PairedChange):
        flips = change.lost + change.gained
        needed = questions_needed(flips / change.n, margin) if flips >= FEW else 0
        needed = math.ceil(needed * change.n / change.effective_n - 1e-9)
    else:
        few = change.clusters < FEW_CLUSTERS
        needed = 0 if few else math.ceil(change.clusters * (change.se * _z() / margin) ** 2)
    return Verdict(answer=answer, margin=margin, bound=-bad if worse == "lower" else bad, needed=needed)


def _z(power: float = 0.8) -> float:
    return float(special.ndtri(0.95) + special.ndtri(power))


def questions_needed(flip_rate: float, margin: float, power: float = 0.8) -> int:
    """Questions for a "yes" at `margin` with probability `power`, when a share `flip_rate` of answers flips evenly.

    flip_rate × (z₀.₉₅ + z_power)² / margin²: 6,183 at one point (0.01) and 10% flips; at least the z² (1 − margin) / margin
    that no flips at all would take. Raises BadInput for a flip rate outside 0..1 or a margin outside 0..1.
    """
    if not 0 <= flip_rate <= 1 or not 0 < margin <= 1:
        raise BadInput(
            f"Flips and margin are shares between 0 and 1, not {flip_rate} and {margin}; the margin is above 0."
        )
    least = float(special.ndtri(0.95)) ** 2 * (1 - margin) / margin
    return math.ceil(max(flip_rate * (_z(power) / margin) ** 2, least))


@dataclass(frozen=True, kw_only=True)
class AtChance:
    """Whether an accuracy can be told from always giving the commonest answer.

    chance: share of the commonest right answer, `commonest`; low: one-sided 95% lower bound of the accuracy
    at_chance: low is not above chance: lead with log-probability and loss instead
    """

    n: int
    accuracy: float
    low: float
    chance: float
    commonest: str
    at_chance: bool


def chance_level(answers: Sequence[Hashable] | np.ndarray) -> float:
    """Share of the commonest right answer, 0..1: what always giving it would score. Raises BadInput for no answers."""
    return _commonest(answers)[1]


def _commonest(answers: Sequence[Hashable] | np.ndarray) -> tuple[str, float]:
    values, counts = np.unique(np.asarray(answers).astype(str), return_counts=True)
    if not values.size:
        raise BadInput("There are no questions, so there is no chance level.")
    return str(values[counts.argmax()]), float(counts.max() / counts.sum())


def at_chance(correct: np.ndarray, answers: Sequence[Hashable] | np.ndarray) -> AtChance:
    """Compare (n,) right-or-wrong with the commonest of the (n,) right answers, by an exact bound (`lower_bound`).

    Raises BadInput for no questions or lengths that differ.
    """
    right = as_right(correct, "correct")
    commonest, chance = _commonest(answers)
    if right.size != len(answers):
        raise BadInput(f"{right.size} answers were judged, but {len(answers)} right answers are known.")
    low = lower_bound(int(right.sum()), right.size)
    return AtChance(
        n=right.size,
        accuracy=float(right.mean()),
        low=low,
        chance=chance,
        commonest=commonest,
        at_chance=low <= chance,
    )


@dataclass(frozen=True, kw_only=True)
class RandomBand:
    """Random draws at one point: mean, range over draws, and the score's place among them.

    better: draws that did at least as well as the score, so 0 of n says that it beat them all
    """

    mean: float
    low: float
    high: float
    n: int
    better: int


def among_random(value: float, draws: Sequence[float], *, worse: Literal["lower", "higher"]) -> RandomBand:
    """Where `value` stands among the same number measured with random heads. Raises BadInput for no draws or NaN."""
    numbers = np.asarray(draws, dtype=np.float64)
    if not numbers.size or not np.isfinite(numbers).all() or not math.isfinite(value):
        raise BadInput("A rank among random heads needs at least one draw, and a finite number for each.")
    better = numbers >= value if worse == "lower" else numbers <= value
    return RandomBand(
        mean=float(numbers.mean()),
        low=float(numbers.min()),
        high=float(numbers.max()),
        n=numbers.size,
        better=int(better.sum()),
    )
