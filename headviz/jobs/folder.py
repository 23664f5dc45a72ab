"""The folder of one job. Its files are the truth; the state is derived from them each time and stored nowhere.

    <digest>/spec.json           written once by whoever asks; the digest is its sha256
             cancel              created once by whoever cancels
             later               there while it waits behind everything that somebody waits for: part of a sweep
             holders/<name>      touched by each browser session that shows the job
             attempts/N/         one try
               lock              held by the process for its life
               owner.json        who: process id, host, when it began
               events.jsonl      progress, appended
               heartbeat         touched every second
               threads.json      how many threads it computes with, where it says so
               log
               end.json          written once: done, failed or cancelled, and why
             kept/                finished batches, until the job has ended
             result/result.safetensors

A process claims a job by making the next attempt, lock held, under a temporary name and renaming it: of many, one wins.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import socket
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from headviz.jobs.files import read_json, read_tail, write_json, write_whole
from headviz.jobs.kinds import job_digest, read_spec, spec
from headviz.locks import Lock, held
from headviz.types import Request, canonical

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
STALLED = 15.0  # seconds without a heartbeat; loading a large model can hold up the thread that beats
STALE_HOLDER = 20.0  # seconds without a look: a page that is open looks every second or so
ENDED = ("done", "failed", "cancelled")


class JobFolder:
    """One job. Every method may be called by any process at any time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.digest = path.name

    @classmethod
    def create(cls, jobs: Path, request: Request) -> JobFolder:
        """The folder of the job that answers `request`; made if there is none. Two who ask at once share one."""
        job = cls(jobs / job_digest(request))
        if job.exists():
            return job
        fresh = jobs / f".new-{uuid.uuid4().hex}"
        for name in ("attempts", "holders", "result"):
            (fresh / name).mkdir(parents=True)
        (fresh / "spec.json").write_bytes(canonical(spec(request)))
        if not _rename(fresh, job.path):
            shutil.rmtree(fresh)
        return job

    def exists(self) -> bool:
        return (self.path / "spec.json").exists()

    def request(self) -> Request:
        """Raises BadInput where the spec is damaged or made by another version."""
        return read_spec((self.path / "spec.json").read_bytes())

    def spec_matches(self) -> bool:
        """Whether spec.json is what the folder's name is the digest of."""
        return hashlib.sha256((self.path / "spec.json").read_bytes()).hexdigest() == self.digest

    @property
    def created(self) -> float:
        return (self.path / "spec.json").stat().st_mtime

    @property
    def result_file(self) -> Path:
        return self.path / "result" / "result.safetensors"

    @property
    def kept_folder(self) -> Path:
        return self.path / "kept"

    # ------------------------------------------------------------------------------------------------- state

    def attempts(self) -> list[Attempt]:
        """All tries, first to last."""
        with suppress(FileNotFoundError):
            names = [entry.name for entry in os.scandir(self.path / "attempts")]
            return [Attempt(self, int(name)) for name in sorted((n for n in names if n.isdigit()), key=int)]
        return []

    def last(self) -> Attempt | None:
        attempts = self.attempts()
        return attempts[-1] if attempts else None

    def state(self) -> str:
        """queued, running, stalled (no heartbeat), interrupted (its process died), done, failed or cancelled."""
        return self._state(self.last())

    def _state(self, last: Attempt | None) -> str:
        if last is not None:
            if end := last.end():
                return end["state"]
            if last.alive():
                return "stalled" if time.time() - last.beat() > STALLED else "running"
            if end := last.end():  # it ended while we looked
                return end["state"]
        if self.cancel_asked():
            return "cancelled"
        if last is None:
            return "queued"
        return "failed" if last.number >= MAX_ATTEMPTS else "interrupted"

    # ------------------------------------------------------------------------------------------------- claim

    def claim(self, *, group: bool = False) -> Attempt | None:
        """The next attempt, ours, its lock held; None where the job is not to be had.

        group: this process leads a process group of its own, which a cancel may kill as a whole
        """
        last = self.last()  # read once: judged by one attempt and numbered after another, two would win
        if self._state(last) not in ("queued", "interrupted"):
            return None
        number = last.number + 1 if last else 1
        fresh = self.path / "attempts" / f".claim-{uuid.uuid4().hex}"
        lock = None
        won = False
        try:
            fresh.mkdir()
            lock = Lock.take(fresh / "lock")
            owner = {"pid": os.getpid(), "host": socket.gethostname(), "group": group, "began": time.time()}
            write_json(fresh / "owner.json", owner)
            (fresh / "heartbeat").touch()
            won = _rename(fresh, self.path / "attempts" / str(number))
        except FileNotFoundError:
            pass  # the folder was moved aside meanwhile
        finally:
            if not won:
                if lock is not None:
                    lock.release()
                shutil.rmtree(fresh, ignore_errors=True)
        if not won:
            return None
        attempt = Attempt(self, number, lock)
        if self.cancel_asked():  # asked between our look and our claim
            attempt.finish("cancelled")
            return None
        return attempt

    def unclaim(self, attempt: Attempt) -> None:
        """Take back a claim that did no work."""
        aside = self.path / "attempts" / f".claim-{uuid.uuid4().hex}"
        attempt.path.rename(aside)
        attempt.release()
        shutil.rmtree(aside, ignore_errors=True)

    def wait_behind(self) -> None:
        """Let everything else go first."""
        (self.path / "later").touch()

    def hurry(self) -> None:
        """Somebody waits for this one."""
        (self.path / "later").unlink(missing_ok=True)

    def later(self) -> bool:
        return (self.path / "later").exists()

    # ---------------------------------------------------------------------------------------- cancel, holders

    def ask_to_cancel(self) -> None:
        (self.path / "cancel").touch()

    def cancel_asked(self) -> bool:
        return (self.path / "cancel").exists()

    def hold(self, holder: str) -> None:
        """Say that `holder` is looking at this job now."""
        with suppress(FileNotFoundError):  # moved aside meanwhile
            (self.path / "holders" / _file_name(holder)).touch()

    def drop(self, holder: str) -> None:
        (self.path / "holders" / _file_name(holder)).unlink(missing_ok=True)

    def holders(self) -> int:
        """How many look at this job, or did so seconds ago."""
        now, fresh = time.time(), 0
        with suppress(FileNotFoundError):
            for entry in os.scandir(self.path / "holders"):
                with suppress(FileNotFoundError):
                    fresh += now - entry.stat().st_mtime < STALE_HOLDER
        return fresh

    # ------------------------------------------------------------------------------------------------ result

    def write_result(self, blob: bytes) -> None:
        write_whole(self.result_file, blob)

    def log_tail(self, lines: int = 40) -> str:
        """The end of the last attempt's log."""
        last = self.last()
        return last.log_tail(lines) if last else ""

    def move_to(self, folder: Path) -> bool:
        """Move the job aside, as <digest>-<n>, kept for its log. False where somebody else did so first."""
        folder.mkdir(parents=True, exist_ok=True)
        number = 1 + len(list(folder.glob(f"{self.digest}-*")))
        while (folder / f"{self.digest}-{number}").exists():
            number += 1
        return _rename(self.path, folder / f"{self.digest}-{number}")


