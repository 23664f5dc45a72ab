"""What a repair takes in memory and on disk, known before it begins. No torch here."""

from __future__ import annotations

from headviz import machine
from headviz.settings import Settings
from headviz.surgery.arms import arm, heads_of
from headviz.surgery.layouts import Treatment, trained_numbers, treat
from headviz.types import Geometry, RepairRequest

_KEPT = (
    32  # float32 vectors of model size that a layer keeps of each token for the way back: 13 to 32, by family
)
_REDONE = 2  # the same with checkpointing
_HEAD = 3 * (1 << 27)  # logits of 128 tokens with a vocabulary of 250,000, and two more of their kind
_MOMENTS = 2  # AdamW's
_PROCESS = 500_000_000  # of a process with torch, a tokenizer and texts, before the model


def item_size(request: RepairRequest) -> int:
    """Bytes of a trained number."""
    return 4 if request.recipe.master == "float32" or request.model.dtype == "float32" else 2


def memory(request: RepairRequest, geometry: Geometry, bias: bool) -> int:
    """Bytes that training takes beside the model: slices, gradients, moments, and what is kept for the way back.

    An estimate that is rather too large, but for attention in blocks (soft-capped logits, a window shorter than the text),
    which also keeps its T×T weights. bias: of `layouts.has_bias`.
    """
    most = 0
    for treatment in _treatments(request, geometry):
        numbers = trained_numbers(treatment, bias) * item_size(request) * (2 + _MOMENTS)
        layers = geometry.layers - treatment.layers[0].layer  # those below the first treated one keep nothing
        tokens = request.recipe.batch * request.train.tokens
        kept = _REDONE * layers + _KEPT if request.recipe.checkpointing else _KEPT * layers
        most = max(
            most, numbers + 4 * max(geometry.hidden, geometry.heads * geometry.head_dim) * kept * tokens
        )
    return most + _HEAD


def disk(request: RepairRequest, geometry: Geometry, bias: bool, at_once: int = 1) -> int:
    """Bytes that the repair's folder takes at its largest: two sets of slices a run, and of each run that goes on at the same
    time one with moments, in the making."""
    total = largest = 0
    for name in _treating(request):
        treatment = treat(heads_of(request, name), geometry)
        size = trained_numbers(treatment, bias) * item_size(request)
        passes = request.passes if arm(name).again else 1
        total += 2 * size * len(request.seeds) * passes
        largest = max(largest, size)
    return total + 2 * (1 + _MOMENTS) * largest * at_once


def at_once(
    request: RepairRequest,
    geometry: Geometry,
    bias: bool,
    model: int,
    settings: Settings,
    chains: int,
    *,
    loaded: bool = True,
) -> int:
    """How many of `chains` (an arm with a seed each) run at the same time on this machine's processor, at least 1.

    As many as there are cores for, each with the plan's threads, or as HEADVIZ_SIDE_BY_SIDE says; and as memory holds, where
    every one but the first brings a process and the model (so many bytes) of its own. loaded: whether the first one's model
    is in memory already, so that what is free does not have to hold it.
    """
    wanted = settings.side_by_side or max(1, machine.cores() // request.threads)
    free = machine.memory()[1] - (0 if loaded else model)
    room = (free - memory(request, geometry, bias)) // _another(request, geometry, bias, model)
    return max(1, min(wanted, chains, 1 + room))


def memory_of(request: RepairRequest, geometry: Geometry, bias: bool, model: int, at_once: int) -> int:
    """Bytes that so many runs at the same time take together, beside the model of the first."""
    others = (at_once - 1) * _another(request, geometry, bias, model)
    return memory(request, geometry, bias) + others


def _another(request: RepairRequest, geometry: Geometry, bias: bool, model: int) -> int:
    """Bytes that a run beside the first takes."""
    return memory(request, geometry, bias) + model + _PROCESS


def _treatments(request: RepairRequest, geometry: Geometry) -> list[Treatment]:
    return [treat(heads_of(request, name), geometry) for name in _treating(request)]


def _treating(request: RepairRequest) -> list[str]:
    """Arms that have heads: a plan in the making may lack its healthy ones."""
    return [name for name in request.arms if heads_of(request, name)]
