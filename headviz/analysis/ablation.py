"""From "these heads, chosen like this, measured on that" to requests, and from their answers to what it cost.

A plan is what a person asks. It is not a job: it comes apart into measurements of one head set each, so that the
baseline is measured once for all plans, a slider that comes back finds its answer, and a stopped sweep loses little.
numpy only: pages and the command line read this.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from headviz.analysis.choose import By, HeadSet, check_share, choose, random_sets
from headviz.analysis.metrics import METRICS, threshold_at
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
from headviz.errors import BadInput, lookup
from headviz.types import (
    Ablation,
    DataRef,
    MeasureRequest,
    ModelRef,
    PromptScoreRequest,
    QuestionScores,
    QuestionsRef,
    ScoreRequest,
    ScoreTable,
    TextLosses,
    plain,
)

Measured = QuestionScores | TextLosses
_REMEMBERED = 512  # changes: at each click a page draws all it measured, and one resampling takes some 30 ms


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which heads are switched off, where they were chosen, and where it is measured.

    mode:      `static`: one set of heads on every input; `per-input`: the paper's rule, heads whose score on the very input
               lies beyond the threshold, which is the quantile of `share` over all scores on `chosen_on`
    chosen_on: the text, or the questions, whose scores choose; measured on `questions` or on `text`, one of the two
    turned:    the most active heads go first instead of the most inactive
    share:     asked share of heads, 0..1; by whole KV groups or by head; per_layer: the same number in every layer
    threshold: instead of the share: of the mean score, or per input of the score itself
    heads:     instead of both: this very set, whoever chose it; origin says who, "by hand" or a file's name
    origin_on: every text, or set of questions, by whose numbers somebody chose those heads; None among them: that is not
               known, of some of them or of all
    replace:   what stands in for a head's output; the paper's rule knows zero only
    means_on:  text on which means are taken, where that is not `chosen_on`
    draws:     random sets of each kind beside it, from `seed`
    """

    model: ModelRef
    chosen_on: DataRef | QuestionsRef
    metric: str
    share: float
    threshold: float | None = None
    heads: tuple[tuple[int, int], ...] | None = None
    origin: str = "by hand"
    origin_on: tuple[DataRef | QuestionsRef | None, ...] = (None,)
    turned: bool = False
    mode: Literal["static", "per-input"] = "static"
    by: By = "head"
    per_layer: bool = False
    questions: QuestionsRef | None = None
    text: DataRef | None = None
    replace: Literal["zero", "mean"] = "zero"
    means_on: DataRef | None = None
    draws: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        lookup(METRICS, self.metric, "score")
        if (self.questions is None) == (self.text is None):
            raise BadInput("Heads are measured on questions or on text: give one of the two.")
        if self.draws < 0:
            raise BadInput(f"A number of random draws is 0 or more, not {self.draws}.")
        check_share(self.share)
        if self.mode == "per-input":
            if self.heads is not None:
                raise BadInput(
                    "A list of heads is a static set; per input the score chooses. Use one of the two."
                )
            if self.replace != "zero":
                raise BadInput("Heads that are chosen per input are replaced by zero only, as in the paper.")

    @property
    def by_score(self) -> bool:
        """Whether the score chooses, not a person or a file."""
        return self.heads is None


def scoring(plan: Plan) -> ScoreRequest | PromptScoreRequest:
    """The request whose answer chooses the heads."""
    if isinstance(plan.chosen_on, QuestionsRef):
        return PromptScoreRequest(model=plan.model, questions=plan.chosen_on)
    return ScoreRequest(model=plan.model, data=plan.chosen_on)


def chosen(plan: Plan, table: ScoreTable) -> HeadSet:
    """The heads that the plan switches off: the set it names, or by their mean score over the inputs of `chosen_on`.

    Raises BadInput for a head that the model does not have, or a share that cannot be met.
    """
    if plan.heads is not None:
        return HeadSet(heads=plan.heads, geometry=table.geometry)
    return choose(
        table.mean(plan.metric),
        plan.metric,
        geometry=table.geometry,
        share=plan.share if plan.threshold is None else None,
        threshold=plan.threshold,
        by=plan.by,
        per_layer=plan.per_layer,
        turned=plan.turned,
    )


def measuring(plan: Plan, off: HeadSet | None) -> MeasureRequest:
    """The measurement with `off` switched off; the baseline for None, or for a set without heads."""
    ablation = Ablation()
    if off is not None and off.heads:
        mean = _means_on(plan) if plan.replace == "mean" else None
        ablation = Ablation(mode="static", heads=off.heads, replace=plan.replace, means_on=mean)
    return MeasureRequest(model=plan.model, questions=plan.questions, text=plan.text, ablation=ablation)


