"""Panel: each head off alone, measured, and how every score agrees with that."""

from __future__ import annotations

import csv
import io
import math
from typing import Any

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis import order
from headviz.analysis.metrics import METRICS
from headviz.analysis.paired import ManyChanges
from headviz.charts import fmt, tables
from headviz.charts.delta import delta_map
from headviz.charts.order import agreement_chart
from headviz.data import corpora
from headviz.types import DataRef, HeadLosses, MapRequest, ScoreTable, TextLosses, head_name
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.order import gradients

PLACES = {"zero": "Zero", "mean": "Its mean"}
SURE = 0.05
HALF = 0.6  # of a whole pass: from a head's own layer on, the LM head included


def asking(work: Measurements) -> MapRequest:
    """Each head alone, on the text that is measured; for questions, on the text at the left. Means are taken where those of
    the whole set are."""
    plan = work.plan
    means_on = plan.means_on or (plan.chosen_on if isinstance(plan.chosen_on, DataRef) else None)
    text = work.plan.text or ui.data_ref()
    if ui.value("alone") == "short":
        text = order.shorter(text, order.MAP_AT_MOST)
    return order.map_request(plan.model, text, replace=ui.value("instead"), means_on=means_on)


def panel(work: Measurements, table: ScoreTable) -> None:
    request = asking(work)
    left, right = st.columns([3, 2])
    right.segmented_control(
        "In its place",
        list(PLACES),
        format_func=PLACES.get,
        required=True,
        help="What stands in for a head that is off: zero, or its own mean output on the text on which heads are chosen, with "
        "a value of its own at the first position. Each is a map of its own.",
        **ui.keyed("instead"),
    )
    left.segmented_control(
        "Text for each head",
        ["short", "whole"],
        format_func={
            "short": "{} × {} tokens at the most".format(*order.MAP_AT_MOST),
            "whole": "The whole text at the left",
        }.get,
        required=True,
        help="Every head takes a pass of its own, so time grows with the text. More documents give shorter intervals and a "
        "map that agrees better with itself.",
        **ui.keyed("alone"),
    )
    if work.plan.text is None:
        st.caption("Each head alone is measured as loss on the text at the left, not on the questions.")
    L, H = table.geometry.layers, table.geometry.heads
    found = ui.answer(
        request,
        start=False,
        button="Measure each head alone",
        empty=f"Every head is switched off alone{_mean_words(request)}, on {corpora.describe(request.text)}: {L * H + 1:,} runs"
        f"{_expected(work, table, request)}. Slider positions wait until it is done; it can be cancelled.",
        key="map",
    )
    if found is None:
        return
    costs = _costs(found.provenance.digest, found)
    st.markdown(_told(costs, request))
    left, right = st.columns([5, 4], gap="medium")
    with left:
        ui.chart(
            cost_map(work), key="alone_map", name="headviz-each-head-alone", alt="Map of the cost of each head"
        )  # fmt: skip
        st.download_button(
            "Cost of each head (CSV)",
            costs_csv(costs),
            file_name=f"headviz-each-head-alone{'-mean' if request.replace == 'mean' else ''}.csv",
            mime="text/csv",
            on_click="ignore",
            help="Change in loss with each head off alone, nats a token, with its 95% interval and p corrected for all heads.",
        )
    with right:
        _agreements(work, table, found)


def cost_map(
    work: Measurements, off: np.ndarray | None = None, selected: tuple[int, int] | None = None
) -> Any:
    """The measured map; hollow cells where it is not measured. off: (L, H) bool, hatched; selected: outlined."""
    request = asking(work)
    found = ui.cached(request)
    geometry, notes = work.table.geometry, None
    low = high = None
    if found is None:
        values = np.full((geometry.layers, geometry.heads), np.nan)
    else:
        costs = _costs(found.provenance.digest, found)
        values, low, high = costs.change, costs.low, costs.high
        notes = np.where(costs.p_holm < SURE, "not by chance, corrected for all heads", "")
    return delta_map(
        values,
        "nats",
        low,
        high,
        geometry=geometry,
        title="Change in loss with this head off alone" + _mean_words(request),
        what="loss",
        notes=notes,
        hatched=off,
        selected=selected,
        reason="not measured yet: see the panel Each head alone",
        theme=ui.theme(),
        provenance="" if found is None else tables.caption(found.provenance, found),
    )


