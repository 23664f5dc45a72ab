"""Which score, how strict, and what follows: the controls over a map, and the sentence under the title."""

from __future__ import annotations

import math

import numpy as np
import streamlit as st

from headviz.analysis.metrics import METRICS, inactive, threshold_at
from headviz.charts import fmt, tables
from headviz.charts.scales import value_unit
from headviz.types import ScoreTable
from headviz.ui.state import keyed, put, value
from headviz.ui.within import share_here

RULES = {"auto": "Auto", "share": "Share", "value": "Value"}
SHOWS = {"score": "Score", "inactive": "How often"}


def threshold_bounds(table: ScoreTable) -> tuple[float, float]:
    """Slider ends for a threshold on the chosen score: the range of its per-input values."""
    known = table.per_input(value("metric"))
    known = known[~np.isnan(known)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def settle(table: ScoreTable) -> None:
    """Before any widget: what the view asks for must be in this table. What had to change is said."""
    if value("metric") not in table.metrics:
        put("metric", table.metrics[0])
    put("input", min(value("input"), len(table.lengths) - 1))
    if value("rule") == "auto":
        put("share", 100 * share_here((value("metric"),)).share)
    low, high = threshold_bounds(table)
    asked = value("threshold")
    if value("rule") == "value" and not low <= asked <= high:
        used = min(max(asked, low), high)
        put("threshold", used)
        symbol = METRICS[value("metric")].symbol
        st.warning(
            f"The threshold {fmt.number(asked)} lies outside the values of {symbol} here, {fmt.number(low)} to "
            f"{fmt.number(high)}; {fmt.number(used)} is used."
        )


def threshold_now(table: ScoreTable) -> float:
    """The threshold in force, in the unit of the score; NaN where the score has no value at all."""
    return value("threshold") if value("rule") == "value" else _at_share(table)


def _at_share(table: ScoreTable) -> float:
    metric = value("metric")
    values = table.per_input(metric)
    return math.nan if np.isnan(values).all() else threshold_at(values, metric, value("share") / 100)


def keep_selection_across_rules(table: ScoreTable) -> None:
    """Callback: a new score, or a new way of choosing, starts from the share that was in force."""
    if value("rule") == "value" and not math.isnan(start := _at_share(table)):
        put("threshold", start)


def controls(table: ScoreTable) -> None:
    score, how, slider, shows = st.columns([2.1, 3, 2.8, 2.6], vertical_alignment="top")
    score.selectbox(
        "Score",
        list(table.metrics),
        format_func=lambda name: METRICS[name].symbol,
        help=f"{METRICS[value('metric')].name}. {METRICS[value('metric')].help}",
        on_change=keep_selection_across_rules,
        args=(table,),
        **keyed("metric"),
    )
    how.segmented_control(
        "Threshold by",
        list(RULES),
        format_func=RULES.get,
        required=True,
        help="Auto: the largest share that this score keeps within tolerance, where the Ablation page has measured that, else "
        "20%. Share: call the most extreme so many percent of all input × head pairs inactive (the paper's rule: the "
        "threshold is that quantile over all inputs, layers and heads). Value: set the threshold itself.",
        on_change=keep_selection_across_rules,
        args=(table,),
        **keyed("rule"),
    )
    with slider:
        threshold_slider(table)
    shows.segmented_control(
        "Map shows",
        list(SHOWS),
        format_func=SHOWS.get,
        required=True,
        help="Score: its mean over the inputs. How often: in what share of the inputs the head is inactive, so that a "
        "head that is always idle differs from one that is idle on some texts.",
        **keyed("shows"),
    )


def threshold_slider(table: ScoreTable) -> None:
    row = METRICS[value("metric")]
    beyond = "above" if row.inactive == "high" else "below"
    if value("rule") != "value":
        st.slider(
            "Called inactive, % of pairs",
            0.0,
            100.0,
            step=0.5,
            format="%.1f%%",
            help=f"Heads with {row.symbol} {beyond} the threshold are called inactive. The threshold is set so that "
            "this share of all pairs of one input and one head lies beyond it. Moving it ends Auto.",
            on_change=put,
            args=("rule", "share"),
            **keyed("share"),
        )
        return
    low, high = threshold_bounds(table)
    st.slider(
        f"Inactive {beyond}" + (f", {row.unit}" if row.unit else ""),
        low,
        high,
        step=(high - low) / 500,
        format="%.4g",
        help=f"Heads with {row.symbol} {beyond} this value are called inactive.",
        **keyed("threshold"),
    )


def why_this_share() -> str:
    """Where the share comes from while the page finds it by itself; empty otherwise."""
    return share_here((value("metric"),)).why if value("rule") == "auto" else ""


def sentence(table: ScoreTable, off: np.ndarray, threshold: float) -> str:
    """What a person would quote of this view."""
    row = METRICS[value("metric")]
    values = table.per_input(row.id)
    known = ~np.isnan(values)
    if not known.any():
        return f"{row.symbol} is not defined on this data: {table.reasons.get(row.id, row.undefined)}"
    pairs, hits = int(known.sum()), int(inactive(values, row.id, threshold).sum())
    share = tables.inactive_share(table, row, threshold)
    beyond = "above" if row.inactive == "high" else "below"
    text = (
        f"With {row.symbol} {beyond} {fmt.with_unit(threshold, value_unit(row))}, **{fmt.count(int(off.sum()), off.size)} heads "
        f"are inactive on average**, and {fmt.count(hits, pairs)} input × head pairs. "
        f"{int((share == 1).sum())} heads are inactive in every input, {int(((share > 0) & (share < 1)).sum())} in some."
    )
    if off.any():
        text += f" {_fullest(off)}"
    if value("rule") != "value" and abs(hits / pairs - value("share") / 100) > 0.01:
        text += " Values equal to the threshold are not beyond it, and here many tie."
    if missing := int((~known).sum()):
        text += f" {fmt.count(missing, known.size)} values are not defined: {table.reasons.get(row.id, row.undefined)}"
    return text


def _fullest(off: np.ndarray) -> str:
    """Which layers have the most inactive heads. off: (L, H) bool, some True."""
    count = off.sum(1)
    layers = np.flatnonzero(count == count.max())
    of = f"{int(count.max())} of {off.shape[1]} heads"
    if len(layers) == 1:
        return f"Layer {layers[0]} has the most: {of}."
    if len(layers) <= 3:
        return f"Layers {', '.join(map(str, layers[:-1]))} and {layers[-1]} have the most: {of} each."
    return f"{len(layers)} layers have the most: {of} each."
