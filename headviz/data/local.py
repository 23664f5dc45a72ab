"""Local copies of corpora: which files, what hash, which rows.

A copy is a folder under HEADVIZ_DATA named as the corpus is (`fineweb-edu`, `c4` …; for any other hub data set its
id with `--` for `/`), or HEADVIZ_MMLU. Its files are parquet, jsonl (also .json with an object a line), csv or txt,
the middle two also with .gz. A split's files have its name in theirs, `test.parquet` or `test/part-0.jsonl`; a file
with no split's name belongs to train, as on the hub.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headviz.data import tables
from headviz.data.hub import need_columns
from headviz.data.table import Corpus
from headviz.errors import BadData
from headviz.settings import Settings

log = logging.getLogger(__name__)

_SPLITS = ("train", "test", "validation", "valid", "dev")


def folder_of(row: Corpus, dataset: str, settings: Settings) -> Path | None:
    """The folder of the local copy, or None where there is none. Raises BadData when HEADVIZ_MMLU names no folder."""
    if row.id == "mmlu" and settings.mmlu is not None:
        if not settings.mmlu.is_dir():
            raise BadData("HEADVIZ_MMLU names a folder that does not exist. Correct it, or unset it.")
        return settings.mmlu
    if settings.data is None:
        return None
    folder = settings.data / (dataset.replace("/", "--") if row.id == "hub" else row.id)
    return folder if folder.is_dir() else None


def files_of(folder: Path, split: str, corpus: str) -> list[Path]:
    """The data files of a split, in order. Raises BadData, with the files there are, when there is none."""
    there = sorted(
        (path for path in folder.rglob("*") if path.is_file() and tables.kind_of(path.name)),
        key=lambda path: path.relative_to(folder).as_posix(),
    )
    there = [path for path in there if not path.name.lower().startswith(("readme", "."))]
    named = {path: _split_of(path.relative_to(folder).as_posix(), split) for path in there}
    chosen = [path for path in there if named[path] == split]
    if not chosen and split == "train":
        chosen = [path for path in there if not named[path]]
    if not chosen:
        names = ", ".join(path.relative_to(folder).as_posix() for path in there[:8]) or "nothing"
        raise BadData(
            f"The local copy of {corpus} has no file for split {split!r}; it holds {names}. "
            f"Name the split in the file, such as {split}.parquet (or .jsonl, .csv, .txt)."
        )
    return chosen


def _split_of(name: str, wanted: str) -> str:
    """The split that a file's path names (`wanted` or a usual one, longest first); empty when it names none."""
    for split in sorted({*_SPLITS, wanted}, key=len, reverse=True):
        if re.search(rf"(^|[/._-]){re.escape(split)}($|[/._\-\d])", name, re.IGNORECASE):
            return split
    return ""


def revision_of(files: list[Path], folder: Path, settings: Settings) -> str:
    """sha256 over the files' names and contents. Hashes of files that did not change since are kept."""
    memory = settings.home / "corpora" / "files.json"
    known = _recall(memory)
    whole = hashlib.sha256()
    fresh = False
    for path in files:
        state = path.stat()
        key = f"{path}|{state.st_size}|{state.st_mtime_ns}"
        if key not in known:
            with path.open("rb") as file:
                known[key] = hashlib.file_digest(file, "sha256").hexdigest()
            fresh = True
        whole.update(f"{path.relative_to(folder).as_posix()}\0{known[key]}\n".encode())
    if fresh:
        memory.parent.mkdir(parents=True, exist_ok=True)
        temporary = memory.with_name(f".files-{whole.hexdigest()[:16]}.json")
        temporary.write_text(json.dumps(known), encoding="utf-8")
        temporary.replace(memory)
    return whole.hexdigest()


def _recall(memory: Path) -> dict[str, str]:
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        log.warning("%s is damaged: the files of local copies are hashed anew", memory)
        return {}
    return known if isinstance(known, dict) else {}


def rows(files: list[Path], columns: tuple[str, ...], corpus: str) -> Iterator[dict[str, Any]]:
    """Rows of the files, one after the other; a txt file is one row with the column `text`. Raises BadData when a
    column is missing or a file cannot be read."""
    for path in files:
        name = f"{path.name} (local copy of {corpus})"
        for number, row in enumerate(_rows(path, columns, name)):
            if number == 0:
                need_columns(columns, row, name)
            yield row


def _rows(path: Path, columns: tuple[str, ...], name: str) -> Iterator[dict[str, Any]]:
    kind = tables.kind_of(path.name)
    if kind == "parquet":
        need_columns(columns, tables.parquet_columns(path, name), name)
        yield from tables.parquet_rows(path, name, columns)
        return
    with tables.open_file(path) as file:
        if kind == "jsonl":
            yield from tables.jsonl_rows(iter(file), name)
        elif kind == "csv":
            yield from tables.csv_rows(file, name)
        else:
            yield {"text": tables.decode(file.read(), name)}
