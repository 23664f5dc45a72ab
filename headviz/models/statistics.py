"""From per-token statistics of a layer to one number a head and input. Padded queries never count."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headviz.models.blocks import Attended, exact

STATISTICS: dict[str, str] = {
    "sink": "mean attention weight on the first token, 0..1",
    "entropy": "mean entropy of the attention rows, nats",
    "value_first": "norm of the first token's value vector",
    "value_mean": "mean norm of the value vectors",
    "output_last": "norm of the last real token's head output, before W_O",
    "output_mean": "mean norm of the head outputs, before W_O",
    "full_mean": "mean norm of the head outputs after the head's slice of W_O",
}


class Rows:
    """Which tokens of a batch are real: the first `lengths[b]` of input b. None: all of them."""

    def __init__(self, lengths: Tensor | None, B: int, T: int, device: torch.device) -> None:
        counts = torch.full((B,), T) if lengths is None else lengths.cpu()
        self.padded = bool((counts < T).any())
        self.last = (counts - 1).to(device)  # (B,)
        self.count = counts.to(device)[:, None]  # (B, 1)
        self.real = torch.arange(T, device=device) < self.count  # (B, T)

    def mean(self, tokens: Tensor) -> Tensor:
        """(B, H, T) → (B, H) mean over the real tokens."""
        if not self.padded:
            return tokens.mean(-1)
        return torch.where(self.real[:, None], tokens, 0).sum(-1) / self.count

    def at_last(self, tokens: Tensor) -> Tensor:
        """(B, H, T) → (B, H) at the last real token."""
        return tokens.gather(-1, self.last[:, None, None].expand(-1, tokens.shape[1], 1)).squeeze(-1)


def norm(vectors: Tensor) -> Tensor:
    """L2 norm over the last dimension, in float32 (float64 for float64), whatever the precision of `vectors`."""
    return torch.linalg.vector_norm(exact(vectors), dim=-1)


def reduce(
    attended: Attended, v: Tensor, rows: Rows, want: frozenset[str], root: Tensor | None
) -> dict[str, Tensor]:
    """The statistics of `want`, (B, H) each. v (B, G, T, D); `root` (H, D, D) of `roots`, for full_mean."""
    heads = attended.output.shape[1] // v.shape[1]  # query heads of a group share its value vectors
    found: dict[str, Tensor] = {}
    if "sink" in want:
        found["sink"] = rows.mean(attended.sink)
    if "entropy" in want:
        found["entropy"] = rows.mean(attended.entropy)
    if "value_first" in want:
        found["value_first"] = norm(v[:, :, 0]).repeat_interleave(heads, 1)
    if "value_mean" in want:
        found["value_mean"] = rows.mean(norm(v)).repeat_interleave(heads, 1)
    if {"output_last", "output_mean"} & want:
        size = norm(attended.output)  # (B, H, T)
        found["output_last"], found["output_mean"] = rows.at_last(size), rows.mean(size)
    if "full_mean" in want:
        found["full_mean"] = rows.mean(norm(exact(attended.output) @ root.transpose(-1, -2)))
    return {name: number for name, number in found.items() if name in want}


def roots(projection: nn.Module, H: int, D: int) -> Tensor:
    """(H, D, D) R_h with ‖R_h·o‖ = ‖W_h·o‖ for W_h (M, D), the head's columns of W_O.

    R_h is the triangular factor of W_h (a root of the D×D Gram matrix W_hᵀW_h), so a norm in M dimensions costs D of
    them, and nothing is squared that would have to cancel.
    """
    weight = exact(output_weight(projection, H * D))  # (M, H·D)
    slices = weight.view(-1, H, D).transpose(0, 1)  # (H, M, D)
    if slices.shape[1] < D:  # never in practice: a head wider than the model
        return torch.nn.functional.pad(slices, (0, 0, 0, D - slices.shape[1]))
    return torch.linalg.qr(slices, mode="r").R


@torch.no_grad()
def output_weight(projection: nn.Module, width: int) -> Tensor:
    """(M, H·D) the matrix of an output projection: a Linear, a Conv1D, or a quantised layer of either kind."""
    weight = getattr(projection, "weight", None)
    if isinstance(projection, nn.Linear) and weight.is_floating_point() and not weight.is_meta:
        return weight
    # what the layer does to unit vectors is its matrix, however it is stored
    device = weight.device if weight is not None and not weight.is_meta else None
    dtype = weight.dtype if weight is not None and weight.is_floating_point() else torch.float32
    units = torch.eye(width, device=device, dtype=dtype)  # (H·D, H·D)
    return (projection(units) - projection(torch.zeros_like(units[:1]))).transpose(0, 1)
