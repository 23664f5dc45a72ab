"""The numbers beside the map: before, after, change, what may be claimed of it, and what a runtime could save."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import recipes
from headviz.analysis import ablation
from headviz.analysis.choose import savings
from headviz.analysis.metrics import METRICS
from headviz.analysis.published import SOURCE, differs, published_row
from headviz.charts import fmt
from headviz.data import corpora
from headviz.errors import BadInput
from headviz.types import QuestionsRef
from headviz.ui.ablation.cost_table import table
from headviz.ui.ablation.hand import HAND
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.presets import chat_model

EXAMPLE = 512  # tokens, where how long prompts are is not known
PLACES = {"zero": "zero in their place", "mean": "their mean in their place"}
RANKED = {"uniform": "random sets of as many heads", "layer_matched": "with as many in each layer"}


def costs(work: Measurements) -> None:
    """The table, the random sets' rank, where heads were chosen, what could be saved, and the paper's row."""
    if work.static and not work.off.heads:
        chosen_where(work)
        return
    at_chance(work)
    table(work)
    rank(work)
    chosen_where(work)
    if work.static:
        could_save(work)
    else:
        sets_of_inputs(work, work.report("zero"))
    published(work)
    with st.popover("As a command", help="The same measurement on the command line, as JSON."):
        command(work)


def command(work: Measurements) -> None:
    """What gives the same numbers without the page."""
    try:
        st.code(recipes.ablate_command(work.plan), language="bash", wrap_lines=True)
    except BadInput as error:
        st.caption(str(error))
        return
    if work.plan.heads is not None:
        st.caption("`headviz-heads.json` is the head set under “Take it away”.")
    if work.static:
        st.caption("With `--replace=mean` for each head's mean in its place.")


def at_chance(work: Measurements) -> None:
    if work.yard is not None and work.yard.id == "logprob":
        st.warning(
            "**At chance.** The baseline's accuracy cannot be told from always giving the commonest answer. What counts here, "
            "also for the verdict and the curve, is the log-probability of the right answer; a change in accuracy means "
            "nothing.",
            icon=":material/casino:",
        )


def rank(work: Measurements) -> None:
    """Where what is off stands among random sets of as many heads, for each replacement."""
    few = False
    for kind in work.plans:
        cost = work.cost(kind)
        said = [
            f"{band.n - band.better} of {band.n} {what}"
            for random, what in RANKED.items()
            if cost is not None and (band := cost.random.get(random))
        ]
        if said:
            few = few or min(band.n for band in cost.random.values()) < 20
            st.markdown(f"With {PLACES[kind]}, it costs less than {' and less than '.join(said)}.")
    if few:
        st.caption("Fewer than 20 random draws: not for quoting.")


def chosen_where(work: Measurements) -> None:
    """On what the heads were chosen, and whether that is also measured."""
    plan = work.plan
    same, known = ablation.same_inputs(plan), [p for p in ablation.chosen_by(plan) if p is not None]
    where = "; ".join(corpora.describe(place) for place in known)
    if plan.by_score:
        whose = f"Heads are chosen on {where}"
    elif plan.origin.startswith(HAND):
        whose = f"The set was chosen {plan.origin}" + (f", on {where}" if where else "")
    else:
        whose = f"The set is from {plan.origin}" + (f", chosen on {where}" if where else "")
    if same:
        st.markdown(
            f":orange-badge[:material/warning: same inputs] {whose}: inputs that are also measured. What it costs elsewhere "
            "may be more."
        )
    elif same is None:
        also = "also chosen elsewhere, and there" if where else "chosen"
        st.caption(f"{whose}. Where this set was {also} is not known: perhaps on what is measured here.")
    elif where:
        other = (
            "other questions"
            if isinstance(plan.questions, QuestionsRef) and all(isinstance(p, QuestionsRef) for p in known)
            else "other text"
        )
        st.caption(f"{whose}: {other} than is measured.")
    else:
        st.caption(f"{whose}.")


def context(work: Measurements) -> tuple[int, str]:
    """(tokens that a token looks back at, what they are) for counting FLOPs."""
    if work.plan.text is not None:
        return work.plan.text.tokens, "as long as an input here may be"
    if isinstance(work.plan.chosen_on, QuestionsRef):  # their prompts are what was scored
        return int(np.median(work.table.lengths)), "the median prompt that chose"
    return EXAMPLE, "an example: prompts differ in length"


def could_save(work: Measurements) -> None:
    tokens, what = context(work)
    freed = savings(work.off, context=tokens)
    if not freed.groups:
        st.caption(
            f"No whole KV group is off, so a runtime that skips heads could save no keys and values (0 of {freed.groups_total} "
            "groups)."
        )
        return
    st.caption(
        f"A runtime that skips whole KV groups could save {freed.groups} of {freed.groups_total} ({fmt.percent(freed.share)}): "
        f"{fmt.size(freed.kv_bytes_per_token)} of {fmt.size(freed.kv_bytes_total)} of KV cache a token, and "
        f"{fmt.number(freed.flops_per_token / 1e6)} of {fmt.number(freed.flops_total / 1e6)} million attention FLOPs for a "
        f"token that looks back at {tokens:,} ({what}). headviz itself saves nothing: it computes, and replaces."
    )


def sets_of_inputs(work: Measurements, tree: dict | None) -> None:
    """How many different sets the paper's rule made, and how alike they are."""
    if tree is None:
        return
    sets, on_text = tree["off_sets"], work.plan.text is not None
    group = "document" if on_text else "subject"
    count = len(work.before.loss if on_text else work.before.answer)
    text = f"{int(sets['distinct']):,} different sets on {count:,} {'inputs' if on_text else 'questions'}"
    alike = [
        f"{fmt.number(sets[name])} {words}"
        for name, words in (("overlap_within", f"within a {group}"), ("overlap_between", f"between {group}s"))
        if name in sets
    ]
    if alike:
        text += f"; overlap (common heads over heads in either) {', '.join(alike)}"
    st.caption(f"{text}. The scores need the whole pass, so nothing could be saved by this rule.")


def published(work: Measurements) -> None:
    """The paper's row for this model: to compare with where everything is done as there, else with what differs."""
    if work.static or work.plan.questions is None or work.plan.questions.source != "mmlu":
        return
    row = published_row(work.plan.model.name)
    if row is None:
        st.caption("The paper did not measure this model.")
        return
    symbol = METRICS[row.best_score].symbol if row.best_score in METRICS else row.best_score
    text = (
        f"**Published for {row.model}**: baseline {row.baseline_percent:g}%; within 1 point AWFT {row.awft_within:g}%, the best "
        f"of the others {row.best_within:g}% ({symbol})."
    )
    if apart := differs(work.plan, chat_model()):
        text += f" **Not comparable** with what is measured here: {'; '.join(apart)}."
    st.markdown(text, help=SOURCE)
