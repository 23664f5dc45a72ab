"""How near bf16 attention with ALiBi is to float64, at 2,048 tokens: ours and the stock one, over the same weights.

transformers rounds the bias to bf16, where a slope times a position above 256 loses whole steps. A model of BLOOM's kind
with 16 heads and weights large enough that attention is far from uniform; nothing is timed.
"""

from __future__ import annotations

import json
from typing import Any

import torch
from torch import Tensor

from headviz.models.attention import probe
from tests.bench.rows import Row, child

T = 2048
STOCK = "stock eager, bf16"


def run(repeats: int) -> list[Row]:
    """All rows: mean distance from float64. `repeats` is of no use here: the numbers are the same each time."""
    far = child("tests.bench.alibi")
    return [
        Row(f"{what}, BLOOM's kind, bf16, T={T}", ours, STOCK, stock, unit, 0.5)
        for what, (ours, stock, unit) in far.items()
    ]


def nearness() -> dict[str, tuple[float, float, str]]:
    """What → mean distance from float64 of ours and of the stock attention, and the unit."""
    from transformers import AutoModelForCausalLM, BloomConfig

    torch.manual_seed(0)
    config = BloomConfig(vocab_size=1000, hidden_size=256, n_head=16, n_layer=2)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for layer in model.transformer.h:
        layer.self_attention.query_key_value.weight.mul_(4)
    model.to(torch.bfloat16)
    ids = torch.randint(1000, (1, T))
    stock = _run(model, ids)
    with probe(model, want=()):
        ours = _run(model, ids)
    exact = _run(model.double(), ids)
    return {
        what: (_far(ours[at], exact[at]), _far(stock[at], exact[at]), unit)
        for at, (what, unit) in enumerate((("logits", "nats"), ("head outputs", "norm")))
    }


def _run(model: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits (1, T, V), and the concatenated head outputs of all layers (L, T, H·D), in float64."""
    caught: list[Tensor] = []
    modules = [layer.self_attention.dense for layer in model.transformer.h]
    handles = [m.register_forward_pre_hook(lambda _, given: caught.append(given[0][0])) for m in modules]
    logits = model(ids, use_cache=False).logits
    for handle in handles:
        handle.remove()
    return logits.double(), torch.stack(caught).double()


def _far(one: Tensor, other: Tensor) -> float:
    return float((one - other).abs().mean())


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(nearness()))
