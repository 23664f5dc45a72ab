"""Results by digest, on diskcache, without pickle and without eviction.

diskcache would unpickle whatever a row says is pickled. `_BytesOnly` never does: it writes text keys and bytes, and
refuses every other row. Each call closes its SQLite connection again (half a millisecond): pages run in short-lived
threads, and a connection left in a dead thread is a leak.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diskcache

from headviz.codec import pack, unpack
from headviz.errors import BadInput, CorruptResult, Failure, StoreFull
from headviz.types import Result

__all__ = ["Entry", "Store", "pack", "readable_size", "unpack"]

log = logging.getLogger(__name__)

_DIGEST = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{28}\.val")  # as diskcache names its value files
_RAW, _BINARY = 1, 2
_ABSENT = object()


class _BytesOnly(diskcache.Disk):
    """Text keys, bytes values, nothing else: neither written nor read."""

    def put(self, key: Any) -> tuple[str, bool]:
        if type(key) is not str:
            raise TypeError(f"the store's keys are text, not {type(key).__name__}")
        return key, True

    def get(self, key: Any, raw: bool) -> Any:
        return key if raw and type(key) is str else None  # None: a key that is not ours; never unpickled

    def store(self, value: Any, read: bool, key: Any = diskcache.UNKNOWN) -> tuple:
        if read or type(value) not in (bytes, str):
            raise TypeError(f"the store holds bytes, not {type(value).__name__}")
        return super().store(value.encode() if type(value) is str else value, False, key=key)

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        if mode == _RAW and type(value) is bytes:
            return value
        if mode == _BINARY and type(filename) is str and _FILE.fullmatch(filename):
            return super().fetch(mode, filename, value, read)
        raise CorruptResult("The store holds a row that headviz did not write; it was not read.")

    def remove(self, file_path: Any) -> None:
        # a planted row must not name a file to delete
        if type(file_path) is str and _FILE.fullmatch(file_path):
            super().remove(file_path)


@dataclass(frozen=True)
class Entry:
    """One stored result, as the page and the command line list it. Unreadable ones have an empty `type`."""

    digest: str
    type: str
    kind: str
    model: str
    bytes: int
    created: float  # seconds since 1970


class Store:
    """Results of this machine. Safe to share between threads and processes on one host."""

    def __init__(self, folder: Path | str, limit: int | None = None) -> None:
        """`limit`: bytes that the results may take together; None for no limit. Nothing is opened yet."""
        self.folder = Path(folder)
        self.limit = limit
        self._problems: deque[str] = deque(maxlen=50)
        self._cache: diskcache.Cache | None = None
        self._opening = threading.Lock()

    @property
    def problems(self) -> list[str]:
        """What went wrong since this process started, a sentence each, oldest first."""
        return list(self._problems)

    def report(self, sentence: str) -> None:
        """Add a sentence to `problems`, and to the log."""
        log.warning("%s", sentence)
        if sentence not in self._problems:
            self._problems.append(sentence)

    def __contains__(self, digest: str) -> bool:
        with self._open() as cache:
            return _key(digest) in cache

    def get(self, digest: str) -> Result | None:
        """The result, or None. A damaged entry is removed and reported, so that it is computed again."""
        try:
            return self._read(_key(digest))
        except CorruptResult:
            return self._drop_corrupt(digest)

    def put(self, digest: str, result: Result) -> None:
        """Keep `result`. Raises StoreFull, before anything is written, where the limit would be passed."""
        blob, tag = pack(result), json.dumps(_about(result))
        with self._open() as cache, cache.transact(retry=True):
            self._check_room(cache, _key(digest), len(blob))
            cache.set(digest, blob, tag=tag, retry=True)

    def digests(self) -> set[str]:
        """Keys of all results. Cheap: what a page that follows many jobs asks every second."""
        with self._open() as cache:
            return {key for key in cache.iterkeys() if key is not None}

    def request(self, digest: str) -> dict[str, Any] | None:
        """The request that a result answers, as JSON types, mostly without reading the result. None where it has none."""
        tag = None
        with self._open() as cache, suppress(CorruptResult):
            value, tag = cache.get(_key(digest), default=_ABSENT, read=True, tag=True)
            if hasattr(value, "close"):
                value.close()
        with suppress(TypeError, ValueError, AttributeError):
            if isinstance(known := json.loads(tag).get("request"), dict):
                return known
        found = self.get(digest)  # kept before requests were noted beside results
        return None if found is None else _about(found)["request"]

    def size(self) -> int:
        """Bytes that the results take on disk, the index included."""
        with self._open() as cache:
            return cache.volume()

    def entries(self) -> list[Entry]:
        """All results, newest first."""
        with self._open() as cache:
            found = [self._entry(cache, key) for key in list(cache.iterkeys()) if key is not None]
        return sorted((e for e in found if e is not None), key=lambda e: -e.created)

    def stats(self) -> dict[str, int | None]:
        """`count`, `bytes` and `limit` (None for no limit)."""
        with self._open() as cache:
            return {"count": len(cache), "bytes": cache.volume(), "limit": self.limit}

    def prune(
        self,
        *,
        older_than: float | None = None,
        keep_bytes: int | None = None,
        digests: Collection[str] = (),
    ) -> list[Entry]:
        """Remove results and return what was removed.

        older_than: seconds; results made longer ago go
        keep_bytes: the oldest go until the rest takes no more than this
        digests:    these go
        Raises BadInput where nothing says what to remove.
        """
        if older_than is None and keep_bytes is None and not digests:
            raise BadInput(
                "Say what to remove: results older than some days, all above a size, or one by name."
            )
        entries = self.entries()
        now = time.time()
        gone = [
            e
            for e in entries
            if e.digest in digests or (older_than is not None and now - e.created > older_than)
        ]
        if keep_bytes is not None:
            total = 0
            for entry in (e for e in entries if e not in gone):  # newest first
                total += entry.bytes
                if total > keep_bytes:
                    gone.append(entry)
        with self._open() as cache:
            for entry in gone:
                cache.delete(entry.digest, retry=True)
        return gone

    # ------------------------------------------------------------------------------------------------ inside

    @contextmanager
    def _open(self) -> Iterator[diskcache.Cache]:
        try:
            with self._opening:
                if self._cache is None:
                    self._cache = _open_cache(self.folder)
            yield self._cache
        except sqlite3.DatabaseError as error:
            raise Failure(
                f"The result store in {self.folder} cannot be used: {error}. "
                "Move that folder away to start an empty one, or make room on the disk."
            ) from error
        finally:
            if self._cache is not None:
                self._cache.close()  # this thread's connection

    def _read(self, digest: str) -> Result | None:
        with self._open() as cache:
            blob = cache.get(digest, default=_ABSENT)
            if blob is _ABSENT and digest in cache:
                blob = cache.get(digest, default=_ABSENT)  # replaced while we looked
                if blob is _ABSENT and digest in cache:
                    raise CorruptResult("The file of the stored answer is gone.")
        return None if blob is _ABSENT else unpack(blob)

    def _drop_corrupt(self, digest: str) -> Result | None:
        with self._open() as cache, cache.transact(retry=True):
            try:  # again, now that nobody can replace it: it may be a new and good one by now
                blob = cache.get(digest, default=_ABSENT)
                if blob is not _ABSENT:
                    return unpack(blob)
                reason = "The file of the stored answer is gone."
            except CorruptResult as error:
                reason = str(error)
            cache.delete(digest, retry=True)
        self.report(f"Stored result {digest[:12]} was damaged and removed; it is computed again. {reason}")
        return None

    def _check_room(self, cache: diskcache.Cache, digest: str, size: int) -> None:
        if self.limit is None:
            return
        used = cache.volume()
        entry = self._entry(cache, digest) if digest in cache else None
        if used + size - (entry.bytes if entry else 0) > self.limit:
            raise StoreFull(
                f"The result store holds {readable_size(used)} and this result needs {readable_size(size)}: "
                f"more than the {readable_size(self.limit)} of HEADVIZ_STORE_LIMIT. "
                "Raise the limit or remove old results."
            )

    def _entry(self, cache: diskcache.Cache, digest: str) -> Entry | None:
        tag: Any = None
        size = 0
        try:
            value, tag = cache.get(digest, default=_ABSENT, read=True, tag=True)
            if value is _ABSENT and digest not in cache:
                return None
            if isinstance(value, bytes):
                size = len(value)
            elif value is not _ABSENT:
                with value:
                    size = os.fstat(value.fileno()).st_size
        except CorruptResult:
            pass  # listed without a type, so that it can be pruned
        known: dict[str, Any] = {"type": "", "kind": "", "model": "", "created": 0.0}
        with suppress(TypeError, ValueError):
            known |= {
                name: item for name, item in json.loads(tag).items() if type(item) is type(known.get(name))
            }
        return Entry(digest=digest, bytes=size, **known)


def _open_cache(folder: Path) -> diskcache.Cache:
    path = str(folder)
    if os.path.expandvars(path) != path:  # diskcache would expand it, and write somewhere else
        raise BadInput(
            f"The folder {path} has a $ in its name that the result store cannot use. Choose another."
        )
    folder.mkdir(parents=True, exist_ok=True)
    return diskcache.Cache(
        path,
        disk=_BytesOnly,
        eviction_policy="none",
        cull_limit=0,
        statistics=0,
        tag_index=0,
        disk_min_file_size=0,
    )


def _about(result: Result) -> dict[str, Any]:
    """What `entries` says of a result without reading it. Provenance holds a request, or the spec around one."""
    spec = result.provenance.request
    request = spec.get("request", spec)
    model = request.get("model", {}) if isinstance(request, dict) else {}
    return {
        "type": type(result).__name__,
        "kind": str(spec.get("kind", "")),
        "model": str(model.get("name", "")) if isinstance(model, dict) else "",
        "request": request,
        "created": time.time(),
    }


def _key(digest: str) -> str:
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise BadInput(f"{digest!r} is no digest: 64 hexadecimal digits.")
    return digest


def readable_size(size: int) -> str:
    """`1.5 MB`: decimal units, as HEADVIZ_STORE_LIMIT is written."""
    for unit, step in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} bytes"
