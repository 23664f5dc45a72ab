"""Accuracy before and after on the same questions: change, interval, flips, and each subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headviz.analysis.paired.intervals import as_right, holm, mcnemar_p, score_interval
from headviz.errors import BadInput

Weighting = Literal["questions", "subjects"]

FEW = 10  # questions that must depart from what is usual in their subject before a bootstrap is trusted
CELLS = 4_000_000  # resampled numbers held at once, 32 MB


@dataclass(frozen=True, kw_only=True)
class SubjectChange:
    """One subject: as `PairedChange`, interval by score test; `p_holm` holds over all subjects at once."""

    subject: str
    n: int
    baseline: float
    ablated: float
    change: float
    low: float
    high: float
    lost: int
    gained: int
    p: float
    p_holm: float


@dataclass(frozen=True, kw_only=True)
class PairedChange:
    """Accuracy before and after on the same n questions.

    change:      ablated − baseline, a fraction, −1..1; negative is worse
    lost, gained: questions that turned wrong, and right; their sum are the flips
    p:           exact McNemar, two-sided; counts questions, whatever the weighting. A large one is not "no effect"
    weighting:   `questions`: every question counts the same; `subjects`: every subject does ("mean over subjects")
    method:      "stratified bootstrap", or "score" where too few questions flip for it
    effective_n: questions that this weighting is worth: n when questions count the same, else less
    """

    n: int
    baseline: float
    ablated: float
    change: float
    low: float
    high: float
    bound_low: float
    bound_high: float
    lost: int
    gained: int
    p: float
    weighting: Weighting
    method: Literal["stratified bootstrap", "score"]
    effective_n: float
    draws: int
    seed: int
    subjects: tuple[SubjectChange, ...]


def paired_change(
    baseline_correct: np.ndarray,
    ablated_correct: np.ndarray,
    subjects: Sequence[str] | None = None,
    *,
    weighting: Weighting = "questions",
    seed: int = 0,
    draws: int = 10_000,
) -> PairedChange:
    """Change in accuracy on the same questions.

    baseline_correct, ablated_correct: (n,) right or wrong; subjects: (n,) names, None for a single subject

    Interval: questions are resampled within their subjects, one fewer per subject than it has (Rao and Wu 1988: with
    all of them, subjects of a few questions would look too certain by (n−1)/n), `draws` times, percentiles. Where fewer
    than ten questions depart from the usual outcome of their subject, or a subject has one question, resampling sees
    too little: Tango's score interval takes its place and `method` says so. So no flips at all give a change of 0, p of
    1, and an interval of ± 3.84 / (n + 3.84), never [0, 0].

    Raises BadInput for no questions, different lengths, or values other than right and wrong.
    """
    before, after = as_right(baseline_correct, "baseline"), as_right(ablated_correct, "ablated")
    if not before.size:
        raise BadInput("There are no questions to compare: zero were answered.")
    names = np.asarray(["all"] * before.size if subjects is None else list(subjects), dtype=object)
    if not before.size == after.size == names.size:
        raise BadInput(
            f"Compared answers belong to the same questions: {before.size} before, {after.size} after, "
            f"{names.size} subjects."
        )
    if weighting not in ("questions", "subjects"):
        raise BadInput(f"Weighting is 'questions' or 'subjects', not {weighting!r}.")
    if draws < 1:
        raise BadInput(f"An interval needs at least one draw, not {draws}.")
    labels, stratum = np.unique(names.astype(str), return_inverse=True)
    counts = _flips(before, after, stratum, labels.size)  # (S, 3): lost, same, gained
    size = counts.sum(1)  # (S,)
    weight = (
        size / size.sum() if weighting == "questions" else np.full(size.size, 1 / size.size)
    )  # (S,) sums to 1
    lost, gained = int(counts[:, 0].sum()), int(counts[:, 2].sum())
    effective = 1 / float((weight**2 / size).sum())
    method, edges = _change_edges(counts, weight, effective, seed, draws)
    if weighting == "questions":  # the same as below, and exactly 0 where as many turned right as wrong
        accuracy, change = [float(right.mean()) for right in (before, after)], (gained - lost) / before.size
    else:
        accuracy = [
            float(weight @ (np.bincount(stratum, right, labels.size) / size)) for right in (before, after)
        ]
        change = float(weight @ ((counts[:, 2] - counts[:, 0]) / size))
    return PairedChange(
        n=before.size,
        baseline=accuracy[0],
        ablated=accuracy[1],
        change=change,
        low=edges[0],
        high=edges[3],
        bound_low=edges[1],
        bound_high=edges[2],
        lost=lost,
        gained=gained,
        p=float(mcnemar_p(lost, gained)),
        weighting=weighting,
        method=method,
        effective_n=effective,
        draws=draws,
        seed=seed,
        subjects=_by_subject(labels, counts, np.bincount(stratum, before, labels.size)),
    )


def _flips(before: np.ndarray, after: np.ndarray, stratum: np.ndarray, subjects: int) -> np.ndarray:
    """(S, 3) questions per subject that turned wrong, did not change, turned right."""
    outcome = after.astype(int) - before + 1  # (n,) 0, 1, 2
    return np.bincount(stratum * 3 + outcome, minlength=subjects * 3).reshape(subjects, 3)


def _change_edges(
    counts: np.ndarray, weight: np.ndarray, effective: float, seed: int, draws: int
) -> tuple[Literal["stratified bootstrap", "score"], tuple[float, float, float, float]]:
    """How, and the change at 2.5, 5, 95 and 97.5%. counts: (S, 3); weight: (S,)."""
    size = counts.sum(1)
    if (size - counts.max(1)).sum() < FEW or (size < 2).any():
        rates = weight @ (counts / size[:, None])  # (3,) weighted shares of lost, same, gained
        lost, gained = rates[0] * effective, rates[2] * effective
        (low, high), (bound_low, bound_high) = (
            score_interval(lost, gained, effective, tail) for tail in (0.025, 0.05)
        )
        return "score", (low, bound_low, bound_high, high)
    rng = np.random.default_rng(seed)
    means = np.empty(draws)
    step = max(1, CELLS // counts.size)
    for start in range(0, draws, step):
        some = min(step, draws - start)
        drawn = rng.multinomial(size - 1, counts / size[:, None], size=(some, size.size))  # (some, S, 3)
        means[start : start + some] = ((drawn[..., 2] - drawn[..., 0]) / (size - 1)) @ weight
    low, bound_low, bound_high, high = np.quantile(means, (0.025, 0.05, 0.95, 0.975)).tolist()
    return "stratified bootstrap", (low, bound_low, bound_high, high)


def _by_subject(labels: np.ndarray, counts: np.ndarray, right: np.ndarray) -> tuple[SubjectChange, ...]:
    """Rows in the order of the names. counts: (S, 3); right: (S,) right before."""
    p = mcnemar_p(counts[:, 0], counts[:, 2])
    adjusted = holm(p)
    rows = []
    for i, label in enumerate(labels):
        lost, gained, n = int(counts[i, 0]), int(counts[i, 2]), int(counts[i].sum())
        low, high = score_interval(lost, gained, n)
        rows.append(
            SubjectChange(
                subject=str(label),
                n=n,
                baseline=float(right[i]) / n,
                ablated=(float(right[i]) + gained - lost) / n,
                change=(gained - lost) / n,
                low=low,
                high=high,
                lost=lost,
                gained=gained,
                p=float(p[i]),
                p_holm=float(adjusted[i]),
            )
        )
    return tuple(rows)
