"""From "these heads, chosen like this, measured on that" to requests. What their answers say: `changes`.

A plan is what a person asks. It is not a job: it comes apart into measurements of one head set each, so that the
baseline is measured once for all plans, a slider that comes back finds its answer, and a stopped sweep loses little.
numpy only: pages and the command line read this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from headviz.analysis.choose import By, HeadSet, check_share, choose, random_sets
from headviz.analysis.metrics import METRICS, threshold_at
from headviz.errors import BadInput, lookup
from headviz.types import (
    Ablation,
    DataRef,
    MeasureRequest,
    ModelRef,
    PromptScoreRequest,
    QuestionsRef,
    ScoreRequest,
    ScoreTable,
    plain,
)


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


def with_share(plan: Plan, share: float) -> Plan:
    """The same plan with its heads chosen by the score at another share."""
    return replace(plan, share=share, threshold=None, heads=None)


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
