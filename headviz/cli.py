"""The command line. Exit codes: 0 fine, 2 bad input, 1 failure; errors are one sentence on stderr.

Every command is a request that a page could have made: both share results and jobs through HEADVIZ_HOME.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headviz.errors import BadInput, Cancelled, HeadvizError
from headviz.types import BOS_POLICIES, DTYPES, PARTS, QUANTIZATIONS

OUT_ENDINGS = (".parquet", ".csv", ".json")


class Parser(argparse.ArgumentParser):
    """argparse with our manners: one sentence on stderr, exit code 2."""

    def error(self, message: str):
        self.exit(2, f"headviz: {message}. `{self.prog} --help` lists what there is.\n")


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


# ------------------------------------------------------------------------------------------------- commands


def score(args: argparse.Namespace) -> int:
    """Score every head of a model and write one row a head and metric."""
    from headviz.charts import files, tables
    from headviz.jobs import local

    out = Path(args.out)
    if out.suffix not in OUT_ENDINGS:
        raise BadInput(f"--out {out.name!r}: end the name in {', '.join(OUT_ENDINGS)}.")
    if not out.resolve().parent.is_dir():
        raise BadInput(f"--out {args.out!r}: there is no folder {out.parent}.")
    request = _score_request(args)
    watch = Terminal(args.quiet)
    try:
        table = local.run_here(request, watch)
    finally:
        watch.close()
    out.write_bytes(files.encode(table, out.suffix))
    if out.suffix == ".csv":  # which has no room for it
        out.with_name(out.name + ".provenance.json").write_text(files.provenance_json(table))
    if not args.quiet:
        print(tables.caption(table.provenance, table), file=sys.stderr)
        print(
            f"{args.out}: {len(table.metrics)} scores of {table.geometry.layers * table.geometry.heads} heads"
        )
    return 0


def _score_request(args: argparse.Namespace):
    from headviz.data import corpora
    from headviz.jobs.kinds import read_spec
    from headviz.models import catalog
    from headviz.settings import settings
    from headviz.types import ScoreRequest

    if args.request:
        request = read_spec(_json(args.request))
        if not isinstance(request, ScoreRequest):
            raise BadInput(f"{args.request} holds a {request.kind!r} request; `score` runs 'score' requests.")
        return request
    model = catalog.resolve(
        args.model,
        revision=args.revision,
        dtype=args.dtype,
        quantization=args.quantization,
        settings=settings(),
        allow_paths=True,
    )
    chosen = {name: getattr(args, name) for name in ("part", "inputs", "tokens", "seed", "bos", "chat")}
    if args.text:
        chosen |= {"corpus": "own", "revision": _text(args.text, args.column), "part": "all"}
    else:
        chosen |= {"corpus": args.corpus, "revision": args.data_revision}
        if args.corpus == "hub":
            chosen |= {name: getattr(args, name) for name in ("dataset", "config", "split", "column")}
    return ScoreRequest(model=model, data=corpora.resolve(settings=settings(), **chosen))


def _text(given: str, column: str) -> str:
    """sha256 of a text: of the file of that name, or the one that headviz already keeps."""
    from headviz.data import own_text
    from headviz.settings import settings

    if re.fullmatch(r"[0-9a-f]{64}", given) and not Path(given).exists():
        return given
    return own_text.import_text(_bytes(given), Path(given).name, column=column, settings=settings()).revision


def models(args: argparse.Namespace) -> int:
    """List the models on this machine, and the families that work."""
    from headviz.models import catalog
    from headviz.models.architectures import FAMILIES
    from headviz.settings import settings

    rows = catalog.describe_models(settings())
    if args.json:
        print(json.dumps({"models": rows, "families": list(FAMILIES)}, indent=2))
        return 0
    for row in rows:
        shape = (
            f"{row['layers']} layers × {row['heads']} heads ({row['kv_heads']} KV)"
            if row.get("layers")
            else "config not readable"
        )
        print(f"{row['name']:<40} {row['source']:<8} {row.get('family') or '?':<10} {shape}")
    print(
        f"\nFamilies that work: {', '.join(FAMILIES)}. Any hub id or local folder of these can be given as --model."
    )
    return 0


def store(args: argparse.Namespace) -> int:
    """What is kept: list it, or remove some of it."""
    from headviz.jobs import local

    kept = local.store()
    if args.action == "prune":
        limit = _bytes_of(args.keep) if args.keep else None
        if args.older_than is None and limit is None and not args.all:
            raise BadInput("store prune removes nothing without --older-than DAYS, --keep SIZE or --all.")
        gone = kept.prune(
            older_than=0 if args.all else args.older_than and args.older_than * 86400, keep_bytes=limit
        )
        print(f"Removed {len(gone)} results; {_mb(kept.size())} are kept.")
        return 0
    for entry in kept.entries():
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.created))
        print(f"{entry.digest[:12]}  {when}  {_mb(entry.bytes):>9}  {entry.type:<12} {entry.model}")
    print(f"{len(kept.entries())} results, {_mb(kept.size())}.")
    return 0


def jobs(args: argparse.Namespace) -> int:
    """The jobs: list, look at, cancel, try again, or run one in this process."""
    from headviz.jobs import local

    if args.action == "list":
        for job in local.list_jobs():
            print(
                f"{job.digest[:12]}  {job.state:<11} {job.kind:<8} {job.doing or ''} {job.error or ''}".rstrip()
            )
        return 0
    if not args.job:
        raise BadInput(f"jobs {args.action} needs the id of a job; `jobs list` shows them.")
    digest = local.find(args.job)
    if args.action == "log":
        print(local.log_tail(digest, lines=200))
    elif args.action == "cancel":
        print(local.cancel(digest, "command line"))
    elif args.action == "retry":
        print(local.retry(digest, "command line").state)
    elif args.action == "run":
        watch = Terminal()
        try:
            local.run_job(digest, watch)
        finally:
            watch.close()
    return 0


def serve(args: argparse.Namespace) -> int:
    """Start the dashboard."""
    import os

    root = Path(__file__).parents[1]
    print(f"headviz: http://{args.host}:{args.port}", flush=True)
    command = [sys.executable, "-m", "streamlit", "run", str(root / "app.py")]
    os.chdir(root)  # streamlit reads .streamlit/config.toml from where it starts
    os.execv(sys.executable, [*command, "--server.address", args.host, "--server.port", str(args.port)])


# -------------------------------------------------------------------------------------------------- parsing


def parser() -> argparse.ArgumentParser:
    whole = Parser(
        prog="headviz", description="A dashboard for the attention heads of pretrained language models."
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)

    def command(name: str, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        made.set_defaults(run=run)
        return made

    _score_options(command("score", score))
    command("models", models).add_argument("--json", action="store_true", help="print JSON")
    kept = command("store", store)
    kept.add_argument("action", choices=["list", "prune"], nargs="?", default="list")
    kept.add_argument(
        "--older-than", type=float, metavar="DAYS", help="prune: what is older than so many days"
    )
    kept.add_argument("--keep", metavar="SIZE", help="prune: the oldest, until SIZE (such as 2GB) is left")
    kept.add_argument("--all", action="store_true", help="prune: everything")
    job = command("jobs", jobs)
    job.add_argument("action", choices=["list", "log", "cancel", "retry", "run"], nargs="?", default="list")
    job.add_argument("job", nargs="?", help="id of the job, or its first digits")
    page = command("serve", serve)
    page.add_argument("--host", default="localhost", help="address to listen on (default: this machine only)")
    page.add_argument("--port", type=int, default=8501)
    return whole


def _score_options(to: argparse.ArgumentParser) -> None:
    add = to.add_argument
    add("--model", default="smollm2", help="bundled name, hub id, or folder (default smollm2)")
    add("--revision", default="", help="branch, tag or commit of a hub model")
    add("--dtype", choices=["auto", *DTYPES], default="auto")
    add("--quantization", choices=QUANTIZATIONS, default="none", help="8bit or 4bit, on a GPU")
    add("--corpus", default="docstrings", help="text to score on (default docstrings)")
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
    add("--inputs", type=int, default=16, help="how many inputs (default 16)")
    add("--tokens", type=int, default=512, help="tokens an input, BOS included (default 512)")
    add("--seed", type=int, default=0)
    add(
        "--bos",
        choices=BOS_POLICIES,
        default="tokenizer",
        help="BOS token: as the tokenizer does it, always, never",
    )
    add("--chat", action="store_true", help="wrap each input in the model's chat template")
    add(
        "--request",
        metavar="FILE",
        help="run a request as downloaded from a page, instead of the options above",
    )
    add("--out", required=True, metavar="FILE", help="where to write: .parquet, .csv or .json")
    add("--quiet", action="store_true", help="no progress")


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {error.strerror}.") from None


def _json(path: str):
    try:
        return json.loads(_bytes(path))
    except ValueError as error:
        raise BadInput(f"{path} is no JSON: {error}.") from None


def _bytes_of(text: str) -> int:
    from headviz.settings import parse_size

    return parse_size(text, "--keep")


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def main(arguments: Sequence[str] | None = None) -> int:
    args = parser().parse_args(arguments)
    try:
        return args.run(args)
    except Cancelled:
        print("headviz: cancelled.", file=sys.stderr)
        return 1
    except HeadvizError as error:
        print(f"headviz: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("headviz: stopped.", file=sys.stderr)
        return 1
