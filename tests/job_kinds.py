"""Job kinds for tests: no torch, quick, and as badly behaved as a test wants."""

import ctypes
import logging
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from headviz.errors import BadData
from headviz.jobs.jobs import Jobs
from headviz.jobs.kinds import KINDS, Kind
from tests.unit.samples import head_pattern


@dataclass(frozen=True, kw_only=True)
class PlayRequest:
    """`how` names what to do; `seconds` for how long; `mark` tells requests apart and may name a file."""

    kind: ClassVar[str] = "play"
    how: str = "sleep"
    seconds: float = 0.0
    mark: str = ""


PLAY = Kind(
    kind="play",
    request=PlayRequest,
    run="tests.job_kinds:play",
    result="HeadPattern",
    version=1,
    lane="live",
    title="Play",
)


@dataclass(frozen=True, kw_only=True)
class MendRequest(PlayRequest):
    """A play in the lane of repairs."""

    kind: ClassVar[str] = "mend"
    threads: int = 1


MEND = replace(PLAY, kind="mend", request=MendRequest, lane="repair", title="Mend")


class OutOfMemoryError(RuntimeError):
    """Named like torch's."""


def play(request: PlayRequest, resources):
    return PLAYS[request.how](request, resources)


def _sleep(request, resources):
    steps = max(1, round(request.seconds / 0.02))
    for step in range(steps):
        resources.watch.step("Sleeping", step, steps, "steps")
        time.sleep(request.seconds / steps)
    return head_pattern()


def _batches(request, resources):
    """Twenty batches; each that is really computed adds a line to the file `mark`."""
    for batch in range(20):
        resources.watch.step("In batches", batch, 20, "batches")
        if resources.kept.get([batch]) is None:
            with Path(request.mark).open("a") as file:
                file.write(f"{batch}\n")
            time.sleep(request.seconds / 20)
            resources.kept.put([batch], found=np.full(3, batch))
    return head_pattern()


def _steps(request, resources):
    """Twenty steps, a line of the file `mark` each; goes on where the file ends, in whatever process and attempt."""
    file = Path(request.mark)
    for step in range(len(file.read_text().splitlines()) if file.exists() else 0, 20):
        resources.watch.step("Training", step, 20, "steps")
        time.sleep(request.seconds / 20)
        with file.open("a") as open_file:
            open_file.write(f"{os.getpid()}\n")
    return head_pattern()


def _threads(request, resources):
    """Writes down with how many threads it computes, here and in what libraries read."""
    Path(request.mark).write_text(
        f"{resources.threads} {os.environ['OMP_NUM_THREADS']} {os.getpid()} {os.nice(0)}"
    )
    return _sleep(request, resources)


def _side_by_side(request, resources):
    """A repair of a tiny model that does not end, with a process beside this one."""
    from headviz.surgery import side
    from headviz.surgery.repair import run_repair
    from tests.tiny_repair import Bench

    side.COMMAND = (sys.executable, "-m", "tests.tiny_helper", "bloom")
    bench = Bench(resources.settings.home, at_once=2)
    bench.watch, bench.takes = resources.watch, resources.takes
    run_repair(bench.plan(steps=1_000_000, every=100_000, arms=("repair", "no-reinit")), bench)
    return head_pattern()


def _deaf(request, resources):
    """Never looks for a cancel, and swallows what Python would raise."""
    resources.watch.step("Not listening")
    until = time.monotonic() + request.seconds
    while time.monotonic() < until:
        time.sleep(0.02)
    return head_pattern()


def _stone(request, resources):
    """Not even SIGTERM gets through: one long call in C that holds the interpreter's lock."""
    resources.watch.step("Turned to stone")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    ctypes.PyDLL(None).sleep(int(request.seconds))
    return head_pattern()


def _die(request, resources):
    resources.watch.step("Dying")
    logging.getLogger(__name__).warning("about to die")
    os.kill(os.getpid(), signal.SIGKILL)


def _die_once(request, resources):
    if not Path(request.mark).exists():
        Path(request.mark).touch()
        _die(request, resources)
    return head_pattern()


def _bad_data(request, resources):
    raise BadData("The text is empty. Give some.")


def _break(request, resources):
    raise ZeroDivisionError("never divide")


def _memory(request, resources):
    raise MemoryError


def _torch_memory(request, resources):
    raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")


def _tell_token(request, resources):
    logging.getLogger(__name__).warning("the token is %s", os.environ["HF_TOKEN"])
    resources.watch.step("Telling")
    raise RuntimeError("401 for Bearer " + os.environ["HF_TOKEN"])


def _wrong_type(request, resources):
    from tests.unit.samples import score_table

    return score_table()


def _talk(request, resources):
    os.write(1, b"from the C library\n")
    os.write(2, b"from the C library, angry\n")
    return head_pattern()


PLAYS = {
    "sleep": _sleep,
    "batches": _batches,
    "steps": _steps,
    "threads": _threads,
    "side by side": _side_by_side,
    "deaf": _deaf,
    "stone": _stone,
    "die": _die,
    "die once": _die_once,
    "bad data": _bad_data,
    "break": _break,
    "memory": _memory,
    "torch memory": _torch_memory,
    "tell token": _tell_token,
    "wrong type": _wrong_type,
    "talk": _talk,
}


def register() -> None:
    """For the worker of the tests; tests themselves use monkeypatch."""
    KINDS["play"] = PLAY
    KINDS["mend"] = MEND


def wait(jobs: Jobs, digest: str, *states: str, seconds: float = 20.0, holder: str = "page"):
    """Look as a page does until the job is in one of `states`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen = jobs.hold(digest, holder)
        if seen is not None and seen.state in states:
            return seen
        time.sleep(0.02)
    raise AssertionError(f"still {seen} after {seconds} s; log: {jobs.log_tail(digest)}")
