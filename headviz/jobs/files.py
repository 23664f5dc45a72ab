"""Small files that other processes read while we write, and locks that die with their holder."""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import lock_descriptor


def write_whole(path: Path, data: bytes) -> None:
    """Write under a temporary name, then rename: a reader sees the old file or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, tree: Any) -> None:
    write_whole(path, json.dumps(tree).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """The JSON object in `path`; None where there is none, or it cannot be read."""
    try:
        tree = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def read_tail(path: Path, size: int = 16_384) -> str:
    """The last `size` bytes of a text file that may be growing; empty where there is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - size))
            text = file.read(size).decode("utf-8", errors="replace")
    except OSError:
        return ""
    return text if end <= size else text.partition("\n")[2]


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
