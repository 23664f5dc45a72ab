"""Every score on every family, against the float64 loops of tests/reference.py, end to end."""

import numpy as np
import pytest
import torch

from headviz.analysis.metrics import METRICS
from headviz.errors import UnsupportedModel
from headviz.models.architectures import FAMILIES, context_length, family_of, geometry
from headviz.models.attention import attention_modules, probe
from headviz.models.slopes import alibi_slopes, falcon_slopes, mpt_slopes
from tests import reference, tiny

LENGTHS = list(range(1, 65))


def test_every_family_has_a_tiny_model():
    built = {tiny.build(case).config.model_type for case in tiny.CASES}
    assert built == set(FAMILIES)


@pytest.fixture(scope="module", params=tiny.CASES)
def worked(request):
    """Case → what the probe says of 64 padded inputs of 1 to 64 tokens, and what the loops say of each alone."""
    ids, lengths = tiny.tokens(LENGTHS)
    with torch.inference_mode(), probe(tiny.build(request.param)) as watching:
        padded = watching.run(ids, lengths)
    stock = tiny.build(request.param, torch.float64)
    by_input = [reference.scores(stock, ids[i, :T]) for i, T in enumerate(LENGTHS)]
    loops = {name: np.stack([scores[name] for scores in by_input]) for name in by_input[0]}
    return request.param, ids, padded, loops


def assert_close(ours, loops, what):
    """To 1e-5·max(1, |x|), and NaN in the same places."""
    assert ours.shape == loops.shape
    assert np.array_equal(np.isnan(ours), np.isnan(loops)), what
    error = np.nan_to_num(np.abs(ours - loops) / np.maximum(1, np.abs(loops)))
    assert error.max() <= 1e-5, (
        f"{what}: {error.max():.2e} at {np.unravel_index(error.argmax(), error.shape)}"
    )


@pytest.mark.parametrize("metric", METRICS)
def test_score_equals_float64_loop_in_a_padded_batch(worked, metric):
    case, _, padded, loops = worked
    assert_close(METRICS[metric].compute(padded), loops[metric], f"{case} {metric}")


def test_scores_equal_float64_loop_without_padding(worked):
    case, ids, _, loops = worked
    model = tiny.build(case)
    with torch.inference_mode(), probe(model) as watching:
        for T in (1, 2, 13, 64):
            alone = watching.run(ids[T - 1 : T, :T])
            for name, row in METRICS.items():
                assert_close(row.compute(alone), loops[name][T - 1 : T], f"{case} {name} T={T}")


def test_one_token_has_no_entropy_and_no_relative_entropy(worked):
    _, _, padded, _ = worked
    assert (padded["entropy"][0] == 0).all()
    assert np.isnan(METRICS["aeqd_ln"].compute(padded)[0]).all()
    assert (padded["sink"][0] == 1).all()


def test_attention_of_the_tiny_models_is_far_from_uniform(worked):
    _, _, padded, _ = worked
    even = np.mean([np.log(i) for i in range(1, 65)])
    assert padded["entropy"][-1].min() < 0.92 * even  # a probe that forgot the logits would say `even`


@pytest.mark.parametrize("case", tiny.CASES)
def test_geometry_is_the_models_own(case):
    model = tiny.build(case)
    shape = geometry(model.config)
    modules = attention_modules(model, family_of(model.config))
    assert shape.layers == len(modules) == tiny.LAYERS
    weight = getattr(modules[0], family_of(model.config).output).weight
    assert shape.heads * shape.head_dim == weight.shape[0 if shape.family == "gpt2" else 1]
    assert geometry(model.config.to_dict() | {"model_type": shape.family}) == shape
    assert (shape.slopes is not None) == (FAMILIES[shape.family].positions == "alibi")


@pytest.mark.parametrize("heads", [1, 2, 4, 6, 12, 16, 32, 112])
def test_alibi_slopes_are_those_of_bloom(heads):
    from transformers.models.bloom.modeling_bloom import _get_alibi_slopes

    theirs = _get_alibi_slopes(heads, torch.device("cpu")).numpy()
    np.testing.assert_allclose(alibi_slopes(heads), theirs, rtol=2e-5)


@pytest.mark.parametrize("largest", [8, 16])
@pytest.mark.parametrize("heads", [1, 2, 4, 6, 12, 16, 32, 71, 112])
def test_alibi_slopes_are_those_of_mpt(heads, largest):
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    bias = build_mpt_alibi_tensor(heads, 2, largest)  # (H, 1, 2) for positions −1 and 0
    np.testing.assert_allclose(mpt_slopes(heads, largest), -bias[:, 0, 0].numpy(), rtol=2e-5)


@pytest.mark.parametrize("heads", [1, 4, 6, 16, 71])
def test_alibi_slopes_are_those_of_falcon_up_to_its_rounding(heads):
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    bias = build_alibi_tensor(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)  # (H, 1, 2), in bf16
    wanted = bias[:, 0, 1].numpy() / np.sqrt(64)
    np.testing.assert_allclose(falcon_slopes(heads, 64), wanted, rtol=2**-8)


def test_slopes_in_the_geometry_are_those_of_the_config():
    mpt = {
        "model_type": "mpt",
        "n_layers": 1,
        "n_heads": 6,
        "d_model": 48,
        "attn_config": {"alibi_bias_max": 16},
    }
    assert geometry(mpt).slopes == mpt_slopes(6, 16)
    assert geometry(tiny.build("falcon").config).slopes == tuple(2.0**-e / 8**0.5 for e in (2, 4, 6, 8))
    assert geometry(tiny.build("falcon-one-key").config).kv_heads == 1
    assert geometry(tiny.build("falcon-groups").config).kv_heads == 2


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"model_type": "falcon", "alibi": False}, "rotates its positions"),
        ({"model_type": "falcon"}, "rotates its positions"),
        ({"model_type": "mpt", "attn_config": {"alibi": False}}, "learned positions"),
        ({"model_type": "mpt", "attn_config": {"qk_ln": True}}, "qk_ln"),
    ],
)
def test_variants_that_would_be_computed_wrongly_are_refused(config, says):
    with pytest.raises(UnsupportedModel, match=says):
        family_of(config)


def test_first_alibi_heads_are_the_steepest():
    slopes = alibi_slopes(16)
    assert slopes[0] == pytest.approx(2**-0.5)
    assert slopes[15] == 2**-8
    assert list(slopes) == sorted(slopes, reverse=True)
    assert list(alibi_slopes(6)) != sorted(alibi_slopes(6), reverse=True)


def test_unknown_family_is_named_with_what_works():
    with pytest.raises(UnsupportedModel, match=r"'mamba'.*llama, qwen2.*bloom"):
        geometry({"model_type": "mamba"})


def test_bidirectional_variant_is_refused():
    config = tiny.build("gemma3_text").config.to_dict() | {"use_bidirectional_attention": True}
    with pytest.raises(UnsupportedModel, match="both directions"):
        geometry(config)


def test_incomplete_config_is_refused():
    with pytest.raises(UnsupportedModel, match="num_attention_heads"):
        geometry({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8})


def test_context_length_has_no_end_with_alibi():
    assert context_length(tiny.build("llama").config) == 256
    assert context_length(tiny.build("gpt2").config) == 256
    assert context_length({"model_type": "gpt2", "n_positions": 8}) == 8
    assert context_length(tiny.build("bloom").config) is None
