"""Small files that other processes read while we write."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from typing import Any


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
