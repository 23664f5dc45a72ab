"""A step of surgery, and what it holds in memory, against the naive way: whole matrices and a gradient mask.

A model of BLOOM's shape, 8 layers of 16 heads, 1,024 wide, float32, and the paper's share of heads: 36 of 128 in six layers,
as 108 of 384 in eighteen. Both ways read the same two windows of 512 tokens a step, with the same new weights and the same
AdamW; the naive one runs the stock model with its stock attention, as the paper did.
"""

from __future__ import annotations

import os

from headviz.machine import cores
from tests.bench.rows import Row, child, timed

CHILD = "tests.bench.surgery_child"
MASKED = "whole matrices, masked"
SHAPE = (8, 16, 1024, 512)  # layers, heads, model size, tokens
LESS = (4, 8, 256, 128)  # with SURGERY_BENCH_SMALL set: whether it runs at all


def run(repeats: int) -> list[Row]:
    """All rows. Takes about three minutes on two cores."""
    shape = [str(number) for number in (LESS if os.environ.get("SURGERY_BENCH_SMALL") else SHAPE)]
    held = {way: child(CHILD, "held", way, *shape) for way in ("ours", "naive")}
    peaks = {way: child(CHILD, "peak", way, *shape) for way in ("ours", "naive")}
    seen = child(CHILD, "times", str(repeats), str(cores()), *shape)
    times, losses = seen["times"], seen["losses"]
    return [
        _memory("gradients and AdamW's moments", held, "optimiser", 0.4),
        _memory("the same and the trained numbers", held, "all", None),
        Row("peak memory of steps, beside the model", peaks["ours"], MASKED, peaks["naive"], "GB", 1.0),
        timed("optimiser step, 2 windows", times["ours"], MASKED, times["naive"], 1.0),
        timed(
            "optimiser step, both with our attention",
            times["ours"],
            MASKED,
            times["naive, our attention"],
            1.0,
        ),
        Row("loss of the last step", losses["ours"], MASKED, losses["naive"], "nats"),
    ]


def _memory(case: str, held: dict[str, dict[str, float]], what: str, target: float | None) -> Row:
    ours, naive = (round(held[way][what] / 1e6, 1) for way in ("ours", "naive"))
    return Row(case, ours, MASKED, naive, "MB", target)
