"""Plans of ablation: what they ask for, and what their answers say."""

import dataclasses

import numpy as np
import pytest

from headviz.analysis import ablation, changes
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import threshold_at
from headviz.analysis.published import differs
from headviz.commands.ablate import sentence
from headviz.data.questions import MMLU_SUBJECTS
from headviz.errors import BadInput
from headviz.jobs.kinds import KINDS
from headviz.types import (
    DataRef,
    ModelRef,
    PromptScoreRequest,
    QuestionScores,
    QuestionsRef,
    TextLosses,
    digest,
)
from tests.fakes import fake_provenance, fake_table

MODEL = ModelRef(source="bundled", name="smollm2", revision="r", dtype="float32")
TRAIN = DataRef(corpus="docstrings", revision="a", part="train")
HELD_OUT = DataRef(corpus="docstrings", revision="b", part="held-out")
QUIZ = QuestionsRef(source="quiz", revision="c", subjects=("animals",), shots=0, scoring="text")
TABLE = fake_table()


def plan(**changes) -> Plan:
    return dataclasses.replace(
        Plan(model=MODEL, chosen_on=TRAIN, metric="ahon_ln", share=0.2, text=HELD_OUT), **changes
    )


def losses(shift=0.0, documents=24, seed=0) -> TextLosses:
    rng = np.random.default_rng(seed)
    predicted = rng.integers(20, 60, documents).astype(np.int32)
    return TextLosses(
        loss=predicted * (3.5 + rng.normal(0, 0.4, documents) + shift),
        predicted=predicted,
        by_position=np.full(60, 3.5),
        cluster=np.arange(documents, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(documents)),
        off_share=np.full(documents, 0.2, np.float32),
        off_sets={},
        provenance=fake_provenance(),
    )


def answers(right: list[bool], subjects=2) -> QuestionScores:
    """Choice 1 is always the right one; where `right`, it has the highest log-probability."""
    logprob = np.log(np.array([[0.2, 0.5, 0.1] if r else [0.5, 0.2, 0.1] for r in right]))
    n = len(right)
    return QuestionScores(
        subjects=tuple(f"s{i}" for i in range(subjects)),
        subject=(np.arange(n) % subjects).astype(np.int32),
        index=np.arange(n, dtype=np.int32),
        answer=np.ones(n, np.int32),
        logprob=logprob,
        length=np.ones((n, 3), np.int32),
        off_share=np.full(n, 0.2, np.float32),
        off_sets={},
        provenance=fake_provenance(),
    )


def test_the_baseline_is_the_same_request_for_every_plan():
    one = ablation.measuring(plan(), None)
    other = ablation.measuring(plan(metric="awft", share=0.3, replace="mean", draws=3), None)
    nothing = ablation.measuring(plan(share=0.0), ablation.chosen(plan(share=0.0), TABLE))
    assert digest(one, 1) == digest(other, 1) == digest(nothing, 1)


def test_two_scores_that_choose_the_same_heads_share_a_measurement():
    off = ablation.chosen(plan(), TABLE)
    assert ablation.measuring(plan(), off) == ablation.measuring(plan(metric="awft"), off)


def test_the_chosen_set_is_the_most_inactive_share():
    off = ablation.chosen(plan(), TABLE)
    assert off.count == 54
    means = TABLE.mean("ahon_ln")
    assert means[off.mask()].max() <= means[~off.mask()].min()


def test_mean_replacement_says_where_the_mean_is_from():
    off = ablation.chosen(plan(), TABLE)
    assert ablation.measuring(plan(replace="mean"), off).ablation.means_on == TRAIN
    assert ablation.measuring(plan(), off).ablation.means_on is None


