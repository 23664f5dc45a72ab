"""Curves of cost: what lies on one, what is measured next, and how scores are ranked, against slow ways of saying the same."""

import dataclasses
import math

import numpy as np
import pytest

from headviz.analysis import ablation, changes, sweeps
from headviz.analysis.choose import choose
from headviz.analysis.metrics import METRICS
from headviz.analysis.sweeps import GRID, Trace, at_count, inside, ranking, spots, sweep, trace
from headviz.analysis.tolerance import change_within, share_within
from headviz.analysis.yardsticks import YARDSTICKS, halves, yardstick
from headviz.data import quiz
from headviz.data.questions import read_questions, resolve_questions
from headviz.errors import BadInput
from headviz.settings import Settings
from headviz.types import Silent
from tests.fakes import fake_table
from tests.unit.test_ablation import HELD_OUT, QUIZ, answers, losses, plan

TABLE = fake_table()
TOTAL = 270
LOSS, ACCURACY = YARDSTICKS["loss"], YARDSTICKS["accuracy"]


def measured(*wanted, **changes):
    """Requests of a score at shares, zero and mean."""
    made = []
    for share in wanted:
        for kind in ("zero", "mean"):
            here = plan(share=share, replace=kind, **changes)
            made.append(ablation.measuring(here, ablation.chosen(here, TABLE)))
    return made


# ----------------------------------------------------------------------------------------------- on the curve


def test_points_of_a_score_are_found_among_all_measurements():
    others = [
        *measured(0.1, metric="awft"),
        *measured(0.1, turned=True),
        measured(0.1, chosen_on=HELD_OUT)[1],
        *ablation.controls(plan(draws=3), ablation.chosen(plan(), TABLE))["uniform"],
        dataclasses.replace(measured(0.1)[0], text=None, questions=QUIZ),
    ]
    found = spots(plan(share=0.9), TABLE, [*measured(0.2, 0.05, 0.123), *others], share_of=None)
    assert [(spot.heads, spot.share) for spot in found if spot.request.ablation.replace == "zero"] == [
        (14, 14 / TOTAL), (33, 33 / TOTAL), (54, 54 / TOTAL),
    ]  # fmt: skip
    for_mean = spots(plan(replace="mean"), TABLE, [*measured(0.2, 0.05), *others], share_of=None)
    assert [spot.heads for spot in for_mean] == [14, 54]
    assert {spot.request.ablation.replace for spot in for_mean} == {"mean"}


@pytest.mark.parametrize("how", [{"by": "group"}, {"per_layer": True}, {"turned": True}])
def test_a_set_lies_on_the_curve_that_would_choose_it(how):
    request = measured(0.2, **how)[0]
    assert [s.request for s in spots(plan(**how), TABLE, [request], share_of=None)] == [request]
    assert spots(plan(), TABLE, [request], share_of=None) == []


def test_points_of_the_papers_rule_have_the_share_that_was_off():
    rules = [ablation.measuring_per_input(plan(mode="per-input", share=share), TABLE) for share in (0.3, 0.1)]
    other = ablation.measuring_per_input(plan(mode="per-input", metric="awft"), TABLE)
    static = measured(0.1)
    off = {rules[0]: 0.35, rules[1]: 0.12, other: 0.2}
    found = spots(plan(mode="per-input"), TABLE, [*rules, other, *static], share_of=off.get)
    assert [spot.share for spot in found] == [0.12, 0.35]
    assert [spot.asked for spot in found] == pytest.approx([0.1, 0.3], abs=1e-3)
    assert spots(plan(), TABLE, rules, share_of=off.get) == []


def test_draws_are_found_as_far_as_they_go():
    spot = spots(plan(), TABLE, measured(0.2), share_of=None)[0]
    many = ablation.controls(plan(draws=20), ablation.chosen(plan(), TABLE))
    there = sweeps.drawn(plan(draws=3), TABLE, spot, {*many["uniform"], *many["layer_matched"][:2]})
    assert there["uniform"] == many["uniform"]
    assert there["layer_matched"] == many["layer_matched"][:2]


