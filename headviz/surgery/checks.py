"""What cannot be in a plan of surgery, as sentences: what `refusals` refuses, and what is seen only beside the texts. No torch."""

from __future__ import annotations

from headviz import machine
from headviz.data import corpora
from headviz.errors import BadInput
from headviz.settings import Settings
from headviz.surgery.refusals import refuse
from headviz.surgery.windows import check_windows
from headviz.types import DataRef, Geometry, RepairRequest


def check(
    request: RepairRequest, geometry: Geometry, longest: int | None = None, settings: Settings | None = None
) -> None:
    """Raises BadInput, UnknownName, one sentence, for the first thing in the plan that cannot be.

    longest: the model's context in tokens, None for no end; settings: where texts are looked for, which tell whether there are
    enough windows; without, they are not looked for
    """
    refuse(request, geometry)
    if "healthy" in request.arms and len(request.healthy) != len(request.heads):
        raise BadInput(
            f"The arm of healthy heads treats {len(request.healthy)} heads where {len(request.heads)} are repaired: it must be "
            "as many. Choose them, or leave the arm out."
        )
    if request.threads > machine.cores():
        raise BadInput(
            f"The plan computes with {request.threads} threads, and this machine has {machine.cores()} cores. Ask for fewer."
        )
    for ref in (request.train, request.held_out, request.other, request.diagnose):
        if ref is not None:
            corpora.check_length(ref, longest)
    _check_texts(request)
    check_windows(request, settings)


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
    if request.held_out.inputs < 2:
        raise BadInput("The held-out text is parted in two, and one input was asked for. Ask for more.")
