"""ALiBi slopes of each family, as its code has them: by how many nats a head's key loses per token of distance.

Press et al. 2022, "Train Short, Test Long" (arXiv 2108.12409). For a power of two all families agree: head h of n has
2^(−8(h+1)/n), so that the first heads are the steepest. For other head counts they differ, and index order is not slope
order. No torch here.
"""

from __future__ import annotations

import math


def alibi_slopes(heads: int) -> tuple[float, ...]:
    """(H,) slopes as in BLOOM's code, and in Falcon's.

    Where the head count is no power of two, the slopes of the next smaller power of two come first, then every other
    slope of twice that power.
    """
    power = 2 ** math.floor(math.log2(heads))
    first = [2.0 ** (-8 * (head + 1) / power) for head in range(power)]
    extra = [2.0 ** (-8 * (2 * rest + 1) / (2 * power)) for rest in range(heads - power)]
    return tuple(first + extra)


def mpt_slopes(heads: int, largest: float = 8) -> tuple[float, ...]:
    """(H,) slopes as in MPT's code; `largest` is the config's alibi_bias_max, the exponent of the shallowest head.

    Where the head count is no power of two, every other slope of the next larger power of two comes first, then those
    in between, as far as there are heads.
    """
    power = 2 ** math.ceil(math.log2(heads))
    ladder = [2.0 ** (-largest * (step + 1) / power) for step in range(power)]
    return tuple(ladder if power == heads else (ladder[1::2] + ladder[::2])[:heads])


def falcon_slopes(heads: int, head_dim: int) -> tuple[float, ...]:
    """(H,) slopes in the logits: Falcon adds BLOOM's bias before it divides by √D."""
    return tuple(slope / math.sqrt(head_dim) for slope in alibi_slopes(heads))
