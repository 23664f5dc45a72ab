"""The arms of a repair: what is done to the heads, and what it is compared with. The order of the table is the order everywhere.

No torch here: menus, help and docs read these rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headviz.errors import lookup
from headviz.types import Arm, RepairRequest
from headviz.types.repairs import Heads


@dataclass(frozen=True, kw_only=True)
class ArmRow:
    """One arm.

    short:        a word or two for a column or a legend
    trains:       slices are trained for the plan's steps; else the arm is measured once, at step 0
    reinitialises: Q/K/V of the heads are drawn anew; else they begin as the model has them
    silences:     output columns begin at zero, so that the head adds nothing at first
    healthy:      the arm treats the plan's `healthy` heads, not its `heads`
    again:        with more than one pass, heads that are collapsed after a pass are treated in another
    """

    id: Arm
    title: str
    short: str
    help: str
    trains: bool
    reinitialises: bool
    silences: bool = True
    healthy: bool = False
    again: bool = False


ARMS: dict[str, ArmRow] = {
    row.id: row
    for row in (
        ArmRow(
            id="repair",
            title="Repair",
            short="repaired",
            help="The heads get new random queries, keys and values, their output is set to zero, and then they are "
            "trained while the rest of the model stays as it is. This is the operation itself.",
            trains=True,
            reinitialises=True,
            again=True,
        ),
        ArmRow(
            id="untrained",
            title="New weights, no training",
            short="untrained",
            help="The same new random heads, not trained at all. A random head already looks at many tokens, so this arm "
            "shows how much of “awake” is only that the old weights are gone.",
            trains=False,
            reinitialises=True,
            again=True,
        ),
        ArmRow(
            id="no-reinit",
            title="Training, old weights",
            short="not reinitialised",
            help="The same heads are trained in the same way from the weights they have. A gain that this arm shows too "
            "comes from the training text, not from new weights.",
            trains=True,
            reinitialises=False,
            silences=False,
            again=True,
        ),
        ArmRow(
            id="healthy",
            title="Healthy heads treated the same way",
            short="healthy heads",
            help="As many heads that were not collapsed, of the same slopes where there are such, get new weights and training, "
            "in one pass. If they gain as much, being collapsed was not the point.",
            trains=True,
            reinitialises=True,
            healthy=True,
        ),
        ArmRow(
            id="removed",
            title="Heads removed",
            short="removed",
            help="The heads are switched off and nothing is trained. If the loss stays the same, the heads did nothing to "
            "begin with.",
            trains=False,
            reinitialises=False,
        ),
    )
}

DEFAULT_ARMS = RepairRequest.arms  # of a plan in which nobody chose


def arm(name: str) -> ArmRow:
    """Raises UnknownName."""
    return lookup(ARMS, name, "arm")


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The given arms, each once, in the order of the table. Raises UnknownName."""
    wanted = {arm(name).id for name in names}
    return tuple(name for name in ARMS if name in wanted)


def heads_of(request: RepairRequest, name: str) -> Heads:
    """The heads that an arm of this plan treats in its first pass."""
    return request.healthy if arm(name).healthy else request.heads
