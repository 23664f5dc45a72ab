"""Scatter and map of the same heads: a box or a click in either marks heads in both."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis.agreement import Group
from headviz.charts import quadrants, tables
from headviz.readers import parse_heads, write_heads
from headviz.types import head_name
from headviz.ui.ablation.hand import HAND, put_set
from headviz.ui.disagreement.work import Work

SHOWN = 24  # names that are written out


def brushed(key: str) -> None:
    """A callback of either chart: a box marks its heads, a click adds or removes one and picks it for every page.

    A redrawn chart sends an empty selection: that is no deselection.
    """
    event = st.session_state[key]["selection"]
    heads = {
        (int(place["0"]), int(place["1"])) if isinstance(place, dict) else (int(place[0]), int(place[1]))
        for point in event["points"]
        if (place := point.get("customdata"))
    }
    if not heads:
        return
    if event.get("box"):
        marked = heads
    else:
        marked = set(parse_heads(ui.value("marked"))) ^ heads
        if len(heads) == 1:
            ui.pick_head(head_name(*next(iter(heads))))
    ui.put("marked", write_heads(marked))


def mark(heads) -> None:
    """A callback."""
    ui.put("marked", write_heads(heads))


def charts(work: Work) -> None:
    note = tables.caption(work.table.provenance, work.table)
    left, right = st.columns([5, 3], gap="medium")
    with left:
        scatter(work, note)
    with right:
        figure = quadrants.group_map(
            work.a,
            work.b,
            work.quadrants,
            geometry=work.table.geometry,
            theme=ui.theme(),
            marked=work.marked,
        )
        _pointer(figure)
        ui.chart(
            figure,
            key="group_map",
            on_select=lambda: brushed("group_map"),
            box=ui.value("boxes"),
            name="headviz-groups-map",
            alt="Map of layers by heads, each head in the colour and shape of its group",
        )
    marks(work)


def scatter(work: Work, note: str) -> None:
    figure = quadrants.quadrant_scatter(
        work.a, work.b, work.quadrants, theme=ui.theme(), marked=work.marked, provenance=note
    )
    _pointer(figure)
    ui.chart(
        figure,
        key="quadrants",
        on_select=lambda: brushed("quadrants"),
        box=ui.value("boxes"),
        name=f"headviz-{work.a.row.id}-against-{work.b.row.id}",
        alt=f"{work.a.row.symbol} against {work.b.row.symbol}, a point a head, four quadrants",
    )


def _pointer(figure) -> None:
    """A drag draws a box where boxes mark: Streamlit's charts take either boxes or clicks."""
    if ui.value("boxes"):
        figure.update_layout(dragmode="select")


def marks(work: Work) -> None:
    """What is marked, and what can be done with it."""
    groups: tuple[Group, ...] = ("only_a", "only_b")
    with st.container(horizontal=True, vertical_alignment="center", key="marks"):
        st.toggle(
            "Box",
            help="On: drag a box in either figure to mark the heads in it. Off: click single heads to mark or unmark them.",
            **ui.keyed("boxes"),
        )
        for group in groups:
            heads = work.quadrants.heads(group)
            st.button(
                f"Mark {work.quadrants.names[group]}",
                key=f"mark_{group}",
                on_click=mark,
                args=(heads,),
                disabled=not heads,
                help="Marks every head of this group in both figures.",
            )
        st.button(
            "Unmark",
            key="unmark",
            on_click=mark,
            args=((),),
            disabled=not work.marked,
            help="No head is marked.",
        )
        if st.button(
            "Switch these off",
            key="marked_off",
            disabled=not work.marked,
            help="Opens the Ablation page with the marked heads as a set by hand.",
        ):
            ui.put("pick", "hand")
            ui.put("mode", "static")
            # by the scores on this text, whatever else is on the page
            put_set(work.marked, (work.plan.chosen_on,), f"{HAND}, on the Disagreement page")
            st.switch_page("pages/ablation.py")
    if not work.marked:
        do = "Drag a box in" if ui.value("boxes") else "Click heads in"
        st.caption(f"{do} either figure to see them in the other.")
        return
    heads = sorted(work.marked)
    names = ", ".join(head_name(*head) for head in heads[:SHOWN]) + (" …" if len(heads) > SHOWN else "")
    counts = ", ".join(
        f"{count} {work.quadrants.names[group]}"
        for group, mask in work.quadrants.masks.items()
        if (count := sum(bool(mask[head]) for head in heads))
    )
    st.markdown(f"**{len(heads)} marked** ({counts}): {names}")