def test_controls_have_as_many_heads_and_as_many_in_each_layer():
    off = ablation.chosen(plan(), TABLE)
    drawn = ablation.controls(plan(draws=4), off)
    for kind in ("uniform", "layer_matched"):
        assert len(drawn[kind]) == 4
        assert len({request.ablation.heads for request in drawn[kind]}) == 4
        assert all(len(request.ablation.heads) == off.count for request in drawn[kind])
    for request in drawn["layer_matched"]:
        per_layer = np.bincount([layer for layer, _ in request.ablation.heads], minlength=30)
        assert (per_layer == off.per_layer()).all()
    assert ablation.controls(plan(), off) == {"uniform": (), "layer_matched": ()}


def test_the_papers_rule_asks_with_the_quantile_over_all_inputs():
    request = ablation.measuring_per_input(plan(mode="per-input"), TABLE)
    assert request.ablation.threshold == threshold_at(TABLE.per_input("ahon_ln"), "ahon_ln", 0.2)
    drawn = ablation.controls_per_input(plan(mode="per-input", draws=2), 0.17)
    assert [r.ablation.seed for r in drawn] == [0, 1]
    assert drawn[0].ablation.rate == 0.17


@pytest.mark.parametrize(
    ("chosen_on", "text", "same"),
    [
        (TRAIN, HELD_OUT, False),
        (HELD_OUT, HELD_OUT, True),
        (dataclasses.replace(TRAIN, revision="b", part="all"), HELD_OUT, True),
        (dataclasses.replace(HELD_OUT, part="train"), HELD_OUT, False),
        (HELD_OUT, dataclasses.replace(HELD_OUT, corpus="stdlib-code"), False),
        (dataclasses.replace(TRAIN, part="all"), HELD_OUT, True),
        (dataclasses.replace(HELD_OUT, inputs=3), HELD_OUT, True),
        (dataclasses.replace(HELD_OUT, corpus="own"), dataclasses.replace(TRAIN, corpus="own"), False),
        (dataclasses.replace(HELD_OUT, split="a"), dataclasses.replace(HELD_OUT, split="b"), False),
    ],
)
def test_same_inputs_are_flagged(chosen_on, text, same):
    assert ablation.same_inputs(plan(chosen_on=chosen_on, text=text)) is same


@pytest.mark.parametrize(
    ("chosen_on", "asked", "same"),
    [
        (QUIZ, QUIZ, True),
        (dataclasses.replace(QUIZ, half="first"), dataclasses.replace(QUIZ, half="second"), False),
        (dataclasses.replace(QUIZ, half="first"), QUIZ, True),
        (dataclasses.replace(QUIZ, half="first"), dataclasses.replace(QUIZ, half="second", seed=1), True),
        (dataclasses.replace(QUIZ, subjects=("birds",)), QUIZ, False),
        (dataclasses.replace(QUIZ, revision="d"), QUIZ, False),
        (HELD_OUT, QUIZ, False),
        (dataclasses.replace(HELD_OUT, corpus="mmlu"), dataclasses.replace(QUIZ, source="mmlu"), True),
        (dataclasses.replace(TRAIN, corpus="mmlu"), dataclasses.replace(QUIZ, source="mmlu"), False),
    ],
)
def test_same_questions_are_flagged(chosen_on, asked, same):
    assert ablation.same_inputs(plan(chosen_on=chosen_on, text=None, questions=asked)) is same


def test_heads_by_hand_are_the_set_and_no_score_is_named():
    hand = plan(heads=((3, 7), (0, 1)), origin="mine.json", by="group", draws=2)
    off = ablation.chosen(hand, TABLE)
    assert off.heads == ((0, 1), (3, 7))
    tree = changes.report(hand, off, losses(), losses(0.1))
    assert (tree["metric"], tree["chosen_by"], tree["share_asked"]) == (None, "mine.json", None)
    assert tree["heads"] == [[0, 1], [3, 7]]
    assert (tree["same_inputs"], tree["chosen_on"]) == (None, None), "nobody knows where it was chosen"
    assert len(ablation.controls(hand, off)["uniform"]) == 2, "two heads are no whole groups"
    assert ablation.chosen(ablation.with_share(hand, 0.2), TABLE).count == 54, "a curve is of the score"
    with pytest.raises(BadInput, match=r"There is no head L30\.H00"):
        ablation.chosen(plan(heads=((30, 0),)), TABLE)


