"""Documents of a pinned corpus, wherever it is: built here, kept here, a local copy, or streamed from the hub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from headviz.data import docstrings, hub, local, own_text, stdlib_code
from headviz.data.documents import Document, Text
from headviz.data.table import CORPORA, Corpus
from headviz.errors import BadData, lookup
from headviz.settings import Settings
from headviz.types import DataRef, Watch

INSTALLED = {"docstrings": docstrings.load, "stdlib-code": stdlib_code.load}

HELD_OUT_ONE_IN = 10
_POOL = 256
_REPORT_EVERY = 50


def read_documents(ref: DataRef, settings: Settings, watch: Watch) -> Iterator[Document]:
    """Documents of `ref.part`, in their own order (the seed comes later, in `build_inputs`).

    Of a large hub data set these are only the first 256, or four times the inputs if that is more: `pool_of` says so.
    Raises BadData when the text is not the one that `ref.revision` names, or cannot be read; Unreachable, GatedModel.
    """
    row = lookup(CORPORA, ref.corpus, "corpus")
    watch.step(f"reading {ref.corpus}")
    if row.source == "hub":
        yield from _hub_documents(ref, row, settings, watch)
        return
    if row.source == "own":
        text = own_text.load(ref.revision, settings)
    else:
        text = INSTALLED[row.id](ref.part, settings.home)
        _same(text, ref)
    for document in text.documents:
        watch.check()
        yield document


def pool_of(ref: DataRef) -> int | None:
    """How many documents at most are read to draw from; None for all."""
    row = lookup(CORPORA, ref.corpus, "corpus")
    return max(_POOL, 4 * ref.inputs) if row.source == "hub" and row.pool else None


def held_out(text: str) -> bool:
    """Whether a document of a corpus with one split is held out: by the hash of its text, one in ten."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[0] * HELD_OUT_ONE_IN < 256


def source_of(row: Corpus, ref: DataRef) -> tuple[str, str, str, tuple[str, ...]]:
    """(data set, configuration, split, columns) on the hub for this request."""
    if row.id == "hub":
        return ref.dataset, ref.config, ref.split, (ref.column,)
    return row.dataset, row.config, row.splits.get(ref.part, "train"), row.columns


def _same(text: Text, ref: DataRef) -> None:
    if text.revision != ref.revision:
        raise BadData(
            f"The request is about another text of {ref.corpus} ({ref.revision[:8]}…) than this machine has "
            f"({text.revision[:8]}…): packages or Python have another version here. Ask anew, or install the "
            "versions of the request."
        )


def _hub_documents(ref: DataRef, row: Corpus, settings: Settings, watch: Watch) -> Iterator[Document]:
    dataset, config, split, columns = source_of(row, ref)
    if hub.is_commit(ref.revision):
        rows = hub.rows(dataset, config, split, columns, ref.revision, watch)
    else:
        folder = local.folder_of(row, dataset, settings)
        if folder is None:
            raise BadData(
                f"The request is about a local copy of {ref.corpus} that is not on this machine any more. "
                "Put it back, or ask anew to read it from the hub."
            )
        files = local.files_of(folder, split, ref.corpus)
        _same(Text(local.revision_of(files, folder, settings), ()), ref)
        rows = local.rows(files, columns, ref.corpus)
    texts = (_text(item, number, row, columns, ref) for number, item in enumerate(rows))
    if row.gather is not None:
        texts = row.gather(texts)
    yield from _chosen(texts, ref, row, split, watch)


def _text(item: dict, number: int, row: Corpus, columns: tuple[str, ...], ref: DataRef) -> str:
    text = row.format(item) if row.format is not None else item[columns[0]]
    if text is None:
        return ""
    if not isinstance(text, str):
        raise BadData(
            f"Row {number} of {ref.dataset or ref.corpus} has {type(text).__name__} in column {columns[0]!r}, not "
            "text. Choose a column of text."
        )
    return text


def _chosen(texts: Iterable[str], ref: DataRef, row: Corpus, split: str, watch: Watch) -> Iterator[Document]:
    """Those of the part, without blank ones, up to the pool's size."""
    by_hash = not row.splits and ref.part != "all"
    pool = pool_of(ref)
    taken = 0
    for number, text in enumerate(texts):
        if number % _REPORT_EVERY == 0:
            watch.step(f"reading {ref.corpus}", taken, pool or 0, "documents")
        if not text.strip() or (by_hash and held_out(text) != (ref.part == "held-out")):
            continue
        yield Document(f"{ref.dataset or ref.corpus}/{split}/{number}", text)
        taken += 1
        if taken == pool:
            return
