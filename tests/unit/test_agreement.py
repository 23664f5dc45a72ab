"""Two scores against each other: planted overlaps, sets counted by hand, chance by drawing every set."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
import scipy.stats

from headviz.analysis import agreement as ag
from headviz.analysis.choose import choose
from headviz.analysis.metrics import METRICS
from headviz.charts.verdicts import dispute_sentences, ordinal
from headviz.errors import BadInput, UnknownName
from tests.fakes import fake_table

TABLE = fake_table(L=6, H=6, G=2, N=4)
AWFT, AHON = ag.scored(TABLE, "awft"), ag.scored(TABLE, "ahon_ln")


def made(metric, values):
    return ag.Scored(row=METRICS[metric], values=np.asarray(values, dtype=np.float64))


def planted(n, k, overlap, seed=0):
    """AWFT and AHON (LN) of n heads in one layer, whose k most inactive heads have exactly `overlap` in common."""
    heads = np.random.default_rng(seed).permutation(n)
    first = heads[:k]
    second = np.concatenate([first[:overlap], heads[k : 2 * k - overlap]])
    awft, ahon = np.full(n, 0.1), np.full(n, 1.0)
    awft[first], ahon[second] = 0.9, 0.2
    jitter = np.linspace(0, 0.01, n)
    return made("awft", (awft + jitter)[None]), made("ahon_ln", (ahon + jitter)[None])


@pytest.mark.parametrize(("n", "k", "overlap"), [(40, 10, 4), (40, 10, 0), (40, 10, 10), (9, 6, 3)])
def test_a_planted_overlap_is_found_exactly(n, k, overlap):
    a, b = planted(n, k, overlap)
    at = ag.agreement(a, b).at(k)
    assert at["overlap"] == overlap
    assert at["jaccard"] == overlap / (2 * k - overlap) == ag.overlap_share(a, b, k)
    assert at["precision"] == overlap / k
    groups = ag.quadrants_of(a, b, k)
    assert groups.counts() == {
        "both": overlap, "only_a": k - overlap, "only_b": k - overlap, "neither": n - 2 * k + overlap, "unknown": 0,
    }  # fmt: skip
    assert ag.quadrants_at(a, b, groups.thresholds).counts() == groups.counts()


@pytest.mark.parametrize(
    ("other", "rho"),
    [([0, 1, 2, 3], 1), ([3, 2, 1, 0], -1), ([1, 0, 3, 2], 0.6)],  # 1 − 6·Σd² / n(n² − 1), Σd² = 4, n = 4
)
def test_a_planted_correlation_is_found_exactly(other, rho):
    found, left_out = ag.spearman(np.arange(4.0), np.array(other, dtype=np.float64))
    assert (found, left_out) == (pytest.approx(rho), 0)


def test_positive_means_the_same_heads_whatever_the_direction():
    values = np.arange(6.0).reshape(2, 3)
    high, low = made("awft", values), made("ahon", -values)
    assert ag.spearman(high.urgency, low.urgency)[0] == pytest.approx(1)
    assert ag.spearman(high.urgency, made("ahon", values).urgency)[0] == pytest.approx(-1)
    assert ag.agreement(high, low).precision.tolist() == [1] * 6


def test_correlation_is_scipys_with_ties_and_gaps():
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 5, 80).astype(float), rng.integers(0, 5, 80).astype(float)
    assert ag.spearman(a, b)[0] == pytest.approx(scipy.stats.spearmanr(a, b).statistic)
    a[:7], b[5:9] = np.nan, np.nan
    rho, left_out = ag.spearman(a, b)
    assert left_out == 9
    assert rho == pytest.approx(scipy.stats.spearmanr(a[9:], b[9:]).statistic)
    assert math.isnan(ag.spearman(np.ones(5), np.arange(5.0))[0])
    assert math.isnan(ag.spearman(np.array([1.0, np.nan]), np.array([1.0, 2.0]))[0])


@pytest.mark.parametrize(("k", "n"), [(0, 5), (1, 1), (2, 6), (3, 5), (5, 5), (4, 9)])
def test_chance_is_the_mean_over_every_set(k, n):
    fixed = set(range(k))
    overlaps = np.array([len(fixed & set(drawn)) for drawn in itertools.combinations(range(n), k)])
    found = ag.chance(k, n)
    assert found.overlap == pytest.approx(overlaps.mean())
    if k:
        assert found.overlap == pytest.approx(k * k / n)
        assert found.precision == pytest.approx(k / n)
        assert found.jaccard == pytest.approx((overlaps / (2 * k - overlaps)).mean())
    else:
        assert math.isnan(found.jaccard)
        assert math.isnan(found.precision)
    assert (overlaps < found.low).mean() <= 0.025
    assert (overlaps > found.high).mean() <= 0.025
    assert (overlaps <= found.low).mean() > 0.025
    assert (overlaps >= found.high).mean() > 0.025


def test_chance_of_a_large_model_is_scipys():
    law = scipy.stats.hypergeom(1024, 205, 205)
    found = ag.chance(205, 1024)
    m = np.arange(206)
    assert found.jaccard == pytest.approx(float(law.pmf(m) @ (m / (410 - m))), rel=1e-9)
    assert (found.low, found.high) == (law.ppf(0.025), law.ppf(0.975))
    with pytest.raises(BadInput, match="6 of 5"):
        ag.chance(6, 5)


def test_the_curve_is_what_sets_give_at_every_budget():
    curve = ag.agreement(AWFT, AHON)
    for k in range(1, 37):
        sets = [
            set(choose(side.values, side.row.id, count=k, geometry=TABLE.geometry).heads)
            for side in (AWFT, AHON)
        ]
        both = len(sets[0] & sets[1])
        at = curve.at(k)
        assert (at["overlap"], at["jaccard"]) == (both, both / len(sets[0] | sets[1]))
        assert at["chance_precision"] == pytest.approx(k / 36)
        groups = ag.quadrants_of(AWFT, AHON, k)
        assert set(groups.heads("both")) == sets[0] & sets[1]
        assert set(groups.heads("only_a")) == sets[0] - sets[1]
        assert sum(groups.counts().values()) == 36
    assert curve.jaccard[-1] == curve.chance_jaccard[-1] == 1
    with pytest.raises(BadInput, match="from 1 to 36"):
        curve.at(37)


def test_ties_go_by_layer_then_head_and_the_line_stands_on_them():
    same = made("awft", np.ones((2, 3)))
    groups = ag.quadrants_of(same, made("ahon", np.arange(6.0).reshape(2, 3)), 2)
    assert groups.heads("both") == [(0, 0), (0, 1)]
    assert groups.thresholds == (1.0, 1.5)


def test_heads_without_a_value_are_left_out_and_counted():
    values = AWFT.values.copy()
    values[0, :4] = np.nan
    holed = dataclasses.replace(AWFT, values=values)
    curve = ag.agreement(holed, AHON)
    assert (curve.left_out, curve.k.size) == (4, 32)
    groups = ag.quadrants_of(holed, AHON, 10)
    assert groups.counts()["unknown"] == 4
    assert sum(groups.counts().values()) == 36
    assert ag.quadrants_at(holed, AHON, (0.3, 0.9)).counts()["unknown"] == 4
    assert ag.budget(1.0, holed, AHON) == 32
    assert len(ag.disputes(TABLE, holed, AHON, (0.5, 0.5))) == 32
    with pytest.raises(BadInput, match="33 heads cannot be taken: 32 have a value"):
        ag.quadrants_of(holed, AHON, 33)
    with pytest.raises(BadInput, match="No head has both"):
        ag.agreement(dataclasses.replace(AWFT, values=np.full((6, 6), np.nan)), AHON)
    with pytest.raises(BadInput, match="differ"):
        ag.agreement(made("awft", np.ones((2, 2))), AHON)


def test_names_of_groups():
    names = ag.group_names(AWFT, AHON)
    assert names["only_a"] == "sink but loud"
    assert names["only_b"] == "silent but not a sink"
    assert ag.group_names(AHON, AWFT)["only_a"] == "silent but not a sink"
    twins = ag.group_names(AWFT, ag.scored(TABLE, "awft_ln"))
    assert twins["only_b"] == "inactive by AWFT (LN) alone"
    for a, b in itertools.combinations(METRICS, 2):
        told = ag.group_names(ag.scored(TABLE, a), ag.scored(TABLE, b))
        assert len(set(told.values())) == 5


def test_matrices_of_the_twelve():
    found = ag.matrices(TABLE, 0.25)
    assert len(found.metrics) == 12
    assert not any(METRICS[metric].extra for metric in found.metrics)
    assert found.count == 9
    np.testing.assert_allclose(np.diag(found.rho), 1)
    assert (np.diag(found.jaccard) == 1).all()
    assert np.array_equal(found.rho, found.rho.T)
    i, j = found.metrics.index("awft"), found.metrics.index("ahon_ln")
    assert found.rho[i, j] == pytest.approx(
        scipy.stats.spearmanr(AWFT.values.ravel(), -AHON.values.ravel()).statistic
    )
    assert found.jaccard[i, j] == ag.agreement(AWFT, AHON).at(9)["jaccard"]
    assert sorted(found.order) == list(range(12))


def test_alike_scores_end_up_side_by_side():
    rho = np.array([[1, 0.1, 0.9, 0.0], [0.1, 1, 0.2, 0.95], [0.9, 0.2, 1, 0.1], [0.0, 0.95, 0.1, 1]])
    order = ag.clustered(rho)
    assert abs(order.index(0) - order.index(2)) == abs(order.index(1) - order.index(3)) == 1
    assert sorted(ag.clustered(np.full((4, 4), np.nan))) == [0, 1, 2, 3]
    assert ag.clustered(rho[:2, :2]) == (0, 1)


def test_most_disputed_heads_first():
    a = made("awft", [[0.9, 0.1, 0.5, 0.6]])
    b = made("ahon", [[4.0, 1.0, 2.0, 3.0]])  # silent: 1, then 2, 3, 0
    table = fake_table(L=1, H=4, G=1, N=2)
    found = ag.disputes(table, a, b, (0.55, 1.5))
    assert [one.head for one in found] == [0, 1, 2, 3]  # gaps 1, −1, −1/3, 1/3: ties by head
    assert [one.gap for one in found] == pytest.approx([1, -1, -1 / 3, 1 / 3])
    first = found[0]
    assert (first.name, first.a.rank, first.b.rank, first.a.of) == ("L00.H00", 1, 4, 4)
    assert (first.a.percentile, first.b.percentile) == (1, 0)
    assert (first.a.inactive, first.b.inactive) == (True, False)
    assert first.a.layer_mean == pytest.approx(0.525)
    assert first.others["aeqd"] == pytest.approx(table.mean("aeqd")[0, 0])
    assert len(ag.disputes(table, a, b, (0.55, 1.5), most=2)) == 2
    said = dispute_sentences(first, a, b)
    assert said[0] == (
        "AWFT is 0.900 (probability), the highest of 4 heads and above the threshold of 0.550, so it calls the head "
        "inactive: sink. Its layer's mean is 0.525."
    )
    assert "the 4th lowest of 4 heads and not below the threshold of 1.50, so it does not call" in said[1]
    assert said[1].endswith("inactive: loud. Its layer's mean is 2.50.")


def test_ordinals():
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th",
    ]  # fmt: skip


def test_bad_input_is_one_sentence():
    with pytest.raises(UnknownName, match="Did you mean 'ahon'"):
        ag.scored(TABLE, "ahno")
    short = dataclasses.replace(TABLE, metrics=("awft",), values=TABLE.values[:1])
    with pytest.raises(BadInput, match="hold no AHON"):
        ag.scored(short, "ahon")
    with pytest.raises(BadInput, match="between 0 and 1"):
        ag.budget(20, AWFT, AHON)
    with pytest.raises(BadInput, match="not NaN"):
        ag.quadrants_at(AWFT, AHON, (math.nan, 1))
    with pytest.raises(BadInput, match="at least one score"):
        ag.matrices(TABLE, 0.2, ())