def _means_on(plan: Plan) -> DataRef:
    if plan.means_on is not None:
        return plan.means_on
    if isinstance(plan.chosen_on, QuestionsRef):
        raise BadInput("The mean of a head is taken on text: say on which (means_on), or replace by zero.")
    return plan.chosen_on


def threshold_per_input(plan: Plan, table: ScoreTable) -> float:
    """The threshold of the paper's rule: the plan's own, or the quantile of its share over all scores that chose."""
    if plan.threshold is not None:
        return plan.threshold
    return threshold_at(table.per_input(plan.metric), plan.metric, plan.share, plan.turned)


def measuring_per_input(plan: Plan, table: ScoreTable) -> MeasureRequest:
    """The measurement under the paper's rule; zero replaces, as there."""
    threshold = threshold_per_input(plan, table)
    rule = Ablation(mode="per-input", metric=plan.metric, threshold=threshold, turned=plan.turned)
    return MeasureRequest(model=plan.model, questions=plan.questions, text=plan.text, ablation=rule)


def controls_per_input(plan: Plan, rate: float) -> tuple[MeasureRequest, ...]:
    """Each head off with probability `rate` on each input, `plan.draws` times: the paper's Random."""
    return tuple(
        MeasureRequest(
            model=plan.model,
            questions=plan.questions,
            text=plan.text,
            ablation=Ablation(mode="random-per-input", rate=rate, seed=plan.seed + i),
        )
        for i in range(plan.draws)
    )


def controls(plan: Plan, off: HeadSet) -> dict[str, tuple[MeasureRequest, ...]]:
    """As many random heads, `plan.draws` times: anywhere, and with the same number in each layer."""
    if not plan.draws or not off.heads:
        return {"uniform": (), "layer_matched": ()}
    by = plan.by if plan.by_score else "head"  # a set by hand need not hold whole groups
    drawn = {
        "uniform": random_sets(off.count, off.geometry, plan.draws, plan.seed, by=by),
        "layer_matched": random_sets(
            off.count, off.geometry, plan.draws, plan.seed, layer_matched=off, by=by
        ),
    }
    return {kind: tuple(measuring(plan, one) for one in sets) for kind, sets in drawn.items()}


def chosen_by(plan: Plan) -> tuple[DataRef | QuestionsRef | None, ...]:
    """On what the heads were chosen; None among them: not known of all."""
    return (plan.chosen_on,) if plan.by_score else plan.origin_on


def chosen_tree(plan: Plan) -> Any:
    """The same as JSON types, a list where there are several; None where it is not known of all."""
    places = [plain(place) for place in chosen_by(plan)]
    if None in places:
        return None
    return places[0] if len(places) == 1 else places


def same_inputs(plan: Plan) -> bool | None:
    """Whether heads were chosen on inputs on which they are also measured, or may be: parts that overlap count.

    None where that cannot be told: a set of which nobody knows where it was chosen.
    """
    places = chosen_by(plan)
    if any(overlap(place, plan.text or plan.questions) for place in places if place is not None):
        return True
    return None if None in places else False


def overlap(one: DataRef | QuestionsRef, other: DataRef | QuestionsRef) -> bool:
    """Whether the two may share inputs."""
    if isinstance(one, QuestionsRef) and isinstance(other, QuestionsRef):
        return _questions_overlap(one, other)
    if isinstance(one, DataRef) and isinstance(other, DataRef):
        return _texts_overlap(one, other)
    text, asked = (one, other) if isinstance(one, DataRef) else (other, one)
    return text.corpus == asked.source == "mmlu" and text.part != "train"  # its questions as text


def _texts_overlap(one: DataRef, other: DataRef) -> bool:
    """The revision tells texts of one's own apart; of a corpus it may name a part, or another day of the same set."""
    place = ("corpus", "dataset", "config", "split", *(("revision",) if one.corpus == "own" else ()))
    same = all(getattr(one, name) == getattr(other, name) for name in place)
    return same and (one.part == other.part or "all" in (one.part, other.part))


def _questions_overlap(one: QuestionsRef, other: QuestionsRef) -> bool:
    if (one.source, one.revision) != (other.source, other.revision):
        return False
    draw = (one.seed, one.per_subject) == (other.seed, other.per_subject)
    if draw and {one.half, other.half} == {"first", "second"}:
        return False
    return bool(set(one.subjects) & set(other.subjects))


# ------------------------------------------------------------------------------------------------ what it cost


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


def with_share(plan: Plan, share: float) -> Plan:
    """The same plan with its heads chosen by the score at another share."""
    return replace(plan, share=share, threshold=None, heads=None)
