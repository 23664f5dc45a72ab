"""Attention by blocks of queries: exact in float32, for whatever the fused operations do not cover.

Soft-capped logits, a sliding window shorter than the text, fewer queries than keys: all go through here. Memory is
O(block · T), never O(T²). It is also what the fused path is checked against (`selfcheck.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

_BLOCK_ELEMENTS = 1 << 23  # logits held at once: 32 MB in float32


@dataclass(frozen=True)
class Attention:
    """What one layer asks for, beside queries, keys and values.

    scale:   factor on q·k before the softmax
    window:  how many keys a query sees at most, itself included; None for all
    softcap: logits s become softcap·tanh(s / softcap); None for none
    slopes:  (H,) ALiBi slopes: slope · key position is added to the logits; None for none
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    slopes: Tensor | None = None


@dataclass(frozen=True)
class Attended:
    """The answer, token by token. `sink` and `entropy` are None where they were not asked for.

    output:  (B, H, T, D) head outputs before W_O, in float32 or float64, or as the fused operation gave them
    sink:    (B, H, T) weight on the first token, 0..1
    entropy: (B, H, T) nats
    normaliser: (B, H, T) log-sum-exp of each row's logits, as the fused operation gave it; None from blocks
    """

    output: Tensor
    sink: Tensor | None
    entropy: Tensor | None
    normaliser: Tensor | None = None


def exact(tensor: Tensor) -> Tensor:
    """`tensor` in float32, or as it is when it is float64."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def attend(q: Tensor, k: Tensor, v: Tensor, ask: Attention, want: frozenset[str]) -> Attended:
    """Causal attention of q (B, H, T, D) over k, v (B, G, K, D), K ≥ T; query i sits at position K − T + i."""
    B, H, T, _ = q.shape
    G, D = v.shape[1], v.shape[-1]
    wide = exact(v)  # (B, G, K, D)
    output = wide.new_empty(B, H, T, D)
    sink = wide.new_zeros(B, H, T) if "sink" in want else None
    entropy = wide.new_empty(B, H, T) if "entropy" in want else None
    for rows, keys, weights in weight_blocks(q, k, ask):
        grouped = weights.view(
            B, G, -1, weights.shape[-1]
        )  # (B, G, H/G·rows, keys): heads of a group share values
        output[:, :, rows] = (grouped @ wide[:, :, keys]).view(B, H, -1, D)
        if sink is not None and keys.start == 0:
            sink[:, :, rows] = weights[..., 0]
        if entropy is not None:
            entropy[:, :, rows] = torch.special.entr(weights).sum(-1)
    return Attended(output, sink, entropy)


def weight_blocks(q: Tensor, k: Tensor, ask: Attention) -> Iterator[tuple[slice, slice, Tensor]]:
    """Softmax weights, a block of queries at a time: (query rows, key columns, (B, H, rows, columns))."""
    B, H, T, D = q.shape
    G, K = k.shape[1], k.shape[2]
    q, k = exact(q), exact(k)
    block = max(1, min(T, _BLOCK_ELEMENTS // (B * H * K)))
    for start in range(0, T, block):
        stop = min(start + block, T)
        last = K - T + stop  # one past the last key that this block may see
        first = 0 if ask.window is None else max(0, K - T + start - ask.window + 1)
        grouped = q[:, :, start:stop].reshape(B, G, -1, D)  # (B, G, H/G·rows, D)
        logits = (grouped @ k[:, :, first:last].transpose(-1, -2)).view(B, H, stop - start, last - first)
        logits = logits * ask.scale
        if ask.softcap is not None:
            logits = torch.tanh(logits / ask.softcap) * ask.softcap
        key = torch.arange(first, last, device=q.device)  # (columns,)
        query = torch.arange(K - T + start, K - T + stop, device=q.device)[:, None]  # (rows, 1)
        if ask.slopes is not None:
            # minus the distance: the same softmax as slope · key, and small numbers near the diagonal
            logits = logits + ask.slopes.to(logits)[:, None, None] * (key - query)
        hidden = key > query
        if ask.window is not None:
            hidden = hidden | (key <= query - ask.window)
        yield slice(start, stop), slice(first, last), logits.masked_fill(hidden, -torch.inf).softmax(-1)


def weights_of(q: Tensor, k: Tensor, ask: Attention) -> Tensor:
    """(B, H, T, K) the whole attention matrix, for one head on one text: T² numbers a head."""
    B, H, T, _ = q.shape
    whole = exact(q).new_zeros(B, H, T, k.shape[2])
    for rows, keys, weights in weight_blocks(q, k, ask):
        whole[:, :, rows, keys] = weights
    return whole