# ---------------------------------------------------------------------------------------------- what to measure


def test_a_sweep_asks_for_each_set_once():
    found = sweep(plan(draws=3), TABLE, ["ahon_ln", "awft"])
    assert len(found) == len(set(found))
    modes = [one.ablation.mode for one in found]
    assert modes[0] == "none"
    assert modes.count("static") == len(GRID) * 2 * (2 + 3 + 2 * 3), (
        "scores, uniform draws shared, layered ones"
    )
    firsts = [one.ablation.heads for one in found[1:25]]
    assert firsts == [one.ablation.heads for share in GRID for metric in ("ahon_ln", "awft")
                      for one in measured(share, metric=metric)]  # fmt: skip


def test_a_sweep_by_the_papers_rule_has_its_own_random_heads():
    found = sweep(plan(mode="per-input", draws=2), TABLE, ["awft"])
    assert [one.ablation.mode for one in found] == (
        ["none"] + ["per-input"] * len(GRID) + ["random-per-input"] * 2 * len(GRID)
    )
    assert {one.ablation.rate for one in found if one.ablation.rate} == set(GRID)


@pytest.mark.parametrize(("how", "step"), [({}, 1), ({"by": "group"}, 3), ({"per_layer": True}, 30)])
@pytest.mark.parametrize("true", [0.004, 0.12, 0.19])
def test_measuring_inside_narrows_the_bracket(how, step, true):
    """The loss rises with the number of heads off; the tolerance is passed at the share `true`."""
    made, asked = measured(0.05, 0.3, **how), 0
    here = plan(**how)

    def edge():
        points = spots(here, TABLE, made, share_of=None)
        return points, change_within(
            [p.share for p in points], [p.share for p in points], true, worse="higher"
        )

    while (request := inside(here, TABLE, *edge())) is not None:
        assert request not in made
        made.append(request)
        asked += 1
        assert asked < 12
    found = edge()[1]
    assert found.inside <= true < found.outside
    assert round((found.outside - found.inside) * TOTAL) <= max(2, step)


def test_measuring_inside_the_papers_rule():
    made = [ablation.measuring_per_input(plan(mode="per-input", share=s), TABLE) for s in (0.1, 0.3)]
    here, share_of = plan(mode="per-input"), lambda one: shares[one]
    while True:
        shares = {one: float((TABLE.per_input("ahon_ln") < one.ablation.threshold).mean()) for one in made}
        points = spots(here, TABLE, made, share_of)
        edge = change_within([p.share for p in points], [p.share for p in points], 0.177, worse="higher")
        if (request := inside(here, TABLE, points, edge)) is None:
            break
        made.append(request)
    assert edge.inside <= 0.177 < edge.outside < edge.inside + 0.01
    assert len(made) <= 2 + sweeps.halvings(change_within((0.1, 0.3), (0.1, 0.3), 0.177, worse="higher")) + 1


def test_nothing_is_measured_inside_where_there_is_no_bracket():
    points = spots(plan(), TABLE, measured(0.1), share_of=None)
    never = change_within([p.share for p in points], [0.0, 0.0][: len(points)], 0.05, worse="higher")
    assert never.status == "never outside"
    assert inside(plan(), TABLE, points, never) is None
    assert sweeps.halvings(never) == 0


def test_a_budget_without_a_set_is_none():
    assert at_count(plan(per_layer=True), TABLE, 31) is None
    assert at_count(plan(), TABLE, 999) is None
    assert at_count(plan(), TABLE, 54) == choose(
        TABLE.mean("ahon_ln"), "ahon_ln", geometry=TABLE.geometry, share=0.2
    )


# ------------------------------------------------------------------------------------------- change and halves


