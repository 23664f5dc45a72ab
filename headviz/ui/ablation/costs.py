"""The numbers beside the map: before, after, change, what may be claimed of it, and what a runtime could save."""

from __future__ import annotations

import streamlit as st

from headviz.analysis import ablation
from headviz.analysis.choose import savings
from headviz.analysis.metrics import METRICS
from headviz.analysis.paired import Verdict, within_tolerance
from headviz.analysis.published import SOURCE, published_row
from headviz.charts import fmt
from headviz.data import corpora
from headviz.types import QuestionsRef
from headviz.ui.ablation.hand import HAND
from headviz.ui.ablation.measurements import Measurements, change_of
from headviz.ui.ablation.plan import tolerance

_WAITING = "…"
_HELP = (
    "Change: after − before, on the same inputs, with its 95% interval. Within tolerance: “yes” if even the unlucky end of a "
    "one-sided 95% interval stays inside, “no” if even the lucky end is outside; “cannot tell” is not “no effect”. "
    "Log-probability: of the right answer, nats; it shows an effect before any answer flips. KL: how far the distribution over "
    "answers moved, nats. Flips: answers that became wrong, and that became right."
)


def costs(work: Measurements) -> None:
    """The table, the random sets' rank, where heads were chosen, what could be saved, and the paper's row."""
    if work.static and not work.off.heads:
        chosen_where(work)
        return
    trees = {kind: work.report(kind) for kind in work.plans}
    at_chance(trees["zero"])
    table(work, trees)
    rank(trees["zero"])
    chosen_where(work)
    if work.static:
        could_save(work)
    else:
        sets_of_inputs(work, trees["zero"])
    published(work)


def at_chance(tree: dict | None) -> None:
    if tree and tree.get("at_chance"):
        st.warning(
            "**At chance.** The baseline's accuracy cannot be told from always giving the commonest answer. Read "
            "log-probability, KL and loss; a change in accuracy means nothing here.",
            icon=":material/casino:",
        )


def table(work: Measurements, trees: dict[str, dict | None]) -> None:
    on_text = work.plan.text is not None
    rows = dict(_asked(work))
    told = {kind: dict(_numbers(work, kind, tree)) for kind, tree in trees.items()}
    names = list(dict.fromkeys(name for numbers in told.values() for name in numbers)) or [
        "loss, nats" if on_text else "accuracy"
    ]
    lines = [
        "| instead of each head | " + " | ".join(told) + " |",
        "|:---|" + "---:|" * len(told),
        *(f"| {name} | {text} |" + " |" * (len(told) - 1) for name, text in rows.items()),
        *(
            f"| {name} | " + " | ".join(told[kind].get(name, _WAITING) for kind in told) + " |"
            for name in names
        ),
    ]
    with st.container(key="costs"):
        st.markdown("\n".join(lines), help=_HELP)


def _asked(work: Measurements):
    """Share asked and share off."""
    plan, share = work.plan, work.share
    if plan.by_score and plan.threshold is None:
        yield "heads asked", fmt.percent(plan.share)
    total = work.off.geometry.layers * work.off.geometry.heads
    if work.static:
        yield "heads off", fmt.count(work.off.count, total)
    elif share == share:
        yield "heads off, on average", fmt.percent(share)


def _numbers(work: Measurements, kind: str, tree: dict | None):
    if tree is None:
        return
    on_text = work.plan.text is not None
    scale = 1 if on_text else 100
    moved = f"{fmt.number(tree['baseline'])} → {fmt.number(tree['ablated'])}"
    claim = within_tolerance(
        change_of(work.plan, work.before, work.after(kind)),
        margin=tolerance(work.plan),
        worse="higher" if on_text else "lower",
    )
    yield ("loss, nats" if on_text else "accuracy"), moved
    yield f"change [95%], {'nats' if on_text else 'points'}", _change(tree, scale)
    margin = f"{work_margin(work)}"
    yield f"within {margin}", _verdict(claim, "documents" if on_text else "questions")
    if not on_text:
        right = tree["logprob"]
        yield "log-probability, nats", f"{fmt.number(right['baseline'])} → {fmt.number(right['ablated'])}"
        yield "its change [95%]", _change(right, 1)
        yield "KL, nats", fmt.number(tree["kl"])
        yield "flips", f"{tree['lost']} lost, {tree['gained']} gained"


def work_margin(work: Measurements) -> str:
    """`0.05 nats`, `1 point`."""
    margin = tolerance(work.plan)
    if work.plan.text is not None:
        return f"{margin:g} nats"
    return f"{margin * 100:g} point" + ("" if margin == 0.01 else "s")


def _change(tree: dict, scale: float) -> str:
    low, high = fmt.number(tree["ci_low"] * scale), fmt.number(tree["ci_high"] * scale)
    return f"{fmt.signed(tree['change'] * scale)} [{low}, {high}]"


def _verdict(claim: Verdict, of: str) -> str:
    if claim.answer == "cannot tell" and claim.needed:
        return f"cannot tell: takes about {claim.needed:,} {of}"
    return claim.answer


def rank(tree: dict | None) -> None:
    """Where the score stands among random sets of as many heads."""
    said = []
    for kind, what in (("uniform", "random sets"), ("layer_matched", "with as many in each layer")):
        if tree and (band := tree["random"].get(kind)):
            said.append(f"than {band['n'] - band['better']} of {band['n']} {what}")
    if said:
        few = tree["random"]["uniform"]["n"] < 20 if "uniform" in tree["random"] else True
        st.markdown(
            f"Costs less {' and '.join(said)}." + (" Fewer than 20 draws: not for quoting." if few else "")
        )


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
            ":orange-badge[:material/warning: same inputs] Heads are chosen on inputs that are also measured. "
            f"{whose}. What it costs elsewhere may be more."
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


def could_save(work: Measurements) -> None:
    context = work.plan.text.tokens if work.plan.text is not None else 512
    freed = savings(work.off, context=context)
    if not freed.groups:
        st.caption(
            f"No whole KV group is off, so a runtime that skips heads could save no keys and values (0 of {freed.groups_total} "
            "groups)."
        )
        return
    st.caption(
        f"A runtime that skips whole KV groups could save {freed.groups} of {freed.groups_total} ({fmt.percent(freed.share)}): "
        f"{fmt.size(freed.kv_bytes_per_token)} of {fmt.size(freed.kv_bytes_total)} of KV cache a token, and "
        f"{fmt.number(freed.flops_per_token / 1e6)} of {fmt.number(freed.flops_total / 1e6)} million attention FLOPs a token at "
        f"{context} tokens. headviz itself saves nothing: it computes, and replaces."
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
    """The paper's row for this model, where the protocol is the paper's."""
    if work.static or work.plan.questions is None or work.plan.questions.source != "mmlu":
        return
    row = published_row(work.plan.model.name)
    if row is None:
        st.caption("The paper did not measure this model.")
        return
    symbol = METRICS[row.best_score].symbol if row.best_score in METRICS else row.best_score
    st.markdown(
        f"**Published for {row.model}**: baseline {row.baseline_percent:g}%; within 1 point AWFT {row.awft_within:g}%, the best "
        f"of the others {row.best_within:g}% ({symbol}).",
        help=SOURCE,
    )
