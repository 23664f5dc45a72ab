"""Panels: how far two scores agree at every budget, and all scores against all."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.charts import agree as charts
from headviz.charts import fmt, tables
from headviz.ui.disagreement.work import Work

TITLES = {"jaccard": "Jaccard", "overlap": "Overlap", "precision": "Precision"}


def curve_panel(work: Work) -> None:
    st.segmented_control(
        "Agreement as",
        list(TITLES),
        format_func=TITLES.get,
        required=True,
        help="Overlap: how many heads both scores take. Jaccard: those, of the heads that either takes; 1 is the same set, 0 "
        "none in common. Precision: those, of the heads that one of them takes. All grow with the budget even by chance, so "
        "compare with the grey.",
        **ui.keyed("agree_by"),
    )
    st.markdown(curve_words(work))
    curve_chart(work)


def curve_chart(work: Work) -> None:
    figure = charts.agreement_curve(
        work.curve,
        work.a,
        work.b,
        measure=ui.value("agree_by"),
        count=work.count,
        theme=ui.theme(),
        provenance=tables.caption(work.table.provenance, work.table),
    )
    ui.chart(
        figure,
        key="agreement",
        name="headviz-agreement",
        alt="Agreement of two scores over the number of heads",
    )


def curve_words(work: Work) -> str:
    if not 1 <= work.count <= work.curve.k.size:
        return "No head is called inactive, so there is nothing to compare at this budget."
    at = work.curve.at(work.count)
    text = (
        f"At {at['k']} heads each, {at['overlap']} are in common; of as many random heads {fmt.number(at['chance_overlap'])} "
        f"would be, in 95% of draws {at['chance_low']} to {at['chance_high']}. Jaccard {fmt.number(at['jaccard'])} "
        f"({fmt.number(at['chance_jaccard'])} by chance), precision {fmt.number(at['precision'])}."
    )
    if work.curve.left_out:
        text += f" {work.curve.left_out} heads have no value of one of the two and are left out."
    return text


def pair_clicked(key: str) -> None:
    """A callback: a cell of the matrix puts its two scores into the view."""
    points = st.session_state[key]["selection"]["points"]
    if not points or not (place := points[0].get("customdata")):
        return
    first, second = (place["0"], place["1"]) if isinstance(place, dict) else place[:2]
    if first != second:
        ui.put("first", first)
        ui.put("second", second)
        st.session_state.headviz_thresholds = True


def matrix_panel(work: Work) -> None:
    found = work.matrices()
    st.caption(
        "Alike beside alike: rows are in the order of a clustering by rank correlation (average linkage). +1 means that two "
        "scores call the same heads inactive, whichever direction they have. Click a cell to compare its two scores."
    )
    note = tables.caption(work.table.provenance, work.table)
    chosen = (work.a.row.id, work.b.row.id)
    for column, what in zip(st.columns(2, gap="medium"), ("rho", "jaccard")):
        with column:
            ui.chart(
                charts.score_matrix(found, what, chosen=chosen, theme=ui.theme(), provenance=note),
                key=f"matrix_{what}",
                on_select=lambda key=f"matrix_{what}": pair_clicked(key),
                name=f"headviz-scores-{what}",
                alt="Matrix of all scores against all",
            )
