"""Panel: do sinks vanish or move, how far did untouched heads drift, and what do treated heads write?"""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz.charts import fmt
from headviz.types import RepairRun
from headviz.ui.surgery import panels
from headviz.ui.surgery.case import Case


def panel(case: Case) -> None:
    """Do sinks vanish or move? Mass of treated and untouched heads; drift; what a treated head writes."""
    if case.stock is None:
        panels.waiting("The model before surgery is being measured.")
        return
    stock = case.stock
    some = case.arms[0] if case.arms else case.request.arms[0]
    inside, outside = case.among("treated", some), case.among("untouched", some)

    def total(which: str):
        return lambda run: run.mass[:, case.among(which, run.arm)].sum(1, dtype=np.float64)

    panels.draw(
        case,
        "relocated",
        [
            panels.lines_of(
                case,
                "Attention on the first token, treated heads",
                "sum over heads",
                total("treated"),
                stock.mass[inside].sum(),
            ),
            panels.lines_of(
                case, "… and all other heads", "sum over heads", total("untouched"), stock.mass[outside].sum()
            ),
        ],
        "Total attention on the first token of treated and of untouched heads",
    )
    st.caption(
        "Where the left one falls and the right one rises, the sinks have moved. The dashed line is the model before surgery; as many "
        f"heads without preference for content would have {fmt.number(random_total(case, inside))} on the left."
        + (
            " Healthy heads are an arm with other treated heads, so its dashed line lies elsewhere."
            if "healthy" in case.arms
            else ""
        )
    )
    panels.draw(
        case,
        "drift",
        [
            panels.lines_of(case, "Drift of untouched heads, 95th percentile", "|change of mass|", lambda run: drift(case, run), floor(case)),
            panels.lines_of(case, "Norm after W_O, treated heads", "median norm", lambda run: written(case, run), float(np.median(stock.full_norm[inside]))),
        ],
        "Drift of untouched heads, and what treated heads write",
    )  # fmt: skip
    st.caption(
        "Left: how far the attention of heads that nobody treated moved; the dashed line is what the same model differs by on two "
        "halves of the text, so below it there is nothing to see. Right: the length of what a treated head adds to the stream. It is "
        "0 right after surgery, when a head looks awake and says nothing."
    )


def random_total(case: Case, mask: np.ndarray) -> float:
    """What the heads of a mask (L, H) would have on the first token in all from their slopes alone."""
    return float(np.broadcast_to(case.stock.null_mass, mask.shape)[mask].sum(dtype=np.float64))


def drift(case: Case, run: RepairRun) -> np.ndarray:
    """(S,) 95th percentile of |mass − stock| over heads that no pass up to this one treats."""
    mask = np.ones(case.shape, bool)
    for at in case.touched(run):
        mask[at] = False
    moved = np.abs(run.mass[:, mask].astype(np.float64) - case.stock.mass[mask])
    return np.percentile(moved, 95, axis=1) if mask.any() else np.full(len(run.step), np.nan)


def floor(case: Case) -> float:
    """95th percentile of the difference between the two halves of the text, same model, all heads."""
    return float(np.percentile(np.abs(case.stock.half_mass[0] - case.stock.half_mass[1]), 95))


def written(case: Case, run: RepairRun) -> np.ndarray:
    """(S,) median norm after W_O of the pass's treated heads."""
    where = tuple(np.array(run.heads, int).T)
    return np.median(run.full_norm[:, *where].astype(np.float64), axis=1)
