"""How far a curve stays within a tolerance, in words that claim no more than was measured."""

from __future__ import annotations

from collections.abc import Sequence

from headviz import ui
from headviz.analysis.sweeps import WIDE
from headviz.analysis.tolerance import Tolerance
from headviz.analysis.yardsticks import Yardstick
from headviz.charts import fmt


def margin(yard: Yardstick) -> float:
    """The tolerance of the view, in the unit of changes: nats, or a share of the questions."""
    return ui.value(yard.tolerance) / yard.scale


def limit(yard: Yardstick) -> str:
    """`1 point`, `0.05 nats`."""
    value = ui.value(yard.tolerance)
    unit = "point" if yard.unit == "points" and value == 1 else yard.unit
    return f"{value:g} {unit}"


def share_words(edge: Tolerance | None, yard: Yardstick) -> str:
    """`largest share within 1 point: **12.3%** (last measured inside 10.0%, first outside 15.2%)`, or why there is none."""
    said = f"largest share within {limit(yard)}"
    if edge is None:
        return f"{said}: nothing is measured yet"
    last, share = fmt.percent(edge.inside), fmt.percent(edge.share)
    if edge.status == "crosses":
        first = fmt.percent(edge.outside)
        if edge.outside - edge.inside > WIDE:
            return f"{said}: **between {last} and {first}** (nothing is measured there; a straight line says {share})"
        return f"{said}: **{share}** (last measured inside {last}, first outside {first})"
    if edge.status == "never outside":
        return f"{said}: **at least {last}**, the last share measured: no measured point is outside"
    return (
        f"{said}: **not settled**: the curve left {limit(yard)} and is inside again from {share} to the last share "
        f"measured, {last}"
    )


def reached_words(within: float, status: str, bracket: Sequence[float]) -> str:
    """A figure to quote, with no more said than was measured: `12.3%`, `at least 30.0%`, `between 0% and 20.0%`.

    within, bracket: fractions, as `sweeps.reached` and `Tolerance` have them
    """
    if status == "not measured":
        return status
    if status == "never outside":
        return f"at least {fmt.percent(within)}"
    if status == "ends inside":
        return f"not settled (outside after {fmt.percent(within)}, then inside again)"
    low, high = bracket
    if high - low > WIDE:
        return f"between {fmt.percent(low)} and {fmt.percent(high)}"
    return fmt.percent(within)


def chance_words(accuracy: float) -> str:
    return (
        f"The model is at chance on these questions (accuracy {fmt.percent(accuracy)} with nothing off), so accuracy cannot "
        "show a loss: the curve counts the log-probability of the right answer instead."
    )
