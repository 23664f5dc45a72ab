"""Rows of a table file as plain strings: jsonl, csv and parquet, from bytes or from a path. Nothing is unpickled.

csv goes through pyarrow and every column is read as text, so that 007 stays 007 and an empty field stays empty.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headviz.errors import BadData

Row = dict[str, Any]
_BATCH = 256
_CSV_BLOCK = 64 * 1024 * 1024  # a row must fit into one block


def kind_of(filename: str) -> str:
    """`txt`, `jsonl`, `csv` or `parquet`, by the file's ending (`.gz` after it is allowed); empty when unknown."""
    suffixes = [suffix.lower() for suffix in Path(filename).suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    endings = {
        ".txt": "txt",
        ".md": "txt",
        ".jsonl": "jsonl",
        ".json": "jsonl",
        ".csv": "csv",
        ".parquet": "parquet",
    }
    return endings.get(suffixes[-1], "") if suffixes else ""


def decode(data: bytes, name: str) -> str:
    """UTF-8 text, without a byte order mark. Raises BadData that names the first byte that is not UTF-8."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise BadData(f"{name} is written in UTF-16. Save it as UTF-8 and try again.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the decoder does not count the mark that it took off
        at = error.start + (3 if data.startswith(b"\xef\xbb\xbf") else 0)
        raise BadData(
            f"{name} is not UTF-8: byte {at} (line {data.count(10, 0, at) + 1}) is 0x{data[at]:02x}. "
            "Save it as UTF-8 and try again (in most editors: Save as, encoding UTF-8)."
        ) from None


def open_file(path: Path) -> BinaryIO:
    """The file's bytes, unpacked where it ends in .gz."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def jsonl_rows(lines: Iterator[bytes], name: str) -> Iterator[Row]:
    """One object a line; blank lines are passed over. Raises BadData with the number of a line that is no object."""
    for number, line in enumerate(lines, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise BadData(
                f"Line {number} of {name} is not UTF-8: its byte {error.start} is 0x{line[error.start]:02x}. "
                "Save the file as UTF-8 and try again."
            ) from None
        except (json.JSONDecodeError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"
            raise BadData(
                f"Line {number} of {name} is no JSON ({why}). A jsonl file has one object a line."
            ) from None
        if not isinstance(row, dict):
            raise BadData(
                f'Line {number} of {name} is no JSON object. Write lines like {{"text": "Some text."}}.'
            )
        yield row


def csv_rows(source: BinaryIO, name: str, block: int = _CSV_BLOCK) -> Iterator[Row]:
    """Rows of a csv with a header line; each value is a string. Raises BadData for what is no csv or not UTF-8."""
    import pyarrow as pa
    from pyarrow import csv

    read = csv.ReadOptions(block_size=block, use_threads=False)
    parse = csv.ParseOptions(newlines_in_values=True)
    try:
        names = csv.open_csv(source, read, parse, csv.ConvertOptions(check_utf8=False)).schema.names
        source.seek(0)
        convert = csv.ConvertOptions(column_types={column: pa.string() for column in names}, check_utf8=True)
        for batch in csv.open_csv(source, read, parse, convert):
            yield from batch.to_pylist()
    except UnicodeDecodeError:
        raise BadData(f"{name} is not UTF-8. Save it as UTF-8 and try again.") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
        why = str(error).splitlines()[0]
        if "UTF8" in why or "UTF-8" in why:
            raise BadData(f"{name} is not UTF-8 ({why}). Save it as UTF-8 and try again.") from None
        raise BadData(
            f"{name} cannot be read as csv: {why}. Is there a header line, and one row a line?"
        ) from None


def parquet_columns(source: Any, name: str) -> dict[str, str]:
    """Column → type of a parquet file, in order. Raises BadData when it is none."""
    return {field.name: str(field.type) for field in _parquet(source, name).schema_arrow}


def parquet_rows(source: Any, name: str, columns: tuple[str, ...]) -> Iterator[Row]:
    """Rows with `columns` of a parquet file (path, or pyarrow buffer reader). Raises BadData when it is damaged."""
    import pyarrow as pa

    file = _parquet(source, name)
    try:
        for batch in file.iter_batches(_BATCH, columns=list(columns), use_threads=False):
            yield from batch.to_pylist()
    except UnicodeDecodeError:
        raise BadData(f"{name} holds text that is not UTF-8. Write it again as UTF-8.") from None
    except (pa.ArrowException, OSError) as error:
        raise BadData(
            f"{name} is a damaged parquet file: {str(error).splitlines()[0]}. Write it again."
        ) from None


def _parquet(source: Any, name: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(source)
    except (pa.ArrowException, OSError) as error:
        raise BadData(f"{name} is no parquet file, or it is damaged: {str(error).splitlines()[0]}.") from None
