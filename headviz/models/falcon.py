"""Attention for Falcon with ALiBi over the same weights.

transformers' own rounds the bias to bf16 whatever the model's precision (a slope times a position above 256 loses whole
steps), and in 5.24 its eager path adds the bias twice: once in the mask, once to the logits. Here it is exact, and once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headviz.models.blocks import Attention

if TYPE_CHECKING:
    from headviz.models.attention import Probe


class FalconAttention(nn.Module):
    """Stands in for transformers' FalconAttention while a probe is on; holds its two projections, copies nothing."""

    def __init__(self, original: nn.Module, probe: Probe, layer: int, slopes: tuple[float, ...]) -> None:
        super().__init__()
        self.query_key_value, self.dense = original.query_key_value, original.dense
        self.layer_idx = original.layer_idx
        self._heads, self._groups, self._head_dim = (
            original.num_heads,
            original.num_kv_heads,
            original.head_dim,
        )
        self._probe, self._layer = probe, layer
        self._slopes = torch.tensor(slopes, dtype=torch.float32)  # an attribute: no new name in state_dict
        self.train(original.training)

    def forward(self, hidden_states: Tensor, layer_past: Any = None, **_: Any) -> tuple[Tensor, None]:
        """hidden_states (B, T, M) → (attention output, no weights)."""
        B, T, M = hidden_states.shape
        # a group holds its H/G queries, one key and one value: so lie all three layouts that Falcon has had
        fused = self.query_key_value(hidden_states).view(B, T, self._groups, -1, self._head_dim)
        q = fused[..., :-2, :].flatten(2, 3).transpose(1, 2)  # (B, H, T, D)
        k, v = (fused[..., at, :].transpose(1, 2) for at in (-2, -1))  # (B, G, T, D) each
        if layer_past is not None:
            k, v = layer_past.update(k, v, self.layer_idx)
        ask = Attention(self._head_dim**-0.5, slopes=self._slopes)
        output = self._probe.attend(self._layer, q, k, v, ask)  # (B, H, T, D)
        return self.dense(output.transpose(1, 2).reshape(B, T, M)), None
