"""The control group of a repair: healthy heads, of the same slopes as the treated ones where there are such. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from headviz.errors import BadInput
from headviz.surgery.rules import Measured
from headviz.types.repairs import Heads


def matched_healthy(heads: Heads, measured: Measured) -> Heads:
    """As many healthy heads as `heads`, one for one, of the same slopes where there are such (`without_match` counts the others).

    With ALiBi: the same index, and so the same slope, in the nearest layer where that head is healthy; where none is left,
    the nearest slope (by its logarithm), then the nearest layer. Without slopes: the nearest layer, the same one first.
    Never one of `heads`, nor one that is collapsed or of low entropy. Raises BadInput where there are too few.
    """
    slopes = measured.geometry.slopes
    free = {tuple(at) for at in np.argwhere(measured.classes() == "healthy").tolist()} - set(heads)
    if len(free) < len(heads):
        raise BadInput(
            f"The model has {len(free)} healthy heads that are not treated, and {len(heads)} are treated: an arm of as many "
            "healthy heads cannot be. Leave that arm out, or treat fewer heads."
        )
    chosen: dict[tuple[int, int], tuple[int, int]] = {}
    # all exact matches before any near one, or a near one could take another's exact one
    if slopes is not None:
        for at in sorted(heads):
            same = [one for one in free if slopes[one[1]] == slopes[at[1]]]
            if same:
                chosen[at] = min(same, key=lambda one: (abs(one[0] - at[0]), one))
                free.remove(chosen[at])

    def far(one: tuple[int, int], at: tuple[int, int]) -> tuple:
        apart = 0.0 if slopes is None else abs(np.log2(slopes[one[1]]) - np.log2(slopes[at[1]]))
        return (apart, abs(one[0] - at[0]), one)

    for at in sorted(set(heads) - set(chosen)):
        chosen[at] = min(free, key=lambda one: far(one, at))
        free.remove(chosen[at])
    return tuple(sorted(chosen.values()))


def without_match(heads: Heads, healthy: Heads, slopes: Sequence[float] | None) -> int:
    """How many of the healthy heads stand beside a treated head of another slope; 0 without slopes."""
    if slopes is None:
        return 0
    treated, control = (Counter(slopes[head] for _, head in group) for group in (heads, healthy))
    return (control - treated).total()
