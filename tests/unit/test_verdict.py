"""The verdict on a repair: each word from made-up reports, and the numbers beside it worked out by hand."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headviz.surgery import outcomes, said
from headviz.surgery.head_changes import head_changes
from headviz.surgery.outcomes import (
    arm_losses,
    class_counts,
    drift,
    newly_collapsed,
    total_mass,
)
from headviz.surgery.report_tree import report_tree
from headviz.surgery.verdict import WORDS, judge
from headviz.types import HeadTest, RepairReport, RepairRun, RepairStock
from tests.repairs import SMALL, THREE, repair_provenance, small_request

ARMS = ("repair", "untrained", "no-reinit")
L, H, N = SMALL.layers, SMALL.heads, 12


def masses(of_treated: float = 0.9, treated=THREE, others: float = 0.1) -> np.ndarray:
    """(L, H) BOS mass: one number for the treated heads, one for the others."""
    mass = np.full((L, H), others)
    for layer, head in treated:
        mass[layer, head] = of_treated
    return mass


def stock() -> RepairStock:
    return RepairStock(
        select=3.66,
        report=np.full(N, 3.66) + np.linspace(-0.4, 0.4, N),
        report_predicted=np.full(N, 63, np.int32),
        report_cluster=np.arange(N, dtype=np.int32) // 2,
        other=np.full(N, 4.2),
        other_predicted=np.full(N, 63, np.int32),
        other_cluster=np.arange(N, dtype=np.int32),
        mass=masses(),
        entropy=np.full((L, H), 2.0),
        output_norm=np.ones((L, H)),
        full_norm=np.ones((L, H)),
        half_mass=np.stack([masses(), masses(others=0.11)]),
        null_mass=np.full(H, 0.05),
        null_entropy=np.full(H, 2.5),
    )


def run(arm: str = "repair", seed: int = 0, shift: float = 0.0, other: float = 0.0, **more) -> RepairRun:
    """A run of three evaluations whose report loss is the stock's plus `shift` nats, the other domain's plus `other`."""
    base = stock()
    ended = masses() if arm == "no-reinit" else masses(0.1)
    number = np.full((L, H), 2.0)
    fields = {
        "arm": arm,
        "seed": seed,
        "number": 1,
        "heads": THREE,
        "step": np.array([0, 10, 20], np.int32),
        "train_loss": np.array([np.nan, 3.7, 3.6]),
        "select": np.array([3.67, 3.66, 3.65]),
        "rate": np.array([np.nan, 1e-3, 0.0]),
        "gradient_norm": np.array([np.nan, 0.5, 0.4]),
        "tokens_per_second": np.array([np.nan, 900.0, 910.0]),
        "mass": np.stack([ended, ended, ended]),
        "entropy": np.stack([number] * 3),
        "output_norm": np.stack([number] * 3),
        "full_norm": np.stack([number] * 3),
        "best": 20,
        "ended": "steps",
        "report_best": base.report + shift,
        "report_last": base.report + shift,
        "other_best": base.other + other,
        "other_last": base.other + other,
    }
    return RepairRun(**(fields | more))


def report_of(runs) -> RepairReport:
    return RepairReport(
        stock=stock(),
        runs=tuple(runs),
        tests=(
            HeadTest(layer=1, head=2, change=0.02, low=0.01, high=0.03, p=0.001, p_holm=0.003),
            HeadTest(layer=1, head=3, change=0.0, low=-0.01, high=0.01, p=0.9, p_holm=1.0),
        ),
        frozen_before="f" * 64,
        frozen_after="f" * 64,
        trained=3168,
        whole=8448,
        shared_text=0.001,
        files=(),
        geometry=SMALL,
        provenance=repair_provenance(small_request()),
    )


def report(shifts: dict[str, float], seeds=(0, 1, 2), wobble: float = 0.001, **more):
    """One pass of every arm with every seed; the report loss of arm A is stock's plus shifts[A], a little apart by seed."""
    runs = [
        run(arm, seed, shift=shift + wobble * (seed - 1), **more)
        for arm, shift in shifts.items()
        for seed in seeds
    ]
    return report_of(spread(runs))


