"""Small repairs for tests: requests, runs and reports made up, with the numbers that a test wants."""

from dataclasses import replace

import numpy as np

from headviz.types import (
    DataRef,
    Geometry,
    HeadTest,
    ModelRef,
    Recipe,
    RepairReport,
    RepairRequest,
    RepairRun,
    RepairStock,
    SavedFile,
)
from tests.unit.samples import provenance

L, H, N = 3, 4, 12
SLOPES = (0.25, 0.0625, 0.015625, 0.00390625)
SHAPE = Geometry(family="bloom", layers=L, heads=H, kv_heads=H, head_dim=8, hidden=32, slopes=SLOPES)
HEADS = ((1, 2), (1, 3), (2, 3))
TEXT = DataRef(corpus="docstrings", revision="b" * 64, inputs=8, tokens=64)


def repair_request(**more) -> RepairRequest:
    fields = {
        "model": ModelRef(source="bundled", name="alibi-demo", revision="a" * 64, dtype="float32"),
        "heads": HEADS,
        "recipe": Recipe(rate=2e-3, batch=8, accumulate=1),
        "train": replace(TEXT, part="train", inputs=64),
        "held_out": replace(TEXT, inputs=24),
        "diagnose": replace(TEXT, seed=1),
        "steps": 20,
        "every": 10,
    }
    return RepairRequest(**(fields | more))


def masses(of_treated: float = 0.9, treated=HEADS, others: float = 0.1) -> np.ndarray:
    """(L, H) BOS mass: one number for the treated heads, one for the others."""
    mass = np.full((L, H), others)
    for layer, head in treated:
        mass[layer, head] = of_treated
    return mass


def stock(**more) -> RepairStock:
    fields = {
        "select": 3.66,
        "report": np.full(N, 3.66) + np.linspace(-0.4, 0.4, N),
        "report_predicted": np.full(N, 63, np.int32),
        "report_cluster": np.arange(N, dtype=np.int32) // 2,
        "other": np.full(N, 4.2),
        "other_predicted": np.full(N, 63, np.int32),
        "other_cluster": np.arange(N, dtype=np.int32),
        "mass": masses(),
        "entropy": np.full((L, H), 2.0),
        "output_norm": np.ones((L, H)),
        "full_norm": np.ones((L, H)),
        "half_mass": np.stack([masses(), masses(others=0.11)]),
        "null_mass": np.full(H, 0.05),
        "null_entropy": np.full(H, 2.5),
    }
    return RepairStock(**(fields | more))


def run(arm: str = "repair", seed: int = 0, shift: float = 0.0, other: float = 0.0, **more) -> RepairRun:
    """A run of three evaluations whose report loss is the stock's plus `shift` nats, the other domain's plus `other`."""
    base = stock()
    after = masses(0.1)
    still = masses()
    ended = still if arm == "no-reinit" else after
    number = np.full((L, H), 2.0)
    fields = {
        "arm": arm,
        "seed": seed,
        "number": 1,
        "heads": HEADS,
        "step": np.array([0, 10, 20], np.int32),
        "train_loss": np.array([np.nan, 3.7, 3.6]),
        "select": np.array([3.67, 3.66, 3.65]),
        "rate": np.array([np.nan, 1e-3, 0.0]),
        "gradient_norm": np.array([np.nan, 0.5, 0.4]),
        "tokens_per_second": np.array([np.nan, 900.0, 910.0]),
        "mass": np.stack([ended, ended, ended]),
        "entropy": np.stack([number] * 3),
        "output_norm": np.stack([number] * 3),
        "full_norm": np.stack([number] * 3),
        "best": 20,
        "ended": "steps",
        "report_best": base.report + shift,
        "report_last": base.report + shift,
        "other_best": base.other + other,
        "other_last": base.other + other,
    }
    return RepairRun(**(fields | more))


def repair_report(runs=None, **more) -> RepairReport:
    fields = {
        "stock": stock(),
        "runs": tuple(
            runs if runs is not None else [run(arm) for arm in ("repair", "untrained", "no-reinit")]
        ),
        "tests": (
            HeadTest(layer=1, head=2, change=0.02, low=0.01, high=0.03, p=0.001, p_holm=0.003),
            HeadTest(layer=1, head=3, change=0.0, low=-0.01, high=0.01, p=0.9, p_holm=1.0),
        ),
        "frozen_before": "f" * 64,
        "frozen_after": "f" * 64,
        "trained": 3168,
        "whole": 8448,
        "shared_text": 0.001,
        "files": (SavedFile(name="repair-0-1.safetensors", sha256="e" * 64, bytes=1234),),
        "geometry": SHAPE,
        "provenance": provenance(repair_request()),
    }
    return RepairReport(**(fields | more))