def test_cost_is_the_change_that_reports_say():
    before, after = losses(), losses(0.3, seed=1)
    assert LOSS.cost(before, after) == pytest.approx(changes.loss_change(before, after).change)
    assert LOSS.change(before, after) == changes.loss_change(before, after)
    one, other = answers([True] * 30 + [False] * 10), answers([True] * 20 + [False] * 20)
    assert ACCURACY.cost(one, other) == pytest.approx(-0.25)
    assert ACCURACY.change(one, other).change == pytest.approx(-0.25)
    assert YARDSTICKS["logprob"].cost(one, other) == pytest.approx(0.25 * math.log(0.2 / 0.5))
    assert YARDSTICKS["logprob"].change(one, other).change == pytest.approx(0.25 * math.log(0.2 / 0.5))


def test_a_model_that_guesses_is_judged_by_log_probability():
    right = [i % 2 == 0 for i in range(40)]
    assert yardstick(answers([True] * 40)).id == "logprob", "the answer is always B: that alone scores 1"
    good = dataclasses.replace(answers(right), answer=np.array([1, 0] * 20, np.int32))
    assert yardstick(good).id == "accuracy"
    assert yardstick(losses()).id == "loss"


def test_halves_of_text_keep_documents_together():
    before = dataclasses.replace(losses(), cluster=np.repeat(np.arange(8, dtype=np.int32) * 3, 3))
    first, second = halves(before)
    assert (first ^ second).all()
    for cluster in range(8):
        assert len(set(first[before.cluster == cluster * 3])) == 1
    assert first.sum() == second.sum() == 12


def test_halves_of_questions_are_those_that_can_be_asked_for(tmp_path):
    settings = Settings(home=tmp_path)
    refs = {half: resolve_questions("quiz", half=half, seed=7, shots=0, settings=settings)
            for half in ("all", "first", "second")}  # fmt: skip
    items = {half: read_questions(ref, settings, Silent()).items for half, ref in refs.items()}
    whole, n = refs["all"], len(items["all"])
    assert n == len(quiz.load("test"))
    before = dataclasses.replace(
        answers([True] * n),
        subjects=whole.subjects,
        subject=np.array([whole.subjects.index(one.subject) for one in items["all"]], np.int32),
    )
    first, second = halves(before, 7)
    for mask, half in ((first, "first"), (second, "second")):
        mine = {(one.subject, one.index) for one, is_in in zip(items["all"], mask, strict=True) if is_in}
        assert mine == {(one.subject, one.index) for one in items[half]}


# ----------------------------------------------------------------------------------------------------- ranking


def test_a_trace_is_the_mean_over_draws_and_its_halves_add_up():
    before, one, other = losses(), losses(0.2, seed=1), losses(0.4, seed=2)
    curve = trace(plan(), [(0.2, [one, other]), (0.1, [one])], before, LOSS)
    assert curve.shares == (0.1, 0.2)
    assert curve.changes[1] == pytest.approx((LOSS.cost(before, one) + LOSS.cost(before, other)) / 2)
    tokens = [before.predicted[mask].sum() for mask in halves(before)]
    both = np.average([curve.first[0], curve.second[0]], weights=tokens)
    assert both == pytest.approx(curve.changes[0])


def curve(*changes, second=None):
    shares = tuple(0.1 * (i + 1) for i in range(len(changes)))
    return Trace(shares=shares, changes=changes, first=changes, second=second or changes)


def test_ranking_is_chosen_on_one_half_and_confirmed_on_the_other():
    rows = ranking(
        {
            "good": curve(0.01, 0.04, 0.2, second=(0.02, 0.06, 0.2)),
            "bad": curve(0.1, 0.5),
            "never": curve(0.0, 0.01, 0.02),
            "none": curve(),
        },
        LOSS,
        0.05,
        until=0.2,
    )
    assert [row["score"] for row in rows] == ["never", "good", "bad", "none"]
    never, good, bad, none = rows
    assert (never["status"], never["share_within"]) == ("never outside", pytest.approx(30))
    assert good["share_within"] == pytest.approx(20 + 10 * 0.01 / 0.16)
    assert good["second_within"] == pytest.approx(10 + 10 * 0.03 / 0.04)
    assert good["bracket"] == pytest.approx([0.2, 0.3])
    assert bad["share_within"] == pytest.approx(5)
    assert bad["area"] == pytest.approx((0.5 * 0.1 * 0.1 + 0.1 * (0.1 + 0.5) / 2) / 0.2)
    assert math.isnan(none["share_within"])
    assert none["status"] == "not measured"
    assert sweeps.common_end([curve(0.1, 0.2), curve(0.3)]) == pytest.approx(0.1)