def spread(runs):
    """Losses that differ by document, so that an interval has a width: ± 0.005 nats, the same for every arm and seed's sign."""
    by_document = 0.005 * (-1.0) ** np.arange(len(runs[0].report_best) // 2)
    noise = np.repeat(by_document, 2)
    return [replace(one, report_best=one.report_best + noise * (1 + 0.1 * i)) for i, one in enumerate(runs)]


@pytest.mark.parametrize(
    ("shifts", "word"),
    [
        ({"repair": -0.05, "no-reinit": -0.02}, "repaired"),
        ({"repair": -0.05, "no-reinit": -0.05}, "awake, no gain from reinitialising"),
        ({"repair": -0.05, "no-reinit": -0.08}, "awake, no gain from reinitialising"),
        ({"repair": 0.0, "no-reinit": 0.0}, "awake, no gain from reinitialising"),
        ({"repair": 0.0, "no-reinit": 0.05}, "no change shown"),
        ({"repair": 0.05, "no-reinit": 0.09}, "worse"),
        ({"repair": 0.05, "no-reinit": -0.09}, "worse"),
    ],
)
def test_the_word_follows_from_the_report_loss(shifts, word):
    found = judge(small_request(), report(shifts))
    assert found.word == word
    assert found.word in WORDS
    assert f"{shifts['repair']:+.4f}" in found.sentences[1].replace("-0.0000", "+0.0000")


def test_heads_that_still_look_at_the_first_token_are_not_awake():
    asleep = np.stack([masses()] * 3)
    found = judge(small_request(), report({"repair": 0.0, "no-reinit": 0.0}, mass=asleep))
    assert found.word == "no change shown"
    assert not found.awake.awake
    assert found.sentences[0].startswith("0 of 3 treated heads")


def test_a_gain_of_heads_that_still_look_at_the_first_token_is_no_repair():
    shifts = {"repair": -0.05, "no-reinit": -0.02}
    asleep, half = (
        np.stack([masses(0.1, THREE[:awake]) + masses(0.8, THREE[awake:], 0.0)] * 3) for awake in (1, 2)
    )
    found = judge(small_request(), report(shifts, mass=asleep))
    assert found.word == "no change shown"
    assert found.reason.startswith("1 of 3 treated heads are off the first token")
    assert found.reason.endswith(
        "fewer than half of the heads look away from the first token, so they were not repaired."
    )
    assert judge(small_request(), report(shifts, mass=half)).word == "repaired"


@pytest.mark.parametrize(
    ("seeds", "ended", "says"),
    [
        ((0, 1), (0, 1), "at least 3 seeds, and this plan has 2"),
        ((0, 1, 2), (0, 2), "2 of 3 seeds .* ended so far"),
        ((0, 1, 2), (), "0 of 3 seeds"),
    ],
)
def test_too_few_seeds_are_not_judged(seeds, ended, says):
    made = report({"repair": -0.05, "no-reinit": -0.02}, seeds=ended) if ended else report_of([])
    found = judge(small_request(seeds=seeds), made)
    assert found.word == "cannot be judged"
    assert re.search(says, found.reason)


@pytest.mark.parametrize("gone", ["repair", "no-reinit"])
def test_a_missing_arm_is_named(gone):
    arms = tuple(arm for arm in ARMS if arm != gone)
    found = judge(small_request(arms=arms), report({arm: -0.05 for arm in arms if arm != "untrained"}))
    assert found.word == "cannot be judged"
    assert found.reason.startswith("There is no arm “")
    assert len(found.sentences) == 4


def test_a_changed_model_is_not_judged():
    made = replace(report({"repair": -0.05, "no-reinit": -0.02}), frozen_after="0" * 64)
    assert judge(small_request(), made).reason.startswith("The part of the model that must not change")


def test_one_document_gives_no_interval():
    made = report({"repair": -0.05, "no-reinit": -0.02})
    one = replace(made, stock=replace(made.stock, report_cluster=np.zeros(12, np.int32)))
    found = judge(small_request(), one)
    assert found.word == "cannot be judged"
    assert "one document" in found.reason


def test_what_a_running_repair_has_so_far_is_judged_too():
    empty = np.zeros(0)
    going = run("repair", report_best=empty, report_last=empty, ended="")
    found = judge(small_request(), SimpleNamespace(stock=stock(), runs=(going,)))
    assert found.word == "cannot be judged"
    assert found.awake is None
    assert judge(small_request(), SimpleNamespace(stock=None, runs=())).word == "cannot be judged"


def test_the_four_sentences():
    runs = [run(arm, seed, shift, other=0.02 if arm == "repair" else 0.0)
            for arm, shift in (("repair", -0.05), ("untrained", 0.01), ("no-reinit", -0.02)) for seed in range(3)]  # fmt: skip
    other = small_request(other=small_request().held_out)
    found = judge(other, report_of(runs))
    assert found.sentences[0] == (
        "3 of 3 treated heads have at most 0.5 of their attention on the first token, 0 before surgery; random heads in their "
        "place, without training: 3; old weights, trained alike: 0."
    )
    assert found.sentences[2].startswith("Loss on the other domain: +0.0200")
    assert found.sentences[2].endswith("; the model got worse there.")
    assert found.sentences[3].startswith("1 of 2 treated heads (L01.H02) make the report loss higher")
    assert [test.p_holm for test in found.telling] == [0.003]
    assert "no text of another domain" in judge(small_request(), report_of(runs)).sentences[2]


def test_an_arm_that_has_not_ended_is_not_said_to_be_missing():
    runs = [run(arm, seed) for arm in ("repair", "no-reinit") for seed in range(3)]
    first = judge(small_request(), SimpleNamespace(stock=stock(), runs=runs)).sentences[0]
    assert "is not known, for that arm has not ended yet; old weights" in first
    alone = SimpleNamespace(stock=stock(), runs=[run("repair", 0)])
    second = judge(small_request(), alone).sentences[1]
    assert "without new weights it is not known, for that arm has not ended yet." in second
    second = judge(small_request(arms=("repair", "untrained")), alone).sentences[1]
    assert "without new weights it is not known, for the plan has no such arm." in second
    first = judge(small_request(arms=("repair", "no-reinit")), report_of(runs)).sentences[0]
    assert "is not known, for the plan has no such arm; old weights" in first


def test_a_head_whose_removal_helps_does_not_count():
    helps = HeadTest(layer=1, head=2, change=-0.02, low=-0.03, high=-0.01, p=0.001, p_holm=0.003)
    made = replace(report({"repair": -0.05, "no-reinit": -0.02}), tests=(helps,))
    assert judge(small_request(), made).telling == ()


def test_a_run_that_stopped_early_is_named():
    made = report({"repair": -0.05, "no-reinit": -0.02}, ended="The loss was not finite at step 7.")
    assert any(
        "seed 0: The loss was not finite at step 7." in note for note in judge(small_request(), made).notes
    )


def test_seeds_that_disagree_are_named():
    found = judge(small_request(), report({"repair": -0.001, "no-reinit": -0.02}, wobble=0.01))
    assert any("the seeds do not agree" in note for note in found.notes)


def seeds_of(shifts, arm="repair", width=0.02, others=()):
    """A run a seed, whose report loss is stock's plus its shift; from document to document ± width around it."""
    apart = width * np.repeat([-1, 1, -1, 1, -1, 1], 2)
    runs = [
        run(arm, seed, shift, report_best=stock().report + shift + apart) for seed, shift in enumerate(shifts)
    ]
    return [*runs, *others]


@pytest.mark.parametrize(
    ("shifts", "word"),
    [
        ((-0.08, -0.03, -0.09), "awake, no gain from reinitialising"),  # seed 1 alone: −0.01 ± 0.02
        ((-0.08, -0.07, -0.09), "repaired"),
        ((-0.08, -0.03, -0.09, -0.07), "repaired"),  # three seeds of four
        ((-0.08, -0.03, -0.09, -0.02), "awake, no gain from reinitialising"),
    ],
)
def test_a_repair_must_hold_in_three_seeds_each_by_itself(shifts, word):
    seeds = tuple(range(len(shifts)))
    plain = [run("no-reinit", seed, -0.02) for seed in seeds]
    found = judge(small_request(seeds=seeds), report_of(seeds_of(shifts, others=plain)))
    assert found.loss.against_no_reinit.high < 0, "over the seeds together it is clear in each of these"
    assert found.word == word
    sides = [one.side for one in found.loss.each_against_no_reinit]
    assert sides == [-1 if shift < -0.05 else 0 for shift in shifts]
    clear = sides.count(-1)
    if word != "repaired":
        told = "against training without new weights the interval is below 0, clear of it, in "
        assert f"{told}{clear} of {len(seeds)} seeds, and at least 3 are needed" in found.reason
    agree = [
        note for note in found.notes if note.startswith("Against training without new weights the seeds do")
    ]
    assert len(agree) == (clear < len(seeds))
    assert "over documents" in found.sentences[1]


def test_each_seed_has_the_interval_of_a_comparison_of_it_alone():
    runs = seeds_of((-0.08, -0.03, -0.09), others=[run("no-reinit", seed, -0.02) for seed in range(3)])
    found = report_of(runs)
    for at, each in enumerate(judge(small_request(), found).loss.each_against_no_reinit):
        alone = arm_losses(report_of([runs[at], runs[3 + at]]))[1].against_no_reinit
        assert (each.change, each.low, each.high) == (alone.change, alone.low, alone.high)
        assert each.high > each.low


def test_a_seed_that_is_worse_by_itself_does_not_count():
    plain = [run("no-reinit", seed, -0.02) for seed in range(3)]
    found = judge(small_request(), report_of(seeds_of((-0.2, 0.03, -0.2), others=plain)))
    assert [one.side for one in found.loss.each_against_no_reinit] == [-1, 1, -1]
    assert "in 2 of 3 seeds" in found.reason


def test_lower_than_without_new_weights_but_not_than_stock_in_three_seeds_is_no_repair():
    plain = [run("no-reinit", seed, 0.1) for seed in range(3)]
    found = judge(small_request(), report_of(seeds_of((-0.08, -0.01, -0.09), others=plain)))
    assert found.word == "no change shown"
    assert "in 2 of 3 seeds against stock, in 3 of 3 against training without new weights" in found.reason


def test_repair_is_compared_with_healthy_heads_treated_alike():
    runs = [run(arm, seed, shift) for arm, shift in (("repair", -0.05), ("no-reinit", -0.02), ("healthy", -0.03)) for seed in range(3)]  # fmt: skip
    request = small_request(arms=("repair", "no-reinit", "healthy"), healthy=((0, 1), (0, 2), (2, 1)))
    rows = {row.arm: row for row in arm_losses(report_of(runs))}
    assert rows["repair"].against_healthy.change == pytest.approx(-0.02)
    assert rows["repair"].against_healthy.clusters == 6
    assert rows["healthy"].against_healthy is None
    told = "As many healthy heads treated alike: repair is 0.0200 nats lower on the report part"
    assert any(note.startswith(told) for note in judge(request, report_of(runs)).notes)
    without = judge(small_request(), report_of(runs[:6]))
    assert not any("healthy heads" in note for note in without.notes)
    tree = report_tree(request, report_of(runs))["held_out"]
    assert tree["repair"]["against_healthy"]["change"] == pytest.approx(-0.02)
    assert tree["no-reinit"]["against_healthy"] is None


def test_it_is_said_where_healthy_heads_were_not_treated_alike():
    runs = [run(arm, seed) for arm in ("repair", "no-reinit", "healthy") for seed in range(3)]

    def notes(healthy, passes=1, geometry=SMALL):
        request = small_request(arms=("repair", "no-reinit", "healthy"), healthy=healthy, passes=passes)
        found = judge(request, replace(report_of(runs), geometry=geometry)).notes
        return [note for note in found if "healthy head" in note]

    alike, other = ((0, 2), (0, 3), (2, 3)), ((0, 1), (0, 2), (2, 1))  # treated are of slopes 2, 3 and 3
    assert [note.endswith("not clear of 0.") for note in notes(alike)] == [True]
    assert notes(alike, passes=2)[0].endswith(" They had one pass, and the repair up to 2.")
    told = "2 of 3 healthy heads have another slope than the treated heads"
    assert notes(other)[1].startswith(told)
    assert notes(((0, 2), (0, 3), (2, 1)))[1].startswith("1 of 3 healthy heads has another slope")
    assert len(notes(other, geometry=replace(SMALL, slopes=None))) == 1


def test_losses_are_averaged_over_seeds_then_compared_over_documents():
    made = report_of([run("repair", seed, shift=-0.01 * (seed + 1)) for seed in range(3)])
    first, arm = arm_losses(made)
    assert first.arm == "stock"
    assert first.report.loss == pytest.approx(3.66)
    assert arm.against_stock.change == pytest.approx(-0.02)
    assert arm.against_stock.clusters == 6
    assert [each.seed for each in arm.each_against_stock] == [0, 1, 2]
    assert [each.change for each in arm.each_against_stock] == pytest.approx([-0.01, -0.02, -0.03])
    assert arm.against_no_reinit is None
    assert arm.report.loss == pytest.approx(3.64)
    assert arm.report.perplexity == pytest.approx(np.exp(3.64))
    # by hand: the interval of the mean loss over the six documents, Student's t with 5 degrees of freedom
    documents = (made.stock.report - 0.02).reshape(6, 2).mean(1)
    half = 2.5706 * documents.std(ddof=1) / np.sqrt(6)
    assert arm.report.high - arm.report.loss == pytest.approx(half, rel=1e-4)


def test_the_other_arm_is_compared_seed_by_seed():
    runs = [run("repair", 0, -0.1), run("repair", 1, -0.2), run("repair", 5, 9.0), run("no-reinit", 0, -0.05), run("no-reinit", 1, -0.05)]  # fmt: skip
    row = {row.arm: row for row in arm_losses(report_of(runs))}["repair"]
    assert row.against_no_reinit.change == pytest.approx(-0.1), "seed 5 has no counterpart"
    assert [each.seed for each in row.each_against_no_reinit] == [0, 1]
    assert [each.change for each in row.each_against_no_reinit] == pytest.approx([-0.05, -0.15])


def test_best_and_last_are_read_where_they_are():
    mass = np.stack([masses(0.9), masses(0.2), masses(0.7)])
    one = run(best=10, mass=mass, report_last=stock().report + 1.0)
    best, last = (arm_losses(report_of([one]), point)[1] for point in ("best", "last"))
    assert (best.steps, last.steps) == ((10,), (20,))
    assert last.against_stock.change == pytest.approx(1.0)
    found = judge(small_request(), report_of([one]), "last")
    assert found.awake.mass_after == pytest.approx(0.7)
    assert judge(small_request(), report_of([one])).awake.mass_after == pytest.approx(0.2)


def test_classes_and_total_mass_over_steps():
    dead = masses(0.97)
    one = run(mass=np.stack([dead, masses(0.6), masses(0.1)]))
    counts = class_counts(one, small_request())
    assert {name: list(number) for name, number in counts.items()} == {
        "dead": [3, 0, 0], "sink": [0, 3, 0], "low entropy": [0, 0, 0], "healthy": [9, 9, 12],
    }  # fmt: skip
    assert list(class_counts(one, small_request(dead=0.98), THREE)["sink"]) == [3, 3, 0]
    assert total_mass(one) == pytest.approx([9 * 0.1 + 3 * 0.97, 9 * 0.1 + 1.8, 1.2])
    assert total_mass(stock()).shape == (1,)
    moved = masses(0.1)
    moved[0, 1] = 0.8
    assert newly_collapsed(run(mass=np.stack([moved] * 3)), stock(), small_request()) == ((0, 1),)


def test_drift_of_untouched_heads():
    after = masses(0.1)
    after[2, 0] += 0.30
    after[2, 1] += 0.005
    plain = masses()
    plain[2, 0] += 0.10
    made = report_of([run(mass=np.stack([after] * 3)), run("no-reinit", mass=np.stack([plain] * 3))])
    found = drift(made)
    assert np.isnan(found.moved[1, 2])
    assert found.moved[2, 0] == pytest.approx(0.30)
    assert not found.moved[0].any(), "up to the first treated layer nothing can move"
    assert found.no_reinit[2, 0] == pytest.approx(0.10)
    assert found.above().sum() == 1, "0.005 is less than the text's own difference, 0.01"
    assert found.count() == 1
    assert found.mean() == pytest.approx(0.305 / (L * H - 3))
    assert drift(made, "healthy") is None


def test_a_second_pass_is_what_an_arm_came_to():
    more = (*THREE, (0, 0))
    runs = [run(shift=0.5), run(number=2, shift=-0.1, heads=((0, 0),))]
    made = report_of(runs)
    assert arm_losses(made)[1].against_stock.change == pytest.approx(-0.1)
    assert outcomes.treated(made.runs, "repair", 0) == tuple(sorted(more))
    assert np.isnan(drift(made).moved).sum() == 4
    assert len(head_changes(made, small_request())) == 4


def test_heads_before_and_after():
    row = head_changes(report_of([run()]), small_request())[0]
    assert (row.layer, row.head, row.was, row.now) == (1, 2, "sink", "healthy")
    assert row.before["mass"] == pytest.approx(0.9)
    assert row.after["output_norm"] == pytest.approx(2.0)


def test_the_report_as_json():
    made = report({"repair": -0.05, "untrained": 0.0, "no-reinit": -0.02})
    tree = json.loads(json.dumps(report_tree(small_request(), made), allow_nan=False))
    assert tree["verdict"]["word"] == "repaired"
    assert tree["heads_per_class"]["before"] == {"dead": 0, "sink": 3, "low entropy": 0, "healthy": 9}
    assert tree["heads_per_class"]["after"][0]["healthy"] == 12
    assert set(tree["held_out"]) == {"stock", *ARMS}
    low, high = tree["held_out"]["repair"]["against_stock"]["interval"]
    assert low < -0.05 < high < 0
    for each in ("each_against_stock", "each_against_no_reinit"):
        rows = tree["held_out"]["repair"][each]
        assert [row["seed"] for row in rows] == [0, 1, 2]
        assert all(row["interval"][0] <= row["change"] <= row["interval"][1] < 0 for row in rows)
    assert tree["frozen_identical"] is True
    assert tree["single_heads"][0]["name"] == "L01.H02"
    assert tree["curves"][0]["train_loss"][0] is None
    assert tree["curves"][0]["step"] == [0, 10, 20]
    assert tree["request"]["kind"] == "repair"


def test_a_change_that_rounds_to_nothing_has_no_minus():
    nothing = SimpleNamespace(change=-2e-5, low=-0.0035, high=-1e-6)
    assert said.of_change(nothing) == "+0.0000 [-0.0035, -0.0000] nats", (
        "an edge keeps the side of 0 that it is on"
    )
