"""Attention without any preference for content: the closed forms against plain loops, and the numbers they must give."""

import math

import numpy as np
import pytest

from headviz.analysis.nulls import advantage, null_by_distance, null_entropy, null_mass, random_head
from headviz.errors import BadInput
from headviz.models.slopes import alibi_slopes

SLOPES = alibi_slopes(16)


def loop(slope, T, ahead=0.0):
    """(T, T) attention of ALiBi alone, with the first token's logit raised."""
    weights = np.zeros((T, T))
    for i in range(T):
        row = [math.exp(-slope * (i - j) + (ahead if j == 0 else 0)) for j in range(i + 1)]
        weights[i, : i + 1] = np.array(row) / math.fsum(row)
    return weights


@pytest.mark.parametrize(("head", "mass"), [(0, 0.028), (5, 0.051), (9, 0.070), (15, 0.081)])
def test_null_mass_of_sixteen_heads_at_56_tokens(head, mass):
    assert null_mass(SLOPES[head], 56) == pytest.approx(mass, abs=6e-4)


@pytest.mark.parametrize(("head", "nats"), [(0, 1.31), (15, 3.08)])
def test_null_entropy_of_sixteen_heads_at_56_tokens(head, nats):
    assert null_entropy(SLOPES[head], 56) == pytest.approx(nats, abs=0.005)


@pytest.mark.parametrize(
    ("T", "head", "nats"),
    [
        (56, 0, 20.1),
        (56, 2, 10.9),
        (56, 5, 5.5),
        (56, 9, 3.6),
        (56, 15, 3.1),
        (512, 0, 181),
        (512, 5, 34),
        (512, 9, 11.5),
        (512, 15, 5.9),
    ],
)
def test_advantage_for_a_mean_mass_of_one_half(T, head, nats):
    assert advantage(SLOPES[head], T) == pytest.approx(nats, abs=0.5 if nats > 30 else 0.05)


@pytest.mark.parametrize("slope", [0.0, 2.0**-8, 0.3, 2.0])
@pytest.mark.parametrize("T", [1, 2, 40])
def test_closed_forms_are_the_loops(slope, T):
    weights = loop(slope, T)
    entropy = [-sum(p * math.log(p) for p in row if p > 0) for row in weights]
    assert null_mass(slope, T) == pytest.approx(weights[:, 0].mean(), abs=1e-12)
    assert null_entropy(slope, T) == pytest.approx(np.mean(entropy), abs=1e-9)
    far = [np.mean([weights[i, i - d] for i in range(d, T)]) for d in range(T)]
    np.testing.assert_allclose(null_by_distance(slope, T), far, atol=1e-12)


@pytest.mark.parametrize("mass", [0.2, 0.5, 0.95])
@pytest.mark.parametrize("slope", [0.0, 0.05, 0.7])
def test_the_advantage_gives_the_mass(slope, mass):
    ahead = advantage(slope, 40, mass)
    assert loop(slope, 40, ahead)[:, 0].mean() == pytest.approx(mass, abs=1e-6)


def test_steep_heads_have_less_mass_and_entropy_and_long_texts_less_mass():
    masses = [null_mass(slope, 256) for slope in SLOPES]
    assert masses == sorted(masses)
    entropies = [null_entropy(slope, 256) for slope in SLOPES]
    assert entropies == sorted(entropies)
    assert null_mass(SLOPES[15], 512) < null_mass(SLOPES[15], 256)
    assert null_by_distance(0.5, 2048).sum() == pytest.approx(1, abs=0.01)


def test_a_random_head_is_near_the_null():
    mean, low, high = random_head(SLOPES[15], 56, 2048, 128)
    assert 0.03 < low < mean < high < 0.25
    assert mean == pytest.approx(null_mass(SLOPES[15], 56), abs=0.03)
    assert random_head(SLOPES[15], 56, 64, 8) == random_head(SLOPES[15], 56, 64, 8)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: null_mass(-0.1, 5), "slope is 0 or more"),
        (lambda: null_mass(0.1, 0), "at least one token"),
        (lambda: advantage(0.1, 10, 0.1), "more than 1/10"),
        (lambda: advantage(0.1, 10, 1.0), "less than 1"),
        (lambda: random_head(0.1, 9, 8, 4, correlation=2), "correlation"),
        (lambda: random_head(0.1, 5000, 8, 4), "4096 tokens"),
    ],
)
def test_what_makes_no_sense_is_refused(call, says):
    with pytest.raises(BadInput, match=says):
        call()


def test_the_steepest_slope_on_a_long_text_neither_overflows_nor_warns():
    steep = 2.0**-0.25
    each = math.log(1 / -math.expm1(-steep)) + steep / math.expm1(steep)  # a text without end
    assert null_entropy(steep, 100_000) == pytest.approx(each, rel=1e-4)
