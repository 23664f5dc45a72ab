"""Made-up repairs: plausible numbers of the right shapes, without a model and without training.

`small_request` is a plan whose numbers are easily worked out by hand.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headviz.types import (
    DataRef,
    Geometry,
    HeadTest,
    ModelRef,
    Provenance,
    Recipe,
    RepairReport,
    RepairRequest,
    RepairRun,
    RepairStock,
    plain,
)
from tests.fakes import fake_provenance

L, H, N, K = 6, 16, 24, 24  # layers, heads, held-out inputs, documents
SICK = tuple((layer, head) for layer in range(1, 5) for head in range(9, 16))  # 28 of 96
FIT = tuple((layer, head) for layer in range(1, 5) for head in range(2, 9))
SLOPES = tuple(2.0 ** (-8 * (head + 1) / H) for head in range(H))
# nats that the report part loses against stock at the best step, by arm: what a "repaired" verdict needs
SHIFTS = {"repair": -0.06, "untrained": 0.02, "no-reinit": -0.02, "healthy": 0.05, "removed": 0.04}


def data(corpus: str = "docstrings", part: str = "train", inputs: int = 64, tokens: int = 128) -> DataRef:
    return DataRef(corpus=corpus, revision="9c1f" * 16, part=part, inputs=inputs, tokens=tokens)


def repair_request(**changed) -> RepairRequest:
    """Four arms, two seeds, 100 steps, an evaluation every 20."""
    made = RepairRequest(
        model=ModelRef(source="bundled", name="smollm2", revision="5a13" * 16, dtype="float32"),
        heads=SICK,
        healthy=FIT,
        recipe=Recipe(rate=2e-3, batch=8, accumulate=1, warmup=25),
        arms=("repair", "untrained", "no-reinit", "removed"),
        seeds=(0, 1, 2),
        train=data(),
        held_out=data(part="held-out", inputs=N),
        other=data("stdlib-code", part="held-out", inputs=N),
        diagnose=data(part="held-out", inputs=8),
        steps=100,
        every=20,
    )
    return replace(made, **changed)


THREE = ((1, 2), (1, 3), (2, 3))  # heads of SMALL
SMALL = Geometry(
    family="bloom",
    layers=3,
    heads=4,
    kv_heads=4,
    head_dim=8,
    hidden=32,
    slopes=(0.25, 0.0625, 0.015625, 0.00390625),
)


def small_request(**changed) -> RepairRequest:
    """Three heads of SMALL, 20 steps, an evaluation every 10."""
    text = DataRef(corpus="docstrings", revision="b" * 64, inputs=8, tokens=64)
    made = RepairRequest(
        model=ModelRef(source="bundled", name="alibi-demo", revision="a" * 64, dtype="float32"),
        heads=THREE,
        recipe=Recipe(rate=2e-3, batch=8, accumulate=1),
        train=replace(text, part="train", inputs=64),
        held_out=replace(text, inputs=24),
        diagnose=replace(text, seed=1),
        steps=20,
        every=10,
    )
    return replace(made, **changed)


def repair_geometry(slopes: bool = True) -> Geometry:
    family = "bloom" if slopes else "llama"
    return Geometry(
        family=family,
        layers=L,
        heads=H,
        kv_heads=H,
        head_dim=8,
        hidden=128,
        slopes=SLOPES if slopes else None,
    )


def _mass(seed: int = 0) -> np.ndarray:
    """(L, H): collapsed heads near 0.8, the others near 0.1; one of the collapsed is dead."""
    rng = np.random.default_rng(seed)
    mass = np.clip(0.1 + rng.normal(0, 0.03, (L, H)), 0.01, 0.3)
    for at in SICK:
        mass[at] = 0.8 + rng.uniform(-0.1, 0.1)
    mass[2, 15] = 0.97
    return mass.astype(np.float32)


def repair_stock(other: bool = True) -> RepairStock:
    rng = np.random.default_rng(1)
    mass = _mass()
    apart = rng.normal(0, 0.004, (L, H)).astype(np.float32)
    many = N if other else 0
    return RepairStock(
        select=3.66,
        report=(3.7 + rng.normal(0, 0.2, N)),
        report_predicted=np.full(N, 127, np.int32),
        report_cluster=np.arange(N, dtype=np.int32) % K,
        other=4.9 + rng.normal(0, 0.2, many),
        other_predicted=np.full(many, 127, np.int32),
        other_cluster=np.arange(many, dtype=np.int32) % K,
        mass=mass,
        entropy=np.where(mass > 0.5, 0.9, 2.4).astype(np.float32),
        output_norm=np.where(mass > 0.5, 0.2, 1.0).astype(np.float32),
        full_norm=np.where(mass > 0.5, 0.1, 0.9).astype(np.float32),
        half_mass=np.stack([mass - apart, mass + apart]),
        null_mass=np.linspace(0.02, 0.06, H).astype(np.float32),
        null_entropy=np.linspace(1.3, 3.1, H).astype(np.float32),
    )


def repair_run(
    arm: str = "repair",
    seed: int = 0,
    *,
    stock: RepairStock | None = None,
    heads=None,
    steps: int = 100,
    every: int = 20,
    upto: int | None = None,
    shift: float | None = None,
    number: int = 1,
) -> RepairRun:
    """One run; `upto` leaves it unfinished at that step. shift: nats against stock at the best step."""
    stock = stock or repair_stock()
    heads = heads if heads is not None else (FIT if arm == "healthy" else SICK)
    shift = SHIFTS[arm] if shift is None else shift
    trained = arm not in ("untrained", "removed")
    last = (steps if upto is None else upto) if trained else 0
    step = np.arange(0, last + 1, every, dtype=np.int32) if trained else np.array([0], np.int32)
    S = len(step)
    rng = np.random.default_rng(100 * seed + sum(map(ord, arm)))
    grown = np.linspace(0, 1, S) if S > 1 else np.ones(1)
    mass = np.repeat(stock.mass[None], S, 0)
    for at in heads:
        if arm in ("repair", "untrained", "healthy", "removed"):
            mass[:, at[0], at[1]] = 0.08 + 0.02 * grown + rng.uniform(0, 0.02)
        else:
            mass[:, at[0], at[1]] -= 0.02 * grown
    elsewhere = rng.normal(0, 0.01, (L, H)).astype(np.float32)
    elsewhere[: min(layer for layer, _ in heads) + 1] = (
        0  # nothing above the first treated layer can know of it
    )
    for at in heads:
        elsewhere[at] = 0
    mass = np.clip(mass + grown[:, None, None] * elsewhere, 0, 1).astype(np.float32)
    full = np.repeat(stock.full_norm[None], S, 0)
    if arm != "no-reinit":
        for at in heads:
            full[:, at[0], at[1]] = 0 if arm in ("untrained", "removed") else 0.6 * grown
    done = upto is None
    nats = (
        stock.select
        + (0.03 - (0.03 - shift) * grown if trained else np.full(1, shift))
        + rng.normal(0, 1e-3, S)
    )
    gone = np.full(S, np.nan)
    along = gone.copy()
    along[1:] = 1
    per_input = shift + rng.normal(0, 0.01, N)
    empty = np.zeros(0)
    return RepairRun(
        arm=arm,
        seed=seed,
        number=number,
        heads=tuple(heads),
        step=step,
        train_loss=np.where(np.isnan(along), np.nan, nats - 0.05),
        select=nats,
        rate=along * 1e-3,
        gradient_norm=along * 0.7,
        tokens_per_second=along * 3500,
        mass=mass,
        entropy=np.where(mass > 0.5, 0.9, 2.4).astype(np.float32),
        output_norm=np.where(mass > 0.5, 0.2, 1.0).astype(np.float32),
        full_norm=full.astype(np.float32),
        best=int(step[int(np.argmin(nats))]),
        ended=("" if not done else "steps"),
        report_best=stock.report + per_input if done else empty,
        report_last=stock.report + per_input + 0.005 if done else empty,
        other_best=stock.other + per_input[: len(stock.other)] + 0.01 if done else empty,
        other_last=stock.other + per_input[: len(stock.other)] + 0.02 if done else empty,
    )


def repair_report(request: RepairRequest | None = None, *, slopes: bool = True, **shifts) -> RepairReport:
    """What came of `request`; `shifts`: nats against stock of arms (`no_reinit=…`), else SHIFTS."""
    request = request or repair_request()
    stock = repair_stock(request.other is not None)
    given = {name.replace("_", "-"): value for name, value in shifts.items()}
    runs = tuple(
        repair_run(
            arm, seed, stock=stock, heads=request.healthy if arm == "healthy" else request.heads,
            steps=request.steps, every=request.every, shift=given.get(arm),
        )
        for arm in request.arms
        for seed in request.seeds
    )  # fmt: skip
    tests = tuple(
        HeadTest(layer=layer, head=head, change=change, low=change - 2e-4, high=change + 2e-4, p=p, p_holm=min(1.0, 9 * p))
        for i, (layer, head) in enumerate(request.heads)
        for change, p in [(1e-3 if i % 4 == 0 else 5e-5, 1e-4 if i % 4 == 0 else 0.4)]
    )  # fmt: skip
    return RepairReport(
        stock=stock,
        runs=runs,
        tests=tests if "repair" in request.arms else (),
        frozen_before="ab" * 32,
        frozen_after="ab" * 32,
        trained=113_000,
        whole=302_000,
        shared_text=0.012,
        files=(),
        geometry=repair_geometry(slopes),
        provenance=repair_provenance(request),
    )


def repair_provenance(request: RepairRequest) -> Provenance:
    asked = {"kind": request.kind, **plain(request)}
    return replace(fake_provenance(), request=asked, threads=1, seconds=312.0, self_check={})
