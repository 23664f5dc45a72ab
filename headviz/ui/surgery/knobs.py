"""Controls of a plan: arms and seeds, texts, training, in the order in which a person decides."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.data.corpora import CORPORA
from headviz.surgery.arms import ARMS
from headviz.surgery.plan import SCHEMES, Facts, scheme_for
from headviz.ui.surgery.scheme import FIELDS, RECIPES, by_steps, half_the_cores, recipe, recipe_tokens
from headviz.view import TEXTS


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
        st.checkbox(_SHORTER.get(name, row.title), key=f"arm_{name}", on_change=_arms_changed, help=row.help)
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
        step=1,
        help="With 2, every head that is collapsed at the best step of the first pass is treated in a second one: those that collapsed "
        "newly, and again those that still are. All others stay as the first pass left them. Healthy heads have one pass. The paper "
        "did two.",
        **ui.keyed("passes"),
    )


def _arms_changed() -> None:
    """A callback: the boxes into the view."""
    ui.put("repair_arms", ",".join(name for name in ARMS if st.session_state[f"arm_{name}"]))


_SHORTER = {"healthy": "Healthy heads instead"}  # the whole title does not fit beside a box
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

    st.selectbox(
        "Training",
        TEXTS,
        format_func=named,
        help="The text that the new weights are trained on: its training part. The data at the left has parts only where the corpus does.",
        **ui.keyed("train_on"),
    )
    st.selectbox(
        "Held out",
        ["same", *TEXTS],
        format_func=named,
        help="Decides and judges: its documents are parted in two, select (early stop, best step) and report (only judged by). No document "
        "of it is trained on; that is checked.",
        **ui.keyed("held_on"),
    )
    st.selectbox(
        "Another domain",
        ["none", *TEXTS],
        format_func=named,
        help="Only judged by: did the training cost something elsewhere?",
        **ui.keyed("other_on"),
    )
    left, right = st.columns(2, vertical_alignment="bottom")
    left.number_input(
        "Held-out windows",
        step=1,
        help="Of the held-out text, and as many of the other domain. More make intervals narrower and every evaluation longer.",
        **ui.keyed("held_windows"),
    )
    right.number_input(
        "Training windows",
        value=None,
        step=1,
        placeholder=f"{by_steps(recipe(about)):,}",
        help="How many windows of the training text; empty: as many as the steps read, the grey number. Fewer are read again in another "
        "order.",
        **ui.keyed("train_windows"),
    )
    st.number_input(
        "Tokens each",
        value=None,
        step=1,
        placeholder=f"{recipe_tokens(about):,} (recipe)",
        help="Length of a window; empty: as the recipe has it, at most the model's context. Attention on the first token depends on it.",
        **ui.keyed("train_tokens"),
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
        on_change=_recipe_changed,
        help=" ".join(f"**{row.title}**: {row.help}" for row in SCHEMES.values())
        + " By size takes the one that suits this model. **Edited**: everything by hand, under More.",
        **ui.keyed("recipe"),
    )
    left, right = st.columns(2)
    left.number_input("Steps", step=1, help="Optimiser steps of a pass.", **ui.keyed("repair_steps"))
    right.number_input(
        "Evaluate every",
        step=1,
        help="Steps between two evaluations: points of the curves, frames of the film, and where a killed run goes on.",
        **ui.keyed("every"),
    )
    left.number_input(
        "Early stop after",
        value=None,
        step=1,
        placeholder="never",
        help="Evaluations without a lower loss on the select part, after which a pass ends; empty: never. The best step is kept in any "
        "case.",
        **ui.keyed("patience"),
    )
    right.number_input(
        "Threads",
        value=None,
        step=1,
        placeholder=f"{half_the_cores():,}",
        help="Of the processor, for each run; empty: half of them, the grey number. As many runs go on at the same time as there are "
        "cores and memory for. Another number of threads rounds otherwise, so it is part of the plan.",
        **ui.keyed("repair_threads"),
    )
    steps, every = ui.value("repair_steps"), ui.value("every")
    if steps and every and 1 <= steps < every:
        st.caption(
            f"Evaluated at the end only: a pass has {fmt.plural(steps, 'step')}, fewer than the {every:,} between two evaluations."
        )
    with st.popover("More", width="stretch"):
        _recipe(about)


def _recipe_changed() -> None:
    """A callback: editing begins with the recipe that was in force."""
    before = st.session_state.get("headviz_recipe_before")
    if ui.value("recipe") == "edited" and before is not None:
        for field, name in FIELDS.items():
            ui.put(name, getattr(before, field))


def _recipe(about: Facts) -> None:
    made = recipe(about)
    if ui.value("recipe") != "edited":
        st.session_state.headviz_recipe_before = made
        st.markdown(
            f"Rate {fmt.number(made.rate)}, {made.schedule}, after {made.warmup} steps of warm-up; {made.batch} windows at once, "
            f"{made.accumulate} forward passes a step; weight decay {fmt.tick(made.weight_decay)}, clip {fmt.tick(made.clip)}; new weights "
            f"{made.init}{', as one block' if made.joint else ''}; {made.master} masters."
        )
        st.caption("Choose Edited to change something.")
        return
    left, right = st.columns(2)
    left.selectbox("New weights", ["xavier-uniform", "xavier-normal"], help="Distribution of the new queries, keys and values. Biases and output columns start at zero.", **ui.keyed("init"))  # fmt: skip
    right.toggle("Joint block", help="Draw Q, K and V of a head as one block, as the paper's code does: its width follows from the block's size.", **ui.keyed("joint"))  # fmt: skip
    left.number_input("Learning rate", format="%.2e", step=1e-5, help="The largest; it rises from 0 over the warm-up, then follows the schedule.", **ui.keyed("rate"))  # fmt: skip
    right.number_input("Weight decay", step=0.01, help="AdamW's, on the slices only.", **ui.keyed("decay"))  # fmt: skip
    left.number_input("Clip", step=0.5, help="Largest norm of a gradient; 0: no limit.", **ui.keyed("clip"))  # fmt: skip
    right.number_input("Warm-up, steps", step=1, help="Steps in which the rate rises; at most a quarter of all.", **ui.keyed("warmup"))  # fmt: skip
    left.number_input("Windows at once", step=1, help="Windows of one forward pass: more are faster and take more memory.", **ui.keyed("batch"))  # fmt: skip
    right.number_input("Forward passes a step", step=1, help="Forward passes whose gradients are added up for one step.", **ui.keyed("accumulate"))  # fmt: skip
    left.selectbox("Schedule", ["cosine", "constant"], help="Cosine falls to 0 over the planned steps.", **ui.keyed("schedule"))  # fmt: skip
    right.selectbox("Master numbers", ["float32", "model"], help="float32: slices and optimiser in float32, cast for the forward pass. model: all in the model's dtype; in bfloat16 most steps of 5e-5 round to nothing, as in the paper's own runs.", **ui.keyed("master"))  # fmt: skip
    left.toggle("Recompute", help="Activations anew in the backward pass: less memory, a third more time.", **ui.keyed("recompute"))  # fmt: skip
