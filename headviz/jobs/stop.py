"""Stop a job that was cancelled: it is asked first, then its process is ended. Under two seconds in every case."""

from __future__ import annotations

import os
import signal
import socket
import time

from headviz.jobs.folder import JobFolder
from headviz.jobs.lane import send

ASKED, TERMINATED, KILLED = 1.0, 0.25, 0.5  # seconds that each way of asking is given


def stop(job: JobFolder) -> bool:
    """Wait until nobody works on `job`, whose cancel file is there. False where its process cannot be reached."""
    if _over(job, ASKED):
        return True
    for number, patience in ((signal.SIGTERM, TERMINATED), (signal.SIGKILL, KILLED)):
        _send(job, number)
        if _over(job, patience):
            return True
    return False


def _over(job: JobFolder, patience: float) -> bool:
    until = time.monotonic() + patience
    while (last := job.last()) is not None and last.alive():
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


def _send(job: JobFolder, number: int) -> None:
    """A signal to the process that holds the attempt's lock: held, it lives, and the recorded pid is its own."""
    last = job.last()
    owner = last.owner() if last else {}
    pid = owner.get("pid")
    ours = owner.get("host") == socket.gethostname() and type(pid) is int and pid not in (0, 1, os.getpid())
    if last is not None and ours and last.alive():
        send(pid, number, group=owner.get("group") is True)