class Attempt:
    """One try at a job. Whoever claimed it writes to it; others read."""

    def __init__(self, job: JobFolder, number: int, lock: Lock | None = None) -> None:
        self.job = job
        self.number = number
        self.path = job.path / "attempts" / str(number)
        self._lock = lock

    def alive(self) -> bool:
        """Whether its process lives and still works on it."""
        return held(self.path / "lock")

    def owner(self) -> dict[str, Any]:
        """pid, host, group, began; empty where it cannot be read."""
        return read_json(self.path / "owner.json") or {}

    def beat(self) -> float:
        """When it last showed life, seconds since 1970."""
        with suppress(FileNotFoundError):
            return (self.path / "heartbeat").stat().st_mtime
        return time.time()  # moved aside: nothing to worry about here

    def event(self) -> dict[str, Any]:
        """The newest whole event; {} before the first. A last line torn by a crash is passed over."""
        for line in reversed(read_tail(self.path / "events.jsonl").splitlines()):
            with suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    return event
        return {}

    def end(self) -> dict[str, Any] | None:
        """{state, ended, error, message}, or None while it has not ended."""
        end = read_json(self.path / "end.json")
        return end if end and end.get("state") in ENDED else None

    def threads(self) -> int | None:
        """How many threads it computes with, all its processes together; None where it did not say."""
        taken = (read_json(self.path / "threads.json") or {}).get("threads")
        return taken if type(taken) is int else None

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(read_tail(self.path / "log", 64_000).splitlines()[-lines:])

    # --------------------------------------------------------------------------------- by whoever claimed it

    def say(self, event: dict[str, Any]) -> None:
        with (self.path / "events.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")  # one write, so that lines stay whole

    def take_threads(self, threads: int) -> None:
        """Say how many threads it computes with from now on. A full disk costs the word, not the work."""
        try:
            write_json(self.path / "threads.json", {"threads": threads})
        except OSError:
            log.warning("could not write down how many threads are taken", exc_info=True)

    def show_life(self) -> None:
        (self.path / "heartbeat").touch()

    def finish(self, state: str, error: str = "", message: str = "") -> None:
        """Write how it ended and let go. `error` names a class of headviz.errors."""
        try:
            write_json(
                self.path / "end.json",
                {"state": state, "ended": time.time(), "error": error, "message": message},
            )
        finally:
            self.release()

    def release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def all_jobs(jobs: Path) -> list[JobFolder]:
    """Every job in the folder, in no order."""
    with suppress(FileNotFoundError):
        return [JobFolder(Path(entry.path)) for entry in os.scandir(jobs) if len(entry.name) == 64]
    return []


def _rename(source: Path, target: Path) -> bool:
    """Rename a folder. False where `target` is there already, or `source` no longer is."""
    try:
        source.rename(target)  # fails on a folder that is not empty, and ours never are
    except FileNotFoundError:
        return False
    except OSError:
        if target.exists():
            return False
        raise
    return True


def _file_name(holder: str) -> str:
    return hashlib.sha256(holder.encode()).hexdigest()[:32]
