"""A document, the hash of a text, and the texts that this machine builds once and keeps."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Document:
    """One text that is never divided between train and held-out: a module, an article, a question."""

    name: str
    text: str


@dataclass(frozen=True)
class Text:
    """Documents in their fixed order, and the sha256 of them (64 hex digits)."""

    revision: str
    documents: tuple[Document, ...]

    @property
    def characters(self) -> int:
        return sum(len(document.text) for document in self.documents)


def canonical_text(documents: Iterable[Document]) -> bytes:
    """The one byte string that stands for `documents`: JSON pairs of name and text, UTF-8, no spaces."""
    pairs = [[document.name, document.text] for document in documents]
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def as_text(documents: Iterable[Document]) -> Text:
    """Documents with the sha256 of their canonical text."""
    documents = tuple(documents)
    return Text(hashlib.sha256(canonical_text(documents)).hexdigest(), documents)


def write_text(path: Path, text: Text) -> None:
    """Write `text` whole under another name, then rename: a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = b'{"revision":"%s","documents":%s}' % (text.revision.encode(), canonical_text(text.documents))
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(body)
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def read_text(path: Path) -> Text | None:
    """The text in `path`; None where there is no such file, or where it does not match its own sha256."""
    try:
        tree = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
        text = as_text(Document(name, body) for name, body in tree["documents"])
        if text.revision == tree["revision"]:
            return text
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):
        pass
    log.warning("%s is damaged and is built anew", path)
    return None


def built_once(folder: Path, name: str, key: object, build: Callable[[], Iterable[Document]]) -> Text:
    """The text kept as `folder`/`name`-<hash of key>.json, built and written there when it is not.

    key: everything that decides the text, as JSON types (versions of packages and of our rules)
    """
    short = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
    path = folder / f"{name}-{short}.json"
    text = read_text(path)
    if text is None:
        text = as_text(build())
        write_text(path, text)
    return text


def already_built(folder: Path, name: str, revision: str) -> Text | None:
    """The text with this sha256, where `built_once` has built it before; nothing is built here."""
    wanted = b'{"revision":"%s"' % revision.encode()
    for path in sorted(folder.glob(f"{name}-*.json")):
        try:
            with path.open("rb") as file:
                found = file.read(len(wanted)) == wanted
        except OSError:
            continue
        if found and (text := read_text(path)) is not None:
            return text
    return None
