"""Panel: the most disputed heads, a card each: what each score says and why, how loud, and what the head looks at."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import agreement
from headviz.analysis.agreement import Dispute
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.charts.pattern import plain_piece
from headviz.charts.scales import value_unit
from headviz.charts.thumb import pattern_thumb, top_tokens
from headviz.charts.verdicts import dispute_sentences
from headviz.readers import parse_heads, write_heads
from headviz.types import PatternRequest, QuestionsRef
from headviz.ui.disagreement.work import Work

EACH = 3  # cards of either side
TOLD = ("ahon", "ftvvn", "aeqd")  # beside the two scores: how loud, how empty the first token, how spread out


def panel(work: Work) -> None:
    found = agreement.disputes(work.table, work.a, work.b, work.quadrants.thresholds)
    sides = (
        (
            "only_a",
            [one for one in found if one.gap > 0 and work.quadrants.masks["only_a"][one.layer, one.head]],
        ),
        (
            "only_b",
            [one for one in found if one.gap < 0 and work.quadrants.masks["only_b"][one.layer, one.head]],
        ),
    )
    if not any(several for _, several in sides):
        st.info("No head is in dispute at this budget.", icon=":material/info:")
        return
    st.caption(
        "Most disputed: the largest difference between a head's places in the two rankings. Percentiles are of all heads."
    )
    for group, several in sides:
        if several:
            st.markdown(f"**{work.quadrants.names[group].capitalize()}**")
        for column, one in zip(st.columns(EACH, gap="small"), several[:EACH]):
            with column, st.container(border=True, key=f"card_{one.name.replace('.', '_')}"):
                card(work, one)


def card(work: Work, one: Dispute) -> None:
    st.markdown(f"**{one.name}**")
    for sentence in dispute_sentences(one, work.a, work.b):
        st.caption(sentence)
    told = [metric for metric in TOLD if metric in one.others and metric not in (one.a.metric, one.b.metric)]
    st.caption(
        " · ".join(
            f"{METRICS[metric].symbol} {fmt.with_unit(one.others[metric], value_unit(METRICS[metric]))}"
            for metric in told
        ),
        help="\n\n".join(f"**{METRICS[metric].symbol}**: {METRICS[metric].help}" for metric in told),
    )
    looked = parse_heads(ui.value("looked"))
    here = (one.layer, one.head)
    if here in looked:
        looks_at(work, one)
    elif not isinstance(work.plan.chosen_on, QuestionsRef):
        st.button(
            "What it looks at",
            key=f"look_{one.name}",
            on_click=lambda: ui.put("looked", write_heads({*looked, here})),
            width="stretch",
            help="Runs the model once on the first input and shows where each token looks.",
        )
    if st.button(
        "Show this head", key=f"show_{one.name}", width="stretch", help="Opens it on the Heads page."
    ):
        ui.pick_head(one.name)
        if one.a.metric in METRICS:
            ui.put("metric", one.b.metric if one.b.inactive else one.a.metric)
        st.switch_page("pages/heads.py")


def looks_at(work: Work, one: Dispute) -> None:
    request = PatternRequest(
        model=work.plan.model, data=work.plan.chosen_on, input=0, layer=one.layer, head=one.head
    )
    found = ui.answer(
        request,
        start=ui.starts_by_itself(request),
        button="Look",
        empty="One run of the model on the first input.",
        key=f"pattern_{one.name}",
    )
    if found is None:
        return
    ui.chart(
        pattern_thumb(found, theme=ui.theme()),
        key=f"thumb_{one.name}",
        name=f"attention-{one.name}",
        alt=f"Attention pattern of {one.name} on one input",
    )
    said = ", ".join(
        f"{j} `{plain_piece(piece)}` {fmt.number(weight)}" for j, piece, weight in top_tokens(found)
    )
    st.caption(f"Most attention, on the first input: {said}.")
