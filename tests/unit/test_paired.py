"""Paired statistics against enumeration, brute force and simulation with fixed seeds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from headviz.analysis.paired import (
    among_random,
    answer_kl,
    at_chance,
    chance_level,
    holm,
    paired_change,
    paired_mean,
    questions_needed,
    within_tolerance,
)
from headviz.analysis.paired.intervals import lower_bound, mcnemar_p, score_interval, share_interval
from headviz.errors import BadInput


def answers(n, lost, gained, right=0.6, seed=0):
    """(before, after): n questions of which exactly `lost` turn wrong and `gained` turn right, shuffled."""
    rng = np.random.default_rng(seed)
    before = rng.random(n) < right
    before[:lost], before[lost : lost + gained] = True, False
    after = before.copy()
    after[: lost + gained] ^= True
    order = rng.permutation(n)
    return before[order], after[order]


# ------------------------------------------------------------------------------------------------ exact tests


@pytest.mark.parametrize(("lost", "gained"), list(itertools.product(range(7), repeat=2)))
def test_mcnemar_enumerates_every_way_the_flips_could_have_gone(lost, gained):
    flips = lost + gained
    ways = list(itertools.product((0, 1), repeat=flips))
    as_uneven = sum(abs(2 * sum(way) - flips) >= abs(lost - gained) for way in ways)
    assert float(mcnemar_p(lost, gained)) == pytest.approx(float(Fraction(as_uneven, len(ways))))


def test_mcnemar_takes_arrays_and_large_counts():
    p = mcnemar_p(np.array([0, 30, 600]), np.array([0, 10, 500]))
    assert p == pytest.approx([1, stats.binomtest(10, 40).pvalue, stats.binomtest(500, 1100).pvalue])


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.6, 0.5])) == pytest.approx([1, 1])
    assert holm(np.array([np.nan, 0.02, 0.03])) == pytest.approx([np.nan, 0.04, 0.04], nan_ok=True)
    assert holm(np.array([])).size == 0


def slow_score_interval(lost, gained, n):
    """All changes that a score test with brute-force likelihood does not reject at 5%."""
    kept = []
    for change in np.linspace(-0.999, 0.999, 1000):
        rates = np.linspace(max(0, -change), (1 - change) / 2, 2001)[1:-1]  # of turning wrong
        likelihood = stats.multinomial.logpmf(
            [lost, gained, n - lost - gained],
            n,
            np.stack([rates, rates + change, 1 - 2 * rates - change], axis=-1),
        )
        rate = rates[np.nanargmax(likelihood)]
        z = (gained - lost - n * change) / math.sqrt(n * (2 * rate + change - change**2))
        if abs(z) < 1.959964:
            kept.append(change)
    return kept[0], kept[-1]


@pytest.mark.parametrize(("lost", "gained", "n"), [(3, 1, 20), (0, 0, 40), (5, 0, 12), (2, 7, 30)])
def test_score_interval_against_brute_force(lost, gained, n):
    assert score_interval(lost, gained, n) == pytest.approx(slow_score_interval(lost, gained, n), abs=4e-3)


def test_score_interval_covers_at_every_true_rate():
    n = 30
    for lost_rate, gained_rate in [(0.02, 0.02), (0.1, 0.02), (0.2, 0.2), (0.4, 0.1)]:
        covered = 0.0
        for lost in range(n + 1):
            for gained in range(n + 1 - lost):
                chance = stats.multinomial.pmf(
                    [lost, gained, n - lost - gained],
                    n,
                    [lost_rate, gained_rate, 1 - lost_rate - gained_rate],
                )
                if chance > 1e-6:
                    low, high = score_interval(lost, gained, n)
                    covered += chance * (low <= gained_rate - lost_rate <= high)
        assert covered > 0.93


def test_share_interval_leaves_a_fortieth_on_either_side():
    low, high = share_interval(7, 10)
    assert stats.binom.sf(6, 10, low) == pytest.approx(0.025)  # seven or more right
    assert stats.binom.cdf(7, 10, high) == pytest.approx(0.025)  # seven or fewer
    assert share_interval(0, 10)[0] == 0
    assert share_interval(10, 10)[1] == 1


def test_lower_bound_is_exact():
    assert lower_bound(0, 10) == 0
    assert lower_bound(10, 10) == pytest.approx(0.05 ** (1 / 10))
    bound = lower_bound(7, 10)  # seven or more right have probability 5% there
    assert stats.binom.sf(6, 10, bound) == pytest.approx(0.05)


# ---------------------------------------------------------------------------------------------------- accuracy


def test_as_many_gained_as_lost_is_no_change_at_all():
    """Summed subject by subject it came out as 10⁻¹⁸, and was printed so."""
    rng = np.random.default_rng(0)
    before = rng.random(57 * 10) < 0.3
    after = before.copy()
    after[np.flatnonzero(before)[:7]] = False
    after[np.flatnonzero(~before)[-7:]] = True
    assert paired_change(before, after, [f"s{i % 57}" for i in range(570)]).change == 0


def test_change_flips_and_subjects_by_hand():
    before = [1, 1, 0, 0, 1, 1, 1, 0]
    after = [1, 0, 1, 0, 0, 0, 1, 0]
    found = paired_change(before, after, list("aaaabbbb"), seed=1)
    assert (found.n, found.lost, found.gained) == (8, 3, 1)
    assert (found.baseline, found.ablated, found.change) == (5 / 8, 3 / 8, -2 / 8)
    assert found.p == pytest.approx(0.625)
    assert [(s.subject, s.n, s.change, s.lost, s.gained) for s in found.subjects] == [
        ("a", 4, 0.0, 1, 1),
        ("b", 4, -0.5, 2, 0),
    ]
    assert [(s.baseline, s.ablated) for s in found.subjects] == [(0.5, 0.5), (0.75, 0.25)]
    assert [s.p_holm for s in found.subjects] == [1, 1]
    assert found.low <= found.bound_low <= found.change <= found.bound_high <= found.high


def test_mean_over_subjects_is_not_mean_over_questions():
    before = np.ones(120, dtype=bool)
    after = before.copy()
    after[100:110] = False  # half of the small subject
    names = ["large"] * 100 + ["small"] * 20
    assert paired_change(before, after, names).change == pytest.approx(-10 / 120)
    small = paired_change(before, after, names, weighting="subjects")
    assert small.change == pytest.approx(-0.25)
    assert small.ablated == pytest.approx(0.75)
    assert small.effective_n == pytest.approx(1 / (0.25 / 100 + 0.25 / 20))
    assert paired_change(before, after, names).effective_n == pytest.approx(120)


def test_no_flips_is_not_no_effect():
    before, after = answers(100, 0, 0)
    found = paired_change(before, after, seed=0)
    assert (found.change, found.p, found.method) == (0, 1, "score")
    assert found.high == pytest.approx(1.959964**2 / (100 + 1.959964**2))
    assert found.low == -found.high
    assert within_tolerance(found, margin=0.01).answer == "cannot tell"
    assert within_tolerance(found, margin=0.03).answer == "yes"


def test_a_change_that_hits_every_question_is_not_certain_either():
    found = paired_change(np.ones(40), np.zeros(40), ["a", "b"] * 20)
    assert (found.change, found.method) == (-1, "score")
    assert found.high > -0.95


def test_a_subject_of_one_question_is_no_certainty():
    before, after = answers(100, 30, 10)
    found = paired_change(before, after, ["a"] * 99 + ["b"], weighting="subjects")
    assert found.method == "score"
    assert found.effective_n == pytest.approx(1 / (0.25 / 99 + 0.25))
    assert found.high - found.low > 0.7  # half of the answer hangs on one question


def test_bootstrap_agrees_with_resampling_question_by_question():
    before, after = answers(300, 40, 20)
    names = np.repeat(["a", "b", "c"], [60, 90, 150])
    found = paired_change(before, after, names, seed=3, draws=4000)
    assert found.method == "stratified bootstrap"
    rng, change = np.random.default_rng(9), after.astype(int) - before
    means = []
    for _ in range(4000):
        drawn = [rng.choice(change[names == name], (names == name).sum() - 1) for name in "abc"]
        means.append(sum(part.mean() * (names == name).sum() for part, name in zip(drawn, "abc")) / 300)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, (0.025, 0.975))), abs=0.004)
    assert found.bound_low == pytest.approx(np.quantile(means, 0.05), abs=0.004)


def test_same_seed_same_interval():
    before, after = answers(200, 30, 20)
    assert paired_change(before, after, seed=4) == paired_change(before, after, seed=4)
    few = [paired_change(before, after, seed=seed, draws=20).low for seed in range(4)]
    assert len(set(few)) > 1


@pytest.mark.parametrize(
    ("sizes", "lost", "gained", "weighting"),
    [
        ([200] * 5, 0.06, 0.04, "questions"),
        ([2] * 60, 0.2, 0.1, "questions"),  # all of a subject resampled: 83% here, not 95%
        ([3, 5, 10, 40] * 5, 0.15, 0.1, "subjects"),
        ([20] * 6, 0.01, 0.01, "questions"),
        ([1] * 60, 0.2, 0.1, "questions"),
    ],
)
def test_intervals_cover(sizes, lost, gained, weighting):
    rng, names, hits = np.random.default_rng(0), np.repeat(np.arange(len(sizes)), sizes), 0
    for trial in range(300):
        draw = rng.random(names.size)
        before = np.where(draw < lost, True, np.where(draw > 1 - gained, False, rng.random(names.size) < 0.6))
        after = np.where(draw < lost, False, np.where(draw > 1 - gained, True, before))
        found = paired_change(before, after, names, weighting=weighting, seed=trial, draws=500)
        hits += found.low <= gained - lost <= found.high
    assert hits / 300 > 0.91


def test_the_whole_of_mmlu_is_quick_and_small():
    before, after = answers(14_042, 900, 500)
    found = paired_change(before, after, np.arange(14_042) % 57)
    assert len(found.subjects) == 57
    assert found.low < found.change < found.high < 0


@pytest.mark.parametrize(
    ("before", "after", "names", "says"),
    [
        ([], [], [], "zero were answered"),
        ([1, 0], [1], None, "2 before, 1 after"),
        ([1, 0], [1, 0], ["a"], "1 subjects"),
        ([1, 2], [1, 0], None, "right \\(1\\) and wrong \\(0\\)"),
        ([1, 0], [np.nan, 0], None, "right \\(1\\) and wrong \\(0\\)"),
        ([[1, 0]], [[1, 0]], None, "one right-or-wrong per question"),
    ],
)
def test_bad_answers_are_a_sentence(before, after, names, says):
    with pytest.raises(BadInput, match=says):
        paired_change(before, after, names)


def test_bad_options_are_a_sentence():
    with pytest.raises(BadInput, match="Weighting is"):
        paired_change([1], [1], weighting="size")
    with pytest.raises(BadInput, match="at least one draw"):
        paired_change([1], [1], draws=0)


# ------------------------------------------------------------------------------------------------------- means


def losses(documents, per_document, seed=0, spread=0.1):
    """(before, after, document, tokens): inputs of a document share most of their change."""
    rng = np.random.default_rng(seed)
    document = np.repeat(np.arange(documents), per_document)
    change = 0.2 + rng.normal(size=documents)[document] + spread * rng.normal(size=document.size)
    before = 3 + rng.normal(size=document.size)
    return before, before + change, document, rng.integers(20, 513, document.size)


def test_mean_change_is_weighted_by_tokens():
    found = paired_mean([1.0, 2.0, 3.0], [1.5, 2.0, 4.0], ["x", "x", "y"], weights=[10, 30, 60])
    assert found.baseline == pytest.approx((10 + 60 + 180) / 100)
    assert found.change == pytest.approx((5 + 0 + 60) / 100)
    assert found.cluster_changes == (("x", pytest.approx(5 / 40), 40.0), ("y", pytest.approx(1.0), 60.0))
    assert (found.n, found.clusters, found.weight) == (3, 2, 100.0)


@pytest.mark.parametrize("documents", [6, 19, 20, 60])
def test_repeated_documents_do_not_shrink_the_interval(documents):
    before, after, document, tokens = losses(documents, 2)
    once = paired_mean(before, after, document, weights=tokens)
    repeated = [np.tile(x, 9) for x in (before, after, document, tokens)]
    often = paired_mean(*repeated[:3], weights=repeated[3])
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=1e-9)
    alone = paired_mean(*repeated[:2], weights=repeated[3])  # every input for itself: wrong
    assert alone.high - alone.low < 0.5 * (once.high - once.low)


def test_longer_documents_of_the_same_number_do_not_shrink_it_much():
    short, long = (paired_mean(*losses(30, k)[:3]) for k in (1, 50))
    assert long.high - long.low > 0.7 * (short.high - short.low)


def test_few_clusters_get_a_t_interval_over_cluster_means():
    before, after, document, _ = losses(8, 3)
    found = paired_mean(before, after, document)
    means = [(after - before)[document == d].mean() for d in range(8)]
    expected = stats.t.interval(0.95, 7, np.mean(means), stats.sem(means))
    assert found.method == "t over clusters"
    assert (found.low, found.high) == pytest.approx(expected)
    assert found.bound_low == pytest.approx(np.mean(means) - stats.t.ppf(0.95, 7) * stats.sem(means))


def test_twenty_clusters_are_resampled_and_it_says_so():
    assert paired_mean(*losses(19, 2)[:3]).method == "t over clusters"
    found = paired_mean(*losses(20, 2)[:3])
    assert found.method == "cluster bootstrap"
    assert (found.high - found.low) / found.se == pytest.approx(2 * stats.t.ppf(0.975, 19), rel=0.15)


@pytest.mark.parametrize("documents", [3, 8, 20, 50])
def test_cluster_intervals_cover(documents):
    rng, hits = np.random.default_rng(1), 0
    for trial in range(300):
        document = np.repeat(np.arange(documents), rng.integers(1, 5, documents))
        change = 0.2 + rng.normal(size=documents)[document] + 0.3 * rng.normal(size=document.size)
        found = paired_mean(
            np.zeros(document.size),
            change,
            document,
            weights=rng.integers(20, 513, document.size),
            seed=trial,
            draws=400,
        )
        hits += found.low <= 0.2 <= found.high
    assert hits / 300 > 0.91


def test_one_document_has_no_interval_and_says_why():
    found = paired_mean([1.0, 2.0], [1.5, 2.5], ["a", "a"])
    assert (found.change, found.method) == (0.5, "none")
    assert np.isnan([found.low, found.high, found.se]).all()
    assert "one document" in found.note
    verdict = within_tolerance(found, margin=1.0, worse="higher")
    assert (verdict.answer, verdict.needed) == ("cannot tell", 0)


@pytest.mark.parametrize(
    ("before", "after", "weights", "says"),
    [
        ([], [], None, "no inputs"),
        ([1.0], [1.0, 2.0], None, "same inputs"),
        ([1.0, np.nan], [1.0, 2.0], None, "Input 1 has no finite number"),
        ([1.0, 2.0], [np.inf, 2.0], None, "Input 0 has no finite number"),
        ([1.0], [1.0], [0], "weight above zero"),
    ],
)
def test_bad_numbers_are_a_sentence(before, after, weights, says):
    with pytest.raises(BadInput, match=says):
        paired_mean(before, after, weights=weights)


# ------------------------------------------------------------------------------------------------------ claims


def test_questions_needed_at_one_point():
    assert questions_needed(0.1, 0.01) == 6183  # "about 6,200"
    assert questions_needed(0.1, 0.02) == pytest.approx(6183 / 4, abs=1)
    found = paired_change(*answers(1000, 50, 50))
    assert within_tolerance(found, margin=0.01).needed == 6183


def test_questions_needed_is_the_number_at_which_four_of_five_tries_say_yes():
    rng, margin = np.random.default_rng(0), 0.05
    n = questions_needed(0.1, margin)
    yes = 0
    for trial in range(300):
        lost, gained, _ = rng.multinomial(n, [0.05, 0.05, 0.9])
        yes += (
            within_tolerance(
                paired_change(*answers(n, lost, gained), seed=trial, draws=400), margin=margin
            ).answer
            == "yes"
        )
    assert yes / 300 == pytest.approx(0.8, abs=0.07)


def test_without_flips_the_number_is_where_the_bound_meets_the_margin():
    n = questions_needed(0.0, 0.01)
    assert within_tolerance(paired_change(*answers(n + 1, 0, 0)), margin=0.01).answer == "yes"
    assert within_tolerance(paired_change(*answers(n - 2, 0, 0)), margin=0.01).answer == "cannot tell"


@pytest.mark.parametrize(
    ("lost", "gained", "answer"),
    [(100, 100, "yes"), (180, 100, "cannot tell"), (900, 100, "no"), (100, 900, "yes")],
)
def test_three_answers(lost, gained, answer):
    verdict = within_tolerance(paired_change(*answers(10_000, lost, gained)), margin=0.01)
    assert verdict.answer == answer


def test_a_large_p_value_never_reads_as_within_tolerance():
    found = paired_change(*answers(60, 6, 6))
    assert found.p == 1
    assert within_tolerance(found, margin=0.01).answer == "cannot tell"


def test_a_loss_is_worse_when_higher():
    before, after, document, _ = losses(200, 1)  # + 0.2 nats, with spread 1: about [0.06, 0.34]
    found = paired_mean(before, after, document)
    assert within_tolerance(found, margin=0.5, worse="higher").answer == "yes"
    assert within_tolerance(found, margin=0.01, worse="higher").answer == "no"
    assert within_tolerance(found, margin=0.2, worse="higher").answer == "cannot tell"
    assert within_tolerance(found, margin=0.01, worse="lower").answer == "yes"


def test_a_tolerance_is_above_zero():
    for margin in (0, -0.01, math.nan):
        with pytest.raises(BadInput, match="larger than zero"):
            within_tolerance(paired_change([1], [1]), margin=margin)
    with pytest.raises(BadInput, match="shares between 0 and 1"):
        questions_needed(10, 0.01)


def test_chance_is_the_commonest_answer():
    right = [0, 1, 1, 2, 1, 3, 1, 0]
    assert chance_level(right) == 0.5
    found = at_chance([1, 1, 0, 0, 1, 1, 1, 0], right)
    assert (found.commonest, found.chance, found.accuracy, found.at_chance) == ("1", 0.5, 5 / 8, True)


@pytest.mark.parametrize(("right", "expected"), [(250, True), (273, True), (274, False), (400, False)])
def test_above_chance_needs_a_bound_above_it(right, expected):
    found = at_chance(np.arange(1000) < right, np.arange(1000) % 4)
    assert found.at_chance is expected
    assert found.low < right / 1000


def test_chance_needs_questions():
    with pytest.raises(BadInput, match="no questions"):
        chance_level([])
    with pytest.raises(BadInput, match="2 answers were judged"):
        at_chance([1, 0], [1, 2, 3])


def test_rank_among_random_heads():
    band = among_random(-0.02, [-0.05, -0.01, -0.02, -0.09], worse="lower")
    assert (band.mean, band.low, band.high, band.n, band.better) == (
        pytest.approx(-0.0425),
        -0.09,
        -0.01,
        4,
        2,
    )
    assert among_random(0.3, [0.5, 0.9], worse="higher").better == 0
    with pytest.raises(BadInput, match="at least one draw"):
        among_random(0.3, [], worse="higher")


# ---------------------------------------------------------------------------------------------------------- KL


def test_kl_of_the_answers_by_hand():
    p, q = np.array([[0.5, 0.25]]), np.array([[0.25, 0.25]])
    rest = 0.25 * math.log(0.25 / 0.5)
    assert answer_kl(np.log(p), np.log(q)) == pytest.approx([0.5 * math.log(2) + rest])
    expected = 2 / 3 * math.log(2 / 3 / 0.5) + 1 / 3 * math.log(1 / 3 / 0.5)
    assert answer_kl(np.log(p), np.log(q), "choices") == pytest.approx([expected])


def test_kl_is_a_lower_bound_of_the_vocabularys_and_zero_for_equals():
    logits = np.random.default_rng(0).normal(size=(2, 50, 100)) * 3
    p, q = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    whole = (np.exp(p) * (p - q)).sum(-1)
    part = answer_kl(p[:, :4], q[:, :4])
    assert (part <= whole + 1e-12).all()
    assert (part > 0).all()
    assert answer_kl(p[:, :4], p[:, :4]) == pytest.approx(np.zeros(50), abs=1e-12)


def test_kl_of_certain_and_missing_answers():
    sure, gap = np.log([[1.0 - 1e-9, 1e-9]]), [[-1.0, -2.0, np.nan]]
    assert np.isfinite(answer_kl(sure, np.log([[0.5, 0.5]]))).all()
    assert answer_kl(gap, gap) == pytest.approx([0])
    assert answer_kl([[-np.inf, 0.0]], [[-1.0, math.log(1 - math.exp(-1))]]) == pytest.approx(
        [0.4587], abs=1e-3
    )
    with pytest.raises(BadInput, match="same gaps"):
        answer_kl(gap, [[-1.0, -2.0, -3.0]])
    with pytest.raises(BadInput, match="more than 1"):
        answer_kl([[0.0, -0.1]], [[-1.0, -1.0]])


def test_few_flips_or_documents_do_not_say_how_many_it_would_take():
    few, enough = paired_change(*answers(190, 5, 4)), paired_change(*answers(190, 5, 5))
    assert within_tolerance(few, margin=0.01).needed == 0
    assert within_tolerance(enough, margin=0.01).needed > 0
    rng = np.random.default_rng(0)
    for documents, told in ((19, False), (20, True)):
        before = rng.normal(3, 1, documents)
        change = paired_mean(before, before + rng.normal(0, 1, documents))
        assert (within_tolerance(change, margin=0.1, worse="higher").needed > 0) is told
