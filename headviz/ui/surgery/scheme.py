"""How a repair is done: arms and seeds, texts, training. Controls, and the plan that they stand for."""

from __future__ import annotations

import dataclasses

import streamlit as st

from headviz import machine, ui
from headviz.data import corpora
from headviz.data.corpora import CORPORA
from headviz.reopen import of_data
from headviz.settings import settings
from headviz.surgery.arms import ARMS
from headviz.surgery.plan import SCHEMES, Facts, Measured, Scheme, matched_healthy, scheme_for
from headviz.types import DataRef, Recipe, RepairRequest, ScoreRequest
from headviz.types.repairs import Heads
from headviz.view import TEXTS, parse_seeds

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
    """Length of a window: what the view says, else the recipe's, as far as the model's context goes."""
    row = scheme(about).tokens
    return ui.value("train_tokens") or min(row, about.longest or row)


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
    return ui.value("train_windows") or min(
        MOST, max(1, ui.value("repair_steps") * made.batch * made.accumulate)
    )


def diagnostic(left: DataRef) -> DataRef:
    """The data at the left, drawn anew: heads that were chosen on one text are counted on another."""
    return dataclasses.replace(left, seed=left.seed if left.corpus == "own" else left.seed + 1)


def plan(asked: ScoreRequest, measured: Measured, about: Facts, heads: Heads) -> RepairRequest:
    """The plan of the view. Raises a HeadvizError with what is wrong with it."""
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
        diagnose=diagnostic(left),
        steps=ui.value("repair_steps"),
        every=min(ui.value("every"), ui.value("repair_steps")),
        patience=ui.value("patience"),
        passes=ui.value("passes"),
        dead=measured.at.dead,
        sink=measured.at.sink,
        low_entropy=measured.at.low_entropy,
        threads=ui.value("repair_threads") or half_the_cores(),
    )


