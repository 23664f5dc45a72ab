"""Text that a person pastes or uploads: checked, hashed, and kept in HEADVIZ_HOME/texts by its hash.

A request names the hash only. So a request can be run again as long as the text is on this machine, and no request
names a file. Names given to the documents do not depend on the file's name: the same text has the same hash.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from headviz.data import tables
from headviz.data.documents import Document, Text, as_text, read_text, write_text
from headviz.errors import BadData
from headviz.settings import Settings

MAX_BYTES = 50_000_000
MAX_CHARACTERS = 50_000_000  # a small parquet file can hold a huge text
_HASH = re.compile(r"[0-9a-f]{64}")
_STRINGS = ("string", "large_string", "string_view")
_NUMBER = re.compile(r"[+-]?(?:\d[\d.,]*|\.\d+)(?:[eE][+-]?\d+)?%?")
_SAMPLE = 256  # rows that say which column is the text
_START = 80


class Summary(NamedTuple):
    """What a kept text is. characters: of all documents; start: the first 80, on one line; notes: what was left out."""

    documents: int
    characters: int
    start: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class OwnText:
    """What was read. revision: sha256 for `DataRef.revision`; columns: what could be chosen; notes: what was left out."""

    revision: str
    documents: tuple[Document, ...]
    characters: int
    columns: tuple[str, ...]
    column: str
    notes: tuple[str, ...] = ()


def import_text(data: bytes, filename: str, *, column: str = "", settings: Settings) -> OwnText:
    """Read text from `data`, keep it, and say what it is.

    filename: only its ending counts (.txt .md .jsonl .json .csv .parquet) and the message in which it is named
    column:   which column is the text; may be empty where `best_column` finds it
    A txt file is one document, of the others each row is one; rows without text are left out, with a note.
    Raises BadData, one sentence each, for what cannot be read.
    """
    name = Path(filename).name or "The text"
    kind = _check(data, name)
    there: list[str] = []
    if kind == "txt":
        found = [("text", tables.decode(data, name))]
    else:
        there = columns(data, filename)
        column = _choose(column, there, data, kind, name)
        found = [(f"row {number}", text) for number, text in enumerate(_values(data, kind, column, name), 1)]
    documents = [Document(title, text) for title, text in found if text.strip()]
    if not documents:
        where = f"column {column!r} of {name}" if column else name
        raise BadData(f"There is nothing but blanks in {where}. Give some text.")
    if column:
        _refuse_numbers([document.text for document in documents], column, there, name)
    text = as_text(documents)
    path = _path(text.revision, settings)
    if not path.exists():
        write_text(path, text)
    blank = len(found) - len(documents)
    notes = (f"{blank} of {len(found)} rows have no text and are left out",) if blank else ()
    return OwnText(text.revision, text.documents, text.characters, tuple(there), column, notes)


def load(revision: str, settings: Settings) -> Text:
    """The text with this sha256. Raises BadData when it is not on this machine."""
    text = read_text(_path(revision, settings)) if _HASH.fullmatch(revision) else None
    if text is None or text.revision != revision:
        raise BadData(
            f"The text {revision[:8] or '(none)'}… is not on this machine: own texts stay where they were given. "
            "Paste or upload it again."
        )
    return text


def summary(revision: str, settings: Settings) -> Summary:
    """What the kept text with this sha256 is. Raises BadData as `load` does."""
    text = load(revision, settings)
    first, last = text.documents[0].text, text.documents[-1].name
    start = " ".join(first.lstrip()[: 4 * _START].split())[:_START]
    # rows keep their numbers, so that gaps tell how many were left out before the last one
    rows = int(last.removeprefix("row ")) if last.startswith("row ") else len(text.documents)
    blank = rows - len(text.documents)
    notes = (f"{blank} of the first {rows} rows have no text and are left out",) if blank else ()
    return Summary(len(text.documents), text.characters, start, notes)


def best_column(data: bytes, filename: str) -> str:
    """The column that is the text: `text`, else the only one of strings that are mostly no numbers.

    Empty where that is not clear, and for a txt file, which has none. Raises BadData as `columns` does.
    """
    there = columns(data, filename)
    if not there:
        return ""
    name = Path(filename).name
    return _best(_text_columns(there, data, tables.kind_of(name), name))


def columns(data: bytes, filename: str) -> list[str]:
    """Columns of a jsonl, csv or parquet file, in order; empty for a txt file. Raises BadData as `import_text` does."""
    name = Path(filename).name or "The text"
    kind = _check(data, name)
    if kind == "txt":
        return []
    if kind == "parquet":
        return list(tables.parquet_columns(_buffer(data), name))
    there: dict[str, None] = {}
    for row in _rows(data, kind, (), name):
        there.update(dict.fromkeys(row))
        if kind == "csv":  # its header says all
            break
    if not there:
        raise BadData(f"{name} has no rows. Give a file with some text.")
    return list(there)


def _check(data: bytes, name: str) -> str:
    """The file's kind, once its size and ending are found right."""
    kind = tables.kind_of(name)
    if not kind or name.lower().endswith(".gz"):
        raise BadData(
            f"{name} has an ending that is not known. Known: .txt, .md, .jsonl, .json, .csv, .parquet."
        )
    if len(data) > MAX_BYTES:
        raise BadData(
            f"{name} has {len(data) / 1e6:.0f} MB; at most {MAX_BYTES // 10**6} MB are read. Give a part of it: "
            "a few hundred inputs are enough for a score."
        )
    if not data or (kind != "parquet" and not data.strip(b" \t\r\n\xef\xbb\xbf")):
        raise BadData(f"{name} is empty. Give some text.")
    return kind


