"""Questions that a person gives: checked, hashed, and kept in HEADVIZ_HOME/questions by their hash. No torch.

A request names the hash only, so that no request names a file, and the same questions have the same hash.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from headviz.data import tables
from headviz.data.items import COLUMNS, Item, item
from headviz.errors import BadData
from headviz.settings import Settings

MAX_BYTES = 50_000_000
_HASH = re.compile(r"[0-9a-f]{64}")
_SPLITS = ("test", "dev")


def import_questions(data: bytes, filename: str, settings: Settings) -> str:
    """Read questions from a jsonl or csv file, keep them, and return their revision (sha256, 64 hex digits).

    Columns: question, choices (a list; in a csv written as JSON), answer (a letter, or a number from 0); if wanted also
    subject, and split: `dev` marks a worked example, `test`, or nothing, a question to measure on.
    Raises BadData, one sentence each, for what cannot be read.
    """
    name = Path(filename).name or "The file"
    kind = tables.kind_of(name)
    if kind not in ("jsonl", "csv"):
        raise BadData(f"{name} is neither jsonl nor csv. Save the questions as one of these.")
    if len(data) > MAX_BYTES:
        raise BadData(f"{name} has {len(data):,} bytes; {MAX_BYTES:,} is the most.")
    found: dict[str, list[Item]] = {split: [] for split in _SPLITS}
    for number, row in enumerate(_rows(data, kind, name), 1):
        where = f"Row {number} of {name}"
        for column in COLUMNS:
            if column not in row:
                raise BadData(f"{where} has no column {column!r}. Its columns: {', '.join(row) or 'none'}.")
        split = row.get("split") or "test"
        if split not in _SPLITS:
            raise BadData(f"{where} has the split {split!r}; it must be test, dev or empty.")
        found[split].append(item(row, 0, where))
    if not found["test"]:
        raise BadData(f"{name} holds no questions. Give at least one that is not marked dev.")
    body = _canonical(found)
    revision = hashlib.sha256(body).hexdigest()
    _write(_path(revision, settings), body)
    return revision


def load(revision: str, settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(questions, worked examples) of a revision, as rows. Raises BadData where they are not on this machine."""
    try:
        body = _path(revision, settings).read_bytes() if _HASH.fullmatch(revision) else b""
    except FileNotFoundError:
        body = b""
    if hashlib.sha256(body).hexdigest() != revision:
        raise BadData(
            f"The questions {revision[:8] or '(none)'}… are not on this machine. Upload the file with them again."
        )
    tree = json.loads(body)
    return tree["test"], tree["dev"]


def _rows(data: bytes, kind: str, name: str) -> Any:
    if kind == "jsonl":
        return tables.jsonl_rows(iter(io.BytesIO(data)), name)
    tables.decode(data, name)  # says which byte is wrong; pyarrow would only say that one is
    return tables.csv_rows(io.BytesIO(data), name, block=len(data) + 1)


def _canonical(found: dict[str, list[Item]]) -> bytes:
    tree = {
        split: [
            {"question": one.question, "choices": one.choices, "answer": one.answer, "subject": one.subject}
            for one in items
        ]
        for split, items in found.items()
    }
    try:
        return json.dumps(tree, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise BadData("The questions hold half a character (a lone surrogate). Remove it.") from None


def _write(path: Path, body: bytes) -> None:
    """Whole under another name, then renamed: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(body)
    Path(temporary).replace(path)


def _path(revision: str, settings: Settings) -> Path:
    return settings.home / "questions" / f"{revision}.json"
