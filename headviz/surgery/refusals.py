"""Plans that cannot be carried out, each with a sentence. No torch here: pages and the command line ask too."""

from __future__ import annotations

import math

from headviz.analysis.bands import Thresholds
from headviz.errors import BadInput
from headviz.surgery.arms import arm, heads_of
from headviz.surgery.layouts import check_heads
from headviz.types import Geometry, RepairRequest, head_name

_FASTEST = 10  # AdamW moves every weight by about the rate: no weight of a model is so large


def refuse(request: RepairRequest, geometry: Geometry) -> None:
    """Raises BadInput, UnknownName with the first thing that is wrong with a plan for a model of this shape."""
    _arms(request)
    check_heads(request.heads, geometry)
    if request.healthy:
        check_heads(request.healthy, geometry)
        if both := sorted(set(request.heads) & set(request.healthy)):
            raise BadInput(
                f"{head_name(*both[0])} is among the heads to treat and among the healthy ones of the control. Take it "
                "out of one of them."
            )
    _counts(request)
    _recipe(request)
    Thresholds(dead=request.dead, sink=request.sink, low_entropy=request.low_entropy)


def _arms(request: RepairRequest) -> None:
    if not request.arms:
        raise BadInput("The plan has no arm. Choose at least one: repair.")
    for name in request.arms:
        if not heads_of(request, name) and arm(name).healthy:
            raise BadInput(
                "The arm of healthy heads has no heads. Let them be matched, name some, or leave the arm out."
            )
    if len(set(request.arms)) != len(request.arms):
        raise BadInput("An arm stands twice in the plan. Name every arm once.")
    if not request.seeds:
        raise BadInput("The plan has no seed. Give at least one, such as 0; three or more for a verdict.")
    if len(set(request.seeds)) != len(request.seeds) or min(request.seeds) < 0:
        raise BadInput(
            f"Seeds are different whole numbers from 0 on, not {', '.join(map(str, request.seeds))}."
        )


def _counts(request: RepairRequest) -> None:
    recipe = request.recipe
    for what, value, least in (
        ("steps", request.steps, 1),
        ("steps between two evaluations", request.every, 1),
        ("passes", request.passes, 1),
        ("threads", request.threads, 1),
        ("windows of a forward pass (batch)", recipe.batch, 1),
        ("forward passes of a step (accumulate)", recipe.accumulate, 1),
        ("warm-up steps", recipe.warmup, 0),
        ("evaluations to be patient for", request.patience, 0),
    ):
        if value < least:
            raise BadInput(f"The number of {what} is {value}; it must be {least} or more.")
    if request.train.tokens < 2:
        raise BadInput(
            f"Training windows of {request.train.tokens} token have nothing to predict. Take 2 or more."
        )


def _recipe(request: RepairRequest) -> None:
    recipe = request.recipe
    if not 0 < recipe.rate <= _FASTEST:
        raise BadInput(
            f"The learning rate is {recipe.rate:g}; it must be above 0 and at most {_FASTEST}, such as 5e-5."
        )
    for what, value in (
        ("The weight decay", recipe.weight_decay),
        ("The largest gradient norm", recipe.clip),
    ):
        if not (math.isfinite(value) and value >= 0):
            raise BadInput(f"{what} is {value:g}; it must be 0 or more.")
