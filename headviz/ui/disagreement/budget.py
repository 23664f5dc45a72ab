"""Two scores, and how strict: one share of heads for both, or a threshold of each."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import agreement
from headviz.analysis.ablation import Plan
from headviz.analysis.agreement import Scored
from headviz.analysis.metrics import METRICS
from headviz.charts.scales import value_unit
from headviz.types import ScoreTable
from headviz.ui.ablation.asked import question_controls, subjects_that_are_not_there
from headviz.ui.ablation.controls import TITLES, where_chosen
from headviz.ui.within import Within, largest_share
from headviz.view import FOLLOWS

MOST = 50.0  # percent of the heads at which the slider ends
RULES = {"auto": "Auto", "share": "Share", "value": "Values"}
FOLLOW = {
    "first": "the first token",
    "model": "the model's strongest early token",
    "head": "each head's own strongest",
}


def controls():
    """Draws the row; returns the place for how strict, which needs the scores."""
    first, second, how, strict, more = st.columns([1.8, 1.8, 3.2, 2.6, 1.4], vertical_alignment="top")
    for place, name, label in ((first, "first", "One score"), (second, "second", "Against")):
        row = METRICS[ui.value(name)]
        place.selectbox(
            label,
            list(METRICS),
            format_func=lambda one: METRICS[one].symbol,
            help=f"{row.name}. {row.help}",
            on_change=_swap_thresholds,
            **ui.keyed(name),
        )
    how.segmented_control(
        "How strict",
        list(RULES),
        format_func=RULES.get,
        required=True,
        on_change=_swap_thresholds,
        help="Share: each score calls the same number of heads inactive, its most extreme ones, so that neither looks better "
        "for being bolder. Auto: the largest share that one of the two scores keeps within tolerance where that is measured, "
        "else 20%. Values: every head beyond a value of each score, however many that are.",
        **ui.keyed("budget_by"),
    )
    with more.popover("More", width="stretch"):
        left, right = st.columns(2, gap="medium")
        with left:
            measured()
        with right:
            where_chosen()
            if ui.value("target") != "loss":
                question_controls()
    subjects_that_are_not_there()
    return strict


def measured() -> None:
    """What costs are measured on, and beside how many random sets."""
    st.markdown("**What it costs**")
    st.selectbox(
        "Measured on",
        [name for name in TITLES if name != "own" or ui.value("questions")],
        format_func=TITLES.get,
        help="Loss: how well the model predicts the next token of the text in the sidebar, in nats; lower is better. "
        "Questions: the share answered right.",
        on_change=lambda: ui.put("subjects", ""),
        **ui.keyed("target"),
    )
    st.number_input(
        "Random draws",
        min_value=1,
        max_value=100,
        help="How many random sets of each kind stand beside each group: 20 or more for a figure that is quoted.",
        **ui.keyed("draws"),
    )
    st.toggle(
        "Also the heads that both call inactive",
        help="A third group, switched off like the two in dispute.",
        **ui.keyed("agreed"),
    )
    st.selectbox(
        "AWFT looks at",
        FOLLOWS,
        format_func=FOLLOW.get,
        help="AWFT counts attention on the first token. In some models (OLMo-2, Qwen2.5-7B) the sink is another early token, "
        "and AWFT finds none; then let it follow the strongest early column. It is named so: AWFT@3 looks at token 3.",
        **ui.keyed("follow"),
    )


def _swap_thresholds() -> None:
    """A callback: thresholds start where the share is, and another score has other values."""
    st.session_state.headviz_thresholds = True


def strictness(place, plan: Plan, table: ScoreTable, a: Scored, b: Scored) -> tuple[float | None, str]:
    """Fills the place; returns (share, why), the share None where each score has a threshold."""
    rule = ui.value("budget_by")
    with place:
        if rule != "value":
            found = auto_share(plan, table) if rule == "auto" else None
            if found is not None:
                ui.put("budget", min(100 * found.share, MOST))
            st.slider(
                "Share of heads each, %",
                0.0,
                MOST,
                step=0.5,
                format="%.1f%%",
                on_change=ui.put,
                args=("budget_by", "share"),
                help="How many percent of all heads each score may call inactive. Moving it ends Auto.",
                **ui.keyed("budget"),
            )
            return ui.value("budget") / 100, "" if found is None else found.why
        _settle(a, b)
        for column, name, side in zip(st.columns(2), ("line_first", "line_second"), (a, b)):
            beyond, sign = ("above", ">") if side.row.inactive == "high" else ("below", "<")
            column.number_input(
                f"{side.row.symbol} {sign}",
                format="%.4g",
                step=None,
                help=f"{side.row.symbol} {beyond} this value{f', {unit},' if (unit := value_unit(side.row)) else ''} calls a "
                "head inactive.",
                **ui.keyed(name),
            )
    return None, ""


def _settle(a: Scored, b: Scored) -> None:
    """Thresholds of a share where nobody has set any, or the scores are new."""
    fresh = st.session_state.pop("headviz_thresholds", False)
    names = ("line_first", "line_second")
    if not fresh and None not in map(ui.value, names):
        return
    share = ui.value("budget") / 100
    for name, line in zip(
        names, agreement.quadrants_of(a, b, agreement.budget(share, a, b)).thresholds, strict=True
    ):
        if fresh or ui.value(name) is None:
            ui.put(name, line)


def auto_share(plan: Plan, table: ScoreTable) -> Within:
    """The largest share that one of the two scores keeps within tolerance, else the usual one; and why."""
    return largest_share(plan, table, (ui.value("first"), ui.value("second")))
