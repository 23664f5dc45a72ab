"""Corpus `docstrings`: English prose from the docstrings of packages that headviz installs anyway.

It is on every machine after `make install`, it needs no network, and it is real technical prose. Sources are
parsed, never imported. A document is a module: the prose paragraphs of its docstrings, joined by blank lines.

Held-out is whole packages. Splitting files or paragraphs at random would leak: documentation repeats itself with
small changes, most of all inside one package. Measured on these packages, the share of held-out 13-grams (words)
that training also holds is 0.01 % for this split, 2.5 % when a random fifth of the modules is held out, 7 % for a
fifth of the paragraphs, and 17 % for that before repeated paragraphs are dropped (46 % with plotly and transformers'
model folders, one text some hundred times; these and altair, generated text all, are left out).

Held-out is built first and alone, so its text and hash depend on the held-out packages only, which are pinned.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import inspect
import re
import threading
import warnings
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from headviz.data.documents import Document, Text, as_text, built_once
from headviz.errors import BadData, Failure

RULES = 1  # raise when the rules below change, so that kept texts are built anew

HELD_OUT = ("pandas", "streamlit")
TRAIN = (
    "numpy",
    "scipy",
    "matplotlib",
    "sympy",
    "networkx",
    "torch",
    "transformers",
    "huggingface_hub",
    "datasets",
    "accelerate",
)
PACKAGES = {"held-out": HELD_OUT, "train": TRAIN}

# Folders without prose of their own: tests, generated code, copies of other packages.
SKIPPED = frozenset(("tests", "test", "testing", "_testing", "proto", "extern", "externals", "_vendor"))
# Folders of large packages that hold text of one template, or little prose for the time it takes to parse them.
SKIPPED_IN = {
    "transformers": ("models",),
    "torch": ("_inductor", "_dynamo", "_export", "_refs", "_decomp", "_prims", "_native", "_library", "_functorch",
              "_higher_order_ops", "ao", "onnx", "sparse", "masked", "jit", "export", "xpu", "cuda", "package"),
}  # fmt: skip

# A line that makes a paragraph something else than prose: doctest, directive, field, bullet, numbered item, rule,
# table, heading underline, code fence, decorator, or `name : type`.
_NO_PROSE = re.compile(
    r"""^\s*( >>> | \.\.\. | \.\.\s | :\w+ | [-*+•]\s | \(?\w{1,3}[.)]\s | [=\-~^+|#*_`"]{3,} | \| | @\w
            | \w[\w,\ *.]*\s:\s )""",
    re.MULTILINE | re.VERBOSE,
)
_BLANK = re.compile(r"\n[ \t]*\n")
_MIN_WORDS = 8
_MIN_LETTERS = 0.8  # of the characters that are no spaces

_building = threading.RLock()  # two pages that ask at once build once


def prose(paragraph: str) -> str | None:
    """The paragraph on one line, or None where it is no prose.

    Prose has all its lines at one indentation and none that looks like markup (`_NO_PROSE`), starts with a capital
    letter, ends with `.`, `!` or `?`, has eight words or more, and is letters for four fifths.
    """
    lines = paragraph.splitlines()
    if len({len(line) - len(line.lstrip()) for line in lines}) != 1 or _NO_PROSE.search(paragraph):
        return None
    text = " ".join(paragraph.split())
    if not text or not text[0].isupper() or text[-1] not in ".!?" or text.count(" ") + 1 < _MIN_WORDS:
        return None
    letters = sum(character.isalpha() for character in text)
    return text if letters >= _MIN_LETTERS * (len(text) - text.count(" ")) else None


def docstrings_of(source: bytes, name: str) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, in source order. Raises Failure if it cannot be parsed."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise Failure(
            f"{name} cannot be parsed by this Python ({error}). Run make install with a supported one."
        ) from None
    yield from _walk(tree)


def _walk(node: ast.AST) -> Iterator[str]:
    body = node.body
    if not isinstance(node, (ast.If, ast.Try, ast.With)) and body and isinstance(body[0], ast.Expr):
        value = body[0].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
    for child in body:
        if isinstance(
            child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.Try, ast.With)
        ):
            yield from _walk(child)


def package_documents(package: str, folder: Path, seen: set[str]) -> Iterator[Document]:
    """Documents of one package, by path. Paragraphs already in `seen` are dropped; new ones are added to it."""
    skipped = SKIPPED | set(SKIPPED_IN.get(package, ()))
    for path in sorted(folder.rglob("*.py"), key=lambda path: path.relative_to(folder).as_posix()):
        inside = path.relative_to(folder)
        if skipped.intersection(inside.parts[:-1]):
            continue
        source = path.read_bytes()
        if (
            b'"""' not in source and b"'''" not in source
        ):  # most docstrings; parsing is nearly all of the time
            continue
        name = f"{package}/{inside.as_posix()}"
        kept = []
        for docstring in docstrings_of(source, name):
            for paragraph in _BLANK.split(inspect.cleandoc(docstring)):
                text = prose(paragraph.strip("\n"))
                if text is not None and (key := text.casefold()) not in seen:
                    seen.add(key)
                    kept.append(text)
        if kept:
            yield Document(name, "\n\n".join(kept))


def build(part: str, folders: dict[str, Path], seen: set[str] | None = None) -> list[Document]:
    """Documents of a part, package by package. folders: where each package is."""
    seen = set() if seen is None else seen
    with _quick_parsing():
        return [
            document
            for package in PACKAGES[part]
            for document in package_documents(package, folders[package], seen)
        ]


def load(part: str, home: Path) -> Text:
    """The text of a part (`held-out`, `train` or `all`), built on first use and then kept under `home`.

    Raises BadData when one of the packages is not installed.
    """
    if part == "all":
        return as_text((*load("held-out", home).documents, *load("train", home).documents))
    packages = HELD_OUT if part == "held-out" else HELD_OUT + TRAIN
    folders, versions = _installed(packages)
    key = {"rules": RULES, "versions": versions}

    def first_time() -> list[Document]:
        seen: set[str] = set()
        if part == "train":  # what held-out has, training does not
            for document in load("held-out", home).documents:
                seen.update(paragraph.casefold() for paragraph in document.text.split("\n\n"))
        return build(part, folders, seen)

    with _building:
        return built_once(home / "corpora", f"docstrings-{part}", key, first_time)


def _installed(packages: tuple[str, ...]) -> tuple[dict[str, Path], dict[str, str]]:
    folders, versions = {}, {}
    for package in packages:
        spec = util.find_spec(package)  # finds a top-level package without importing it
        if spec is None or not spec.submodule_search_locations:
            raise BadData(
                f"The corpus docstrings is made from the documentation of {', '.join(packages)}, and {package} "
                "is not installed here. Run make install, or choose another corpus."
            )
        folders[package] = Path(next(iter(spec.submodule_search_locations)))
        versions[package] = metadata.version(package)
    return folders, versions


@contextlib.contextmanager
def _quick_parsing() -> Iterator[None]:
    """Without the garbage collector, which would walk each syntax tree many times (three times as slow)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes in other people's docstrings
        collecting = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if collecting:
                gc.enable()
