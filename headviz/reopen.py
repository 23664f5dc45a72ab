"""From a request back to the view that asks for it: what a job's `Open` puts into the view. Pure: no streamlit here."""

from __future__ import annotations

from typing import Any

from headviz.data.questions import MMLU_SUBJECTS
from headviz.jobs.kinds import job_digest
from headviz.readers import write_heads
from headviz.types import (
    CheckpointRequest,
    DataRef,
    GenerateRequest,
    GradientRequest,
    MapRequest,
    MeasureRequest,
    PatternRequest,
    PromptScoreRequest,
    QuestionsRef,
    RepairedRequest,
    RepairRequest,
    Request,
    head_name,
)
from headviz.view import CHOSEN, VIEW

# Kind of request → the page that shows its answer.
PAGES = {
    "score": "heads",
    "pattern": "heads",
    "sinks": "disagreement",
    "bands": "bands",
    "distance": "bands",
    **dict.fromkeys(("prompt-score", "measure", "gradient", "map", "generate", "checkpoint"), "ablation"),
    **dict.fromkeys(("repair", "repaired"), "surgery"),
}


def page_of(request: Request | None) -> str | None:
    """The page that shows a request's answer; None where no page shows it by itself, as for a draw of random heads."""
    if request is None or (
        isinstance(request, MeasureRequest) and request.ablation.mode == "random-per-input"
    ):
        return None
    return PAGES[request.kind]


def of_request(request: Request) -> dict[str, Any]:
    """The values that ask for this again: what a job's `Open` puts into the view."""
    if isinstance(request, RepairedRequest):  # names a repair, which holds the rest
        return {"stage": "watch", "operation": request.repair, "recovery": "onward"}
    model = request.model
    data = getattr(request, "text", None) or getattr(request, "data", None)
    values = {
        "model": model.name,
        "revision": model.revision if model.source == "hub" else "",
        "dtype": model.dtype,
        "quantization": model.quantization,
    }
    if data is not None:  # else questions: the text in the view stays
        values |= of_data(data)
    if isinstance(request, MeasureRequest):
        values |= _of_measurement(request)
    elif isinstance(request, PromptScoreRequest):
        values |= _of_questions(request.questions) | {"chosen": "measured"}
    elif isinstance(request, GenerateRequest):
        values |= _of_text(request)
    elif isinstance(request, CheckpointRequest):
        values |= {"look": "take", "target": "loss", "mode": "static", "pick": "hand", "by_whom": ""}
        values["picked"] = write_heads(request.heads)
    elif isinstance(request, RepairRequest):
        values |= of_data(request.diagnose) | {"stage": "watch", "operation": job_digest(request)}
    elif isinstance(request, GradientRequest | MapRequest):
        values |= {"look": "order", "target": "loss", "alone": "whole"}
        if isinstance(request, MapRequest):
            values |= {"instead": request.replace} | _of_means(request.means_on)
    if isinstance(request, PatternRequest):
        values |= {"head": head_name(request.layer, request.head), "input": request.input, "inside": True}
    return values


def of_data(data: DataRef) -> dict[str, Any]:
    """The values that stand for a text at the left."""
    values = {
        "text": data.revision if data.corpus == "own" else "",
        "data_revision": data.revision if len(data.revision) == 40 else "",
    }
    own = {*values, "revision"}  # `revision` in the view is the model's
    return values | {name: getattr(data, name) for name in VIEW if hasattr(data, name) and name not in own}


def _of_questions(asked: QuestionsRef) -> dict[str, Any]:
    everything = asked.source == "mmlu" and asked.subjects == MMLU_SUBJECTS
    return {
        "target": asked.source,
        "questions": asked.revision if asked.source == "own" else "",
        "subjects": "" if everything else ",".join(asked.subjects),
        "each": asked.per_subject,
        "seed": asked.seed,
        "half": asked.half,
        "shots": str(asked.shots),
        "scoring": asked.scoring,
        "template": asked.chat,
    }


def _of_text(request: GenerateRequest) -> dict[str, Any]:
    """The prompt and the very heads that were off, as a set by hand; of means, where they are one of a corpus."""
    off = request.ablation
    values: dict[str, Any] = {
        "look": "text",
        "prompt": request.prompt,
        "turn": request.chat,
        "bos": request.bos,
        "length": request.new_tokens,
    }
    if off.mode == "static":
        values |= {"mode": "static", "pick": "hand", "picked": write_heads(off.heads), "by_whom": ""}
        values["instead"] = off.replace
    return values | _of_means(off.means_on)


def _of_means(where: DataRef | None) -> dict[str, Any]:
    """Heads are chosen where means are taken, where that is one of the corpora."""
    if where is None or where.corpus not in CHOSEN:
        return {}
    return {"chosen": where.corpus, "chosen_part": where.part, "chosen_inputs": where.inputs}


def _of_measurement(request: MeasureRequest) -> dict[str, Any]:
    """The very heads that were off, as a set by hand; of a rule per input its score and threshold."""
    off = request.ablation
    values: dict[str, Any] = (
        {"target": "loss"} if request.questions is None else _of_questions(request.questions)
    )
    if off.mode == "per-input":
        return values | {
            "mode": "per-input",
            "metric": off.metric,
            "turned": off.turned,
            "strict": "value",
            "cut": off.threshold,
        }
    values |= {"mode": "static", "pick": "hand", "picked": write_heads(off.heads), "by_whom": ""}
    if off.means_on is None:
        return values
    if request.questions is not None:  # the text at the left is free to be the one of the means
        return values | of_data(off.means_on) | {"seed": request.questions.seed, "chosen": "left"}
    if off.means_on == request.text:
        return values | {"chosen": "measured"}
    return values | _of_means(off.means_on)
