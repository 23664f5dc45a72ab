"""Questions a second: ours against lm-evaluation-harness and against a plain batched loop.

The bundled model on six subjects of MMLU with 20 questions each, 5 shots, letters; the same questions, model and dtype for
all, subject by subject in turns. Processor seconds of one thread: on an idle machine they are those on the clock, and
neighbours change them little. The harness runs where requirements-bench.txt is installed.
"""

from __future__ import annotations

import sys

from tests.bench.rows import Row, child, timed
from tests.harness import INSTALLED

CHILD = "tests.bench.ablate_child"
HARNESS = "lm-evaluation-harness, batch 4"
PLAIN = "plain loop, batch 4"


def run(repeats: int) -> list[Row]:
    """All rows."""
    if not INSTALLED:
        _say("lm_eval is not installed (requirements-bench.txt): its rows are left out")
    rows = []
    for dtype in ("float32", "bfloat16"):
        _say(f"120 questions in {dtype}")
        times = child(CHILD, dtype, str(min(repeats, 3)))
        case = f"120 MMLU questions, 5 shots, {dtype}"
        for name, target in ((HARNESS, 0.25), (PLAIN, 0.4)):
            if name in times:
                rows.append(timed(f"{case}, nothing off", times["ours"], name, times[name], target))
        rows.append(
            timed(f"{case}, a fifth of heads off", times["ours, heads off"], "nothing off", times["ours"])
        )
    return rows


def _say(doing: str) -> None:
    print(f"… {doing}", file=sys.stderr, flush=True)
