"""Scoring against the forward pass it rides on, and against what others do: materialise attention.

On the bundled model at T=1024, B=4, without the LM head, same threads; memory at several lengths; a BLOOM-shaped model
against transformers' own BLOOM. What is timed runs in child processes (`score_child.py`).
"""

from __future__ import annotations

import sys

import psutil

from headviz import machine
from tests.bench.rows import Row, child, timed

CHILD = "tests.bench.score_child"
PLAIN = "plain SDPA forward"
EAGER = "output_attentions=True, eager"
_EAGER_NEEDS = 8 << 30  # bytes; it would take the machine down without them


def run(repeats: int) -> list[Row]:
    """All rows."""
    rows: list[Row] = []
    for dtype in ("bfloat16", "float32"):
        _say(f"times on the bundled model in {dtype}")
        times = child(CHILD, "times", dtype, str(repeats))
        for what, target in (
            ("twelve scores", 1.7),
            ("scores without entropy", 1.2),
            ("all fifteen scores", None),
        ):
            rows.append(timed(f"{what}, {dtype}, T=1024 B=4", times[what], PLAIN, times[PLAIN], target))
    return rows + _against_eager(min(repeats, 3)) + _growth() + _bloom(repeats) + _nearness()


def _against_eager(repeats: int) -> list[Row]:
    if psutil.virtual_memory().available < _EAGER_NEEDS:
        _say("too little memory is free for output_attentions=True at T=1024, B=4: left out")
        return []
    dtype = machine.auto_dtype()  # what a person here would compute in
    _say(f"times and memory against output_attentions=True in {dtype}")
    times = child(CHILD, "eager-times", dtype, str(repeats))
    ours, plain, eager = (
        child(CHILD, "memory", dtype, "4", "1024", what) for what in ("ours", "plain", "eager")
    )
    where = f"{dtype}, T=1024 B=4"
    return [
        timed(f"twelve scores, {where}", times["twelve scores"], EAGER, times["forward"], 0.5),
        timed(f"twelve scores, {where}", times["twelve scores"], f"{EAGER}, AWFT and AEQD", times["scores"]),
        Row(f"memory of the pass, {where}", ours, EAGER, eager, "GB"),
        Row(f"memory of the pass, {where}", ours, PLAIN, plain, "GB"),
    ]


def _growth() -> list[Row]:
    """Memory at twice the length: 2 is linear, 4 would be quadratic."""
    rows, before = [], 0.0
    for T in (512, 1024, 2048, 4096):
        _say(f"memory at T={T}")
        now = child(CHILD, "memory", "bfloat16", "2", str(T), "ours")
        if before:
            rows.append(Row(f"memory of the pass, T={T} B=2", now, f"ours at T={T // 2}", before, "GB", 2.5))
        before = now
    return rows


def _bloom(repeats: int) -> list[Row]:
    rows = []
    for dtype in ("bfloat16", "float32"):
        _say(f"a BLOOM-shaped model in {dtype}")
        times = child(CHILD, "bloom", dtype, str(repeats))
        where = f"BLOOM 560m's shape, 4 layers, {dtype}, T=1024 B=2"
        for what in ("our attention", "twelve scores"):
            rows.append(timed(f"{what}, {where}", times[what], "stock eager forward", times["stock"]))
    return rows


def _nearness() -> list[Row]:
    """How far bf16 is from float32, under the probe and under stock attention, and from each other."""
    _say("distances between bf16 and float32")
    far = child(CHILD, "nearness")
    rows = []
    for i, (score, unit, bound) in enumerate((("AWFT", "probability", 0.01), ("AEQD", "nats", 0.02))):
        case, stock = f"worst head's mean {score}, bf16", far["stock to float32"][i]
        rows.append(
            Row(f"{case}: probe to float32", far["probe to float32"][i], "stock to float32", stock, unit)
        )
        rows.append(Row(f"{case}: probe to stock", far["probe to stock"][i], "bound", bound, unit, 1.0))
    return rows


def _say(doing: str) -> None:
    print(f"… {doing}", file=sys.stderr, flush=True)