@pytest.mark.parametrize(
    ("places", "same", "told"),
    [
        ((HELD_OUT,), True, "held-out"),
        ((TRAIN,), False, "train"),
        ((TRAIN, HELD_OUT), True, ["train", "held-out"]),
        ((TRAIN, None), None, None),
        ((HELD_OUT, None), True, None),
        ((), False, []),
    ],
)
def test_a_set_by_hand_is_flagged_by_where_it_was_chosen(places, same, told):
    hand = plan(heads=((3, 7),), origin_on=places)
    tree = changes.report(hand, ablation.chosen(hand, TABLE), losses(), losses(0.1))
    assert tree["same_inputs"] is same
    on = tree["chosen_on"]
    assert ([one["part"] for one in on] if isinstance(on, list) else on and on["part"]) == told


def test_a_threshold_takes_what_is_beyond_it_on_average():
    means = TABLE.mean("ahon_ln")
    cut = float(np.median(means))
    off = ablation.chosen(plan(threshold=cut), TABLE)
    assert (off.mask() == (means < cut)).all()
    assert (ablation.chosen(plan(threshold=cut, turned=True), TABLE).mask() == (means > cut)).all()
    assert changes.report(plan(threshold=cut), off, losses(), losses())["share_asked"] is None
    rule = ablation.measuring_per_input(plan(mode="per-input", threshold=0.5), TABLE)
    assert rule.ablation.threshold == 0.5


def test_the_other_way_round_takes_the_most_active():
    off = ablation.chosen(plan(turned=True), TABLE)
    means = TABLE.mean("ahon_ln")
    assert means[off.mask()].min() >= means[~off.mask()].max()
    rule = ablation.measuring_per_input(plan(mode="per-input", turned=True), TABLE).ablation
    assert rule.turned
    values = TABLE.per_input("ahon_ln")
    assert (values > rule.threshold).mean() == pytest.approx(0.2, abs=0.001)


def test_chosen_on_the_measured_questions():
    asked = plan(chosen_on=QUIZ, text=None, questions=QUIZ)
    assert ablation.scoring(asked) == PromptScoreRequest(model=MODEL, questions=QUIZ)
    off = ablation.chosen(asked, TABLE)
    with pytest.raises(BadInput, match="mean of a head is taken on text"):
        ablation.measuring(dataclasses.replace(asked, replace="mean"), off)
    other = dataclasses.replace(asked, replace="mean", means_on=TRAIN)
    assert ablation.measuring(other, off).ablation.means_on == TRAIN


def test_report_of_a_loss():
    off = ablation.chosen(plan(), TABLE)
    random = {"uniform": [losses(0.8), losses(0.6)], "layer_matched": []}
    tree = changes.report(plan(draws=2), off, losses(), losses(0.25), random)
    assert tree["change"] == pytest.approx(0.25)
    assert tree["ci_low"] <= 0.25 <= tree["ci_high"]
    assert (tree["share_asked"], tree["share_off"], tree["heads_off"]) == (0.2, 0.2, 54)
    assert tree["random"]["uniform"]["mean"] == pytest.approx(0.7)
    assert (tree["random"]["uniform"]["n"], tree["random"]["uniform"]["better"]) == (2, 0)
    assert tree["chosen_on"]["part"] == "train"
    assert tree["measured_on"]["part"] == "held-out"


