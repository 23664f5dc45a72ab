"""Panel: where the sink is, and AWFT that follows it."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import sinkplace
from headviz.charts import fmt, tables
from headviz.charts.pattern import plain_piece
from headviz.charts.sinkplace import sink_positions
from headviz.ui.disagreement.budget import FOLLOW
from headviz.ui.disagreement.work import POSITIONS, Work, sink_request


def panel(work: Work) -> None:
    request = sink_request(work.plan)
    places = ui.answer(
        request,
        start=ui.starts_by_itself(request),
        button="Find the sink",
        empty=f"One pass over the inputs finds how much attention each of the first {POSITIONS} tokens gets.",
        key="sinks",
    )
    if places is None:
        return
    sink, heads = sinkplace.model_sink(places), sinkplace.head_sinks(places)
    own = int((heads.position == sink.position).sum())
    st.markdown(
        f"**The sink is token {sink.position}** (`{plain_piece(sink.piece)}` in {fmt.percent(sink.share)} of the inputs): "
        f"{fmt.number(sink.weight)} of all attention goes there, and it is the strongest early token of "
        f"{fmt.count(own, heads.position.size)} heads. "
        + (
            "That is the first token, where AWFT looks."
            if sink.position == 0
            else "AWFT looks at the first token and misses it; let it follow the strongest early token, under More."
        )
    )
    ui.chart(
        sink_positions(
            sink, heads, theme=ui.theme(), provenance=tables.caption(places.provenance, work.table)
        ),
        key="sink_positions",
        name="headviz-sink",
        alt="Mean attention by position of the token",
    )
    st.caption(
        f"AWFT looks at {FOLLOW[ui.value('follow')]} now. A position counts on inputs at least twice as long, over the "
        "queries that can see it."
    )
