"""What surgery made of each treated head: its class and its numbers before and after. numpy only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from headviz.analysis.bands import classify
from headviz.surgery.outcomes import Found, Point, finished, index, thresholds, treated
from headviz.types import RepairRequest, RepairStock


@dataclass(frozen=True, kw_only=True)
class HeadChange:
    """One treated head before surgery and after, mean over the seeds of an arm. before, after: name → number.

    Names: `mass` (0..1), `entropy` (nats), `output_norm` (AHON), `full_norm` (after W_O).
    """

    layer: int
    head: int
    was: str
    now: str
    before: dict[str, float]
    after: dict[str, float]
    null_mass: float


MEASURED = ("mass", "entropy", "output_norm", "full_norm")


def head_changes(
    found: Found, request: RepairRequest, arm: str = "repair", point: Point = "best"
) -> tuple[HeadChange, ...]:
    """Every head that the arm treated with any seed, by layer and head. Empty before the arm has ended with some seed."""
    runs, stock = finished(found.runs, arm), found.stock
    if stock is None or not runs:
        return ()
    after = {
        name: np.mean([getattr(run, name)[index(run, point)] for run in runs.values()], axis=0)
        for name in MEASURED
    }
    was = classify(stock.mass, stock.entropy, thresholds(request))
    now = classify(after["mass"], after["entropy"], thresholds(request))
    heads = sorted({head for seed in runs for head in treated(found.runs, arm, seed)})
    return changes_between(stock, after, was, now, heads)


def changes_between(
    stock: RepairStock,
    after: dict[str, np.ndarray],
    was: np.ndarray,
    now: np.ndarray,
    heads: Iterable[tuple[int, int]],
) -> tuple[HeadChange, ...]:
    """A row a head of `heads`. after: a name of MEASURED → (L, H); was, now: (L, H) classes."""
    return tuple(
        HeadChange(
            layer=layer,
            head=head,
            was=str(was[layer, head]),
            now=str(now[layer, head]),
            before={name: float(getattr(stock, name)[layer, head]) for name in MEASURED},
            after={name: float(after[name][layer, head]) for name in MEASURED},
            null_mass=float(stock.null_mass[head]),
        )
        for layer, head in heads
    )
