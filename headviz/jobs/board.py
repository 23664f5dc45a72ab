"""All jobs at a glance. Those that ended are remembered, so that looking stays cheap with thousands of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headviz.errors import BadInput
from headviz.jobs.folder import ENDED, JobFolder, all_jobs
from headviz.jobs.kinds import KINDS
from headviz.jobs.view import JobView, look

WAITING = ("queued", "interrupted")
Stamp = tuple[int, int]  # inode and change time of the folder: a job tried afresh lies in another folder


class Board:
    """Reads the folder of jobs. May be shared between threads."""

    def __init__(self, jobs: Path) -> None:
        self.jobs = jobs
        self._ended: dict[str, Stamp] = {}
        self._views: dict[str, tuple[Stamp, JobView]] = {}
        self._lanes: dict[str, str] = {}

    def active(self) -> list[tuple[JobFolder, str]]:
        """(job, state) of all jobs that have not ended, oldest first; those that can wait come last."""
        found = []
        for job in all_jobs(self.jobs):
            with suppress(FileNotFoundError):
                stamp = _stamp(job)
                if self._ended.get(job.digest) == stamp:
                    continue
                state = job.state()
                if state in ENDED:
                    self._ended[job.digest] = stamp
                else:
                    found.append((job.later(), job.created, job.digest, job, state))
        return [(job, state) for *_, job, state in sorted(found, key=lambda row: row[:3])]

    def waiting(self, lane: str = "live") -> list[JobFolder]:
        """Jobs that the worker of a lane may take up, in the order in which it does."""
        return [job for job, state in self.active() if state in WAITING and self.lane_of(job) == lane]

    def lane_of(self, job: JobFolder) -> str:
        """The lane of a job; of one that cannot be read, the live one, whose worker says so."""
        if job.digest not in self._lanes:  # never another: the kind is part of what the digest is of
            try:
                self._lanes[job.digest] = KINDS[job.request().kind].lane
            except (BadInput, FileNotFoundError):
                return "live"
        return self._lanes[job.digest]

    def threads_taken(self) -> int:
        """Threads with which repairs compute now: as many as each says, or as its plan asks for until it does."""
        taken = 0
        for job, state in self.active():
            if state not in WAITING and self.lane_of(job) == "repair":
                with suppress(BadInput, FileNotFoundError):
                    last = job.last()
                    said = last.threads() if last is not None else None
                    taken += said or max(1, getattr(job.request(), "threads", 1))
        return taken

    def views(self) -> list[JobView]:
        """Every job, newest first."""
        found = []
        for job in all_jobs(self.jobs):
            with suppress(FileNotFoundError):
                stamp = _stamp(job)
                known = self._views.get(job.digest)
                view = known[1] if known and known[0] == stamp else look(job)
                if view is None:
                    continue
                if view.state in ENDED:
                    self._views[job.digest] = (stamp, view)
                found.append(view)
        return sorted(found, key=lambda view: view.created, reverse=True)


def _stamp(job: JobFolder) -> Stamp:
    status = job.path.stat()
    return status.st_ino, status.st_mtime_ns