def half_the_cores() -> int:
    return max(1, machine.cores() // 2)


# ------------------------------------------------------------------------------------------------ controls


def controls(about: Facts) -> None:
    """Arms and seeds, texts, training: three columns, in the order in which a person decides."""
    left, middle, right = st.columns(3, border=True)
    with left:
        _arms()
    with middle:
        _texts(about)
    with right:
        _training(about)


def _arms() -> None:
    st.markdown("**Compared with what**")
    chosen = [name for name in ui.value("repair_arms").split(",") if name]
    for name, row in ARMS.items():
        st.session_state[f"arm_{name}"] = name in chosen
        st.checkbox(row.title, key=f"arm_{name}", on_change=_arms_changed, help=row.help)
    for name in ("repair", "no-reinit", "untrained"):
        if name not in chosen:
            st.caption(f"Without “{ARMS[name].title}”: {_WITHOUT[name]}")
    left, right = st.columns(2)
    left.text_input(
        "Seeds",
        help="One run of every arm for each, comma-separated: new random weights and another order of the windows. Three are the least "
        "from which “repaired” may be said.",
        **ui.keyed("repair_seeds"),
    )
    right.number_input(
        "Passes",
        min_value=1,
        max_value=9,
        help="With 2, heads that are collapsed afterwards, still or newly, are treated in a second pass; those of the first stay as they "
        "are. The paper did two.",
        **ui.keyed("passes"),
    )


def _arms_changed() -> None:
    """A callback: the boxes into the view."""
    ui.put("repair_arms", ",".join(name for name in ARMS if st.session_state[f"arm_{name}"]))


_WITHOUT = {
    "repair": "nothing is repaired.",
    "no-reinit": "a gain could be ordinary training, so there is no verdict.",
    "untrained": "awake heads could be random ones.",
}


def _texts(about: Facts) -> None:
    st.markdown("**On which texts**")
    titles = {"left": "The data at the left", "same": "The same, held-out part", "none": "None"}

    def named(name: str) -> str:
        return titles.get(name) or CORPORA[name].title

    left, right = st.columns(2, vertical_alignment="bottom")
    left.selectbox(
        "Training",
        TEXTS,
        format_func=named,
        help="The text that the new weights are trained on: its training part. The data at the left has parts only where the corpus does.",
        **ui.keyed("train_on"),
    )
    right.selectbox(
        "Held out",
        ["same", *TEXTS],
        format_func=named,
        help="Decides and judges: its documents are parted in two, select (early stop, best step) and report (only judged by). No document "
        "of it is trained on; that is checked.",
        **ui.keyed("held_on"),
    )
    left, right = st.columns(2, vertical_alignment="bottom")
    left.selectbox(
        "Another domain",
        ["none", *TEXTS],
        format_func=named,
        help="Only judged by: did the training cost something elsewhere?",
        **ui.keyed("other_on"),
    )
    right.number_input(
        "Tokens each",
        min_value=0,
        max_value=8_192,
        step=64,
        help=f"Length of a window; 0: as the recipe has it, {tokens(about)}. Attention on the first token depends on it.",
        **ui.keyed("train_tokens"),
    )
    left, right = st.columns(2, vertical_alignment="bottom")
    left.number_input(
        "Held-out windows",
        min_value=2,
        max_value=2_000,
        help="Of the held-out text, and as many of the other domain. More make intervals narrower and every evaluation longer.",
        **ui.keyed("held_windows"),
    )
    right.number_input(
        "Training windows",
        min_value=0,
        max_value=1_000_000,
        help="How many windows of the training text; 0: as many as the steps take. Fewer are read again in another order.",
        **ui.keyed("train_windows"),
    )
    st.toggle(
        "Shuffle the training words",
        help="Its noisy counterpart: the words of every paragraph in random order. Run the plan with and without to compare clean with "
        "noisy text, as the paper did with its own text and C4.",
        **ui.keyed("shuffled"),
    )


def _training(about: Facts) -> None:
    st.markdown("**Trained how**")
    st.selectbox(
        "Recipe",
        list(RECIPES),
        format_func=lambda name: (
            f"By size: {SCHEMES[scheme_for(about)].title.lower()}" if name == "auto" else RECIPES[name]
        ),
        help=" ".join(f"**{row.title}**: {row.help}" for row in SCHEMES.values())
        + " By size takes the one that suits this model. **Edited**: everything by hand, under More.",
        **ui.keyed("recipe"),
    )
    left, right = st.columns(2)
    left.number_input(
        "Steps", min_value=1, max_value=100_000, help="Optimiser steps of a pass.", **ui.keyed("repair_steps")
    )
    right.number_input(
        "Evaluate every",
        min_value=1,
        max_value=100_000,
        help="Steps between two evaluations: points of the curves, frames of the film, and where a killed run goes on.",
        **ui.keyed("every"),
    )
    left.number_input(
        "Early stop after",
        min_value=0,
        max_value=1_000,
        help="Evaluations without a lower loss on the select part, after which a pass ends. 0: never. The best step is kept in any case.",
        **ui.keyed("patience"),
    )
    right.number_input(
        "Threads",
        min_value=0,
        max_value=max(machine.cores(), ui.value("repair_threads")),
        help=f"Of the processor; 0: half of them, {half_the_cores()}. The other pages compute with what is left. Another number rounds "
        "otherwise, so it is part of the plan.",
        **ui.keyed("repair_threads"),
    )
    with st.popover("More", width="stretch"):
        _recipe(about)


def _put_recipe(made: Recipe) -> None:
    for field, name in FIELDS.items():
        ui.put(name, getattr(made, field))


def _recipe(about: Facts) -> None:
    edited = ui.value("recipe") == "edited"
    if not edited:  # so that editing begins with what was chosen last
        st.caption("As the recipe has it. Choose Edited to change something.")
        _put_recipe(recipe(about))
    off = {"disabled": not edited}
    left, right = st.columns(2)
    left.selectbox("New weights", ["xavier-uniform", "xavier-normal"], help="Distribution of the new queries, keys and values. Biases and output columns start at zero.", **off, **ui.keyed("init"))  # fmt: skip
    right.toggle("Joint block", help="Draw Q, K and V of a head as one block, as the paper's code does: its width follows from the block's size.", **off, **ui.keyed("joint"))  # fmt: skip
    left.number_input("Learning rate", min_value=1e-7, max_value=1.0, format="%.2e", step=1e-5, help="The largest; it rises from 0 over the warm-up, then follows the schedule.", **off, **ui.keyed("rate"))  # fmt: skip
    right.number_input("Weight decay", min_value=0.0, max_value=1.0, step=0.01, help="AdamW's, on the slices only.", **off, **ui.keyed("decay"))  # fmt: skip
    left.number_input("Clip", min_value=0.0, max_value=100.0, step=0.5, help="Largest norm of a gradient; 0: no limit.", **off, **ui.keyed("clip"))  # fmt: skip
    right.number_input("Warm-up, steps", min_value=0, max_value=100_000, help="Steps in which the rate rises; at most a quarter of all.", **off, **ui.keyed("warmup"))  # fmt: skip
    left.number_input("Windows a pass", min_value=1, max_value=512, help="Windows of one forward pass: more are faster and take more memory.", **off, **ui.keyed("batch"))  # fmt: skip
    right.number_input("Passes a step", min_value=1, max_value=512, help="Forward passes whose gradients are added up for one step.", **off, **ui.keyed("accumulate"))  # fmt: skip
    left.selectbox("Schedule", ["cosine", "constant"], help="Cosine falls to 0 over the planned steps.", **off, **ui.keyed("schedule"))  # fmt: skip
    right.selectbox("Master numbers", ["float32", "model"], help="float32: slices and optimiser in float32, cast for the forward pass. model: all in the model's dtype; in bfloat16 most steps of 5e-5 round to nothing, as in the paper's own runs.", **off, **ui.keyed("master"))  # fmt: skip
    left.toggle("Recompute", help="Activations anew in the backward pass: less memory, a third more time.", **off, **ui.keyed("recompute"))  # fmt: skip


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
    if left == request.diagnose and left.corpus != "own":
        left = dataclasses.replace(left, seed=max(0, left.seed - 1))  # as `diagnostic` draws it anew
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
        "train_windows": 0 if request.train.inputs == min(MOST, steps) else request.train.inputs,
        "train_tokens": request.train.tokens,
        "shuffled": request.shuffled,
        "held_on": "same" if held == named(request.train) else held,
        "held_windows": request.held_out.inputs,
        "other_on": "none" if request.other is None else named(request.other),
        "repair_steps": request.steps,
        "every": request.every,
        "patience": request.patience,
        "passes": request.passes,
        "dead_above": request.dead,
        "sink_above": request.sink,
        "nats_below": request.low_entropy,
        "repair_threads": request.threads,
    }
