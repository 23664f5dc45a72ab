"""The gate: head outputs multiplied by a factor before W_O. 0 switches a head off, 1 leaves it alone.

Zeroing a head this way equals zeroing its columns of W_O; a test holds it, bit for bit, on every family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

# layer, its statistics of this very forward pass ((B, H) each) → factors (H,) or (B, H), or None: leave it alone
Gate = Callable[[int, Mapping[str, Tensor]], Tensor | None]


def static(factors: Tensor) -> Gate:
    """The same factors for every input: (L, H). A layer of ones is not touched at all."""
    busy = [not bool((row == 1).all()) for row in factors]

    def gate(layer: int, _statistics: Mapping[str, Tensor]) -> Tensor | None:
        return factors[layer] if busy[layer] else None

    return gate


def without(heads: list[tuple[int, int]] | tuple[tuple[int, int], ...], layers: int, per_layer: int) -> Gate:
    """A gate that switches off the given (layer, head) pairs of a model with that many layers and heads."""
    factors = torch.ones(layers, per_layer)
    for layer, head in heads:
        factors[layer, head] = 0.0
    return static(factors)


def alone(off: list[tuple[int, int]], per_layer: int) -> Gate:
    """A gate that switches off the one (layer, head) that `off` holds when a pass runs; none while it is empty."""

    def gate(layer: int, _statistics: Mapping[str, Tensor]) -> Tensor | None:
        if not off or off[0][0] != layer:
            return None
        factors = torch.ones(per_layer)
        factors[off[0][1]] = 0.0
        return factors

    return gate


def apply(
    output: Tensor, factors: Tensor, means: Tensor | None = None, first: Tensor | None = None
) -> Tensor:
    """output (B, H, T, D) times factors (H,) or (B, H); what a factor takes away is filled up from `means`.

    means (H, 2, D): a head's mean output at the first position, and at all others; None leaves zeros.
    first (T,) bool: which tokens are at the first position of their input.
    """
    factors = factors.to(output)[..., None, None]  # (…, H, 1, 1)
    kept = output * factors
    if means is None:
        return kept
    means = means.to(output)
    fill = torch.where(first[:, None], means[:, :1], means[:, 1:])  # (H, T, D)
    return kept + (1 - factors) * fill
