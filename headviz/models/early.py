"""Attention that each of the first keys receives, without the T×T matrix.

With a row's log-sum-exp ℓ_i known from the fused operation, the weight on key j is exp(s_ij − ℓ_i): for the first P keys
that is one T×P product. Where attention was computed in blocks of queries, the blocks are gone through once more.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headviz.models.alibi import with_coordinates
from headviz.models.blocks import Attended, Attention, exact, weight_blocks
from headviz.models.fused import quick

_ELEMENTS = 1 << 23  # weights held at once: 32 MB in float32


def early_means(
    q: Tensor, k: Tensor, ask: Attention, attended: Attended, lengths: Tensor, positions: int
) -> Tensor:
    """(B, H, P) mean weight on key j over the real queries i ≥ j; NaN for a key that the input does not have.

    q (B, H, T, D), k (B, G, T, D), and what came out of them; lengths (B,) real tokens; P = min(positions, T). Column 0 is
    AWFT. In float32, or float64 for float64.
    """
    T = q.shape[2]
    P = min(positions, T)
    lengths = lengths.to(q.device)
    real = torch.arange(T, device=q.device) < lengths[:, None]  # (B, T)
    if attended.normaliser is None:
        total = _from_blocks(q, k, ask, real, P)
    else:
        total = _from_normaliser(q, k, ask, attended.normaliser, real, P)
    seen = lengths[:, None] - torch.arange(P, device=q.device)  # (B, P) queries that can look there
    return torch.where(seen > 0, total.transpose(0, 1) / seen, torch.nan).transpose(
        0, 1
    )  # (H, B, P) meanwhile


def _from_normaliser(
    q: Tensor, k: Tensor, ask: Attention, normaliser: Tensor, real: Tensor, P: int
) -> Tensor:
    """(B, H, P) summed weights, a stretch of queries at a time."""
    q, k = quick(q), quick(k)
    if ask.slopes is not None:
        q, k = with_coordinates(q, k, ask.slopes, ask.scale)
    B, H, T, _ = q.shape
    G = k.shape[1]
    keys = exact(k[:, :, :P]).transpose(-1, -2)  # (B, G, D, P)
    total = exact(q).new_zeros(B, H, P)
    column = torch.arange(P, device=q.device)
    step = max(1, _ELEMENTS // (B * H * P))
    for start in range(0, T, step):
        rows = slice(start, min(start + step, T))
        grouped = exact(q[:, :, rows]).reshape(B, G, -1, q.shape[-1])  # (B, G, H/G·rows, D)
        logits = ask.scale * (grouped @ keys).view(B, H, -1, P)
        weights = torch.exp(logits - normaliser[:, :, rows, None]).clamp(max=1.0)
        row = torch.arange(rows.start, rows.stop, device=q.device)
        if start == 0:
            weights[:, :, 0, 0] = 1.0  # the first query has no other key
        hidden = (column > row[:, None]) | ~real[:, None, rows, None]  # (B, 1, rows, P)
        total += weights.masked_fill(hidden, 0).sum(2)
    return total


def _from_blocks(q: Tensor, k: Tensor, ask: Attention, real: Tensor, P: int) -> Tensor:
    """(B, H, P) summed weights, where the logits are soft-capped, or a window hides early keys."""
    total = exact(q).new_zeros(q.shape[0], q.shape[1], P)
    for rows, keys, weights in weight_blocks(q, k, ask):
        if keys.start < P:
            stop = min(P, keys.stop)
            mine = weights[..., : stop - keys.start] * real[:, None, rows, None]
            total[..., keys.start : stop] += mine.sum(2)
    return total
