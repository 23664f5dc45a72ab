"""What disputed heads cost: planted losses come back, and nobody is right before the intervals are apart."""

import dataclasses

import numpy as np
import pytest

from headviz.analysis import agreement, groupcosts
from headviz.analysis.ablation import Plan
from headviz.charts.contest import contest_sentence
from headviz.types import DataRef, ModelRef, TextLosses
from tests.fakes import fake_provenance, fake_table

TABLE = fake_table(L=6, H=6, G=2, N=4)
A, B = agreement.scored(TABLE, "awft"), agreement.scored(TABLE, "ahon_ln")
GROUPS = agreement.quadrants_of(A, B, 12)
TEXT = DataRef(corpus="docstrings", revision="0" * 64)
PLAN = Plan(
    model=ModelRef(source="bundled", name="m", revision="0" * 64, dtype="float32"),
    chosen_on=dataclasses.replace(TEXT, part="train"),
    metric="awft",
    share=1 / 3,
    text=TEXT,
    draws=2,
)
PLANS = groupcosts.group_plans(PLAN, GROUPS)
NOISE = np.random.default_rng(0).normal(0, 1, (2, 24))


def losses(shift: float, wobble: float = 0.0, row: int = 0) -> TextLosses:
    predicted = np.full(24, 63, np.int32)
    return TextLosses(
        loss=predicted * (3.5 + shift + wobble * NOISE[row]),
        predicted=predicted,
        by_position=np.full(63, 3.5),
        cluster=np.arange(24, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(24)),
        off_share=np.full(24, 0.2, np.float32),
        off_sets={},
        provenance=fake_provenance(),
    )


def store(costs: dict, wobble: float = 0.0):
    """Answers: each group costs what is planted, random heads 0.5 in every draw."""
    sets = {tuple(GROUPS.heads(group)): (i, group) for i, group in enumerate(groupcosts.DISPUTED)}

    def find(request):
        off = request.ablation
        if off.mode == "none":
            return losses(0.0)
        if off.heads in sets:
            row, group = sets[off.heads]
            return losses(costs[group] / (1 if off.replace == "zero" else 10), wobble, row)
        return losses(0.5)

    return find


def told(costs, wobble=0.0, groups=GROUPS, plans=PLANS):
    found = groupcosts.costs_of(plans, TABLE.geometry, store(costs, wobble))
    return found, contest_sentence(found, groups, A, B)


def test_planted_costs_come_back_and_say_who_is_right():
    found, said = told({"only_a": 0.82, "only_b": 0.18})
    assert found.of("only_a", "zero").change == pytest.approx(0.82)
    assert found.of("only_b", "mean").change == pytest.approx(0.018)
    assert found.of("only_a", "zero").random["uniform"] == pytest.approx((0.5, 0.5))
    assert found.contest("zero").change == pytest.approx(0.64)
    assert groupcosts.right(found.contest("zero")) == "b"
    count = GROUPS.counts()["only_a"]
    assert said.startswith(
        f"**{count} sink-but-loud heads cost +0.820 nats [0.820, 0.820], {count} silent-but-not-a-sink"
    )
    assert "differ by +0.640 nats" in said
    assert "**AHON (LN) is right**" in said
    assert "the same way round" in said
    assert "as many random heads anywhere +0.500 (2 draws)" in said


def test_the_other_score_wins_where_its_heads_cost_less():
    found, said = told({"only_a": 0.1, "only_b": 0.3})
    assert groupcosts.right(found.contest("zero")) == "a"
    assert "**AWFT is right**" in said


def test_nobody_is_right_where_the_difference_may_be_chance():
    found, said = told({"only_a": 0.21, "only_b": 0.2}, wobble=0.3)
    assert found.contest("zero").low < 0 < found.contest("zero").high
    assert groupcosts.right(found.contest("zero")) is None
    assert "may be chance, so nobody is shown to be right" in said
    assert "is right**" not in said


def test_groups_of_different_sizes_do_not_say_who_is_right():
    groups = agreement.quadrants_at(A, B, (0.3, GROUPS.thresholds[1]))
    plans = groupcosts.group_plans(PLAN, groups)
    assert len(plans["only_a"].heads) != len(plans["only_b"].heads)
    found = groupcosts.costs_of(
        plans, TABLE.geometry, lambda r: losses(0.01 * len(r.ablation.heads), row=len(r.ablation.heads) % 2)
    )
    assert not found.contest("zero").equal
    assert groupcosts.right(found.contest("zero")) is None
    assert "not of the same size" in contest_sentence(found, groups, A, B)


def test_what_is_asked_is_each_run_once_and_groups_share_uniform_draws():
    asked = groupcosts.requests(PLANS, TABLE.geometry)
    assert len(asked) == len(set(asked))
    # nothing off; two groups by zero and mean; two shared uniform draws and two matched ones a group, by zero and mean
    assert len(asked) == 1 + 2 * 2 + 2 * (2 + 2 * 2)
    assert asked[0].ablation.mode == "none"
    assert [one.ablation.replace for one in asked[1:5]] == ["zero", "zero", "mean", "mean"]
    assert {len(one.ablation.heads) for one in asked[1:]} == {GROUPS.counts()["only_a"]}


def test_scores_that_agree_leave_nothing_to_measure():
    same = agreement.quadrants_of(A, A, 12)
    plans = groupcosts.group_plans(PLAN, same)
    assert plans == {}
    assert groupcosts.requests(plans, TABLE.geometry) == []
    assert groupcosts.costs_of(plans, TABLE.geometry, lambda r: None) is None
    assert contest_sentence(None, same, A, A) == ""


def test_the_report_names_who_is_right():
    found, _ = told({"only_a": 0.82, "only_b": 0.18})
    tree = groupcosts.report(found, GROUPS, PLAN)
    assert tree["difference"][0]["right"] == "ahon_ln"
    assert tree["same_inputs"] is False
    assert {one["name"] for one in tree["groups"]} == {"sink but loud", "silent but not a sink"}
