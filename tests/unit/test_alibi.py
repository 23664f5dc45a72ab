"""Attention of the ALiBi families at length 512, against stock transformers: logits, causality, cache.

Random logits of the tiny models reach 30, where float32 rounding alone comes near 1e-4. The embedding, which is the LM
head too, is halved here.
"""

import pytest
import torch
from transformers.models.falcon import modeling_falcon

from headviz.models.attention import probe
from headviz.models.slopes import alibi_slopes
from tests import tiny

T = 512
CASES = {
    "bloom": {"n_head": 16, "hidden_size": 128},
    "bloom-six-heads": {},
    "mpt": {"max_seq_len": T, "n_heads": 16, "d_model": 128},
    "mpt-six-heads": {"max_seq_len": T},
    "falcon": {"num_attention_heads": 16, "hidden_size": 128},
    "falcon-one-key": {"num_attention_heads": 6, "hidden_size": 48},
    "falcon-groups": {},
}


def exact_bias(mask, heads, dtype):
    """Falcon's builder without its rounding to bf16."""
    slopes = torch.tensor(alibi_slopes(heads), dtype=torch.float64)
    position = mask.cumsum(-1) - 1  # (B, T); nothing is padded here
    return (slopes[:, None] * position[:, None]).reshape(len(mask) * heads, 1, -1).to(dtype)


@pytest.fixture(params=CASES)
def model(request, monkeypatch):
    monkeypatch.setattr(modeling_falcon, "build_alibi_tensor", exact_bias)
    model = tiny.build(request.param, **CASES[request.param])
    model.get_input_embeddings().weight.mul_(0.5)  # tied to the LM head
    return model


@torch.no_grad()
def test_logits_are_the_stock_ones_with_and_without_a_cache(model):
    ids, _ = tiny.tokens([T])
    stock = model(ids, use_cache=False).logits
    assert (model(ids, use_cache=True).logits - stock).abs().max() < 1e-4
    with probe(model):
        ours = model(ids, use_cache=False).logits
        start = model(ids[:, :300], use_cache=True)
        rest = model(ids[:, 300:], cache=start.cache)
    assert (ours - stock).abs().max() < 1e-4
    assert (torch.cat([start.logits, rest.logits], 1) - stock).abs().max() < 1e-4


@torch.no_grad()
def test_a_later_token_changes_no_earlier_logit(model):
    ids, _ = tiny.tokens([T])
    changed = ids.clone()
    changed[0, 400] = (changed[0, 400] + 7) % tiny.VOCABULARY
    with probe(model):
        first, second = model(ids).logits[0], model(changed).logits[0]
    assert (first[:400] - second[:400]).abs().max() < 1e-5
    assert (first[400:] - second[400:]).abs().max() > 1e-3


@torch.no_grad()
def test_falcons_own_builder_rounds_a_slope_that_is_no_power_of_two():
    """Why the stock logits are compared with an exact builder above; if this fails, drop the stand-in."""
    model = tiny.build("falcon", num_attention_heads=16, hidden_size=128)
    ids, _ = tiny.tokens([T])
    stock = model(ids).logits
    with probe(model):
        assert (model(ids).logits - stock).abs().max() > 1e-3


@torch.no_grad()
def test_in_bf16_ours_is_much_nearer_to_float64_than_the_stock_one():
    """Positions above 256 are no bf16 numbers; `python -m tests.bench alibi` prints the factor at 2,048 tokens."""
    model = tiny.build("bloom", torch.bfloat16)
    ids, _ = tiny.tokens([1024])
    stock = model(ids, use_cache=False).logits.double()
    with probe(model, want=()):
        ours = model(ids, use_cache=False).logits.double()
    exact = model.double()(ids, use_cache=False).logits
    assert (stock - exact).abs().mean() > 4 * (ours - exact).abs().mean()
