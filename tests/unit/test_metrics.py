"""The table of scores: worked by hand on tiny numbers, and the laws that hold for any."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from headviz.analysis.metrics import METHOD_VERSIONS, METRICS, inactive, statistics_for, threshold_at
from headviz.errors import BadInput, UnknownName
from headviz.models.attention import probe
from headviz.models.statistics import STATISTICS
from tests import tiny

PAPER = ("awft", "aeqd", "ftvvn", "avvn", "lthon", "ahon")
NORMALISED = tuple(f"{name}_ln" for name in PAPER)


def statistics(N=3, L=2, H=4, seed=0):
    draw = np.random.default_rng(seed)
    return {name: draw.uniform(0.1, 2, (N, L, H)).astype(np.float32) for name in STATISTICS}


def test_order_is_the_papers_then_the_extras():
    assert tuple(METRICS) == (*PAPER, *NORMALISED, "lthon_hn", "fullout", "fullout_ln")
    assert [row.id for row in METRICS.values() if row.extra] == ["lthon_hn", "fullout", "fullout_ln"]
    assert all(row.id == name for name, row in METRICS.items())


@pytest.mark.parametrize("metric", METRICS)
def test_every_row_can_be_read_and_computed(metric):
    row = METRICS[metric]
    assert row.inactive == ("high" if metric in ("awft", "awft_ln") else "low")
    assert len(row.help) > 100
    assert "nactive" in row.help or "adds" in row.help
    assert row.formula
    assert row.source
    assert set(row.needs) <= set(STATISTICS)
    assert row.shares_kv == (metric.split("_")[0] in ("ftvvn", "avvn"))
    assert bool(row.undefined) == row.normalised
    assert row.compute(statistics()).shape == (3, 2, 4)


def test_scores_by_hand():
    s = {name: np.full((1, 1, 2), np.nan) for name in STATISTICS}
    s |= {"output_last": np.array([[[1.0, 6.0]]]), "output_mean": np.array([[[2.0, 4.0]]])}
    assert METRICS["ahon"].compute(s).tolist() == [[[2.0, 4.0]]]
    assert METRICS["ahon_ln"].compute(s)[0, 0] == pytest.approx([2 / 3, 4 / 3])
    # by the layer's mean over all tokens, not by the mean of the last tokens (which would give 2/7 and 12/7)
    assert METRICS["lthon_ln"].compute(s)[0, 0] == pytest.approx([1 / 3, 2.0])
    assert METRICS["lthon_hn"].compute(s)[0, 0] == pytest.approx([0.5, 1.5])


@pytest.mark.parametrize("metric", [name for name in METRICS if name.endswith("_ln") and name != "lthon_ln"])
def test_normalised_scores_have_mean_one_in_every_layer_and_input(metric):
    numbers = METRICS[metric].compute(statistics())
    np.testing.assert_allclose(numbers.mean(-1), 1, rtol=1e-6)
    scaled = {name: number * np.array([2.0, 5.0])[:, None] for name, number in statistics().items()}
    np.testing.assert_allclose(METRICS[metric].compute(scaled), numbers, rtol=1e-5)  # a layer's scale cancels


def test_lthon_ln_need_not_have_mean_one():
    assert np.abs(METRICS["lthon_ln"].compute(statistics()).mean(-1) - 1).max() > 0.01


@pytest.mark.parametrize("metric", METRICS)
def test_torch_tensors_give_the_same_numbers(metric):
    plain = statistics()
    tensors = {name: torch.from_numpy(number) for name, number in plain.items()}
    np.testing.assert_allclose(
        METRICS[metric].compute(tensors).numpy(), METRICS[metric].compute(plain), rtol=1e-6
    )


@pytest.mark.parametrize("metric", [name for name, row in METRICS.items() if row.normalised])
def test_a_layer_of_zeros_is_missing_not_infinite(metric):
    zeros = {
        name: number * np.array([0.0, 1.0], np.float32)[:, None] for name, number in statistics().items()
    }
    numbers = METRICS[metric].compute(zeros)
    assert np.isnan(numbers[:, 0]).all()
    assert np.isfinite(numbers[:, 1]).all()


@pytest.mark.parametrize("case", ["llama", "bloom", "gpt2"])
def test_ahon_ln_does_not_change_when_all_values_are_scaled(case):
    model, louder = tiny.build(case), tiny.build(case)
    ids, lengths = tiny.tokens([20, 11])
    last = tiny.LAYERS - 1  # a louder layer 0 would change what layer 1 sees
    with torch.no_grad():
        if case == "llama":
            projection = louder.model.layers[last].self_attn.v_proj
            projection.weight *= 3
            projection.bias *= 3
        elif case == "gpt2":
            projection = louder.transformer.h[last].attn.c_attn
            projection.weight[:, 64:] *= 3
            projection.bias[64:] *= 3
        else:
            projection = louder.transformer.h[last].self_attention.query_key_value
            projection.weight.view(4, 3, 8, 32)[:, 2] *= 3
            projection.bias.view(4, 3, 8)[:, 2] *= 3
        with probe(model) as watching:
            plain = watching.run(ids, lengths)
        with probe(louder) as watching:
            loud = watching.run(ids, lengths)
    ahon, ahon_ln = METRICS["ahon"].compute, METRICS["ahon_ln"].compute
    np.testing.assert_allclose(ahon(loud)[:, last], 3 * ahon(plain)[:, last], rtol=1e-5)
    np.testing.assert_allclose(ahon_ln(loud)[:, last], ahon_ln(plain)[:, last], rtol=1e-5)


def test_inactive_is_strict_and_follows_the_direction():
    values = np.array([0.1, 0.5, 0.9, np.nan])
    assert inactive(values, "awft", 0.5).tolist() == [False, False, True, False]
    assert inactive(values, "ahon", 0.5).tolist() == [True, False, False, False]


def test_threshold_at_by_hand():
    values = np.array([[4.0, 1.0], [3.0, 2.0]])  # sorted 1 2 3 4 at levels .25 .5 .75 1
    assert threshold_at(values, "ahon", 0.5) == 2.0
    assert threshold_at(values, "ahon", 0.6) == pytest.approx(2.4)
    assert threshold_at(values, "awft", 0.4) == pytest.approx(2.4)
    assert threshold_at(values, "ahon", 0.1) == 1.0  # held at the smallest
    assert threshold_at(values, "awft", 1.0) == 1.0
    assert threshold_at(np.array([1.0, np.nan, 3.0]), "ahon", 1.0) == 3.0


@pytest.mark.parametrize("metric", METRICS)
def test_share_zero_calls_nothing_inactive_and_a_share_gets_its_share(metric):
    values = METRICS[metric].compute(statistics(N=40, L=5, H=6))
    assert inactive(values, metric, threshold_at(values, metric, 0.0)).sum() == 0
    for share in (0.05, 0.3):
        marked = inactive(values, metric, threshold_at(values, metric, share)).mean()
        assert marked == pytest.approx(share, abs=1.5 / values.size)


def test_threshold_refuses_what_has_no_answer():
    with pytest.raises(BadInput, match="between 0 and 1, not at 30"):
        threshold_at(np.ones(3), "ahon", 30)
    with pytest.raises(BadInput, match="no value"):
        threshold_at(np.full(3, np.nan), "ahon", 0.5)
    with pytest.raises(UnknownName, match="Did you mean 'ahon'"):
        threshold_at(np.ones(3), "ahn", 0.5)


def test_statistics_for_asks_for_no_more_than_is_needed():
    assert statistics_for() == frozenset(STATISTICS)
    assert statistics_for(("awft", "awft_ln")) == {"sink"}
    assert "entropy" not in statistics_for(tuple(name for name in METRICS if not name.startswith("aeqd")))
    with pytest.raises(UnknownName):
        statistics_for(("nothing",))


def test_published_thresholds_lie_in_the_direction_of_the_scores():
    """The paper's own thresholds rise with the share for `low` scores and fall for `high` ones."""
    path = Path(__file__).parents[3] / "shared/data/inactive_heads/thresholds.json"
    if not path.exists():
        pytest.skip("the paper's published thresholds are not beside this checkout")
    published = {"Dormant": "awft", "NormalizedDormant": "awft_ln", "Entropy": "aeqd", "HONOR": "ahon_ln"}
    for model in json.loads(path.read_text())["mmlu"].values():
        for name, metric in published.items():
            rising = all(a <= b for a, b in zip(model[name], model[name][1:]))
            assert rising == (METRICS[metric].inactive == "low")


def test_kinds_of_job_take_their_versions_from_here():
    from headviz.jobs.kinds import KINDS

    assert {kind: row.version for kind, row in KINDS.items()} == METHOD_VERSIONS


@pytest.mark.parametrize("metric", ["awft", "ahon"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 1.0])
def test_a_turned_threshold_is_the_quantile_from_the_other_end(metric, share):
    values = np.random.default_rng(3).random((5, 4, 4))
    found = threshold_at(values, metric, share, turned=True)
    assert found == threshold_at(values, {"awft": "ahon", "ahon": "awft"}[metric], share)
    assert inactive(values, metric, found, turned=True).mean() == pytest.approx(share, abs=1.01 / values.size)
