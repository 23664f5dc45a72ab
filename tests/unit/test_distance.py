"""Model against model: laws of the distance, changes head by head, and models of other shapes."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from headviz.analysis import distance as di
from headviz.analysis.distance import spread
from headviz.analysis.distance.spread import drawn_documents, halves, w1_weighted
from headviz.analysis.paired import paired_mean
from headviz.errors import BadInput, UnknownName
from tests.fakes import fake_table

LABELS = ("base", "tuned")
METRICS = ("awft", "ahon_ln", "ftvvn")


def table(N=8, L=3, H=4, seed=0, **more):
    made = fake_table(L=L, H=H, G=2, N=N, T=16, seed=seed)
    return dataclasses.replace(made, cluster=np.arange(N, dtype=np.int32), **more)


def changed(one, by, metric="awft"):
    """The same inputs, one score moved by a number, or by an array (N, L, H)."""
    values = one.values.copy()
    values[one.metrics.index(metric)] += np.asarray(by, dtype=np.float32)
    return dataclasses.replace(one, values=values)


def compare(a, b, metric="awft", **more):
    return di.compare(a, b, metric, labels=LABELS, **{"draws": 40, "splits": 10, **more})


@pytest.mark.parametrize("metric", METRICS)
def test_equal_models_are_at_distance_zero_with_a_map_of_zeros(metric):
    one = table()
    found = compare(one, table(), metric)
    assert (found.pooled.value, found.pooled.low, found.pooled.high, found.pooled.scaled) == (0, 0, 0, 0)
    assert all((layer.value, layer.scaled, layer.high) == (0, 0, 0) for layer in found.layers)
    assert not found.changes.change.any()
    assert not found.changes.low.any()
    assert not found.changes.high.any()
    assert (found.changes.p_holm == 1).all()
    assert found.yardstick.between == pytest.approx(found.yardstick.same)
    assert not di.distances({"a": one, "b": table(), "c": one}, metric).value.any()


@pytest.mark.parametrize("shift", [0.25, -0.25, 3.0])
def test_the_distance_of_a_shifted_copy_is_the_shift(shift):
    exact = np.round(np.random.default_rng(0).random((8, 2, 4)) * 64) / 64  # and so is every sum below
    assert di.w1(exact, exact + shift) == abs(shift)
    assert di.w1(exact + shift, exact) == abs(shift)
    one = table()
    found = compare(one, changed(one, shift))
    assert found.pooled.value == pytest.approx(abs(shift), rel=1e-5)
    assert found.pooled.scaled == pytest.approx(abs(shift) / found.pooled.spread, rel=1e-5)
    assert found.pooled.spread == pytest.approx(di.pooled_spread([one.per_input("awft")]), rel=1e-5)
    assert [layer.value for layer in found.layers] == pytest.approx([abs(shift)] * 3, rel=1e-5)
    assert (found.pooled.low, found.pooled.high) == pytest.approx((abs(shift),) * 2, rel=1e-5)
    np.testing.assert_allclose(found.changes.change, shift, rtol=1e-5)
    assert found.yardstick.between > found.yardstick.same_high


def test_the_distance_is_scipys_and_leaves_gaps_out():
    rng = np.random.default_rng(1)
    a, b = rng.normal(0, 1, (5, 2, 3)), rng.normal(0.3, 2, (9, 1, 4))
    wanted = scipy.stats.wasserstein_distance(a.ravel(), b.ravel())
    assert di.w1(a, b) == pytest.approx(wanted)
    holed = np.concatenate([a.ravel(), [np.nan] * 3])
    assert di.w1(holed, b) == pytest.approx(wanted)
    assert math.isnan(di.w1(np.full(3, np.nan), b))
    assert di.w1(a, b) == pytest.approx(di.w1(b, a))
    assert di.w1(a, b) <= di.w1(a, a + 1) + di.w1(a + 1, b) + 1e-12


def test_resampled_distances_are_those_of_the_resampled_inputs():
    rng = np.random.default_rng(2)
    a, b = rng.normal(0, 1, (6, 2, 3)), rng.normal(0.5, 1, (4, 5))
    a[0, 0, 0] = np.nan
    times_a, times_b = rng.integers(0, 3, (20, 6)).astype(float), rng.integers(0, 3, (20, 4)).astype(float)
    times_a[0], times_b[0] = 0, 1  # nothing is left of a
    found = w1_weighted(a, b, times_a, times_b)
    assert math.isnan(found[0])
    for i in range(1, 20):
        again = [np.repeat(x, t[i].astype(int), axis=0) for x, t in ((a, times_a), (b, times_b))]
        assert found[i] == pytest.approx(di.w1(*again), nan_ok=True)


def test_many_values_are_thinned_out_and_the_distance_stays(monkeypatch):
    rng = np.random.default_rng(6)
    a, b = rng.normal(0, 1, (5, 4000)), rng.normal(0.02, 1, (5, 4000))
    once = np.ones((1, 5))
    exact = di.w1(a, b)
    monkeypatch.setattr(spread, "POINTS", 40_000)
    assert w1_weighted(a, b, once, once)[0] == pytest.approx(exact)
    monkeypatch.setattr(spread, "POINTS", 1 << 12)
    assert w1_weighted(a, b, once, once)[0] == pytest.approx(exact, rel=0.01)
    assert w1_weighted(a, a, once, 2 * once)[0] == 0


def test_the_spread_does_not_grow_with_what_it_measures():
    x = np.random.default_rng(0).normal(0, 2, 500)
    assert di.pooled_spread([x, x + 100]) == pytest.approx(x.std(ddof=1), rel=1e-3)
    assert di.pooled_spread([x]) == pytest.approx(x.std(ddof=1))
    assert di.pooled_spread([np.full(5, 0.1), np.full(5, 0.1)]) == 0
    assert math.isnan(di.pooled_spread([np.array([1.0])]))


def test_nothing_to_divide_by():
    assert di.in_spreads(0.0, 0.0) == 0
    assert math.isnan(di.in_spreads(0.5, 0.0))
    assert math.isnan(di.in_spreads(0.5, math.nan))
    one = table()
    flat = dataclasses.replace(one, values=np.full_like(one.values, 0.5))
    assert compare(flat, flat).pooled.scaled == 0
    moved = compare(flat, changed(flat, 0.25))
    assert moved.pooled.value == 0.25
    assert moved.pooled.spread == 0
    assert math.isnan(moved.pooled.scaled)


@pytest.mark.parametrize("N", [8, 40])  # t over documents, and resampled ones
def test_changes_of_the_same_inputs_are_paired_by_input_and_clustered_by_document(N):
    one = dataclasses.replace(table(N=N), cluster=np.arange(N, dtype=np.int32) // 2)
    rng = np.random.default_rng(3)
    other = changed(one, rng.normal(0.1, 0.05, (N, 3, 4)))
    found = di.head_changes(one, other, "awft", draws=500)
    assert found.how == "paired"
    for layer, head in ((0, 0), (2, 3)):
        alone = paired_mean(
            one.per_input("awft")[:, layer, head],
            other.per_input("awft")[:, layer, head],
            one.cluster,
            draws=500,
        )
        assert found.change[layer, head] == pytest.approx(alone.change, rel=1e-5)
        assert found.low[layer, head] == pytest.approx(alone.low, rel=1e-4)
        assert found.high[layer, head] == pytest.approx(alone.high, rel=1e-4)
    wide = np.abs(found.change)
    assert [wide[place] for place in found.movers()] == sorted(wide.ravel(), reverse=True)
    assert found.movers(2) == found.movers()[:2]


def test_equal_movers_go_by_layer_then_head():
    flat = np.zeros((2, 2))
    found = di.HeadChanges(
        change=np.array([[1, -1], [np.nan, 2]]), low=flat, high=flat, p_holm=flat, how="paired", method=""
    )
    assert found.movers() == [(1, 1), (0, 0), (0, 1)]


def test_a_gap_leaves_out_the_input_for_that_head_alone():
    one = table()
    hole = np.zeros((8, 3, 4))
    hole[2, 1, 1] = np.nan
    hole[:, 0, 0] = np.nan
    found = di.head_changes(one, changed(one, 0.5 + hole), "awft")
    assert found.change[1, 1] == pytest.approx(0.5, rel=1e-5)
    assert math.isnan(found.change[0, 0])
    assert (0, 0) not in found.movers()
    assert found.change[2, 3] == pytest.approx(0.5, rel=1e-5)


def test_other_inputs_are_unpaired_and_it_is_said():
    one, other = table(seed=1), changed(table(N=12, seed=2), 0.2)
    found = compare(one, other)
    assert found.changes.how == "unpaired"
    assert "did not read the same tokens" in found.changes.note
    assert "did not read the same tokens" in found.notes[0]
    x, y = one.per_input("awft")[:, 1, 2], other.per_input("awft")[:, 1, 2]
    welch = scipy.stats.ttest_ind(y, x, equal_var=False).confidence_interval()
    assert found.changes.change[1, 2] == pytest.approx(float(y.mean() - x.mean()), rel=1e-4)
    assert (found.changes.low[1, 2], found.changes.high[1, 2]) == pytest.approx(tuple(welch), rel=1e-4)
    assert np.isnan(found.changes.p_holm).all()


def test_one_document_has_no_interval_and_no_halves():
    one = dataclasses.replace(table(), cluster=np.zeros(8, np.int32))
    found = compare(one, changed(one, 0.1))
    assert found.pooled.value == pytest.approx(0.1, rel=1e-4)
    assert math.isnan(found.pooled.low)
    assert np.isnan(found.changes.low).all()
    assert "one document" in found.changes.note
    assert "one document only" in found.yardstick.note
    assert math.isnan(found.yardstick.same)
    other = dataclasses.replace(table(N=9, seed=5), cluster=np.zeros(9, np.int32))
    assert np.isnan(di.head_changes(one, other, "awft").low).all()


def test_halves_share_no_document_and_are_of_one_size():
    clusters = np.array([0, 0, 0, 1, 1, 2, 2, 3, 4, 5])
    seen = set()
    for seed in range(20):
        first, second = halves(clusters, np.random.default_rng(seed))
        assert sorted([*first, *second]) == list(range(10))
        assert not set(clusters[first]) & set(clusters[second])
        assert abs(len(first) - len(second)) <= 3
        seen.add(frozenset(first.tolist()))
    assert len(seen) > 8
    with pytest.raises(BadInput, match="one document"):
        halves(np.zeros(4), np.random.default_rng(0))


def test_documents_are_drawn_whole():
    clusters = np.array([7, 7, 3, 3, 3])
    times = drawn_documents(clusters, 50, np.random.default_rng(0))
    assert (times[:, 0] == times[:, 1]).all()
    assert (times[:, 2] == times[:, 4]).all()
    assert (times[:, 0] + times[:, 2] == 2).all()


def test_the_yardstick_shows_noise_where_nothing_changed():
    """Two models that read different documents and are the same: as far apart as two halves of one of them."""
    rng = np.random.default_rng(4)
    base = table(N=40)
    a, b = (changed(base, rng.normal(0, 0.3, (40, 1, 1))) for _ in range(2))
    b = dataclasses.replace(b, tokens=b.tokens + 1)
    found = compare(a, b, splits=40)
    assert found.yardstick.inputs == 20
    assert found.pooled.value > 0
    assert found.yardstick.between < found.yardstick.same_high
    assert found.yardstick.scaled_same == pytest.approx(found.yardstick.same / found.pooled.spread)
    far = compare(a, changed(b, 0.5), splits=40)
    assert far.yardstick.between > far.yardstick.same_high


def test_other_shapes_have_distributions_and_profiles_and_it_says_why():
    one, other = table(), table(L=5, H=2, seed=1)
    found = compare(one, other)
    assert found.changes is None
    assert found.layers == ()
    assert "base has 3 layers of 4 heads and tuned has 5 of 2" in found.reason
    assert found.pooled.value > 0
    first, second = found.profiles
    assert first.depth.tolist() == [0, 0.5, 1]
    assert second.depth.tolist() == [0, 0.25, 0.5, 0.75, 1]
    np.testing.assert_allclose(first.mean, one.mean("awft").mean(1))
    assert ((first.low <= first.mean) & (first.mean <= first.high)).all()
    with pytest.raises(BadInput, match="no head of one is a head of the other"):
        di.head_changes(one, other, "awft")


def test_a_layer_without_values_is_a_gap_in_the_profile():
    holed = changed(table(), np.where(np.arange(3) == 1, np.nan, 0)[None, :, None])
    profile = di.depth_profile(holed, "awft")
    assert np.isnan(profile.mean).tolist() == [False, True, False]
    assert di.depth_profile(table(L=1), "awft").depth.tolist() == [0]


def test_a_matrix_of_several_models():
    one = table()
    found = di.distances({"a": one, "b": changed(one, 0.5), "c": table(L=2, H=6, seed=3)}, "awft")
    assert found.labels == ("a", "b", "c")
    assert found.value[0, 1] == pytest.approx(0.5, rel=1e-5)
    assert found.value[2, 0] == found.value[0, 2] > 0
    np.testing.assert_allclose(found.scaled, found.value / found.spread)
    with pytest.raises(BadInput, match="at least two"):
        di.distances({"a": one}, "awft")


def test_families_are_named_where_they_differ():
    one = table()
    bloom = dataclasses.replace(one, geometry=dataclasses.replace(one.geometry, family="bloom"))
    assert "base is a llama and tuned a bloom" in compare(one, bloom).notes[0]
    assert compare(one, one).notes == ()


def test_bad_input_is_one_sentence():
    one = table()
    with pytest.raises(UnknownName, match="Did you mean"):
        compare(one, one, "ahno")
    short = dataclasses.replace(one, metrics=("aeqd",), values=one.values[:1])
    with pytest.raises(BadInput, match="scores of tuned hold no AWFT"):
        compare(one, short)
    with pytest.raises(BadInput, match="scores of b hold no AWFT"):
        di.distances({"a": one, "b": short}, "awft")
    with pytest.raises(BadInput, match="at least one draw"):
        compare(one, one, draws=0)
