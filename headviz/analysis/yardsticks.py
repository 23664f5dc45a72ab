"""What a curve of ablations counts: loss, accuracy, or the right answer's log-probability; and halves to choose and confirm on."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headviz.analysis import changes
from headviz.analysis.changes import Measured
from headviz.analysis.paired import MeanChange, PairedChange, at_chance, paired_mean
from headviz.types import QuestionScores, TextLosses


@dataclass(frozen=True)
class Yardstick:
    """One way to count a cost.

    what: for an axis; unit: on screen, of `scale` × the change; worse: which way is bad
    tolerance: the parameter of the view that says how much is accepted, in the unit on screen
    """

    id: str
    what: str
    unit: str
    scale: float
    worse: Literal["higher", "lower"]
    tolerance: Literal["points", "nats"]

    def cost(
        self, before: Measured, after: Measured, scoring: str = "letter", some: np.ndarray | None = None
    ) -> float:
        """Change in nats a token, or a share of the questions, or nats; over `some` of the inputs or questions, (n,)
        bool. NaN over none."""
        if isinstance(before, TextLosses):
            some = np.ones(len(before.loss), bool) if some is None else some
            tokens = before.predicted[some].sum()
            return float((after.loss[some] - before.loss[some]).sum() / tokens) if tokens else np.nan
        read = changes.correct if self.id == "accuracy" else changes.right_logprob
        one, other = (read(measured, scoring).astype(float) for measured in (before, after))
        some = np.ones(len(one), bool) if some is None else some
        return float((other - one)[some].mean()) if some.any() else np.nan

    def change(self, before: Measured, after: Measured, scoring: str = "letter") -> MeanChange | PairedChange:
        """The same with its interval, over all of them."""
        if isinstance(before, TextLosses):
            return changes.loss_change(before, after)
        if self.id == "accuracy":
            return changes.accuracy_change(before, after, scoring)
        return paired_mean(*(changes.right_logprob(measured, scoring) for measured in (before, after)))


YARDSTICKS: dict[str, Yardstick] = {
    row.id: row
    for row in (
        Yardstick("loss", "change in loss", "nats", 1.0, "higher", "nats"),
        Yardstick("accuracy", "change in accuracy", "points", 100.0, "lower", "points"),
        Yardstick("logprob", "change in log-probability of the right answer", "nats", 1.0, "lower", "nats"),
    )
}


def yardstick(before: Measured, scoring: str = "letter") -> Yardstick:
    """What to count: loss on text, accuracy on questions; where that is at chance, the right answer's log-probability."""
    if isinstance(before, TextLosses):
        return YARDSTICKS["loss"]
    guessing = at_chance(changes.correct(before, scoring), before.answer).at_chance
    return YARDSTICKS["logprob" if guessing else "accuracy"]


def halves(before: Measured, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two (n,) bool masks that part the inputs, or the questions: a ranking is chosen on one and confirmed on the other.

    Text: every other document, so that inputs of one document stay together. Questions: half of each subject, drawn with
    the seed of the questions: the halves of `QuestionsRef.half` where all questions of a subject were asked, others where
    only some were (a result does not say of how many). Nothing is run again: both halves are in every measurement.
    """
    first = np.zeros(len(before.loss if isinstance(before, TextLosses) else before.answer), bool)
    if isinstance(before, TextLosses):
        first = np.unique(before.cluster, return_inverse=True)[1] % 2 == 0
    elif isinstance(before, QuestionScores):
        for number, name in enumerate(before.subjects):
            mine = np.flatnonzero(before.subject == number)
            order = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())])).permutation(
                len(mine)
            )
            first[mine[order[: (len(mine) + 1) // 2]]] = True
    return first, ~first
