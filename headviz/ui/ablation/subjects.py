"""Panel: the change in each subject of a question set."""

from __future__ import annotations

import streamlit as st

from headviz.types import ScoreTable
from headviz.ui.ablation.measurements import Measurements


def panel(work: Measurements, table: ScoreTable) -> None:
    tree = work.report("zero")
    if tree is None or "subjects" not in tree:
        return
    st.markdown(
        "**By subject**, zero in their place. p is exact McNemar, corrected by Holm over the subjects."
    )
    st.dataframe(
        [
            {
                name: row[name]
                for name in ("subject", "n", "baseline", "ablated", "change", "lost", "gained", "p_holm")
            }
            for row in tree["subjects"]
        ],
        hide_index=True,
    )
