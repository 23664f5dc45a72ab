"""Panel: the change in each subject of a question set."""

from __future__ import annotations

from typing import Any

import streamlit as st

from headviz.charts import fmt
from headviz.types import ScoreTable
from headviz.ui.ablation.measurements import Measurements

_HELP = {
    "Before": "Share answered right with nothing off.",
    "After": "Share answered right with zero in the heads' place.",
    "Change, points": "After − before, in percentage points.",
    "95% interval": "Of the change, from the answers that flipped (score test).",
    "Lost": "Questions that became wrong.",
    "Gained": "Questions that became right.",
    "p, corrected": "Exact McNemar test, corrected by Holm for the number of subjects. A large p is not “no effect”.",
}


def panel(work: Measurements, table: ScoreTable) -> None:
    if work.plan.text is not None:
        st.info(
            "Subjects are parts of a set of questions, and here the loss on text is measured. Choose the quiz, MMLU or your own "
            "questions under **Measured on**.",
            icon=":material/info:",
        )
        return
    tree = work.report("zero")
    if tree is None:
        st.caption("The subjects follow when this is measured.")
        return
    st.markdown("**By subject**, zero in their place.")
    st.dataframe(
        [shown(row) for row in tree["subjects"]],
        hide_index=True,
        column_config={name: st.column_config.Column(help=text) for name, text in _HELP.items()},
    )


def shown(row: dict[str, Any]) -> dict[str, Any]:
    """A subject's row as it stands on screen: accuracies in percent, changes in points."""
    low, high = (fmt.number(100 * row[end]) for end in ("low", "high"))
    return {
        "Subject": row["subject"].replace("_", " "),
        "Questions": row["n"],
        "Before": fmt.percent(row["baseline"]),
        "After": fmt.percent(row["ablated"]),
        "Change, points": round(100 * row["change"], 2),
        "95% interval": f"[{low}, {high}]",
        "Lost": row["lost"],
        "Gained": row["gained"],
        "p, corrected": fmt.number(row["p_holm"]),
    }
