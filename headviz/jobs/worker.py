"""The worker of a lane of a device: `python -m headviz.jobs.worker`.

It takes the oldest waiting job of its lane and runs it. The live one keeps the model for the next job and leaves after some
idle minutes; the one for repairs runs beside it, forgets the model after each plan, and leaves when none waits. A worker owns
torch, so a page never does. Only one lives a lane; it holds the lane's lock for its life.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headviz.jobs.board import Board
from headviz.jobs.files import write_json
from headviz.jobs.folder import Attempt
from headviz.jobs.kinds import LANES
from headviz.jobs.lane import Lane
from headviz.jobs.resources import Resources
from headviz.jobs.run import Redacting, carry_out, prepare_process, pulse
from headviz.locks import Lock
from headviz.settings import Settings, settings

log = logging.getLogger(__name__)

POLL = 0.05  # seconds between two looks for a job
# Niceness: the dashboard goes first, so that pages answer at once while all cores compute; then what somebody waits for.
POLITE = {"live": 5, "repair": 10}


def main(arguments: list[str] | None = None) -> int:
    """Serve until idle. 0 also where another worker lives already."""
    parser = argparse.ArgumentParser(prog="headviz.jobs.worker", description=__doc__)
    parser.add_argument(
        "--lock-fd", type=int, default=-1, help="the lane's lock, inherited from who started this"
    )
    parser.add_argument("--lane", choices=list(LANES), default="live", help="which jobs it takes")
    given = parser.parse_args(arguments)
    # Nothing here needs tidying up: locks go with the process, and every file is written whole.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    _log_to_stderr()
    ours = settings()
    lane = Lane(ours, lane=given.lane)
    lock = _inherited(given.lock_fd) if given.lock_fd >= 0 else _take(lane)
    if lock is None:
        log.info("a %s worker for %s lives already", lane.lane, ours.device)
        return 0
    write_json(lane.owner, {"pid": os.getpid(), "host": socket.gethostname()})
    os.nice(POLITE[lane.lane])
    resources = Resources(ours, prepare_process(ours))
    lane.came_up()
    log.info("%s worker %s for %s, %s threads", lane.lane, os.getpid(), ours.device, resources.threads)
    serve(ours, lane, lock, resources)
    return 0


def serve(ours: Settings, lane: Lane, lock: Lock, resources: Resources) -> None:
    """Run waiting jobs until there was none for the idle minutes; of repairs, until there is none."""
    board = Board(ours.home / "jobs")
    leads_group = os.getpgrp() == os.getpid()
    idle_since = time.monotonic()
    patience = 60 * ours.idle_minutes if lane.lane == "live" else 0.0
    while True:
        for job in board.waiting(lane.lane):
            attempt = job.claim(group=leads_group)
            if attempt is not None:
                _run(attempt, resources)
                if lane.lane == "repair":  # the next plan may be for another model, and none may come
                    resources.forget()
                idle_since = time.monotonic()
                break  # look again: the oldest first
        else:
            if time.monotonic() - idle_since > patience:
                lock.release()
                # Whoever asked just before saw this worker alive and started none.
                again = Lock.take(lane.lock) if board.waiting(lane.lane) else None
                if again is None:
                    log.info("idle; leaving")
                    return
                lock = again
            time.sleep(POLL)


def _run(attempt: Attempt, resources: Resources) -> None:
    log.info("job %s, attempt %s", attempt.job.digest[:12], attempt.number)
    try:
        with output_to(attempt.path / "log"), pulse(attempt):
            carry_out(attempt, resources)
    except OSError:
        log.exception("could not write down how job %s ended", attempt.job.digest[:12])
        attempt.release()
    end = attempt.end() or {}
    log.info("job %s: %s %s", attempt.job.digest[:12], end.get("state"), end.get("message", ""))


@contextmanager
def output_to(path: Path) -> Iterator[None]:
    """Send everything this process prints to `path`, also what C libraries print, also the trace of a crash."""
    _flush()
    saved = os.dup(1), os.dup(2)
    try:
        with path.open("ab") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        yield
    finally:
        _flush()
        for number, copy in zip((1, 2), saved):
            os.dup2(copy, number)
            os.close(copy)


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(Redacting())
    logging.getLogger().addHandler(handler)
    logging.getLogger("headviz").setLevel(logging.INFO)
    faulthandler.enable()


def _inherited(descriptor: int) -> Lock:
    os.set_inheritable(descriptor, False)  # a child of ours must not hold it after us
    return Lock(descriptor)


def _take(lane: Lane) -> Lock | None:
    lane.lock.parent.mkdir(parents=True, exist_ok=True)
    return Lock.take(lane.lock, patience=0.5)  # whoever merely asks holds it for microseconds


if __name__ == "__main__":
    sys.exit(main())
