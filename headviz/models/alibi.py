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
    more_q = widened(torch.stack([high, high, low, low], -1), width - D)[:, None]  # (H, 1, D' − D)
    more_k = widened(torch.stack([far, near, far, near], -1), width - D)  # (K, D' − D)
    # in one go, and nothing to copy on the way back
    wide_q = torch.cat([q, more_q.expand(B, H, T, width - D)], -1)
    wide_k = torch.cat([k, more_k.expand(B, G, K, width - D)], -1)
    return wide_q, wide_k


def widened(v: Tensor, width: int) -> Tensor:
    """v (…, D) with zeros up to `width`: the fused operations want one head size for q, k and v."""
    zeros = v.new_zeros(1).expand(*v.shape[:-1], width - v.shape[-1])
    return torch.cat([v, zeros], -1)


def _split(numbers: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """`numbers` as high + low, both in `dtype`."""
    exact = numbers.to(torch.float64)
    high = exact.to(dtype)
    return high, (exact - high).to(dtype)
