"""From the view to a plan: which heads, chosen where, measured on what."""

from __future__ import annotations

from headviz import ui
from headviz.analysis.ablation import Plan
from headviz.data import corpora, questions
from headviz.settings import settings
from headviz.types import DataRef

TOLERANCE = {"loss": 0.05, "questions": 0.01}  # nats; one point
OWN_WAY = {"quiz": ("text", 0), "mmlu": ("letter", 5), "own": ("text", 0)}  # how each set is asked unless somebody chooses


def other_part(data: DataRef) -> DataRef:
    """Where heads are chosen: the other part of the same corpus, or the docstrings' training part."""
    parts = corpora.CORPORA[data.corpus].parts
    other = {"held-out": "train", "train": "held-out"}.get(data.part)
    names = ("dataset", "config", "split", "column", "inputs", "tokens", "seed", "bos", "chat")
    chosen = {name: getattr(data, name) for name in names}
    if data.corpus in ("own", "hub") or other not in parts:
        chosen |= {
            "corpus": "docstrings",
            "part": "train",
            "dataset": "",
            "config": "",
            "split": "",
            "column": "",
        }
    else:
        chosen |= {"corpus": data.corpus, "part": other}
    return corpora.resolve(settings=settings(), **chosen)


def plan_now() -> Plan:
    data = ui.data_ref()
    target, asked = ui.value("target"), None
    if target != "loss":
        scoring, shots = OWN_WAY[target]
        asked = questions.resolve_questions(
            target,
            per_subject=ui.value("each"),
            seed=ui.value("seed"),
            shots=shots if ui.value("shots") == "auto" else int(ui.value("shots")),
            scoring=scoring if ui.value("scoring") == "auto" else ui.value("scoring"),
            revision=ui.value("questions") if target == "own" else "",
            settings=settings(),
        )
    return Plan(
        model=ui.model_ref(),
        chosen_on=other_part(data),
        metric=ui.value("metric"),
        share=ui.value("off") / 100,
        by=ui.value("by"),
        per_layer=ui.value("even"),
        questions=asked,
        text=data if target == "loss" else None,
        draws=ui.value("draws"),
    )
