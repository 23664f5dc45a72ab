"""What the pictures of a repair are drawn from: rows of the figure remove / leave / repair, and a run's film. No figure here."""

from __future__ import annotations

from typing import Any

import numpy as np

from headviz.charts.forest import Row
from headviz.surgery import outcomes
from headviz.surgery.arms import ARMS
from headviz.surgery.outcomes import ArmLoss, Found
from headviz.types import RepairRequest, RepairRun

# The order in which a person asks: take them out, leave them, repair them; then what tells why.
ORDER = ("removed", "stock", "repair", "no-reinit", "untrained", "healthy")
NAMES = {"removed": "Remove", "stock": "Leave", "repair": "Repair"}


def name_of(arm: str) -> str:
    return NAMES.get(arm) or ARMS[arm].title


def run_name(run: RepairRun) -> str:
    return f"arm {run.arm}, seed {run.seed}" + (f", pass {run.number}" if run.number > 1 else "")


def forest_rows(found: tuple[ArmLoss, ...]) -> tuple[list[Row], list[str]]:
    """Rows and titles of panels of the figure remove / leave / repair."""
    other = any(one.other is not None for one in found)
    titles = ["Held-out text, report part", *(["Another domain"] if other else [])]
    return [_row(one, other) for one in sorted(found, key=lambda one: ORDER.index(one.arm))], titles


def _row(one: ArmLoss, other: bool) -> Row:
    if one.arm == "stock":
        return Row(
            name="Leave",
            arm="",
            values=((0.0, 0.0, 0.0),) * (2 if other else 1),
            note="the model before surgery",
        )
    changes = (one.against_stock, *([one.other_against_stock] if other else []))
    return Row(
        name=name_of(one.arm),
        arm=one.arm,
        values=tuple(None if c is None else (c.change, c.low, c.high) for c in changes),
        note=f"seeds {', '.join(map(str, one.seeds))}",
        dots=(tuple(each.change for each in one.each_against_stock), *([()] if other else [])),
    )


def film_of(request: RepairRequest, found: Found, run: RepairRun) -> dict[str, Any]:
    """Arguments of `film.film` and of `film_gif.film_gif` for one run, which has an evaluated step.

    Steps are on the axis of all passes; outlined are the heads of this pass and of those before it; the words say how many of
    the pass's heads are on the first token still.
    """
    total = len(run.heads)

    def words(of: Any) -> list[str]:
        off = outcomes.off_first_token(of, request, run.heads)
        return [f"{total - int(count):,} of {total:,} treated heads on the first token" for count in off]

    return {
        "step": np.asarray(run.step, int) + (run.number - 1) * request.steps,
        "mass": run.mass,
        "stock": found.stock.mass,
        "treated": outcomes.treated(found.runs, run.arm, run.seed, run.number),
        "told": words(run),
        "before": words(found.stock)[0],
    }
