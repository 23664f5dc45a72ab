"""Content hashes of files and folders, remembered by size and time of change so that they are taken once.

The remembered list is `HEADVIZ_HOME/hashes.json`. It is only a memory: where it is lost or damaged, files are read
again. No torch here.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from headviz.types import Silent, Watch

log = logging.getLogger(__name__)

_NAME = "hashes.json"
_BLOCK = 2**22


def file_sha256(path: Path, home: Path, watch: Watch | None = None) -> str:
    """sha256 of a file, 64 hex digits; read only where its size or time of change is new."""
    return _files([path], home, watch or Silent())[path]


def folder_sha256(paths: Iterable[Path], home: Path, watch: Watch | None = None) -> str:
    """sha256 over the sorted pairs of file name and sha256 of content: the same wherever the folder lies."""
    digests = _files(list(paths), home, watch or Silent())
    return _together({path.name: digest for path, digest in digests.items()})


def remembered(paths: Iterable[Path], home: Path) -> str:
    """`folder_sha256` where every file's hash is remembered and the file is unchanged, else an empty string."""
    known = read_json(home / _NAME)
    found = {}
    for path in paths:
        entry = known.get(str(path.resolve()))
        if not _fresh(entry, path):
            return ""
        found[path.name] = entry[2]
    return _together(found)


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; empty where there is none, or where it is damaged (which is logged)."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read (%s) and is made anew", path.name, type(error).__name__)
        return {}
    return tree if isinstance(tree, dict) else {}


def write_json(path: Path, tree: dict[str, Any]) -> None:
    """Write a JSON object whole: to a temporary name, then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(tree, file, indent=1, sort_keys=True)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _files(paths: list[Path], home: Path, watch: Watch) -> dict[Path, str]:
    known = read_json(home / _NAME)
    stale = [path for path in paths if not _fresh(known.get(str(path.resolve())), path)]
    total = sum(path.stat().st_size for path in stale)
    done = 0
    taken = {}
    for path in stale:
        before = _stamp(path)
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
                done += len(block)
                watch.step("checking files", done, total, "bytes")
        taken[str(path.resolve())] = [*before, digest.hexdigest()]
    if taken:
        # two processes may write at once: the later one wins, and what it lacks is read again another time
        kept = {name: entry for name, entry in read_json(home / _NAME).items() if Path(name).exists()}
        write_json(home / _NAME, kept | taken)
    known |= taken
    return {path: known[str(path.resolve())][2] for path in paths}


def _together(digests: dict[str, str]) -> str:
    whole = hashlib.sha256()
    for name, digest in sorted(digests.items()):
        whole.update(f"{name}\0{digest}\n".encode())
    return whole.hexdigest()


def _stamp(path: Path) -> list[int]:
    seen = path.stat()
    return [seen.st_size, seen.st_mtime_ns]


def _fresh(entry: Any, path: Path) -> bool:
    return (
        isinstance(entry, list)
        and len(entry) == 3
        and isinstance(entry[2], str)
        and entry[:2] == _stamp(path)
    )
