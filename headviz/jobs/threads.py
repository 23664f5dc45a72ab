"""How many threads a job computes with: a repair as many as it asks for, everything else what running repairs leave."""

from __future__ import annotations

import os
import sys

from headviz.jobs.board import Board
from headviz.machine import cores
from headviz.types import Request


def threads_for(request: Request, most: int, board: Board) -> int:
    """Threads for a job that begins now, at least 1. `most`: of this process where it is alone on the machine.

    A repair says itself how many each of its runs takes, for another number rounds otherwise, and how many it computes with in
    all, runs side by side. Two processes that share a core are slower than
    one after the other, so other jobs keep to the cores that repairs leave; they look when they begin, not later.
    """
    asked = getattr(request, "threads", None)  # only repairs have it
    if asked is not None:
        return max(1, asked)
    return max(1, min(most, cores() - board.threads_taken()))


def set_threads(threads: int) -> None:
    """Compute with so many from now on: torch where it is there, and where it is not yet, by what it reads at its start."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    torch = sys.modules.get("torch")  # importing it takes seconds, which not every job spends
    if torch is not None and torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
