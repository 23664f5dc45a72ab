"""What a job may use while it runs. The last model stays loaded for the next job."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

from headviz.jobs.board import Board
from headviz.jobs.threads import set_threads, threads_for
from headviz.settings import Settings
from headviz.types import ModelRef, Request, Result, Silent, Watch
from headviz.types.watch import KeepsNothing, Kept

if TYPE_CHECKING:
    from headviz.models.loading import Loaded


def _heard_by_nobody(_threads: int) -> None:
    pass


class Resources:
    """Passed to every job as its second argument.

    watch:   where to report progress and hear of a cancel; another one for each job
    kept:    finished batches of this job from before it was interrupted; another one for each job
    threads: how many threads to compute with; another number for each job
    takes:   told by a job that computes with another number of threads than `threads`, in processes of its own
    most:    threads of this process where no repair runs beside it
    """

    def __init__(self, settings: Settings, threads: int) -> None:
        self.settings = settings
        self.threads = self.most = threads
        self.watch: Watch = Silent()
        self.kept: Kept = KeepsNothing()
        self.takes: Callable[[int], None] = _heard_by_nobody
        self._loaded: Loaded | None = None
        self._board = Board(settings.home / "jobs")

    def begin(self, request: Request) -> None:
        """Compute the next job with as many threads as are due to it now."""
        self.threads = threads_for(request, self.most, self._board)
        set_threads(self.threads)

    def model(self, ref: ModelRef) -> Loaded:
        """The loaded model, kept until another one is asked for. Two models are never held at once."""
        if self._loaded is None or self._loaded.ref != ref:
            self.forget()
            from headviz.models.loading import load  # torch: only where a job runs

            self._loaded = load(ref, device=self.settings.device, watch=self.watch)
        return self._loaded

    def answer(self, digest: str) -> Result | None:
        """What another job came to, by its digest; None where this machine does not have it."""
        from headviz.jobs.jobs import Jobs  # it imports this module

        return Jobs(self.settings).answer(digest)

    def forget(self) -> None:
        """Free the model, as after running out of memory."""
        if self._loaded is not None:
            self._loaded = None
            gc.collect()
