"""Attention for MPT over the same weights: transformers' own is eager only and ignores attention functions.

transformers 5.24 also ignores the config's alibi_bias_max (8 unless the model was trained for long texts); the slopes
here follow the config.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from headviz.models.blocks import Attention

if TYPE_CHECKING:
    from headviz.models.attention import Probe


class MptAttention(nn.Module):
    """Stands in for transformers' MptAttention while a probe is on; holds its two projections, copies nothing."""

    def __init__(self, original: nn.Module, probe: Probe, layer: int, slopes: tuple[float, ...]) -> None:
        super().__init__()
        self.Wqkv, self.out_proj = original.Wqkv, original.out_proj
        self.layer_idx = original.layer_idx
        self._heads, self._head_dim = original.n_heads, original.head_dim
        self._scale, self._clip = original.softmax_scale, original.clip_qkv
        self._probe, self._layer = probe, layer
        self._slopes = torch.tensor(slopes, dtype=torch.float32)  # an attribute: no new name in state_dict
        self.train(original.training)

    def forward(self, hidden_states: Tensor, cache: Any = None, **_: Any) -> tuple[Tensor, None]:
        """hidden_states (B, T, M) → (attention output, no weights)."""
        B, T, M = hidden_states.shape
        mixed = self.Wqkv(hidden_states)  # (B, T, 3·H·D), in blocks
        if self._clip:
            mixed = mixed.clamp(min=-self._clip, max=self._clip)
        q, k, v = (
            x.view(B, T, self._heads, self._head_dim).transpose(1, 2) for x in mixed.chunk(3, dim=-1)
        )  # (B, H, T, D) each
        if cache is not None:
            k, v = cache.update(k, v, self.layer_idx)
        ask = Attention(self._scale, slopes=self._slopes)
        output = self._probe.attend(self._layer, q, k, v, ask)  # (B, H, T, D)
        return self.out_proj(output.transpose(1, 2).reshape(B, T, M)), None
