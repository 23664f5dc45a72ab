"""The model before surgery, on the texts of a plan: what every arm is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from headviz.analysis import nulls
from headviz.errors import Failure
from headviz.surgery import evaluate, progress
from headviz.surgery.runs import Work
from headviz.surgery.texts import Texts, halves
from headviz.types import RepairStock


def measured(work: Work) -> RepairStock:
    """The model before surgery; measured once a repair."""
    if (there := progress.read_stock(work.place)) is not None:
        return there
    loaded, texts, meter = work.loaded, work.texts, work.meter
    meter.begin("model before surgery", 0)
    meter.say("measuring")
    none = np.zeros(0)
    other = texts.other
    report = evaluate.losses(loaded, texts.report, meter)
    elsewhere = none if other is None else evaluate.losses(loaded, other, meter)
    select = evaluate.token_mean(evaluate.losses(loaded, texts.select, meter), texts.select)
    each = evaluate.diagnose(loaded, texts.diagnose, meter)
    if not (np.isfinite(select) and np.isfinite(report).all() and np.isfinite(elsewhere).all()):
        raise Failure(
            f"The model's loss is not finite before surgery, in {loaded.ref.dtype}. Load it in float32 or bfloat16, or "
            "check its weights."
        )
    null_mass, null_entropy = _nulls(loaded, texts)
    stock = RepairStock(
        select=select,
        report=report,
        report_predicted=(texts.report.lengths - 1).astype(np.int32),
        report_cluster=texts.report.cluster.astype(np.int32),
        other=elsewhere,
        other_predicted=(none if other is None else other.lengths - 1).astype(np.int32),
        other_cluster=(none if other is None else other.cluster).astype(np.int32),
        **{name: numbers.mean(0) for name, numbers in each.items()},
        half_mass=_halves(each["mass"], texts),
        null_mass=null_mass,
        null_entropy=null_entropy,
    )
    progress.write_stock(work.place, stock, meter)
    return stock


def _halves(mass: np.ndarray, texts: Texts) -> np.ndarray:
    """(2, L, H) mean mass on each half of the diagnostic text; NaN where there is one input."""
    return np.stack(
        [
            mass[rows].mean(0) if len(rows) else np.full(mass.shape[1:], np.nan, mass.dtype)
            for rows in halves(texts.diagnose)
        ]
    )


def _nulls(loaded: Any, texts: Texts) -> list[np.ndarray]:
    """(H,) mass and entropy that the slopes alone give on the diagnostic text."""
    slopes = loaded.geometry.slopes or (0.0,) * loaded.geometry.heads
    lengths, often = np.unique(texts.diagnose.lengths, return_counts=True)
    return [
        np.array([np.average([of(slope, int(T)) for T in lengths], weights=often) for slope in slopes])
        for of in (nulls.null_mass, nulls.null_entropy)
    ]
