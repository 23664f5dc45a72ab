"""Attention for BLOOM over the same weights: transformers' own is eager only and ignores attention functions.

It also replaces the eager `baddbmm`, which holds T×T and rounds the ALiBi bias to bf16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headviz.models.blocks import Attention

if TYPE_CHECKING:
    from headviz.models.attention import Probe


class BloomAttention(nn.Module):
    """Stands in for transformers' BloomAttention while a probe is on; holds its two projections, copies nothing."""

    def __init__(self, original: nn.Module, probe: Probe, layer: int, slopes: tuple[float, ...]) -> None:
        super().__init__()
        self.query_key_value, self.dense = original.query_key_value, original.dense
        self.layer_idx, self.hidden_dropout = original.layer_idx, original.hidden_dropout
        self._heads, self._head_dim = original.num_heads, original.head_dim
        self._probe, self._layer = probe, layer
        self._slopes = torch.tensor(
            slopes, dtype=torch.float32
        )  # a plain attribute: no new name in state_dict
        self.train(original.training)

    def forward(
        self,
        hidden_states: Tensor,
        residual: Tensor,
        alibi: Tensor | None = None,
        attention_mask: Tensor | None = None,
        layer_past: Any = None,
        **_: Any,
    ) -> tuple[Tensor, None]:
        """hidden_states and residual (B, T, M) → (residual + attention output, no weights)."""
        B, T, M = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(B, T, self._heads, 3, self._head_dim)
        q, k, v = (x.transpose(1, 2) for x in fused.unbind(3))  # (B, H, T, D) each
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        ask = Attention(self._head_dim**-0.5, slopes=self._slopes)
        output = self._probe.attend(self._layer, q, k, v, ask)  # (B, H, T, D)
        context = self.dense(output.transpose(1, 2).reshape(B, T, M))
        context = nn.functional.dropout(context, p=self.hidden_dropout, training=self.training)
        return residual + context, None