def test_report_of_questions():
    before = answers([True] * 30 + [False] * 10)
    after = answers([True] * 24 + [False] * 16)
    tree = changes.report(
        plan(text=None, questions=QUIZ), ablation.chosen(plan(), TABLE), before, after, {"uniform": [after]}
    )
    assert tree["baseline"] == 0.75
    # the exact interval of 30 right of 40
    assert (tree["baseline_low"], tree["baseline_high"]) == pytest.approx((0.588, 0.873), abs=1e-3)
    assert tree["change"] == pytest.approx(-0.15)
    assert (tree["lost"], tree["gained"]) == (6, 0)
    assert tree["logprob"]["change"] < 0
    assert tree["kl"] > 0
    assert {row["subject"] for row in tree["subjects"]} == {"s0", "s1"}
    assert tree["at_chance"] is True, "the commonest answer is always right here"
    band = tree["random"]["uniform"]
    assert (tree["counts"], band["counts"]) == ("logprob", "logprob"), "accuracy means nothing here"
    assert band["changes"] == [pytest.approx(tree["logprob"]["change"])], "the very same heads"
    told = sentence(tree)
    assert told.startswith("At chance (accuracy 75.0% with nothing off)"), told
    assert "nats" in told, told
    assert "accuracy −" not in told, told


def test_above_chance_random_heads_count_accuracy():
    before, after = (
        replaced(one, np.arange(40) % 3)
        for one in (answers([True] * 40), answers([True] * 30 + [False] * 10))
    )
    tree = changes.report(
        plan(text=None, questions=QUIZ), ablation.chosen(plan(), TABLE), before, after, {"uniform": [after]}
    )
    assert (tree["at_chance"], tree["counts"]) == (False, "accuracy")
    assert tree["random"]["uniform"]["changes"] == [pytest.approx(-0.25)]


def replaced(scores: QuestionScores, answer: np.ndarray) -> QuestionScores:
    """The same answers, with the right one at other letters."""
    logprob = np.stack([np.roll(row, a - 1) for row, a in zip(scores.logprob, answer, strict=True)])
    return dataclasses.replace(scores, logprob=logprob, answer=answer.astype(np.int32))


def test_published_figures_compare_with_the_papers_protocol_only():
    asked = QuestionsRef(source="mmlu", revision="c", subjects=MMLU_SUBJECTS)
    paper = plan(text=None, questions=asked, chosen_on=asked, mode="per-input")
    assert differs(paper, chat=False) == []
    fewer = dataclasses.replace(asked, shots=0, per_subject=5)
    other = dataclasses.replace(paper, questions=fewer, turned=True)
    told = differs(other, chat=True)
    assert told == [
        "the most active heads go first",
        "thresholds come from other inputs than are measured",
        "5 questions a subject at the most",
        "0 worked examples instead of 5",
        "no chat template",
    ]


def test_text_scoring_divides_by_the_tokens():
    scores = dataclasses.replace(
        answers([True]), logprob=np.array([[-1.0, -1.5, -9.0]]), length=np.array([[1, 3, 1]], np.int32)
    )
    assert changes.correct(scores, "text").tolist() == [True]
    assert changes.correct(scores, "letter").tolist() == [False]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"text": None}, "one of the two"),
        ({"questions": QUIZ}, "one of the two"),
        ({"draws": -1}, "0 or more"),
        ({"share": 20.0}, "20% is 0.2"),
        ({"mode": "per-input", "heads": ((0, 0),)}, "static set"),
        ({"mode": "per-input", "replace": "mean"}, "zero only"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        plan(**changes)


def test_measurements_are_a_kind_of_job():
    assert KINDS["measure"].request is type(ablation.measuring(plan(), None))


def test_a_change_that_is_remembered_belongs_to_its_two_results():
    """The same numbers in two objects, or the same digest with other numbers, are looked at anew."""
    before, one, other = losses(), losses(0.1), losses(0.2)
    assert one.provenance.digest == other.provenance.digest
    assert changes.loss_change(before, one) is changes.loss_change(before, one)
    assert changes.loss_change(before, other).change == pytest.approx(0.2)
    assert changes.loss_change(other, one).change == pytest.approx(-0.1)
    right, wrong = answers([True] * 8), answers([False] * 8)
    assert changes.accuracy_change(right, wrong, "letter").change == -1
    assert changes.accuracy_change(wrong, right, "letter").change == 1
