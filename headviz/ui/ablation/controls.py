"""One row: protocol, score, what is measured, the rest under More. And the slider, which stands above the map."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis.ablation import Plan, threshold_per_input
from headviz.analysis.metrics import METRICS, high_first
from headviz.charts import fmt
from headviz.data.corpora import CORPORA
from headviz.types import ScoreTable
from headviz.ui.ablation.asked import own_questions, question_controls, subjects_that_are_not_there
from headviz.ui.ablation.hand import by_hand, hand_controls, pick_changed
from headviz.ui.ablation.plan import half_now, yard_now
from headviz.ui.ablation.presets import protocol
from headviz.view import CHOSEN, STRICT, TARGETS

TITLES = {
    "loss": "Loss on the text",
    "quiz": "The bundled quiz",
    "mmlu": "MMLU",
    "own": "Your own questions",
}
_CHOSEN = {
    "auto": "Text, apart from what is measured",
    "half": "The other half of the questions",
    "measured": "The very inputs that are measured",
    "left": "The text at the left",
}
_PARTS = {"auto": "auto", "all": "all", "train": "train", "held-out": "held-out"}
USUAL = 30.0  # percent of heads at which the slider ends unless somebody asks for more


def controls() -> None:
    """Draws the row."""
    which, score, target, more = st.columns([3, 3, 3, 2], vertical_alignment="bottom")
    protocol(which)
    row = METRICS[ui.value("metric")]
    score.selectbox(
        "Score on the map" if by_hand() else "Score that chooses",
        list(METRICS),
        format_func=lambda name: METRICS[name].symbol,
        help=f"{row.name}. {row.help}",
        on_change=_start_from_share,
        **ui.keyed("metric"),
    )
    target.selectbox(
        "Measured on",
        TARGETS,
        format_func=TITLES.get,
        help="Loss: how well the model predicts the next token of the text in the sidebar, in nats; lower is better. "
        "Questions: the share answered right. The bundled quiz is easy and our own; MMLU needs a model that can do it.",
        on_change=lambda: ui.put("subjects", ""),
        **ui.keyed("target"),
    )
    with more.popover("More", width="stretch"):
        left, right = st.columns(2, gap="medium")
        with left:
            which_heads()
        with right:
            where_chosen()
            if ui.value("target") != "loss":
                st.markdown("**Questions**")
                question_controls()
            statistics()
    if ui.value("target") == "own":
        own_questions()
    subjects_that_are_not_there()


def which_heads() -> None:
    st.markdown("**Which heads**")
    per_input = ui.value("mode") == "per-input"
    st.segmented_control(
        "Rule",
        ["static", "per-input"],
        format_func={"static": "One set", "per-input": "Per input"}.get,
        required=True,
        help="One set: the same heads are off on every input, so a runtime could leave them out. Per input: the paper's rule; "
        "in the same pass, each input switches off the heads whose score on that very input lies beyond a threshold. "
        "Nothing is saved by it, and its shares are not comparable with those of a set.",
        **ui.keyed("mode"),
    )
    st.segmented_control(
        "Chosen",
        ["score", "hand"],
        format_func={"score": "By score", "hand": "By hand"}.get,
        required=True,
        disabled=per_input,
        on_change=pick_changed,
        help="By hand: click heads on the map, drag a box over many, or read a file. It starts from the score's set.",
        **ui.keyed("pick"),
    )
    st.segmented_control(
        "Order",
        [False, True],
        format_func={False: "Most inactive first", True: "Most active first"}.get,
        required=True,
        disabled=by_hand(),
        help="The paper switches off the heads that a score calls inactive. The other way round is a check: if that costs no "
        "more, the score says nothing.",
        **ui.keyed("turned"),
    )
    st.segmented_control(
        "Slider over",
        list(STRICT),
        format_func={"auto": "Auto", "share": "Share of heads", "value": "Threshold"}.get,
        required=True,
        disabled=by_hand(),
        on_change=_start_from_share,
        help="Auto: the largest share that this score keeps within tolerance, where that is measured, else 20%; moving the slider "
        "ends it. Share: so many percent of the heads. Threshold: every head whose score lies beyond a value, however many that "
        "are; the mean score for one set, the score on the very input for the paper's rule.",
        **ui.keyed("strict"),
    )
    st.toggle(
        "Slider to 100%",
        help=f"It ends at {USUAL:.0f}% otherwise: beyond, hardly any model is of use.",
        on_change=_narrow,
        disabled=by_hand() or ui.value("strict") == "value",
        **ui.keyed("wide"),
    )
    st.segmented_control(
        "Switch off",
        ["head", "group"],
        format_func={"head": "Single heads", "group": "Whole KV groups"}.get,
        required=True,
        disabled=per_input or by_hand(),
        help="Query heads of one KV group share keys and values: only whole groups free memory.",
        **ui.keyed("by"),
    )
    st.toggle(
        "Same number in every layer",
        help="Instead of wherever the score is most extreme.",
        disabled=per_input or by_hand() or ui.value("strict") == "value",
        **ui.keyed("even"),
    )


def where_chosen() -> None:
    st.markdown("**Where heads are chosen**")
    on_text = ui.value("target") == "loss"
    if on_text and ui.value("chosen") == "half":
        ui.put("chosen", "auto")  # of a text, the other half is the other part
    st.selectbox(
        "Scores are taken on",
        [name for name in CHOSEN if not (on_text and name == "half")],
        format_func=lambda name: _CHOSEN.get(name) or CORPORA[name].title,
        help="What chooses should not be what is measured: heads that do nothing on a text may work on the next. On its own, "
        "the other part of the same corpus is taken. With questions, heads can be chosen on the prompts of one half and "
        "measured on the other. The paper took the very questions that it measured; that is possible, and flagged.",
        **ui.keyed("chosen"),
    )
    if ui.value("chosen") == "half":
        measured = half_now()
        other = "second" if measured == "first" else "first"
        st.caption(f"Chosen on the {other} half of the questions, measured on the {measured} half.")
    if ui.value("chosen") in CORPORA:
        left, right = st.columns(2)
        left.selectbox(
            "Its part",
            list(_PARTS),
            help="auto takes the training part, which shares no document with the held-out one.",
            **ui.keyed("chosen_part"),
        )
        right.number_input(
            "Its inputs",
            min_value=0,
            max_value=2_000,
            help="How many pieces of that text; 0 takes as many as the sidebar says. Their length is the sidebar's too.",
            **ui.keyed("chosen_inputs"),
        )


def statistics() -> None:
    st.markdown("**Compared with**")
    left, right = st.columns(2)
    left.number_input(
        "Random draws",
        min_value=1,
        max_value=100,
        help="How many random sets of each kind stand beside the score: 20 or more for a figure that is quoted.",
        **ui.keyed("draws"),
    )
    yard = yard_now()
    if yard.tolerance == "nats":
        right.number_input(
            "Tolerance, nats",
            min_value=0.001,
            max_value=100.0,
            step=0.01,
            format="%.3g",
            help="How much more loss is still called fine."
            if yard.id == "loss"
            else "How much less log-probability of the right answer is still called fine: the model is at chance on these "
            "questions, so accuracy is not what counts.",
            **ui.keyed("nats"),
        )
    else:
        right.number_input(
            "Tolerance, points",
            min_value=0.01,
            max_value=100.0,
            step=0.5,
            format="%.3g",
            help="How much less accuracy is still called fine, in percentage points; the paper takes 1.",
            **ui.keyed("points"),
        )


def _narrow() -> None:
    if not ui.value("wide"):
        ui.put("off", min(ui.value("off"), USUAL))


def _start_from_share() -> None:
    """A callback: a threshold starts where the share is; another score has other values."""
    st.session_state.headviz_from_share = True


# ------------------------------------------------------------------------------------------------- the slider


def values_of(plan: Plan, table: ScoreTable) -> np.ndarray:
    """What a threshold is compared with: mean scores for one set, the scores of every input for the paper's rule."""
    return table.mean(plan.metric) if plan.mode == "static" else table.per_input(plan.metric)


