"""The fused forms of activations: the same function to float32's rounding, and the model as it was afterwards."""

import pytest
import torch
from transformers.activations import NewGELUActivation
from transformers.models.bloom.modeling_bloom import BloomGelu

from headviz.models.activations import FUSED, fused_activations
from tests import tiny

X = torch.linspace(-12, 12, 20_001)


def value_and_slope(function, x):
    x = x.clone().requires_grad_()
    y = function(x)
    y.sum().backward()
    return y.detach().double(), x.grad.double()


@pytest.mark.parametrize("original", [BloomGelu(), NewGELUActivation()], ids=lambda m: type(m).__name__)
def test_the_fused_form_is_the_same_function_there_and_back(original):
    exact = value_and_slope(NewGELUActivation(), X.double())
    theirs, ours = (value_and_slope(f, X) for f in (original, FUSED[type(original).__name__]))
    for right, one, other in zip(exact, theirs, ours):
        assert (other - right).abs().max() < 2e-6
        assert (other - right).square().mean() < 1.5 * (one - right).square().mean()


@pytest.mark.parametrize("case", ["bloom", "gpt2"])
def test_it_is_used_inside_the_block_only_and_gone_after_an_exception(case):
    model = tiny.build(case)
    tokens = torch.arange(12)[None]
    before, modules = model(tokens).logits, dict(model.named_modules())
    changed = [name for name, module in modules.items() if type(module).__name__ in FUSED]
    assert len(changed) == 2

    def inside():
        with fused_activations(model):
            assert all("forward" in vars(modules[name]) for name in changed)
            assert torch.allclose(model(tokens).logits, before, atol=1e-5)
            raise KeyError

    with pytest.raises(KeyError):
        inside()
    assert not any("forward" in vars(module) for module in modules.values())
    assert dict(model.named_modules()) == modules
    assert torch.equal(model(tokens).logits, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_where_the_two_would_differ_by_more_than_rounding_nothing_changes(dtype):
    model = tiny.build("bloom", dtype)
    with fused_activations(model):
        assert not any("forward" in vars(module) for module in model.modules())
