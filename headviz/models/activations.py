"""Activations that transformers spells out in many small operations, as the one fused operation that torch has for them.

Over (B, T, 4·M) every small operation goes through memory once, there and back: for the tanh form of GELU that was 15% of an
optimiser step on a small BLOOM-shaped model. The formula is the same and so is the size of its error against float64 (root
mean square 5e-8 there and 7e-8 back, on normal inputs), but the last bits are not. Float32 only: in bf16 transformers rounds
after each of its operations, and in float64 its constants of eight digits show.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Tensor, nn

from headviz.models.forwards import forwards

_tanh_gelu = partial(nn.functional.gelu, approximate="tanh")
# class in transformers → the same function in one operation
FUSED: dict[str, Callable[[Tensor], Tensor]] = {
    "BloomGelu": _tanh_gelu,
    "NewGELUActivation": _tanh_gelu,  # GPT-2
}


def fused_activations(model: nn.Module) -> AbstractContextManager[None]:
    """Activations of FUSED in a float32 model are computed in one operation inside the block; modules stay where they are."""
    float32 = model.get_input_embeddings().weight.dtype == torch.float32
    return forwards(
        {
            module: FUSED[name]
            for module in model.modules()
            if float32 and (name := type(module).__name__) in FUSED
        }
    )