def settle(plan: Plan, table: ScoreTable) -> float:
    """The threshold in force, put into the view: where none is chosen that of the share, and none beyond the values."""
    low, high = _bounds(values_of(plan, table))
    cut = ui.value("cut")
    if st.session_state.pop("headviz_from_share", False):
        cut = _of_share(plan, table)
    elif not low <= cut <= high:
        used = min(max(cut, low), high)
        symbol = METRICS[plan.metric].symbol
        st.warning(
            f"The threshold {fmt.number(cut)} lies outside the values of {symbol} here, {fmt.number(low)} to "
            f"{fmt.number(high)}; {fmt.number(used)} is used."
        )
        cut = used
    ui.put("cut", float(cut))
    return float(cut)


def _bounds(values: np.ndarray) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _of_share(plan: Plan, table: ScoreTable) -> float:
    """The threshold that stands for the view's share: midway between the last head that is off and the next."""
    if plan.mode == "per-input":
        return threshold_per_input(plan, table)
    known = np.sort(values_of(plan, table), axis=None)
    known = known[~np.isnan(known)]
    if high_first(plan.metric, plan.turned):
        known = known[::-1]
    count = min(round(plan.share * known.size), known.size - 1)
    return float(known[0] if count == 0 else (known[count - 1] + known[count]) / 2)


def strictness(where, plan: Plan, table: ScoreTable) -> None:
    """Into the place `where`: the slider over the share or the threshold, or what stands there for a set by hand."""
    with where:
        if by_hand():
            hand_controls(plan.model, table)
        elif ui.value("strict") == "value":
            _threshold(plan, table)
        else:
            share_slider()


def share_slider() -> None:
    end = "The most active" if ui.value("turned") else "The most inactive"
    per_input = ui.value("mode") == "per-input"
    st.slider(
        "Asked to be off, % of head × input" if per_input else "Heads off, % of all",
        0.0,
        100.0 if ui.value("wide") or ui.value("off") > USUAL else USUAL,
        step=0.5,
        format="%.1f%%",
        help=(
            "The threshold lies so that this share of all pairs of a head and an input is beyond it while nothing is off. "
            "What is really off differs: later layers see what earlier ones no longer say."
            if per_input
            else f"{end} heads by this score, on average over the text on which heads are chosen, are switched off on every "
            "input. Measuring starts when you let go."
        ),
        on_change=ui.put,
        args=("strict", "share"),
        **ui.keyed("off"),
    )


def _threshold(plan: Plan, table: ScoreTable) -> None:
    row = METRICS[plan.metric]
    low, high = _bounds(values_of(plan, table))
    beyond = "above" if high_first(row.id, plan.turned) else "below"
    st.slider(
        f"Off {beyond}" + (f", {row.unit}" if row.unit else ""),
        low,
        high,
        step=(high - low) / 500,
        format="%.4g",
        help=f"Heads with {row.symbol} {beyond} this value are switched off.",
        **ui.keyed("cut"),
    )
