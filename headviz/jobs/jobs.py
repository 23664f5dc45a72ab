"""Jobs, results and workers under any settings: ask, look, cancel, try afresh, run here. Opens in milliseconds: no torch."""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from headviz.codec import unpack
from headviz.errors import (
    BY_NAME,
    BadInput,
    Cancelled,
    CorruptResult,
    Failure,
    HeadvizError,
    JobFailed,
    StoreFull,
)
from headviz.jobs.board import WAITING, Board
from headviz.jobs.folder import ENDED, Attempt, JobFolder
from headviz.jobs.kinds import KINDS, LANES, job_digest
from headviz.jobs.lane import COMMAND, Lane
from headviz.jobs.resources import Resources
from headviz.jobs.run import carry_out, logged, prepare_process, pulse
from headviz.jobs.stop import stop
from headviz.jobs.view import JobView, look
from headviz.locks import Lock
from headviz.settings import Settings
from headviz.store import Store
from headviz.types import Request, Result, Silent, Watch


class Jobs:
    """Jobs, results and the worker under one HEADVIZ_HOME. Safe to share between threads."""

    def __init__(self, ours: Settings, command: tuple[str, ...] = COMMAND) -> None:
        """`command` starts the worker; tests bring their own."""
        self.settings = ours
        self.folder = ours.home / "jobs"
        self.archive = self.folder / "archive"
        self.store = Store(ours.home / "results", ours.store_limit)
        self.lanes = {name: Lane(ours, command, name) for name in LANES}
        self.lane = self.lanes["live"]
        self.board = Board(self.folder)
        self._here: Resources | None = None

    # -------------------------------------------------------------------------------------------- ask and look

    def ask(self, request: Request, holder: str) -> JobView:
        """The job that answers `request`: an existing one, or one that is queued now, and a worker for it.

        A job that failed or was cancelled stays so: `retry` tries it afresh.
        """
        digest = job_digest(request)
        if digest in self.store:
            return self.view(digest) or _answered_before(digest, request)
        job = self._job(request)
        if job.state() == "done" and not self._answered(job):
            job = self._afresh(job, request)
        job.hold(holder)
        job.hurry()
        if job.state() in WAITING:
            self._lane(job).start()
        return self.view(job.digest) or self.ask(request, holder)  # moved aside at this very moment: again

    def view(self, digest: str) -> JobView | None:
        """The job now. None where there is none, or where it is done and its result was removed since."""
        job = self._named(digest)
        seen = look(job)
        if seen is None:
            return None
        if seen.state in WAITING and digest in self.store:  # answered elsewhere
            return dataclasses.replace(seen, state="done")
        if seen.state == "done" and not self._answered(job):
            return None
        if seen.state in WAITING and (problem := self._lane(job).problem()):
            return dataclasses.replace(seen, state="failed", error=problem, error_type=JobFailed.__name__)
        if seen.state == "queued":
            lane = self.board.lane_of(job)
            active = [(o.digest, state) for o, state in self.board.active() if self.board.lane_of(o) == lane]
            place = next((i for i, (other, _) in enumerate(active) if other == digest), len(active))
            running = sum(state not in WAITING for _, state in active[place:])
            return dataclasses.replace(seen, ahead=place + running)
        return seen

    def hold(self, digest: str, holder: str) -> JobView | None:
        """`view`, and say that `holder` looks at it. Call it while the job is shown; starts a worker where needed."""
        job = self._named(digest)
        job.hold(holder)
        seen = self.view(digest)
        if seen is not None and seen.state in WAITING:
            self._lane(job).start()
        return seen

    def result(self, request: Request) -> Result | None:
        """The answer, or None where it is not there yet. Never starts anything."""
        return self.answer(job_digest(request))

    def answer(self, digest: str) -> Result | None:
        """`result` of the job with this name, whatever it asked."""
        found = self.store.get(digest)
        return found if found is not None else self._import(self._named(digest))

    def has_result(self, digest: str) -> bool:
        """Whether a finished job's result lies in its folder, not yet taken into the store."""
        return self._named(digest).result_file.exists()

    def list_jobs(self) -> list[JobView]:
        """Every job, newest first."""
        return self.board.views()

    def log_tail(self, digest: str, lines: int = 40) -> str:
        """The end of the job's log; of the worker's own log where no attempt began."""
        job = self._named(digest)
        if job.last() is not None:
            return job.log_tail(lines)
        return self._lane(job).log_tail(lines)

    def find(self, prefix: str) -> str:
        """The digest that begins with `prefix`. Raises BadInput where none or several do."""
        found = [job.digest for job in self.board.views() if prefix and job.digest.startswith(prefix.lower())]
        if len(found) != 1:
            what = "No job's id begins" if not found else f"{len(found)} jobs' ids begin"
            raise BadInput(f"{what} with {prefix!r}. `jobs list` shows them.")
        return found[0]

    # ------------------------------------------------------------------------------------- cancel, retry, worker

    def cancel(self, digest: str, holder: str, everyone: bool = False) -> str:
        """`holder` no longer wants it; the last one stops it, in under two seconds. `everyone` stops it regardless.

        Returns "stopped", "others still watch", "already ended", or "still stopping" where its process is not to
        be reached from here.
        """
        job = self._named(digest)
        job.drop(holder)
        if not job.exists() or job.state() in ENDED:
            return "already ended"
        if not everyone and job.holders():
            return "others still watch"
        job.ask_to_cancel()
        stopped = stop(job)
        self.ensure_worker()  # if the worker had to be ended, others may wait for one
        return "stopped" if stopped else "still stopping"

    def withdraw(self, digest: str, holder: str) -> bool:
        """`holder` asked for something else instead. Removes the job where it has not begun and nobody else looks."""
        job = self._named(digest)
        job.drop(holder)
        if job.state() != "queued" or not job.exists() or job.holders():
            return False
        with self._moving():
            attempt = job.claim()  # so that no worker begins it while it goes
            if attempt is None:
                return False
            if job.holders():
                job.unclaim(attempt)
                return False
            gone = self.folder / f".gone-{uuid.uuid4().hex}"
            job.path.rename(gone)
            attempt.release()
        shutil.rmtree(gone, ignore_errors=True)
        return True

    def retry(self, digest: str, holder: str) -> JobView:
        """Try a failed or cancelled job afresh; the old folder is kept aside for its log. Others are left alone."""
        job = self._named(digest)
        if not job.exists():
            raise BadInput(
                f"There is no job {digest[:12]} any more. Ask again from the page or the command line."
            )
        self._lane(job).came_up()  # a person wants it: the worker may be started again too
        request = job.request()
        if job.state() in ENDED and not self._answered(job):
            self._afresh(job, request)
        return self.ask(request, holder)

    def ensure_worker(self) -> str | None:
        """Start the worker of each lane where a job waits and none lives. Returns a sentence where one cannot be started."""
        waiting = {self.board.lane_of(job) for job, state in self.board.active() if state in WAITING}
        problems = [self.lanes[name].start() for name in LANES if name in waiting]
        return next((problem for problem in problems if problem), None)

    def stop_worker(self) -> None:
        """End the workers; what they were doing is taken up by the next ones."""
        for lane in self.lanes.values():
            lane.stop()

    # ------------------------------------------------------------------------------------------ in this process

    def run_here(self, request: Request, watch: Watch | None = None) -> Result:
        """The answer, computed in this process, or awaited where another already computes it.

        Raises what the job raised; Cancelled where it was stopped.
        """
        watch = watch or Silent()
        found = self.result(request)
        if found is not None:
            return found
        job = self._job(request)
        if job.state() in ENDED and not self._answered(job):
            job = self._afresh(job, request)
        holder = f"process {os.getpid()} {uuid.uuid4().hex}"
        try:
            while (state := job.state()) not in ENDED:
                job.hold(holder)
                attempt = job.claim()
                if attempt is not None:
                    self._run(attempt, watch, holder)
                else:
                    self._wait(job, watch)
        except BaseException:
            self.cancel(job.digest, holder)
            raise
        finally:
            job.drop(holder)
        if state == "done":
            found = self.result(request)
            if found is not None:
                return found
            raise JobFailed("The answer was removed before it could be read. Run it again.")
        raise _raised(look(job))

    def run_job(self, digest: str, watch: Watch | None = None) -> Result:
        """`run_here` for a job that was asked before."""
        return self.run_here(self._named(digest).request(), watch)

    def _run(self, attempt: Attempt, watch: Watch, holder: str) -> None:
        if self._here is None:  # kept: a command that measures twenty sets loads the model once
            self._here = Resources(self.settings, prepare_process(self.settings))
        with logged(attempt), pulse(attempt, holder):
            carry_out(attempt, self._here, also=watch)

    def _wait(self, job: JobFolder, watch: Watch) -> None:
        seen = look(job)
        if seen is not None and seen.doing:
            watch.step(seen.doing, seen.done, seen.total, seen.unit)
        else:
            watch.check()
        time.sleep(0.1)

    # ---------------------------------------------------------------------------------------------------- inside

    def _job(self, request: Request) -> JobFolder:
        self.folder.mkdir(parents=True, exist_ok=True)
        return JobFolder.create(self.folder, request)

    def _named(self, digest: str) -> JobFolder:
        if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise BadInput(f"{digest!r} is no job's id: 64 hexadecimal digits.")
        return JobFolder(self.folder / digest)

    def _lane(self, job: JobFolder) -> Lane:
        return self.lanes[self.board.lane_of(job)]

    def _answered(self, job: JobFolder) -> bool:
        return job.result_file.exists() or job.digest in self.store

    @contextmanager
    def _moving(self) -> Iterator[None]:
        """One process at a time moves folders of jobs: two must not move aside each other's fresh one."""
        lock = Lock.take(self.folder / ".lock", patience=5.0)
        if lock is None:
            raise Failure("Another process holds the folder of jobs for too long. Try again.")
        try:
            yield
        finally:
            lock.release()

    def _afresh(self, job: JobFolder, request: Request) -> JobFolder:
        with self._moving():
            if job.exists() and job.state() in ENDED and not self._answered(job):
                job.move_to(self.archive)
            return self._job(request)

    def _import(self, job: JobFolder) -> Result | None:
        """Take a finished job's result into the store, and return it."""
        try:
            blob = job.result_file.read_bytes()
        except FileNotFoundError:
            return self.store.get(job.digest)  # another process may have taken it in since we looked
        try:
            found = unpack(blob)
            row = KINDS[job.request().kind]
            if not row.takes(found):
                raise CorruptResult(f"It is a {type(found).__name__} where a {row.result} is due.")
        except (CorruptResult, BadInput) as error:
            job.result_file.unlink(missing_ok=True)
            self.store.report(f"The result of job {job.digest[:12]} was damaged and removed. {error}")
            return None
        try:
            self.store.put(job.digest, found)
        except StoreFull as error:  # it is computed already: show it, and say that it is not kept
            self.store.report(str(error))
            return found
        job.result_file.unlink(missing_ok=True)
        return found


def _answered_before(digest: str, request: Request) -> JobView:
    """The view of a job whose result is kept although its folder is gone."""
    row = KINDS[request.kind]
    now = datetime.now().astimezone()
    return JobView(digest=digest, kind=row.kind, title=row.title, request=request, state="done", created=now)


def _raised(seen: JobView | None) -> HeadvizError:
    if seen is None or seen.state != "failed":
        return Cancelled("The job was stopped on request.")
    return BY_NAME.get(seen.error_type or "", JobFailed)(seen.error)
