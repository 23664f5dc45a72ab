"""A lane: one worker of a device for some kinds of job. Starting it, knowing whether it lives, stopping it."""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from headviz.jobs.files import read_json, read_tail
from headviz.locks import Lock, held
from headviz.settings import Settings, environment

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]  # the checkout: headviz runs from it
COMMAND = (sys.executable, "-m", "headviz.jobs.worker")
MAX_STARTS = 3
# Workers this process started: kept until they end, because a child that nobody waits for stays as a zombie.
_children: list[subprocess.Popen] = []
_starting = threading.Lock()
MAX_LOG = 2_000_000  # bytes; then the log begins anew and the old one is kept beside it


class Lane:
    """The worker of one lane of a device, seen from outside; `lane` is a row of `kinds.LANES`.

    The lock is passed to it at birth, so it is never free meanwhile.
    """

    def __init__(self, settings: Settings, command: tuple[str, ...] = COMMAND, lane: str = "live") -> None:
        self.settings = settings
        self.command = command
        self.lane = lane
        folder = settings.home / "lanes"
        name = f"{lane}-" + re.sub(r"[^A-Za-z0-9]+", "-", settings.device)
        self.lock = folder / f"{name}.lock"
        self.log = folder / f"{name}.log"
        self.starts = folder / f"{name}.starts"  # a line a start; the worker removes it once it is up
        self.owner = folder / f"{name}.json"  # written by the worker: pid and host

    def alive(self) -> bool:
        """Whether its worker lives."""
        return held(self.lock)

    def start(self) -> str | None:
        """Start the worker unless it lives. Returns a sentence where it cannot be started, else None."""
        with _starting:
            _children[:] = [child for child in _children if child.poll() is None]
            if self.alive():
                return None
            self.lock.parent.mkdir(parents=True, exist_ok=True)
            lock = Lock.take(self.lock)
            if lock is None:
                return None  # somebody else starts it just now
            try:
                if self._failures() >= MAX_STARTS:
                    return self._sentence()
                self._spawn(lock)
            finally:
                lock.release()  # the worker has its own copy; where none was born, it is free again
        return None

    def problem(self) -> str | None:
        """Why no worker is started any more: it ended too often before it was up."""
        if self._failures() < MAX_STARTS or self.alive():
            return None
        return self._sentence()

    def _failures(self) -> int:
        return len(read_tail(self.starts).splitlines())

    def _sentence(self) -> str:
        tail = self.log_tail(8)
        return f"The worker ended {self._failures()} times while it was starting. The end of its log:\n{tail}"

    def log_tail(self, lines: int = 40) -> str:
        """The end of what the worker wrote outside of jobs."""
        return "\n".join(read_tail(self.log).splitlines()[-lines:])

    def came_up(self) -> None:
        """Called by the worker when it is ready; by a person's retry to allow new starts."""
        self.starts.unlink(missing_ok=True)

    def stop(self, patience: float = 1.0) -> None:
        """End the worker if there is one; what it was doing is interrupted, and taken up by the next."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            owner = read_json(self.owner) or {}
            pid = owner.get("pid")
            if not self.alive() or type(pid) is not int or owner.get("host") != socket.gethostname():
                break
            send(pid, number, group=True)
            until = time.monotonic() + patience
            while self.alive() and time.monotonic() < until:
                time.sleep(0.01)
        reap(patience)

    def _spawn(self, lock: Lock) -> None:
        if self.log.exists() and self.log.stat().st_size > MAX_LOG:
            self.log.replace(self.log.with_suffix(".old.log"))
        self.owner.unlink(missing_ok=True)  # that pid may be a stranger's by now
        with self.starts.open("a") as file:
            file.write(f"{time.time()}\n")
        with self.log.open("ab") as output:
            child = subprocess.Popen(
                [*self.command, "--lane", self.lane, "--lock-fd", str(lock.descriptor)],
                cwd=ROOT,
                env=environment(self.settings),
                stdin=subprocess.DEVNULL,
                stdout=output,  # a file: a pipe that nobody reads would stop the worker once it is full
                stderr=output,
                close_fds=True,
                pass_fds=(lock.descriptor,),
                start_new_session=True,  # it outlives the dashboard
            )
        _children.append(child)
        log.info("started %s worker %s for %s", self.lane, child.pid, self.settings.device)


def reap(patience: float = 0.0) -> None:
    """Take leave of workers that this process started and that have ended, or do so within `patience` seconds."""
    for child in _children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(patience)
    _children[:] = [child for child in _children if child.returncode is None]


def send(pid: int, number: int, *, group: bool) -> None:
    """A signal to a process, or to its whole group where it leads one. Nothing where it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        if group and os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
