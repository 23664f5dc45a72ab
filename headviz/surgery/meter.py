"""How far a repair is, and files that wait for room on the disk instead of losing the work. No torch here."""

from __future__ import annotations

import errno
import logging
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from headviz.types import Watch

log = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)
LOOK_AGAIN = 1.0  # seconds between two tries to write to a full disk


class Meter:
    """A Watch's place in a repair: optimiser steps over all arms, seeds and passes, so that the time left means something.

    It is a Watch itself for what runs inside: figures of an evaluation are told without losing the place. A disk that is
    too full for a line of progress loses the line, not the repair.
    """

    def __init__(self, watch: Watch, total: int) -> None:
        self._watch, self.total = watch, total
        self._label, self._before, self._done = "", 0, 0

    def begin(self, label: str, before: int) -> None:
        """A run begins, such as `arm repair, seed 0`; `before`: steps of the runs before it."""
        self._label, self._before, self._done = label, before, before

    def at(self, step: int) -> None:
        """So many steps of this run are done. Raises Cancelled."""
        self._done = self._before + step
        self.say(f"step {step}")

    def say(self, doing: str) -> None:
        """What is being done at this place. Raises Cancelled."""
        words = f"{self._label} · {doing}" if self._label else doing
        try:
            self._watch.step(words, self._done, self.total, "steps")
        except OSError as error:
            if error.errno not in FULL:
                raise
            log.warning("the disk is full: progress is not written")

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """As a Watch: another count than steps is left out, or the time left would be about that."""
        self.say(doing)

    def check(self) -> None:
        self._watch.check()


def write_whole(path: Path, data: bytes | Callable[[Path], None], meter: Meter) -> None:
    """Write under another name, then rename: a reader, or who comes after a crash, sees the old file or the new one.

    data: what is written, or a function that writes it to the path that it is given.
    While the disk is full it waits, says so, and tries again: nothing that was computed is lost. Raises Cancelled.
    """
    waited = False
    while True:
        try:
            _write(path, data)
        except (OSError, SafetensorError) as error:
            if not _full(error):
                raise
            if not waited:
                log.warning("the disk is full: waiting to write %s", path.name)
            waited = True
            meter.say("waiting: the disk with HEADVIZ_HOME is full; free some space and it goes on")
            pause(meter)
        else:
            return


def pause(meter: Meter) -> None:
    """A moment until the next try; a cancel is heard. Raises Cancelled."""
    until = time.monotonic() + LOOK_AGAIN
    while time.monotonic() < until:
        meter.check()
        time.sleep(min(0.1, LOOK_AGAIN))


def _full(error: OSError | SafetensorError) -> bool:
    """Whether there was no room; safetensors says so in words."""
    if isinstance(error, SafetensorError):
        return any(f"os error {number}" in str(error) for number in FULL)
    return error.errno in FULL


def _write(path: Path, data: bytes | Callable[[Path], None]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*"):
        left.unlink(missing_ok=True)  # of a process that was killed: one run is only ever in one process
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        if callable(data):
            data(temporary)
        else:
            temporary.write_bytes(data)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())  # a quota or a remote disk may say only here that there is no room
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
