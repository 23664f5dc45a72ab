"""What cannot be in a plan of surgery, as sentences. No torch."""

from __future__ import annotations

import math

from headviz import machine
from headviz.analysis.bands import Thresholds
from headviz.data import corpora
from headviz.errors import BadInput
from headviz.surgery.arms import ARMS, arm, in_order
from headviz.surgery.layouts import check_heads
from headviz.types import DataRef, Geometry, RepairRequest, head_name


def check(request: RepairRequest, geometry: Geometry, longest: int | None = None) -> None:
    """Raises BadInput, one sentence, for the first thing in the plan that cannot be. longest: the model's context, if any."""
    check_heads(request.heads, geometry)
    if not request.arms:
        raise BadInput("The plan has no arm. Choose at least the repair itself.")
    for name in request.arms:
        arm(name)
    if tuple(request.arms) != in_order(request.arms):
        raise BadInput(
            f"The arms are {', '.join(request.arms)}; name each once, in the order {', '.join(ARMS)}."
        )
    _check_healthy(request, geometry)
    _check_numbers(request)
    Thresholds(dead=request.dead, sink=request.sink, low_entropy=request.low_entropy)
    for ref in (request.train, request.held_out, request.other, request.diagnose):
        if ref is not None:
            corpora.check_length(ref, longest)
    _check_texts(request)


def _check_healthy(request: RepairRequest, geometry: Geometry) -> None:
    if "healthy" not in request.arms:
        return
    if len(request.healthy) != len(request.heads):
        raise BadInput(
            f"The arm of healthy heads treats {len(request.healthy)} heads where {len(request.heads)} are repaired: it must be "
            "as many. Choose them, or leave the arm out."
        )
    check_heads(request.healthy, geometry)
    if both := sorted(set(request.healthy) & set(request.heads)):
        raise BadInput(
            f"{head_name(*both[0])} is among the treated heads and among the healthy ones. Choose another."
        )


def _check_numbers(request: RepairRequest) -> None:
    recipe = request.recipe
    least = {
        "steps": (request.steps, 1), "every": (request.every, 1), "passes": (request.passes, 1),
        "patience": (request.patience, 0), "threads": (request.threads, 1), "batch": (recipe.batch, 1),
        "accumulate": (recipe.accumulate, 1), "warmup": (recipe.warmup, 0), "weight decay": (recipe.weight_decay, 0),
        "clip": (recipe.clip, 0),
    }  # fmt: skip
    for name, (value, at_least) in least.items():
        if not (math.isfinite(value) and value >= at_least):
            raise BadInput(f"{name} is {value:g}; it must be {at_least} or more.")
    if not (math.isfinite(recipe.rate) and recipe.rate > 0):
        raise BadInput(f"The learning rate is {recipe.rate:g}; it must be above 0.")
    if request.every > request.steps:
        raise BadInput(
            f"Evaluations are {request.every} steps apart, and a pass has {request.steps}. Evaluate more often, or train longer."
        )
    if request.threads > machine.cores():
        raise BadInput(
            f"The plan computes with {request.threads} threads, and this machine has {machine.cores()} cores. Ask for fewer."
        )
    if not request.seeds or len(set(request.seeds)) != len(request.seeds) or min(request.seeds) < 0:
        raise BadInput(
            f"Seeds are different whole numbers from 0 on, at least one; these are {list(request.seeds)}."
        )


def _check_texts(request: RepairRequest) -> None:
    """What can be seen of overlap before the texts are read; the repair itself compares documents."""

    def same(one: DataRef, two: DataRef) -> bool:
        fields = ("corpus", "revision", "dataset", "config", "split", "column")
        if any(getattr(one, name) != getattr(two, name) for name in fields):
            return False
        return one.part == two.part or "all" in (one.part, two.part)

    for name, ref in (("held-out text", request.held_out), ("text of another domain", request.other)):
        if ref is not None and ref.corpus != "own" and same(request.train, ref):
            raise BadInput(
                f"Training text and {name} are the same: {corpora.describe(request.train)}. Take another part or another corpus "
                "for one of them."
            )
    for name, ref in (("training", request.train), ("held-out", request.held_out)):
        if ref.tokens < 2:
            raise BadInput(
                f"Windows of the {name} text have {ref.tokens} token; at least 2 are needed to predict one."
            )
    if request.held_out.inputs < 2:
        raise BadInput("The held-out text is parted in two, and one input was asked for. Ask for more.")
