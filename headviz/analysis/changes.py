"""What switching heads off changed: loss or accuracy against the baseline, and the report of it beside random heads.

numpy only: pages and the command line read this.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from headviz.analysis.ablation import Plan, chosen_tree, same_inputs
from headviz.analysis.choose import HeadSet
from headviz.analysis.paired import (
    MeanChange,
    PairedChange,
    among_random,
    answer_kl,
    at_chance,
    paired_change,
    paired_mean,
    share_interval,
)
from headviz.types import QuestionScores, TextLosses, plain

Measured = QuestionScores | TextLosses
_REMEMBERED = 512  # changes: at each click a page draws all it measured, and one resampling takes some 30 ms


class _Same:
    """A result that equals only itself: what was computed from it is remembered while it is, with no word about arrays."""

    def __init__(self, result: Measured) -> None:
        self.result = result

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.result is other.result

    def __hash__(self) -> int:
        return id(self.result)


def loss_change(before: TextLosses, after: TextLosses) -> MeanChange:
    """Change in mean next-token loss, nats a token, interval by document; inputs of one token predict nothing."""
    return _loss_change(_Same(before), _Same(after))


@lru_cache(maxsize=_REMEMBERED)
def _loss_change(one: _Same, other: _Same) -> MeanChange:
    before, after = one.result, other.result
    some = before.predicted > 0
    weights = before.predicted[some]
    was, now = (measured.loss[some] / weights for measured in (before, after))
    return paired_mean(was, now, before.cluster[some], weights=weights)


def correct(scores: QuestionScores, scoring: str) -> np.ndarray:
    """(Q,) bool: the likeliest choice is the right one; ties go to the first, as in lm-evaluation-harness."""
    return np.nanargmax(_judged(scores, scoring), axis=1) == scores.answer


def right_logprob(scores: QuestionScores, scoring: str) -> np.ndarray:
    """(Q,) log-probability of the right answer, nats; per token for answer texts."""
    return np.take_along_axis(_judged(scores, scoring), scores.answer[:, None].astype(int), 1)[:, 0]


def _judged(scores: QuestionScores, scoring: str) -> np.ndarray:
    return scores.logprob / np.maximum(scores.length, 1) if scoring == "text" else scores.logprob


def accuracy_change(before: QuestionScores, after: QuestionScores, scoring: str) -> PairedChange:
    """Change in accuracy on the same questions, weighted by question."""
    return _accuracy_change(_Same(before), _Same(after), scoring)


@lru_cache(maxsize=_REMEMBERED)
def _accuracy_change(one: _Same, other: _Same, scoring: str) -> PairedChange:
    before, after = one.result, other.result
    names = [before.subjects[i] for i in before.subject]
    return paired_change(correct(before, scoring), correct(after, scoring), names)


def headline(plan: Plan, before: Measured, after: Measured) -> tuple[float, float]:
    """(baseline, ablated) of the one number that curves show: mean loss in nats, or accuracy."""
    if isinstance(before, TextLosses) and isinstance(after, TextLosses):
        return tuple(float(m.loss.sum() / m.predicted.sum()) for m in (before, after))
    scoring = plan.questions.scoring
    return tuple(float(correct(m, scoring).mean()) for m in (before, after))


def report(
    plan: Plan,
    off: HeadSet | None,
    before: Measured,
    after: Measured,
    random: dict[str, list[Measured]] | None = None,
) -> dict[str, Any]:
    """What the command line writes: shares are fractions, losses nats, `change` is ablated − baseline.

    off: the static set; None under the per-input rule, whose share is what was measured
    `counts` names what random heads are compared by: loss, accuracy, or where that is at chance the log-probability of the
    right answer (nats; `logprob` then has the change that stands among them).
    """
    on_text = isinstance(before, TextLosses)
    main = loss_change(before, after) if on_text else accuracy_change(before, after, plan.questions.scoring)
    worse = "higher" if on_text else "lower"
    tree: dict[str, Any] = {
        "target": "loss" if on_text else plan.questions.source,
        "unit": "nats" if on_text else "accuracy",
        "metric": plan.metric if plan.by_score else None,
        "chosen_by": "score" if plan.by_score else plan.origin,
        "turned": plan.turned and plan.by_score,
        "baseline": main.baseline,
        "ablated": main.ablated,
        "change": main.change,
        "ci_low": main.low,
        "ci_high": main.high,
        "interval": main.method,
        "n": main.n,
        "share_asked": plan.share if plan.by_score and plan.threshold is None else None,
        "threshold": plan.threshold,
        "share_off": float(after.off_share.mean()) if off is None else off.share,
        "mode": plan.mode,
        "replace": plan.replace,
        "chosen_on": chosen_tree(plan),
        "measured_on": plain(plan.text if on_text else plan.questions),
        "same_inputs": same_inputs(plan),
        "random": {},
    }
    if off is None:
        tree["off_sets"] = dict(after.off_sets)
        tree["threshold"] = after.provenance.request.get("ablation", {}).get("threshold", plan.threshold)
    else:
        tree |= {"heads_off": off.count, "heads": [list(pair) for pair in off.heads]}
    if on_text:
        tree |= {"clusters": main.clusters, "note": main.note}
    else:
        tree |= _on_questions(plan, main, before, after)
    guessing = tree.get("at_chance", False)
    tree["counts"] = "logprob" if guessing else "loss" if on_text else "accuracy"
    mine = tree["logprob"]["change"] if guessing else main.change
    for kind, several in (random or {}).items():
        if several:
            changes = [_cost(plan, before, one, guessing) for one in several]
            told = asdict(among_random(mine, changes, worse=worse))
            tree["random"][kind] = {"counts": tree["counts"], **told, "changes": changes}
    return tree


def _cost(plan: Plan, before: Measured, after: Measured, guessing: bool) -> float:
    """The change that random heads are compared by."""
    if guessing:
        scoring = plan.questions.scoring
        return float((right_logprob(after, scoring) - right_logprob(before, scoring)).mean())
    baseline, ablated = headline(plan, before, after)
    return ablated - baseline


def _on_questions(
    plan: Plan, main: PairedChange, before: QuestionScores, after: QuestionScores
) -> dict[str, Any]:
    scoring = plan.questions.scoring
    right = int(correct(before, scoring).sum())
    log = paired_mean(right_logprob(before, scoring), right_logprob(after, scoring))
    over = "choices" if scoring == "text" else "vocabulary"
    return {
        "lost": main.lost,
        "gained": main.gained,
        "p": main.p,
        "baseline_low": share_interval(right, main.n)[0],
        "baseline_high": share_interval(right, main.n)[1],
        "at_chance": at_chance(correct(before, scoring), before.answer).at_chance,
        "logprob": {"baseline": log.baseline, "ablated": log.ablated, "change": log.change, "ci_low": log.low, "ci_high": log.high},
        "kl": float(answer_kl(_judged(before, scoring), _judged(after, scoring), over).mean()),
        "subjects": [asdict(row) for row in main.subjects],
    }  # fmt: skip
