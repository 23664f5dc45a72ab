"""The two large figures of the bands page: the map, and mass against slope."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import bands as of
from headviz.charts import tables
from headviz.charts.bands_map import bands_map
from headviz.charts.by_slope import Cloud, mass_by_slope
from headviz.types import head_name
from headviz.ui.bands import others, published, words
from headviz.ui.bands.controls import overlaid
from headviz.ui.bands.work import Work, levels, name_of
from headviz.ui.compare.figures import clicked


def note(work: Work) -> str:
    return tables.caption(work.bands.provenance)


def draw_map(work: Work) -> None:
    rows = ", rows after the first" if work.later else ""
    ui.chart(
        bands_map(
            work.mass,
            work.named,
            words.hovers(work),
            of.counts(work.named),
            geometry=work.geometry,
            order=work.order(),
            theme=ui.theme(),
            selected=work.picked(),
            provenance=note(work),
            title=f"Attention on the first token{rows}",
        ),
        key="bands_map",
        on_select=lambda: clicked("bands_map"),
        name="headviz-bands",
        alt="Map of attention on the first token, with the class of every head",
    )
    st.caption(outlined(work))
    if work.slopes is None:
        st.caption(
            "This model has no ALiBi slopes, so there is no slope axis and heads stand by index. The classes mean the same; the grey "
            "line is even attention over all tokens so far."
        )


def outlined(work: Work) -> str:
    """Which head has the outline in both figures, and why."""
    name = head_name(*work.picked())
    if work.somebody_picked:
        return f"Outlined: {name}, the picked head."
    return f"Outlined: {name}, the head with the most attention on the first token, while none is picked. A click picks one."


def draw_scatter(work: Work) -> None:
    every = {name_of(work.request): work, **others.gathered(work)}
    by_slope = ui.value("order") == "slope" and work.slopes is not None
    clouds = [
        Cloud(
            label=name,
            mass=one.mass,
            slopes=one.slopes,
            hover=words.hovers(one, name if len(every) > 1 else ""),
        )
        for name, one in every.items()
    ]
    ui.chart(
        mass_by_slope(
            clouds,
            levels(work),
            axis="slope" if by_slope else "index",
            lines={"sink": work.at.sink, "dead": work.at.dead},
            theme=ui.theme(),
            selected=work.picked(),
            provenance=" · ".join([note(work), *(name for name in every if name != name_of(work.request))]),
            width=300,
            published=() if work.slopes is None else published.references(),
        ),
        key="by_slope",
        on_select=lambda: clicked("by_slope"),
        name="headviz-mass-by-slope",
        alt="Attention on the first token against the slope, one dot a head",
    )
    if work.slopes is not None:
        published.switch()
    overlaid()
    bare = [name for name, one in every.items() if one.slopes is None]
    if by_slope and bare:
        st.caption(
            f"Without ALiBi slopes, so not on this axis: {', '.join(bare)}. Order by index shows them."
        )
    st.caption(
        f"Grey line: the mass {'of even attention' if work.slopes is None else 'a head would have from its slope alone'}. Dotted, with the range of its draws: a head with fresh random "
        "weights and no training (inputs drawn with correlation 0.5), which looks awake already."
        + (
            ""
            if len(every) > 1 or work.slopes is None
            else " Add a model with another number of heads, and change the order."
        )
    )
