"""Tokens a second of a smaller checkpoint against the model it was made from, both loaded by plain transformers.

A Qwen2-shaped random model and the bundled model, without one of their KV groups in every layer (and without half of them,
in the first). Higher is better here: a ratio above 1 says that the checkpoint is quicker. Times are taken in a child process.
"""

from __future__ import annotations

import sys

from tests.bench.rows import Row, child

CHILD = "tests.bench.checkpoint_child"
CASES = ("qwen2-quarter", "qwen2-half", "smollm2-third")


def run(repeats: int) -> list[Row]:
    """All rows; a checkpoint is timed in five turns, whatever `repeats` says."""
    rows = []
    for case in CASES:
        print(f"… {case}", file=sys.stderr, flush=True)
        found = child(CHILD, case)
        for doing, before, after in found["speeds"]:
            rows.append(
                Row(f"{doing}, {found['title']}", round(after, 1), "the model", round(before, 1), "tokens/s")
            )
        rows.append(Row(f"parameters, {found['title']}", found["after"], "the model", found["before"], "M"))
    return rows