def test_a_half_says_what_is_not_known_of_it():
    """0, .2, .2, .04: out after 10%, in again at 40%. The paper's number is where it came back."""
    back, stays = (0.0, 0.2, 0.2, 0.04), (0.0, 0.01, 0.02, 0.03)
    rows = ranking({"back": curve(*back, second=stays), "leaves": curve(0.0, 0.1, 0.2, 0.3)}, LOSS, 0.05)
    assert [row["score"] for row in rows] == ["leaves", "back"]
    row = rows[1]
    assert (row["first_status"], row["first_within"]) == ("ends inside", pytest.approx(10))
    assert (row["second_status"], row["second_within"]) == ("never outside", pytest.approx(40))
    assert change_within((0.1, 0.2, 0.3, 0.4), back, 0.05, worse="higher").share > 0.39
    assert rows[0]["first_bracket"] == pytest.approx([0.1, 0.2])


def test_a_curve_that_was_not_measured_as_far_as_others_go_has_no_rank():
    short = Trace(shares=(0.05,), changes=(0.0,), first=(0.0,), second=(0.0,))
    rows = ranking({"short": short, "failed": curve(0.04, 0.14), "none": curve()}, LOSS, 0.05)
    assert [row["score"] for row in rows] == ["failed", "short", "none"]
    by = {row["score"]: row for row in rows}
    assert by["short"]["unranked"] == "measured only to 5.0%, never outside there"
    assert math.isclose(by["failed"]["area"], curve(0.04, 0.14).area(0.2)), "the range of those with a rank"
    assert math.isnan(by["short"]["area"])
    better = ranking({"short": short, "failed": curve(0.5, 0.6)}, LOSS, 0.05)
    assert [(row["score"], row["unranked"]) for row in better] == [("short", ""), ("failed", "")]


def test_of_scores_that_reach_as_far_the_smaller_cost_is_better_whichever_way_is_worse():
    rows = ranking({"a": curve(0.01, 0.02), "b": curve(0.0, 0.01)}, LOSS, 0.05)
    assert [row["score"] for row in rows] == ["b", "a"]
    rows = ranking({"a": curve(-0.001, -0.002), "b": curve(0.0, -0.001)}, ACCURACY, 0.01)
    assert [row["score"] for row in rows] == ["b", "a"]


def test_changes_cross_where_accuracies_do():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x, y = np.sort(rng.random(6)), 0.6 - rng.random(6) * 0.03
        mine = change_within((0, *x), (0, *(y - 0.6)), 0.01, worse="lower")
        theirs = share_within((0, *x), (0.6, *y), 0.6)
        assert (mine.share, mine.status, mine.inside) == (
            pytest.approx(theirs.share),
            theirs.status,
            theirs.inside,
        )
        assert change_within(x, y - 0.6, 0.01, worse="lower") == mine, "nothing off costs nothing"
        assert change_within(x, 0.6 - y, 0.01, worse="higher").share == pytest.approx(mine.share)
    with pytest.raises(BadInput, match="larger than zero"):
        change_within([0.1], [0.2], 0, worse="higher")


def test_every_score_has_a_curve():
    request = measured(0.2)[0]
    assert all(
        spots(plan(metric=metric), TABLE, [request], share_of=None) == []
        for metric in METRICS
        if metric != "ahon_ln"
    )
