"""From the view to a plan: which heads, chosen where, measured on what."""

from __future__ import annotations

from typing import Any

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.yardsticks import YARDSTICKS, Yardstick, yardstick
from headviz.data import corpora, questions
from headviz.errors import HeadvizError
from headviz.models import catalog
from headviz.readers import parse_heads
from headviz.settings import settings
from headviz.types import DataRef, QuestionsRef
from headviz.ui.ablation.expected import questions_of
from headviz.ui.ablation.hand import HAND, places_now
from headviz.ui.answers import cached

OWN_WAY = {
    "quiz": ("text", 0),
    "mmlu": ("letter", 5),
    "own": ("text", 0),
}  # how each set is asked unless somebody chooses
SMALL = 64 * 1024  # tokens of a run that starts without being asked for
_QUESTION = 80  # tokens of a question or a worked example, roughly


def other_part(data: DataRef) -> DataRef:
    """Where heads are chosen: the other part of the same corpus, or the docstrings' training part."""
    parts = corpora.CORPORA[data.corpus].parts
    other = {"held-out": "train", "train": "held-out"}.get(data.part)
    if data.corpus in ("own", "hub") or other not in parts:
        return _like(data, "docstrings", "train")
    return _like(data, data.corpus, other)


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the data …")
def _like(data: DataRef, corpus: str, part: str) -> DataRef:
    """A part of a corpus, cut as `data` is."""
    same = {name: getattr(data, name) for name in ("inputs", "tokens", "seed", "bos", "chat")}
    return corpora.resolve(corpus, part=part, settings=settings(), **same)


def chosen_on(data: DataRef, asked: QuestionsRef | None) -> DataRef | QuestionsRef:
    """The text, or the questions, whose scores choose the heads, as the view says."""
    where = ui.value("chosen")
    if where == "measured":
        return asked if asked is not None else data
    if where == "half" and asked is not None:
        return questions.other_half(asked)
    if where == "left":
        return data
    if where in ("auto", "half"):  # of a text, the other half is the other part
        return other_part(data)
    part = "" if ui.value("chosen_part") == "auto" else ui.value("chosen_part")
    if part not in corpora.CORPORA[where].parts:
        part = ""
    if not part:  # apart from the text at the left, where that is a part of the same corpus
        part = "train" if "train" in corpora.CORPORA[where].parts else corpora.CORPORA[where].parts[0]
    found = _like(data, where, part)
    if ui.value("chosen_inputs"):
        found = DataRef(**{**found.__dict__, "inputs": ui.value("chosen_inputs")})
    return found


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the questions …")
def _asked(source: str, **chosen: Any) -> QuestionsRef:
    return questions.resolve_questions(source, settings=settings(), **chosen)


def half_now() -> str:
    """Which half is measured: the second, where heads are chosen on a half and nobody says which."""
    half = ui.value("half")
    return "second" if half == "all" and ui.value("chosen") == "half" else half


def asked_now() -> QuestionsRef | None:
    """The questions of the view; None where text is measured. Raises a HeadvizError, one sentence."""
    target = ui.value("target")
    if target == "loss":
        return None
    scoring, shots = OWN_WAY[target]
    return _asked(
        target,
        subjects=tuple(name for name in ui.value("subjects").split(",") if name),
        per_subject=ui.value("each"),
        seed=ui.value("seed"),
        half=half_now(),
        shots=shots if ui.value("shots") == "auto" else int(ui.value("shots")),
        scoring=scoring if ui.value("scoring") == "auto" else ui.value("scoring"),
        chat=ui.value("template"),
        revision=ui.value("questions") if target == "own" else "",
    )


def plan_now() -> Plan:
    """The plan that the view stands for. Raises a HeadvizError whose sentence says what is wrong with it."""
    model, data, asked = ui.model_ref(), ui.data_ref(), asked_now()
    where = chosen_on(data, asked)
    longest = catalog.context_length(model, settings())
    for text in (where, data if asked is None else None):
        if isinstance(text, DataRef):
            corpora.check_length(text, longest)
    per_input = ui.value("mode") == "per-input"
    by_hand = ui.value("pick") == "hand" and not per_input
    return Plan(
        model=model,
        chosen_on=where,
        metric=ui.value("metric"),
        share=ui.value("off") / 100,
        threshold=ui.value("cut") if ui.value("strict") == "value" and not by_hand else None,
        heads=parse_heads(ui.value("picked")) if by_hand else None,
        origin=ui.value("by_whom") or HAND,
        origin_on=places_now() if by_hand else (None,),
        turned=ui.value("turned"),
        mode=ui.value("mode"),
        by="head" if per_input else ui.value("by"),
        per_layer=ui.value("even") and not per_input and ui.value("strict") != "value",
        questions=asked,
        text=data if asked is None else None,
        means_on=other_part(data) if isinstance(where, QuestionsRef) else None,
        draws=ui.value("draws"),
    )


def base_plan() -> Plan:
    """Where the view scores heads and where it measures them, for pages on which neither score nor share is a set's own.
    Raises a HeadvizError, one sentence."""
    model, data, asked = ui.model_ref(), ui.data_ref(), asked_now()
    where = chosen_on(data, asked)
    longest = catalog.context_length(model, settings())
    for text in (where, data if asked is None else None):
        if isinstance(text, DataRef):
            corpora.check_length(text, longest)
    return Plan(
        model=model,
        chosen_on=where,
        metric=ui.value("metric"),
        share=0.0,
        questions=asked,
        text=data if asked is None else None,
        means_on=other_part(data) if isinstance(where, QuestionsRef) else None,
        draws=ui.value("draws"),
    )


def yard_now() -> Yardstick:
    """What is counted as cost: known for questions once their baseline is measured, accuracy until then."""
    if ui.value("target") == "loss":
        return YARDSTICKS["loss"]
    try:
        plan = base_plan()
    except HeadvizError:  # its sentence stands in the page already
        return YARDSTICKS["accuracy"]
    before = cached(ablation.measuring(plan, None))
    return YARDSTICKS["accuracy"] if before is None else yardstick(before, plan.questions.scoring)


def is_small(plan: Plan) -> bool:
    """Whether a run of this is begun without asking."""
    if plan.text is not None:
        return plan.text.inputs * plan.text.tokens <= SMALL
    return questions_of(plan.questions)[0] * (plan.questions.shots + 1) * _QUESTION <= SMALL
