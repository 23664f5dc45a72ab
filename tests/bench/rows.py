"""The one form in which benchmarks report."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Row:
    """One comparison. ratio: ours / peer, so below 1 ours is quicker or smaller. target: what it should stay under."""

    case: str
    ours: float
    peer_name: str
    peer: float
    unit: str
    target: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.peer if self.peer else float("nan")

    def tree(self) -> dict[str, Any]:
        return asdict(self) | {"ratio": round(self.ratio, 3)}


def timed(
    case: str, ours: list[float], peer_name: str, peer: list[float], target: float | None = None
) -> Row:
    """A row of the medians of times in seconds."""
    return Row(case, round(median(ours), 3), peer_name, round(median(peer), 3), "s", target)


def table(rows: list[Row]) -> str:
    """The rows as text."""
    head = ("case", "ours", "peer", "", "ratio", "target")
    body = [
        (
            row.case,
            f"{row.ours:.3g} {row.unit}",
            f"{row.peer:.3g} {row.unit}",
            row.peer_name,
            f"{row.ratio:.2f}",
            "" if row.target is None else f"≤ {row.target:g}",
        )
        for row in rows
    ]
    widths = [max(len(line[i]) for line in (head, *body)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in (head, *body)
    )


def child(module: str, *arguments: str) -> Any:
    """What `python -m module arguments` prints as JSON: a process of its own, so that memory starts from nothing."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])
