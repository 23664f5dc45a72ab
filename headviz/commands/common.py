"""What commands share: progress on a terminal, files, and the options that choose a model and a text."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from headviz.errors import BadInput
from headviz.types import BOS_POLICIES, DTYPES, PARTS, QUANTIZATIONS, DataRef, ModelRef

_NOT_WITH_TEXT = ("--corpus", "--data-revision", "--dataset", "--config", "--split", "--part")


class Terminal:
    """A Watch that writes progress to stderr: one line kept up to date on a terminal, a line a stage elsewhere."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet, self.live, self.said, self.at = quiet, sys.stderr.isatty(), "", 0.0

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        text = f"{doing} {done:,}/{total:,} {unit}".rstrip() if total else doing
        if self.quiet:
            return
        if self.live and time.monotonic() - self.at > 0.1:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
            self.at = time.monotonic()
        elif not self.live and doing != self.said:
            sys.stderr.write(doing + "\n")
        self.said = doing

    def check(self) -> None:
        pass

    def close(self) -> None:
        if self.live and self.said and not self.quiet:
            sys.stderr.write("\r\033[K")


def read_bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None


def read_json(path: str) -> Any:
    try:
        return json.loads(read_bytes(path))
    except ValueError as error:
        raise BadInput(f"{path} is no JSON: {error}.") from None


def check_lengths(model: ModelRef, *texts: DataRef | None) -> None:
    """Refuse inputs longer than the model's context, where its config is here, before weights are read."""
    from headviz.data import corpora
    from headviz.models import catalog
    from headviz.settings import settings

    longest = catalog.context_length(model, settings())
    for text in texts:
        if text is not None:
            corpora.check_length(text, longest)


def writable(path: str, endings: tuple[str, ...], option: str = "--out") -> Path:
    """The path, checked before anything is computed."""
    out = Path(path)
    if out.suffix not in endings:
        raise BadInput(f"{option} {out.name!r}: end the name in {', '.join(endings)}.")
    if not out.resolve().parent.is_dir():
        raise BadInput(f"{option} {path!r}: there is no folder {out.parent}.")
    return out


class Noted(argparse.Action):
    """Stores the value and notes in `args.given` that it was given, a default that is written out too."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        setattr(namespace, self.dest, True if self.nargs == 0 else values)
        namespace.given = {*getattr(namespace, "given", ()), self.option_strings[0]}


def given(args: argparse.Namespace, *names: str) -> str:
    """Those of `names` (all options that make a request, where none are named) that were given, for a sentence."""
    there = getattr(args, "given", set())
    return ", ".join(sorted(there & set(names) if names else there))


def add_model(to: argparse.ArgumentParser) -> None:
    add = partial(to.add_argument, action=Noted)
    add("--model", default="smollm2", help="bundled name, hub id, or folder (default smollm2)")
    add("--revision", default="", help="branch, tag or commit of a hub model")
    add(
        "--dtype",
        choices=["auto", *DTYPES],
        default="auto",
        help="number format (default auto: what the machine is fast in)",
    )
    add("--quantization", choices=QUANTIZATIONS, default="none", help="8bit or 4bit, on a GPU")


def model_ref(args: argparse.Namespace) -> ModelRef:
    from headviz.models import catalog
    from headviz.settings import settings

    return catalog.resolve(
        args.model,
        revision=args.revision,
        dtype=args.dtype,
        quantization=args.quantization,
        settings=settings(),
        allow_paths=True,
    )


def add_data(to: argparse.ArgumentParser, inputs: int = 16) -> None:
    add = partial(to.add_argument, action=Noted)
    add("--corpus", default="docstrings", help="text to use (default docstrings)")
    add(
        "--text",
        metavar="FILE",
        help="your own text instead: txt, jsonl, csv or parquet, cut from its start; or the sha256 of a kept one",
    )
    add("--data-revision", default="", help="commit of a hub data set (default: the newest, pinned)")
    add("--dataset", default="", help="with --corpus hub: the data set's id")
    add("--config", default="", help="with --corpus hub: its configuration")
    add("--split", default="", help="with --corpus hub: its split")
    add("--column", default="", help="column that holds the text")
    add(
        "--part",
        choices=PARTS,
        default="",
        help="which part of the corpus (default: held-out where there is one)",
    )
    add("--inputs", type=int, default=inputs, help=f"how many inputs (default {inputs})")
    add("--tokens", type=int, default=512, help="tokens an input, BOS included (default 512)")
    add("--seed", type=int, default=0, help="draws which inputs are taken (default 0); own text has none")
    add(
        "--bos",
        choices=BOS_POLICIES,
        default="tokenizer",
        help="BOS token: as the tokenizer does it, always, never",
    )
    add("--chat", nargs=0, default=False, help="wrap each input in the model's chat template")


def data_ref(args: argparse.Namespace) -> DataRef:
    """The pinned text that the options stand for. Raises BadInput where two of them exclude each other."""
    from headviz.data import corpora
    from headviz.settings import settings

    chosen: dict[str, Any] = {
        name: getattr(args, name) for name in ("part", "inputs", "tokens", "seed", "bos", "chat")
    }
    if args.text:
        if beside := given(args, *_NOT_WITH_TEXT):
            raise BadInput(
                f"--text is a text of your own, with which {beside} cannot be used. Leave one out."
            )
        chosen |= {"corpus": "own", "revision": _text(args.text, args.column), "part": "all"}
    else:
        chosen |= {"corpus": args.corpus, "revision": args.data_revision}
        chosen |= {name: getattr(args, name) for name in ("dataset", "config", "split", "column")}
    return corpora.resolve(settings=settings(), **chosen)


def _text(name: str, column: str) -> str:
    """sha256 of a text: of the file of that name, or the one that headviz already keeps."""
    from headviz.data import own_text
    from headviz.settings import settings

    if re.fullmatch(r"[0-9a-f]{64}", name) and not Path(name).exists():
        if column:
            raise BadInput("--column goes with a file; a kept text has no columns any more. Leave it out.")
        return name
    return own_text.import_text(
        read_bytes(name), Path(name).name, column=column, settings=settings()
    ).revision