def _choose(column: str, there: list[str], data: bytes, kind: str, name: str) -> str:
    if column:
        if column not in there:
            raise BadData(f"{name} has no column {column!r}. Its columns: {', '.join(there)}.")
        return column
    candidates = _text_columns(there, data, kind, name)
    if best := _best(candidates):
        return best
    if not candidates:
        raise BadData(f"{name} has no column of text. Its columns: {', '.join(there)}.")
    raise BadData(f"{name} has several columns of text. Say which one to read: {', '.join(candidates)}.")


def _best(candidates: list[str]) -> str:
    if "text" in candidates:
        return "text"
    return candidates[0] if len(candidates) == 1 else ""


def _text_columns(there: list[str], data: bytes, kind: str, name: str) -> list[str]:
    """Columns of strings that are mostly no numbers, by the first rows; blank ones only where there are no others."""
    typed = tables.parquet_columns(_buffer(data), name) if kind == "parquet" else {}
    wanted = tuple(column for column in there if typed.get(column, "string") in _STRINGS)
    if not wanted:
        return []
    rows = list(islice(_rows(data, kind, wanted, name), _SAMPLE))
    found: dict[str, bool] = {}  # column → whether anything but blanks is in it
    for column in wanted:
        cells = [row[column] for row in rows if row.get(column) is not None]
        if kind == "jsonl" and not (cells and isinstance(cells[0], str)):
            continue
        texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
        if 2 * _numbers(texts) <= len(texts):
            found[column] = bool(texts)
    return [column for column, filled in found.items() if filled or column == "text"] or list(found)


def _numbers(texts: Sequence[str]) -> int:
    """How many of these are numbers and nothing else."""
    return sum(_NUMBER.fullmatch(text.strip()) is not None for text in texts)


def _refuse_numbers(texts: Sequence[str], column: str, there: list[str], name: str) -> None:
    """Raises BadData where most cells are numbers: an id or a label would be scored as if it were text."""
    numbers = _numbers(texts)
    if 2 * numbers > len(texts):
        others = ", ".join(other for other in there if other != column)
        do = f"Choose the column of text; the others are: {others}." if others else "It has no other column."
        raise BadData(
            f"Column {column!r} of {name} holds numbers, not text ({numbers} of {len(texts)} cells). {do}"
        )


def _values(data: bytes, kind: str, column: str, name: str) -> Iterator[str]:
    """Texts of a column; a missing one is empty. Raises BadData for a value that is no string, and past the limit."""
    characters = 0
    for number, row in enumerate(_rows(data, kind, (column,), name), 1):
        value = row.get(column)
        if value is None:
            value = ""
        if not isinstance(value, str):
            raise BadData(
                f"Row {number} of column {column!r} of {name} is no text but {type(value).__name__}: "
                f"{str(value)[:40]!r}. Choose a column of text."
            )
        if not _is_unicode(value):  # JSON can write one half of a pair
            raise BadData(f"Row {number} of {name} holds half a character (a lone surrogate). Remove it.")
        characters += len(value)
        if characters > MAX_CHARACTERS:
            raise BadData(
                f"Column {column!r} of {name} has more than {MAX_CHARACTERS // 10**6} million characters. "
                "Give a part of it: a few hundred inputs are enough for a score."
            )
        yield value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _rows(data: bytes, kind: str, wanted: tuple[str, ...], name: str) -> Iterator[dict[str, Any]]:
    if kind == "jsonl":
        return tables.jsonl_rows(iter(io.BytesIO(data)), name)
    if kind == "csv":
        tables.decode(data, name)  # says which byte is wrong; pyarrow would only say that one is
        return tables.csv_rows(io.BytesIO(data), name, block=len(data) + 1)
    return tables.parquet_rows(_buffer(data), name, wanted)


def _buffer(data: bytes) -> Any:
    import pyarrow

    return pyarrow.BufferReader(data)


def _path(revision: str, settings: Settings) -> Path:
    return settings.home / "texts" / f"{revision}.json"
