"""What the large map of the ablation page shows: the score that chooses, the order by gradient, or the measured costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from headviz import ui
from headviz.charts import tables
from headviz.charts.order import gradient_map
from headviz.types import DataRef, QuestionsRef, ScoreTable
from headviz.ui.ablation import alone, order
from headviz.ui.ablation.alone import cost_map
from headviz.ui.ablation.measurements import Measurements
from headviz.ui.ablation.order import gradients

SHOWN = {"score": "Score", "gradient": "Gradient order", "cost": "Measured cost"}


def switch() -> None:
    """What the large map shows."""
    st.segmented_control(
        "The map shows",
        list(SHOWN),
        format_func=SHOWN.get,
        required=True,
        label_visibility="collapsed",
        help="Score: what chooses the heads. Gradient order: heads in the order of their absolute gradient, a first guess at "
        "which matter. Measured cost: what each head costs when it alone is off (panel Each head alone).",
        **ui.keyed("shown"),
    )


def shown_of(work: Measurements) -> DataRef | QuestionsRef:
    """The text, or the questions, that the numbers on the map were taken on."""
    if ui.value("shown") == "gradient":
        return order.asking(work).data
    return alone.asking(work).text if ui.value("shown") == "cost" else work.plan.chosen_on


def shown_map(work: Measurements, table: ScoreTable, selected: tuple[int, int] | None = None) -> Any:
    """The figure for the gradient order or the measured cost; None where the score is to be shown."""
    off = work.off.mask() if work.static else None
    if ui.value("shown") == "gradient":
        found = gradients(work)
        shape = (table.geometry.layers, table.geometry.heads)
        return gradient_map(
            np.full(shape, np.nan) if found is None else found.values,
            geometry=table.geometry,
            theme=ui.theme(),
            hatched=off,
            selected=selected,
            reason="not computed yet",
            provenance="" if found is None else tables.caption(found.provenance, found),
        )
    if ui.value("shown") == "cost":
        return cost_map(work, off, selected)
    return None
