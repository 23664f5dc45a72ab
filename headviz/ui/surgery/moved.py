"""Panel: do sinks vanish or move, how far did untouched heads drift, and what do treated heads write?"""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.surgery import outcomes
from headviz.types import RepairRequest, RepairRun, head_name
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
            panels.lines_of(case, "Drift of untouched heads, 95th percentile", "|change of mass|", lambda run: drift(case, run), floor(case, outside), "two halves of the text"),
            panels.lines_of(case, "Norm after W_O, treated heads", "median norm", lambda run: written(case, run), float(np.median(stock.full_norm[inside]))),
        ],
        "Drift of untouched heads, and what treated heads write",
    )  # fmt: skip
    st.caption(
        "Left: how far the attention of heads that nobody treated moved; the dashed line is what the same heads differ by on two "
        "halves of the text before surgery, so below it there is nothing to see. Right: the length of what a treated head adds to the stream. It is "
        "0 right after surgery, when a head looks awake and says nothing."
    )
    by_head(case)


def by_head(case: Case) -> None:
    """Every untouched head's drift beside its own floor and beside the arm that only trained."""
    point = ui.value("point")
    found = outcomes.drift(case, "repair", point)
    if found is None:
        if "repair" in case.request.arms:
            panels.waiting("Untouched heads one by one: when the arm “Repair” has ended with a seed.")
        return
    st.markdown(count_words(case.request, found, point))
    st.dataframe(head_rows(found), hide_index=True, height=320, column_config=_columns())
    st.caption(
        "All untouched heads, those that moved furthest beyond their floor first. Moved: |change of the attention on the first token| "
        "against the model before surgery, mean over the seeds. Floor: by how much the same head of the model before surgery differs "
        "between two halves of the text; it is one difference, so by chance alone some heads lie beyond. What “Training, old weights” "
        "shows too does not come from new weights."
    )


def beyond(moved: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """(L, H) bool: untouched heads that moved by more than their floor. NaN, a treated head, is none."""
    known = ~np.isnan(moved) & ~np.isnan(floor)
    return known & (np.nan_to_num(moved) > np.nan_to_num(floor))


def count_words(request: RepairRequest, found: outcomes.Drift, point: str) -> str:
    """How many untouched heads moved beyond their floor, in the repair and in the arm that only trained."""

    def count(moved: np.ndarray) -> str:
        return fmt.count(int(beyond(moved, found.floor).sum()), int((~np.isnan(moved)).sum()))

    said = f"**{count(found.moved)} untouched heads moved beyond the floor**"
    if found.no_reinit is None and "no-reinit" in request.arms:
        beside = "; the arm “Training, old weights”, to compare with, has not ended yet"
    elif found.no_reinit is None:
        beside = "; there is no arm “Training, old weights” to compare with"
    else:
        beside = f"; with the same training from old weights {count(found.no_reinit)}"
    return f"{said} in the repair{beside} ({point} step)."


def head_rows(found: outcomes.Drift) -> list[dict[str, Any]]:
    """A row an untouched head, furthest beyond its floor first."""
    other = found.no_reinit if found.no_reinit is not None else np.full(found.moved.shape, np.nan)
    in_repair, in_other = beyond(found.moved, found.floor), beyond(other, found.floor)
    rows = []
    for layer, head in np.argwhere(~np.isnan(found.moved)).tolist():
        at = layer, head
        which = [name for name, there in (("repair", in_repair[at]), ("old weights", in_other[at])) if there]
        rows.append(
            {
                "head": head_name(layer, head),
                "moved": float(found.moved[at]),
                "floor": float(found.floor[at]),
                "other": None if np.isnan(other[at]) else float(other[at]),
                "beyond": " and ".join(which) or "neither",
            }
        )
    return sorted(rows, key=lambda row: row["floor"] - row["moved"])


def _columns() -> dict[str, Any]:
    column, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "head": text(width="small"),
        "moved": column("moved in repair", format="%.5f", help="|change of attention on the first token|, 0 to 1."),
        "floor": column("floor", format="%.5f", help="Difference between two halves of the text before surgery."),
        "other": column("moved, old weights", format="%.5f", help="The same head in the arm “Training, old weights”."),
        "beyond": text("beyond the floor in", help="In which of the two arms the head moved by more than its floor."),
    }  # fmt: skip


def random_total(case: Case, mask: np.ndarray) -> float:
    """What the heads of a mask (L, H) would have on the first token in all from their slopes alone."""
    return float(np.broadcast_to(case.stock.null_mass, mask.shape)[mask].sum(dtype=np.float64))


def drift(case: Case, run: RepairRun) -> np.ndarray:
    """(S,) 95th percentile of |mass − stock| over heads that no pass up to this one treats."""
    mask = ~case.mask(case.touched(run))
    moved = np.abs(run.mass[:, mask].astype(np.float64) - case.stock.mass[mask])
    return np.percentile(moved, 95, axis=1) if mask.any() else np.full(len(run.step), np.nan)


def floor(case: Case, untouched: np.ndarray) -> float:
    """95th percentile over the heads of `untouched` (L, H) of the difference between two halves of the text, before surgery."""
    halves = case.stock.half_mass.astype(np.float64)[:, untouched]
    return float(np.percentile(np.abs(halves[0] - halves[1]), 95)) if untouched.any() else float("nan")


def written(case: Case, run: RepairRun) -> np.ndarray:
    """(S,) median norm after W_O of the pass's treated heads."""
    where = tuple(np.array(run.heads, int).T)
    return np.median(run.full_norm[:, *where].astype(np.float64), axis=1)