def _agreements(work: Measurements, table: ScoreTable, found: HeadLosses) -> None:
    gradient = gradients(work)
    rows, ceiling = _compared(
        found.provenance.digest,
        table.provenance.digest,
        "" if gradient is None else gradient.provenance.digest,
        found,
        order.activity(table) | ({} if gradient is None else {"gradient": gradient.values}),
    )
    figure = agreement_chart(
        rows,
        lambda name: METRICS[name].symbol if name in METRICS else "Gradient",
        ceiling=ceiling,
        chosen=work.plan.metric,
        theme=ui.theme(),
    )
    ui.chart(
        figure,
        key="agreement",
        name="headviz-agreement",
        alt="Rank correlation of every score with the measured cost",
    )
    st.caption(
        "Above 0: heads that the score calls more inactive cost less. Scores as on the text on which heads are chosen."
        + ("" if math.isnan(ceiling) else f" Dashed: the most to expect, {fmt.number(ceiling)}, because the map itself is noisy.")
        + ("" if gradient is not None else " The gradient joins when its order is there.")
    )  # fmt: skip


@st.cache_resource(max_entries=16, show_spinner=False)
def _costs(digest: str, _found: HeadLosses) -> ManyChanges:
    return order.head_costs(_found)


@st.cache_resource(max_entries=16, show_spinner=False)
def _compared(
    measured: str, scored: str, gradient: str, _found: HeadLosses, _orders: dict[str, np.ndarray]
) -> tuple[tuple[order.Agreement, ...], float]:
    reliable = order.reliability(_found)
    return order.agreements(_found, _orders), math.sqrt(reliable)  # the root of NaN is NaN


def _mean_words(request: MapRequest) -> str:
    return ", its mean in its place" if request.replace == "mean" else ""


def _told(costs: ManyChanges, request: MapRequest) -> str:
    """What the map says, in a sentence."""
    count, worst = costs.change.size, np.unravel_index(np.nanargmax(costs.change), costs.change.shape)
    text = (
        f"The dearest head is **{head_name(*worst)}**: "
        f"{fmt.signed(costs.change[worst])} nats [{fmt.number(costs.low[worst])}, {fmt.number(costs.high[worst])}] alone"
        f"{_mean_words(request)}. "
        f"The median head costs {fmt.signed(float(np.median(costs.change)))} nats"
    )
    if costs.clusters < 2:
        return text + ". All inputs come from one document, so there are no intervals."
    sure = costs.p_holm < SURE
    dear, helps = int((sure & (costs.change > 0)).sum()), int((sure & (costs.change < 0)).sum())
    return (
        f"{text}. Corrected for all heads, {fmt.count(dear, count)} cost something and {helps} help when off "
        f"({costs.clusters} documents); of the others that cannot be told."
    )


def _expected(work: Measurements, table: ScoreTable, request: MapRequest) -> str:
    """`, about 4 min`, from what one pass took on this machine; nothing where that is not known."""
    seen = [
        (m.provenance.seconds, int(m.predicted.sum()))
        for m in work.there.values()
        if isinstance(m, TextLosses)
    ]
    seen.append((table.provenance.seconds, int(table.lengths.sum())))
    a_token = min((seconds / tokens for seconds, tokens in seen if seconds and tokens), default=0.0)
    if not a_token:
        return ""
    runs = table.geometry.layers * table.geometry.heads + 1
    return f", about {fmt.duration(HALF * a_token * request.text.inputs * request.text.tokens * runs)}"


def costs_csv(costs: ManyChanges) -> str:
    """A row a head: change, its 95% interval, p of that head and p corrected for all; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["layer", "head", "change_nats", "ci_low", "ci_high", "p", "p_holm"])
    for i, j in np.ndindex(costs.change.shape):
        numbers = (x[i, j] for x in (costs.change, costs.low, costs.high, costs.p, costs.p_holm))
        writer.writerow([i, j, *("" if math.isnan(x) else f"{x:.9g}" for x in numbers)])
    return out.getvalue()
