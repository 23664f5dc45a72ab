"""Locks that die with their holder."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from filelock import lock_descriptor


class Lock:
    """A lock that is held as long as its file is open here. The system releases it when the process dies.

    Closing the file releases it; renaming the folder it lies in does not.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @classmethod
    def take(cls, path: Path, patience: float = 0.0) -> Lock | None:
        """The lock on `path`, or None while somebody else holds it for longer than `patience` seconds."""
        until = time.monotonic() + patience
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # not inherited by child processes
        try:
            while not lock_descriptor(descriptor, blocking=False):
                if time.monotonic() >= until:
                    os.close(descriptor)
                    return None
                time.sleep(0.01)
        except BaseException:
            with suppress(OSError):
                os.close(descriptor)
            raise
        return cls(descriptor)

    def release(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def held(path: Path) -> bool:
    """Whether a living process holds the lock on `path`.

    Asks with a shared lock, so that two who ask at once do not take each other for the holder.
    """
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
