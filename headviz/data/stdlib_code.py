"""Corpus `stdlib-code`: the sources of Python's own standard library, code as another domain than prose.

It is on every machine. A document is a file; held-out is whole top-level modules or packages. The text is that of
the running interpreter: another Python version is another text and another hash, so a request made with one cannot
be answered with another (it says so instead).
"""

from __future__ import annotations

import sys
import sysconfig
import threading
import tokenize
from collections.abc import Iterator
from pathlib import Path

from headviz.data.documents import Document, Text, as_text, built_once
from headviz.errors import BadData

RULES = 1  # raise when what is read below changes, so that kept texts are built anew

HELD_OUT = frozenset(
    ("asyncio", "concurrent", "csv", "dataclasses", "difflib", "fractions", "functools", "heapq", "http", "inspect",
     "ipaddress", "json", "logging", "mailbox", "pathlib", "pickletools", "pprint", "smtplib", "socket", "sqlite3",
     "statistics", "tarfile", "textwrap", "tokenize", "traceback", "turtle", "unittest", "urllib", "uuid", "wsgiref",
     "zipfile")
)  # fmt: skip

# Not written for reading, or not the interpreter's own: tests, tables, generated topics, installed packages.
SKIPPED = frozenset(
    ("test", "tests", "idlelib", "idle_test", "lib2to3", "site-packages", "dist-packages", "encodings", "ensurepip",
     "pydoc_data", "turtledemo", "lib-dynload", "__pycache__", "__phello__")
)  # fmt: skip

_building = threading.Lock()


def documents(folder: Path, part: str) -> Iterator[Document]:
    """Files of `folder` that belong to `part` (`held-out` or `train`), by path, without those of blanks only."""
    for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).as_posix()):
        inside = path.relative_to(folder)
        if SKIPPED.intersection(inside.parts[:-1]) or inside.parts[0].startswith(
            ("config-", "_sysconfigdata")
        ):
            continue
        if (inside.parts[0].removesuffix(".py") in HELD_OUT) != (part == "held-out"):
            continue
        with tokenize.open(path) as file:  # heeds the file's own declaration of its encoding
            text = file.read()
        if text.strip():
            yield Document(inside.as_posix(), text)


def load(part: str, home: Path) -> Text:
    """The text of a part (`held-out`, `train` or `all`), read on first use and then kept under `home`.

    Raises BadData where Python was installed without its sources.
    """
    if part == "all":
        return as_text((*load("held-out", home).documents, *load("train", home).documents))
    folder = Path(sysconfig.get_path("stdlib"))

    def first_time() -> list[Document]:
        found = list(documents(folder, part))
        if not found:
            raise BadData(
                "This Python has no sources of its standard library, so there is no corpus stdlib-code. "
                "Choose another corpus, or a Python that was installed with its sources."
            )
        return found

    key = {"rules": RULES, "python": sys.version, "folder": str(folder)}
    with _building:
        return built_once(home / "corpora", f"stdlib-code-{part}", key, first_time)
