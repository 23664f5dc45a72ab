"""The table of costs: before, after, change and what may be claimed of it, a column a replacement."""

from __future__ import annotations

import streamlit as st

from headviz.analysis.metrics import METRICS
from headviz.analysis.paired import MeanChange, PairedChange, Verdict, within_tolerance
from headviz.analysis.yardsticks import YARDSTICKS
from headviz.charts import fmt
from headviz.ui.ablation.measurements import RANDOM, Measurements, change_words
from headviz.ui.ablation.words import limit, margin

_WAITING = "…"
_HELP = (
    "Change: after − before, on the same inputs, with its 95% interval. Within tolerance: “yes” if even the unlucky end of a "
    "one-sided 95% interval stays inside, “no” if even the lucky end is outside; “cannot tell” is not “no effect”. "
    "Log-probability: of the right answer; it shows an effect before any answer flips. KL: how far the distribution over "
    "answers moved. Flips: answers that became wrong, and that became right."
)


def table(work: Measurements) -> None:
    rows = dict(_asked(work))
    told = {kind: dict(_numbers(work, kind)) for kind in work.plans}
    heads, old = {kind: kind for kind in told}, last(work, told)
    for kind, (whose, numbers) in old.items():
        heads[kind] = f":gray[{kind}, last: {whose}]"
        told[kind] = {name: f":gray[{text}]" for name, text in numbers.items()}
    names = list(dict.fromkeys(name for numbers in told.values() for name in numbers))
    names = names or ["loss, nats" if work.plan.text is not None else "accuracy"]
    lines = [
        "| replaced by | " + " | ".join(heads.values()) + " |",
        "|:---|" + "---:|" * len(told),
        *(f"| {name} | {text} |" + " |" * (len(told) - 1) for name, text in rows.items()),
        *(
            f"| {name} | " + " | ".join(told[kind].get(name, _WAITING) for kind in told) + " |"
            for name in names
        ),
    ]
    with st.container(key="costs"):
        st.markdown("\n".join(lines), help=_HELP)
    if old:
        st.caption("Grey: the last result here, of the heads that it names, until the new one is there.")


def last(work: Measurements, told: dict[str, dict[str, str]]) -> dict[str, tuple[str, dict[str, str]]]:
    """Replacement → (whose, numbers) of the last result on this target, where what is off now is not measured yet.

    told: what is measured now; it is remembered for the next position
    """
    target = (work.base, work.plan.mode)
    kept = st.session_state.get("headviz_last_costs")
    before = kept[1] if kept is not None and kept[0] == target else {}
    now = {kind: (_whose(work), numbers) for kind, numbers in told.items() if numbers}
    st.session_state.headviz_last_costs = (target, before | now)
    return {kind: before[kind] for kind in told if kind not in now and kind in before}


def _whose(work: Measurements) -> str:
    """`20.0% by AHON (LN)`."""
    share = fmt.percent(work.share)
    return f"{share} by {METRICS[work.plan.metric].symbol}" if work.plan.by_score else f"{share}, another set"


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


def _numbers(work: Measurements, kind: str):
    cost = work.cost(kind)
    if cost is None:
        return
    yard, tree = cost.yard, work.report(kind)
    per_token = ", nats a token" if work.scoring == "text" else ", nats"
    names = {"loss": "loss, nats", "accuracy": "accuracy", "logprob": f"log-probability{per_token}"}
    yield names[yard.id], cost.moved()
    yield f"change [95%], {cost.unit}", cost.words(unit=False)
    claim = within_tolerance(cost.change, margin=margin(yard), worse=yard.worse)
    yield f"within {limit(yard)}", _verdict(claim, cost.change)
    for random, what in RANDOM.items():
        if band := cost.random.get(random):
            yield f"{what}, mean of {band.n}", fmt.signed(band.mean * yard.scale)
    if yard.id == "loss":
        return
    beside = YARDSTICKS["logprob" if yard.id == "accuracy" else "accuracy"]
    change = beside.change(work.before, work.after(kind), work.scoring)
    told = fmt.percent if beside.id == "accuracy" else fmt.number
    yield names[beside.id], f"{told(change.baseline)} → {told(change.ablated)}"
    unit = "points" if beside.id == "accuracy" else per_token.removeprefix(", ")
    yield f"its change [95%], {unit}", change_words(change, beside.scale)
    yield ("KL over the choices, nats" if work.scoring == "text" else "KL, nats"), fmt.number(tree["kl"])
    yield "flips", f"{tree['lost']} lost, {tree['gained']} gained"


def _verdict(claim: Verdict, change: MeanChange | PairedChange) -> str:
    if claim.answer != "cannot tell":
        return claim.answer
    of_answers = isinstance(change, PairedChange)
    if claim.needed:
        return f"cannot tell: takes about {claim.needed:,} {'questions' if of_answers else 'documents'}"
    seen = change.lost + change.gained if of_answers else change.clusters
    what = ("flip" if of_answers else "document") + ("" if seen == 1 else "s")
    return f"cannot tell: {seen} {what}, too few to say how many it would take"
