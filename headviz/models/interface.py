"""How attention reaches a probe: one function and one mask function under one name in transformers' tables.

transformers is told the name once, on first use. A model comes here only while a probe has selected the name on it,
and finds its probe by its attention module; another model in the same process is not concerned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from headviz.errors import BadInput
from headviz.models.blocks import Attention

if TYPE_CHECKING:
    from headviz.models.attention import Probe

NAME = "headviz"

_watched: WeakKeyDictionary[nn.Module, tuple[Probe, int]] = WeakKeyDictionary()


def register() -> None:
    """Tell transformers the two functions. Does nothing the second time."""
    from transformers import AttentionInterface, AttentionMaskInterface

    if NAME not in AttentionInterface._global_mapping:
        AttentionInterface.register(NAME, attention_function)
        # without a mask function of this name, families that trust the mask would run in both directions
        AttentionMaskInterface.register(NAME, mask_function)


def watch_module(module: nn.Module, probe: Probe, layer: int) -> None:
    """Calls of this attention module go to that probe as that layer."""
    if module in _watched:
        raise RuntimeError("this model is already under a probe: leave the first one before entering another")
    _watched[module] = (probe, layer)


def forget_module(module: nn.Module) -> None:
    _watched.pop(module, None)


def attention_function(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """transformers' attention interface: query (B, H, T, D), key and value (B, G, K, D) → output (B, T, H, D)."""
    if attention_mask is not None:
        raise BadInput("The probe is causal by itself and takes no ready-made attention mask: leave it out.")
    if dropout:
        raise BadInput("The probe measures models in evaluation mode: call model.eval() first.")
    probe, layer = _watched[module]
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    output = probe.attend(layer, query, key, value, Attention(scale, sliding_window, softcap))
    return output.transpose(1, 2).contiguous(), None


def mask_function(
    *_: Any, attention_mask: Tensor | None = None, config: Any = None, **__: Any
) -> Tensor | None:
    """No mask: the probe applies causality, and with padding on the right no real query sees padding."""
    if attention_mask is not None and bool((attention_mask[:, 1:] & ~attention_mask[:, :-1]).any()):
        raise BadInput(
            "These inputs are padded on the left. Pad them on the right: the first token must come first."
        )
    # MPT converts its mask without asking whether there is one; our attention module does not read it
    return torch.empty(0) if getattr(config, "model_type", None) == "mpt" else None
