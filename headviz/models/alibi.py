"""ALiBi as extra coordinates of queries and keys: slope · position is a dot product too.

Plain causal fused attention then computes ALiBi, with no bias matrix. Low precision holds neither a slope of
2^(−8h/n) nor a position above 256, so each is split into a high and a low part: four products, four coordinates.
"""

from __future__ import annotations

import torch
from torch import Tensor

_MULTIPLE = 8  # fused operations like head sizes that are multiples of eight


def with_coordinates(q: Tensor, k: Tensor, slopes: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """q (B, H, T, D) and k (B, G, K, D) widened to D' coordinates, so that scale · q·k includes the ALiBi bias.

    slopes (H,) float32. Positions count from the middle key: a constant per row changes no softmax, and smaller
    numbers keep more digits. D' is D + 4, rounded up to a multiple of eight.
    """
    (B, H, T, D), (_, G, K, _) = q.shape, k.shape
    width = -(-(D + 4) // _MULTIPLE) * _MULTIPLE
    high, low = _split(slopes.to(q.device) / scale, q.dtype)  # (H,) each
    far, near = _split(torch.arange(K, device=k.device) - K // 2, k.dtype)  # (K,) each
    wide_q, wide_k = q.new_zeros(B, H, T, width), k.new_zeros(B, G, K, width)
    wide_q[..., :D], wide_k[..., :D] = q, k
    wide_q[..., D : D + 4] = torch.stack([high, high, low, low], -1)[:, None]  # (H, 1, 4)
    wide_k[..., D : D + 4] = torch.stack([far, near, far, near], -1)  # (K, 4)
    return wide_q, wide_k


def widened(v: Tensor, width: int) -> Tensor:
    """v (B, G, K, D) with zeros up to `width`: the fused operations want one head size for q, k and v."""
    wide = v.new_zeros(*v.shape[:-1], width)
    wide[..., : v.shape[-1]] = v
    return wide


def _split(numbers: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`numbers` as high + low, both in `dtype`."""
    exact = numbers.to(torch.float64)
    high = exact.to(dtype)
    return high, (exact - high).to(dtype)
