"""The gradient order, the measured map and rank correlations with it: against slow loops, and where the answer is known."""

import math

import numpy as np
import pytest

from headviz.analysis.order import (
    activity,
    agreements,
    gradient_request,
    head_costs,
    place,
    reliability,
    spearman,
)
from headviz.analysis.paired import paired_mean, paired_means
from headviz.errors import BadInput
from headviz.types import DataRef, HeadLosses, ModelRef
from tests.fakes import fake_geometry, fake_provenance, fake_table

L, H = 4, 3


def head_losses(cost, K=8, each=2, noise=0.0, seed=0, tokens=None) -> HeadLosses:
    """A map whose expected costs are `cost` (L, H), with independent noise a document and head."""
    rng = np.random.default_rng(seed)
    cost = np.asarray(cost, float)
    cluster = np.repeat(np.arange(K), each).astype(np.int32)
    predicted = np.full(K * each, 20, np.int32) if tokens is None else np.asarray(tokens, np.int32)
    baseline = predicted * rng.normal(3.5, 0.3, K * each)
    per = (
        cost + rng.normal(0, noise, (K, *cost.shape))[cluster]
        if noise
        else np.broadcast_to(cost, (K * each, *cost.shape))
    )
    layers, heads = cost.shape
    return HeadLosses(
        loss=baseline[:, None, None] + predicted[:, None, None] * per,
        baseline=baseline,
        predicted=predicted,
        cluster=cluster,
        documents=tuple(f"d{c}" for c in cluster),
        geometry=fake_geometry(layers, heads, 1),
        provenance=fake_provenance("map"),
    )  # fmt: skip


def slow_correlation(one, other) -> float:
    """Pearson's correlation of ranks, equal values at the mean of their places."""

    def ranks(values) -> list[float]:
        return [sum(y < x for y in values) + (sum(y == x for y in values) + 1) / 2 for x in values]

    a, b = ranks(one), ranks(other)
    ma, mb = math.fsum(a) / len(a), math.fsum(b) / len(b)
    top = math.fsum((x - ma) * (y - mb) for x, y in zip(a, b, strict=True))
    return top / math.sqrt(math.fsum((x - ma) ** 2 for x in a) * math.fsum((y - mb) ** 2 for y in b))


def masks(*several):
    """(L, H) masks of these (layer, head) pairs."""
    found = []
    for heads in several:
        mask = np.zeros((L, H), bool)
        for layer, head in heads:
            mask[layer, head] = True
        found.append(mask)
    return found


def test_a_set_stands_between_its_neighbours():
    gradients = np.arange(L * H, dtype=float).reshape(L, H)
    mine, *measured = masks([(1, 2)], [(3, 2)], [(0, 1)], [(0, 1), (0, 2)])  # sums 5 | 11, 1, 3
    found = place(gradients, mine, measured)
    assert (found.rank, found.of) == (3, 4)
    assert found.order == (1, 2, 0)
    assert (found.below, found.above) == (2, 0)


def test_more_heads_weigh_more():
    gradients = np.arange(L * H, dtype=float).reshape(L, H)
    two, one = masks([(0, 1), (0, 2)], [(0, 2)])  # sums 3 and 2, means 1.5 and 2
    assert place(gradients, two, [one]).rank == 2


def test_the_ends_and_nothing_measured():
    gradients = np.ones((L, H))
    none, one, two = masks([], [(0, 0)], [(0, 0), (0, 1)])
    assert (place(gradients, none, [one, two]).below, place(gradients, none, [one, two]).rank) == (None, 1)
    assert (place(gradients, two, [one]).above, place(gradients, two, [one]).rank) == (None, 2)
    assert place(gradients, one, []).of == 1
    tied = place(gradients, one, [one])
    assert (tied.rank, tied.of, tied.below, tied.above) == (1, 2, None, 0)


def test_heads_of_another_model_are_refused():
    with pytest.raises(BadInput, match="of a model with"):
        place(np.ones((L, H)), np.zeros((L, H + 1), bool), [])


def test_the_gradient_is_taken_on_a_little_of_the_choosing_text():
    model = ModelRef(source="bundled", name="m", revision="a" * 64, dtype="float32")
    asked = gradient_request(model, DataRef(corpus="docstrings", revision="b" * 64, part="train", tokens=100))
    assert (asked.data.inputs, asked.data.tokens, asked.data.part) == (8, 100, "train")


@pytest.mark.parametrize("K", [1, 2, 8, 24])
def test_costs_are_those_of_one_head_at_a_time(K):
    rng = np.random.default_rng(1)
    found = head_losses(rng.normal(0, 0.1, (L, H)), K, noise=0.05, tokens=rng.integers(5, 40, 2 * K))
    costs = head_costs(found)
    for layer in range(L):
        for head in range(H):
            one = paired_mean(
                found.baseline / found.predicted,
                found.loss[:, layer, head] / found.predicted,
                found.cluster,
                weights=found.predicted,
            )
            assert costs.change[layer, head] == pytest.approx(one.change)
            assert (costs.method, costs.clusters) == (one.method, one.clusters)
            np.testing.assert_allclose(
                (costs.low[layer, head], costs.high[layer, head]), (one.low, one.high), rtol=1e-9, atol=1e-12
            )
    np.testing.assert_allclose(costs.change, found.change())


