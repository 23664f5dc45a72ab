"""A request in one line, for lists of jobs: the page and the command line say the same. No torch, no streamlit."""

from __future__ import annotations

from headviz.data import corpora
from headviz.models import catalog
from headviz.types import (
    Ablation,
    BandsRequest,
    CheckpointRequest,
    DistanceRequest,
    GenerateRequest,
    MapRequest,
    MeasureRequest,
    ModelRef,
    PatternRequest,
    PromptScoreRequest,
    RepairedRequest,
    RepairRequest,
    Request,
    head_name,
)

_PROMPT = 40  # characters of a prompt that are shown
_BEGINNINGS = {
    "data": "first token",
    "two": "first token, BOS twice",
    "other": "first token, another in BOS' place",
}
_NAMED = 2  # heads of a set that are named: enough to tell random sets of one size apart


def describe(request: Request | None) -> str:
    """Model, number format and data; first the head of a pattern, or what is off while measuring.

    None stands for a request that this version cannot read.
    """
    if request is None:
        return "written by another version of headviz"
    if isinstance(request, RepairedRequest):
        return f"repair {request.repair[:12]} · {request.arm}, seed {request.seed}, {request.point} step, as a checkpoint"
    words = [catalog.label(request.model), _number_format(request.model)]
    if isinstance(request, MeasureRequest):
        words.insert(0, _off(request.ablation))
        words.append(corpora.describe(request.questions or request.text))
        return " · ".join(words)
    if isinstance(request, GenerateRequest):
        words.insert(0, _off(request.ablation))
        return " · ".join([*words, _prompt(request.prompt), f"{request.new_tokens} new tokens"])
    if isinstance(request, CheckpointRequest):
        made = "left out of a smaller checkpoint" if request.smaller else "off in a checkpoint"
        words.insert(0, f"{len(request.heads)} heads {made}")
    if isinstance(request, RepairRequest):
        return " · ".join([_repair(request), *words, corpora.describe(request.train)])
    if isinstance(request, BandsRequest):
        words.insert(0, _BEGINNINGS[request.start])
    if isinstance(request, DistanceRequest):
        words.insert(0, f"{head_name(request.layer, request.head)} by distance")
    if isinstance(request, PatternRequest):
        words.insert(0, f"{head_name(request.layer, request.head)} on input {request.input}")
    if isinstance(request, PromptScoreRequest):
        return " · ".join([*words, corpora.describe(request.questions)])
    if isinstance(request, MapRequest):
        words.insert(0, f"each head off alone, {request.replace}")
        return " · ".join([*words, corpora.describe(request.text)])
    return " · ".join([*words, corpora.describe(request.data)])


def _repair(request: RepairRequest) -> str:
    """`28 heads, 300 steps, 3 arms × 3 seeds`."""
    heads, arms, seeds = len(request.heads), len(request.arms), len(request.seeds)
    again = f" × {request.passes} passes" if request.passes > 1 else ""
    return (
        f"{heads} head{'s' * (heads != 1)}, {request.steps:,} steps{again}, {arms} arm{'s' * (arms != 1)} × "
        f"{seeds} seed{'s' * (seeds != 1)}"
    )


def _number_format(model: ModelRef) -> str:
    return model.dtype if model.quantization == "none" else f"{model.dtype}, {model.quantization}"


def _off(off: Ablation) -> str:
    if off.mode == "none":
        return "as it is"
    if off.mode == "per-input":
        end = ", most active" if off.turned else ""
        return f"off per input: {off.metric} beyond {off.threshold:.4g}{end}, {off.replace}"
    if off.mode == "random-per-input":
        return f"off per input: each head with probability {off.rate:.4g}, seed {off.seed}, {off.replace}"
    named = [head_name(layer, head) for layer, head in off.heads[:_NAMED]]
    more = [] if len(off.heads) <= _NAMED else ["…"]
    count = "1 head" if len(off.heads) == 1 else f"{len(off.heads)} heads"
    which = f" ({', '.join(named + more)})" if named else ""
    return f"{count} off{which}, {off.replace}"


def _prompt(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line if len(line) <= _PROMPT else line[:_PROMPT] + '…'}”"
