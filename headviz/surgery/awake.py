"""How many of the treated heads look away from the first token, in every arm that says something of it. numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.surgery import outcomes
from headviz.surgery.outcomes import Found, Point
from headviz.types import RepairRequest

AWAKE = 0.5  # of the treated heads, at least so many off the first token


@dataclass(frozen=True, kw_only=True)
class Awake:
    """Treated heads off the first token: attention on it at most the plan's `sink`. Counts are means over seeds.

    treated: how many heads are treated; before: in the stock model; after: in the repair arm; untrained: in the arm with new
             weights and no training, None without it; plain: in the arm of training without new weights, None without it
    mass_before, mass_after: mean BOS mass of the treated heads
    """

    treated: int
    before: float
    after: float
    untrained: float | None
    plain: float | None
    mass_before: float
    mass_after: float

    @property
    def awake(self) -> bool:
        """Whether at least half of the treated heads are off the first token."""
        return self.treated > 0 and self.after >= AWAKE * self.treated


def awake_of(request: RepairRequest, found: Found, point: Point) -> Awake | None:
    """None before the repair arm has ended with some seed."""
    runs = outcomes.finished(found.runs, "repair")
    if found.stock is None or not runs:
        return None

    def off(arm: str) -> float | None:
        ended = outcomes.finished(found.runs, arm)
        counts = [
            outcomes.off_first_token(run, request, request.heads)[outcomes.index(run, point)]
            for run in ended.values()
        ]
        return float(np.mean(counts)) if counts else None

    layers, heads = [list(part) for part in zip(*request.heads)]
    after = np.mean([run.mass[outcomes.index(run, point)][layers, heads] for run in runs.values()])
    return Awake(
        treated=len(request.heads),
        before=float(outcomes.off_first_token(found.stock, request, request.heads)[0]),
        after=off("repair"),
        untrained=off("untrained"),
        plain=off("no-reinit"),
        mass_before=float(found.stock.mass[layers, heads].mean()),
        mass_after=float(after),
    )