def test_small_p_only_where_there_is_a_cost():
    cost = np.zeros((L, H))
    cost[2, 1], cost[0, 0] = 0.5, -0.5
    costs = head_costs(head_losses(cost, K=12, noise=0.02))
    sure = costs.p_holm < 0.05
    assert sure[2, 1]
    assert sure[0, 0]
    assert sure.sum() == 2
    assert (costs.p_holm >= costs.p).all()


def test_no_change_at_all_is_no_evidence():
    costs = head_costs(head_losses(np.zeros((L, H))))
    assert (costs.p > 0.5).all()
    np.testing.assert_allclose(costs.change, 0, atol=1e-12)


def test_inputs_of_one_token_are_left_out():
    cost = np.arange(12.0).reshape(L, H)
    found = head_losses(cost, K=3, tokens=[0, 5, 5, 5, 5, 5])
    np.testing.assert_allclose(head_costs(found).change, cost)


@pytest.mark.parametrize("seed", range(5))
def test_rank_correlation_with_ties_against_a_slow_one(seed):
    rng = np.random.default_rng(seed)
    one, other = rng.integers(0, 6, 30).astype(float), rng.normal(size=30)
    assert spearman(one, other) == pytest.approx(slow_correlation(one, other), abs=1e-12)


def test_what_has_no_rank_correlation():
    assert math.isnan(spearman(np.ones(5), np.arange(5.0)))
    assert math.isnan(spearman(np.arange(2.0), np.arange(2.0)))
    assert spearman(np.arange(9.0), np.arange(9.0) ** 3) == pytest.approx(1)
    assert spearman(np.arange(9.0), -np.exp(np.arange(9.0))) == pytest.approx(-1)


def test_agreements_are_sorted_and_missing_heads_left_out():
    cost = np.random.default_rng(2).normal(0, 0.1, (L, H))
    gaps = cost.copy()
    gaps[0] = np.nan
    rows = agreements(
        head_losses(cost, noise=0.01),
        {"against": -cost, "none": np.full((L, H), np.nan), "gaps": gaps, "same": np.ones((L, H))},
    )
    assert [row.name for row in rows] == ["gaps", "against", "none", "same"]
    assert [row.heads for row in rows] == [9, 12, 0, 12]
    assert rows[0].rho > 0.9
    assert rows[1].rho < -0.9
    assert all(row.low <= row.rho <= row.high for row in rows[:2])
    assert math.isnan(rows[2].rho)
    assert math.isnan(rows[3].low)


def test_one_document_has_no_interval():
    cost = np.random.default_rng(2).normal(0, 0.1, (L, H))
    (row,) = agreements(head_losses(cost, K=1), {"cost": cost})
    assert row.rho == pytest.approx(1)
    assert math.isnan(row.low)
    assert math.isnan(reliability(head_losses(cost, K=1)))


def test_the_interval_holds_the_expected_correlation():
    """Of 100 maps of 10 documents each, about 95 intervals hold the mean of the correlations of all of them."""
    rng = np.random.default_rng(3)
    cost = rng.normal(0, 0.1, (10, 8))
    score = cost + rng.normal(0, 0.1, cost.shape)
    rows = [
        agreements(head_losses(cost, K=10, each=1, noise=0.3, seed=s), {"s": score})[0] for s in range(100)
    ]
    middle = np.mean([row.rho for row in rows])
    held = sum(row.low <= middle <= row.high for row in rows)
    assert 88 <= held <= 100


def test_high_means_inactive_is_turned_round():
    table = fake_table(L=L, H=H, G=1)
    active = activity(table)
    np.testing.assert_array_equal(active["awft"], -table.mean("awft"))
    np.testing.assert_array_equal(active["ahon"], table.mean("ahon"))
    assert set(active) == set(table.metrics)


def test_a_map_without_noise_agrees_with_itself_and_one_of_noise_does_not():
    cost = np.random.default_rng(4).normal(0, 0.1, (10, 8))
    assert reliability(head_losses(cost)) == pytest.approx(1)
    assert reliability(head_losses(np.zeros((10, 8)), noise=0.1)) < 0.5
    some = reliability(head_losses(cost, K=12, noise=0.2))
    again = spearman(*(head_losses(cost, K=12, noise=0.2, seed=s).change().ravel() for s in (1, 2)))
    assert some == pytest.approx(again, abs=0.15)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"baseline": np.zeros(0), "ablated": np.zeros((0, 2))}, "no inputs"),
        ({"ablated": np.zeros((2, 2))}, "same inputs"),
        ({"ablated": np.full((3, 2), np.nan)}, "not finite"),
        ({"weights": np.zeros(3)}, "weight above zero"),
    ],
)
def test_what_cannot_be_compared_is_said(more, said):
    given = {"baseline": np.zeros(3), "ablated": np.zeros((3, 2)), "weights": np.ones(3)} | more
    with pytest.raises(BadInput, match=said):
        paired_means(given["baseline"], given["ablated"], np.arange(3)[: len(given["baseline"])], weights=given["weights"])  # fmt: skip
