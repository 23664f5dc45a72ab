"""How far a repair is, and files that wait for room on the disk instead of losing the work. No torch here."""

from __future__ import annotations

import errno
import logging
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from safetensors import SafetensorError

from headviz.types import Watch

log = logging.getLogger(__name__)

FULL = (errno.ENOSPC, errno.EDQUOT)
LOOK_AGAIN = 1.0  # seconds between two tries to write to a full disk


class Beside(Protocol):
    """What else is done of the repair, before and at the same time: `headviz.surgery.turns.Turns`."""

    def steps(self) -> int:
        """Optimiser steps of all other runs."""

    def words(self) -> list[str]:
        """What is being done beside."""

    def check(self) -> None:
        """Raises what ends the whole repair and was met beside."""


class _Nothing:
    def steps(self) -> int:
        return 0

    def words(self) -> list[str]:
        return []

    def check(self) -> None:
        pass


class Meter:
    """A Watch's place in a repair: optimiser steps over all arms, seeds and passes, so that the time left means something.

    It is a Watch itself for what runs inside: figures of an evaluation are told without losing the place. A disk that is
    too full for a line of progress loses the line, not the repair.
    """

    def __init__(self, watch: Watch, total: int, beside: Beside | None = None) -> None:
        self._watch, self.total, self._beside = watch, total, beside or _Nothing()
        self._label, self._before, self._done = "", 0, 0

    def begin(self, label: str = "", before: int = 0) -> None:
        """A run begins, such as `arm repair, seed 0`; `before`: steps of the passes before it. Without a label: none does."""
        self._label, self._before, self._done = label, before, before

    def at(self, step: int) -> None:
        """So many steps of this run are done. Raises Cancelled."""
        self._done = self._before + step
        self.say(f"step {step}")

    def say(self, doing: str) -> None:
        """What is being done at this place, and beside it. Raises Cancelled, and what was met beside."""
        self._beside.check()
        here = " · ".join(part for part in (self._label, doing) if part)
        words = "; ".join(part for part in (here, *self._beside.words()) if part)
        try:
            self._watch.step(words, self._done + self._beside.steps(), self.total, "steps")
        except OSError as error:
            if error.errno not in FULL:
                raise
            log.warning("the disk is full: progress is not written")

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """As a Watch: another count than steps is left out, or the time left would be about that."""
        self.say(doing)

    def check(self) -> None:
        self._beside.check()
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
    for name in (f".{path.name}.*", ".tmp*"):  # ours, and those of safetensors
        for left in path.parent.glob(name):
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
