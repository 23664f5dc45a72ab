"""A repair's outcome as JSON types: what `repair --out` writes and the page hands out. numpy only."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from headviz.surgery import outcomes
from headviz.surgery.outcomes import ArmLoss, Mean, Point, SeedChange
from headviz.surgery.verdict import judge
from headviz.types import RepairReport, RepairRequest, RepairRun, head_name, plain

if TYPE_CHECKING:
    from headviz.analysis.paired import MeanChange


def as_text(tree: dict[str, Any]) -> str:
    """`report_tree` as a file."""
    return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def report_tree(
    request: RepairRequest, report: RepairReport, point: Point = "best", *, job: str = ""
) -> dict[str, Any]:
    """A repair's outcome as JSON types: what `repair --out` writes. Losses in nats a token, intervals [low, high] at 95%.

    job: digest of the repair, where it is to be told
    """
    judged = judge(request, report, point)
    drift = outcomes.drift(report, "repair", point)
    return {
        "request": {"kind": request.kind, **plain(request)},
        "point": point,
        "verdict": {
            "word": judged.word,
            "reason": judged.reason,
            "sentences": list(judged.sentences),
            "notes": list(judged.notes),
        },
        "heads_per_class": _classes_tree(request, report, point),
        "held_out": {row.arm: _loss_tree(row) for row in outcomes.arm_losses(report, point)},
        "frozen_identical": report.frozen_identical,
        "frozen_before": report.frozen_before,
        "frozen_after": report.frozen_after,
        "trained_numbers": report.trained,
        "numbers_of_whole_matrices": report.whole,
        "shared_13_grams": report.shared_text,
        "single_heads": [{"name": head_name(test.layer, test.head), **asdict(test)} for test in report.tests],
        "drift": None
        if drift is None
        else {
            "mean": _number(drift.mean()),
            "above_0.05_and_floor": drift.count(),
            "mean_of_no_reinit": None if drift.no_reinit is None else _number(_nanmean(drift.no_reinit)),
        },
        "curves": [_curve_tree(request, run) for run in report.runs],
        "provenance": plain({**asdict(report.provenance), "request": None}),
        **({"job": job} if job else {}),
    }


def _classes_tree(request: RepairRequest, report: RepairReport, point: Point) -> dict[str, Any]:
    tree: dict[str, Any] = {
        "before": {name: int(n[0]) for name, n in outcomes.class_counts(report.stock, request).items()}
    }
    for run in report.runs:
        at = outcomes.index(run, point)
        after = {name: int(counts[at]) for name, counts in outcomes.class_counts(run, request).items()}
        tree.setdefault("after", []).append(
            {"arm": run.arm, "seed": run.seed, "pass": run.number, "step": int(run.step[at]), **after}
        )
    return tree


def _loss_tree(row: ArmLoss) -> dict[str, Any]:
    return {
        "seeds": list(row.seeds),
        "steps": list(row.steps),
        "report": _mean_tree(row.report),
        "other": row.other and _mean_tree(row.other),
        "against_stock": _change_tree(row.against_stock),
        "against_no_reinit": _change_tree(row.against_no_reinit),
        "other_against_stock": _change_tree(row.other_against_stock),
        "other_against_no_reinit": _change_tree(row.other_against_no_reinit),
        "each_against_stock": [_seed_tree(each) for each in row.each_against_stock],
        "each_against_no_reinit": [_seed_tree(each) for each in row.each_against_no_reinit],
        "against_healthy": _change_tree(row.against_healthy),
    }


def _mean_tree(mean: Mean) -> dict[str, Any]:
    return {
        "loss": mean.loss,
        "interval": [_number(mean.low), _number(mean.high)],
        "perplexity": mean.perplexity,
        "documents": mean.documents,
    }


def _change_tree(change: MeanChange | None) -> dict[str, Any] | None:
    if change is None:
        return None
    return {
        "change": change.change,
        "interval": [_number(change.low), _number(change.high)],
        "documents": change.clusters,
        "method": change.method,
    }


def _seed_tree(each: SeedChange) -> dict[str, Any]:
    return {
        "seed": each.seed,
        "change": each.change,
        "interval": [_number(each.low), _number(each.high)],
    }


def _curve_tree(request: RepairRequest, run: RepairRun) -> dict[str, Any]:
    names = ("train_loss", "select", "rate", "gradient_norm", "tokens_per_second")
    return {
        "arm": run.arm,
        "seed": run.seed,
        "pass": run.number,
        "heads": [head_name(*head) for head in run.heads],
        "best": run.best,
        "ended": run.ended,
        "step": run.step.tolist(),
        **{name: [_number(value) for value in getattr(run, name).tolist()] for name in names},
        "heads_per_class": {
            name: counts.tolist() for name, counts in outcomes.class_counts(run, request).items()
        },
        "total_mass": outcomes.total_mass(run).tolist(),
    }


def _number(value: float) -> float | None:
    """JSON has no NaN: what was not measured is null."""
    return float(value) if math.isfinite(value) else None


def _nanmean(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else math.nan
