"""The plan that the view stands for: arms and seeds, texts, recipe; and back, a plan into the view."""

from __future__ import annotations

import dataclasses

import streamlit as st

from headviz import machine, ui
from headviz.data import corpora
from headviz.data.corpora import CORPORA
from headviz.readers import parse_seeds
from headviz.reopen import of_data
from headviz.settings import settings
from headviz.surgery.plan import (
    SCHEMES,
    Facts,
    Measured,
    Scheme,
    chosen_on,
    counted_on,
    matched_healthy,
    scheme_for,
)
from headviz.types import DataRef, Recipe, RepairRequest, ScoreRequest
from headviz.types.repairs import Heads
from headviz.ui.surgery import limits
from headviz.view import TEXTS

RECIPES = {"auto": "By size", **{name: row.title for name, row in SCHEMES.items()}, "edited": "Edited"}
MOST = 20_000  # training windows, unless somebody asks for more
# Field of a recipe → its parameter in the view.
FIELDS = {
    "init": "init",
    "joint": "joint",
    "rate": "rate",
    "weight_decay": "decay",
    "clip": "clip",
    "batch": "batch",
    "accumulate": "accumulate",
    "warmup": "warmup",
    "schedule": "schedule",
    "master": "master",
    "checkpointing": "recompute",
}


def scheme(about: Facts) -> Scheme:
    """The row that the view's recipe stands for; the one that suits the model's size where that decides, or all is edited."""
    name = ui.value("recipe")
    return SCHEMES[name if name in SCHEMES else scheme_for(about)]


def recipe(about: Facts) -> Recipe:
    """The recipe of the view."""
    if ui.value("recipe") != "edited":
        return scheme(about).recipe
    return Recipe(**{field: ui.value(name) for field, name in FIELDS.items()})


def tokens(about: Facts) -> int:
    """Length of a window: what the view says, else the recipe's."""
    return ui.value("train_tokens") or recipe_tokens(about)


def recipe_tokens(about: Facts) -> int:
    """Length of a window as the recipe has it, as far as the model's context goes."""
    row = scheme(about).tokens
    return min(row, about.longest or row)


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the text …")
def _text(corpus: str, part: str, inputs: int, tokens: int, seed: int, bos: str) -> DataRef:
    return corpora.resolve(
        corpus, part=part, inputs=inputs, tokens=tokens, seed=seed, bos=bos, settings=settings()
    )


def text(name: str, part: str, inputs: int, tokens: int, left: DataRef) -> DataRef:
    """A text of the plan: a part of a corpus, or of the data at the left where that has parts."""
    if name != "left":
        return _text(name, part, inputs, tokens, left.seed, left.bos)
    asked = dataclasses.replace(left, inputs=inputs, tokens=tokens, chat=False)
    if part == left.part or part not in CORPORA[left.corpus].parts:
        return asked
    if left.corpus == "hub":  # the same commit, the other documents of it
        return dataclasses.replace(asked, part=part)
    return _text(left.corpus, part, inputs, tokens, left.seed, left.bos)


def windows(made: Recipe) -> int:
    """Training windows: as many as the steps read, each once, unless the view says how many."""
    return ui.value("train_windows") or by_steps(made)


def by_steps(made: Recipe) -> int:
    """As many training windows as the steps of the view read, but not without end."""
    return min(MOST, max(1, (ui.value("repair_steps") or 0) * made.batch * made.accumulate))


def plan(asked: ScoreRequest, measured: Measured, about: Facts, heads: Heads) -> RepairRequest:
    """The plan of the view. Raises a HeadvizError with what is wrong with it."""
    limits.check(ui.value, edited=ui.value("recipe") == "edited")
    arms = tuple(name for name in ui.value("repair_arms").split(",") if name)
    made, T, left = recipe(about), tokens(about), asked.data
    trained, held, other = (ui.value(name) for name in ("train_on", "held_on", "other_on"))
    return RepairRequest(
        model=asked.model,
        heads=heads,
        healthy=matched_healthy(heads, measured) if "healthy" in arms else (),
        recipe=made,
        arms=arms,
        seeds=parse_seeds(ui.value("repair_seeds")),
        train=text(trained, "train", windows(made), T, left),
        shuffled=ui.value("shuffled"),
        held_out=text(trained if held == "same" else held, "held-out", ui.value("held_windows"), T, left),
        other=None if other == "none" else text(other, "held-out", ui.value("held_windows"), T, left),
        diagnose=counted_on(left),  # heads are chosen on the data at the left
        steps=ui.value("repair_steps"),
        every=min(ui.value("every"), ui.value("repair_steps")),
        patience=ui.value("patience") or 0,
        passes=ui.value("passes"),
        dead=measured.at.dead,
        sink=measured.at.sink,
        low_entropy=measured.at.low_entropy,
        threads=ui.value("repair_threads") or half_the_cores(),
    )


def half_the_cores() -> int:
    return max(1, machine.cores() // 2)


def put_plan(request: RepairRequest) -> None:
    """From a callback: a plan into the view, its heads apart."""
    for name, value in values_of(request).items():
        ui.put(name, value)


def values_of(request: RepairRequest) -> dict:
    """The parameters of the view that stand for this plan."""

    def named(data: DataRef) -> str:
        return data.corpus if data.corpus in TEXTS else "left"

    held, steps = named(request.held_out), request.steps * request.recipe.batch * request.recipe.accumulate
    made = next((name for name, row in SCHEMES.items() if row.recipe == request.recipe), "edited")
    left = request.diagnose if "left" not in (named(request.train), held) else request.train
    if left == request.diagnose:
        left = chosen_on(left)
    return {
        "model": request.model.name,
        "revision": request.model.revision if request.model.source == "hub" else "",
        "dtype": request.model.dtype,
        "quantization": request.model.quantization,
        **of_data(left),
        **{name: getattr(request.recipe, field) for field, name in FIELDS.items()},
        "recipe": made,
        "repair_arms": ",".join(request.arms),
        "repair_seeds": ",".join(map(str, request.seeds)),
        "train_on": named(request.train),
        "train_windows": None if request.train.inputs == min(MOST, steps) else request.train.inputs,
        "train_tokens": request.train.tokens,
        "shuffled": request.shuffled,
        "held_on": "same" if held == named(request.train) else held,
        "held_windows": request.held_out.inputs,
        "other_on": "none" if request.other is None else named(request.other),
        "repair_steps": request.steps,
        "every": request.every,
        "patience": request.patience or None,
        "passes": request.passes,
        "dead_above": request.dead,
        "sink_above": request.sink,
        "nats_below": request.low_entropy,
        "repair_threads": request.threads,
    }
