"""The command line. Exit codes: 0 fine, 2 bad input, 1 failure; errors are one sentence on stderr.

Every command is a request that a page could have made: both share results and jobs through HEADVIZ_HOME.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headviz.commands import (
    ablate,
    agree,
    bands,
    checkpoint,
    compare,
    export,
    generate,
    order,
    repair,
    score,
    serve,
    sweep,
)
from headviz.commands.common import Terminal
from headviz.errors import BadInput, Cancelled, HeadvizError

if TYPE_CHECKING:
    from headviz.jobs.view import JobView


class Parser(argparse.ArgumentParser):
    """argparse with our manners: one sentence on stderr, exit code 2."""

    def error(self, message: str):
        self.exit(2, f"headviz: {message}. `{self.prog} --help` lists what there is.\n")


# ------------------------------------------------------------------------------------------------- commands


def models(args: argparse.Namespace) -> int:
    """List the models on this machine, and the families that work."""
    from headviz.models import catalog
    from headviz.models.architectures import FAMILIES
    from headviz.settings import settings

    rows = catalog.describe_models(settings())
    if args.json:
        unusable = [{"name": name, "why": why} for name, why in catalog.unusable(settings())]
        print(json.dumps({"models": rows, "families": list(FAMILIES), "unusable": unusable}, indent=2))
        return 0
    for row in rows:
        shape = (
            f"{row['layers']} layers × {row['heads']} heads ({row['kv_heads']} KV)"
            if row.get("layers")
            else "config not readable"
        )
        print(f"{row['name']:<40} {row['source']:<8} {row.get('family') or '?':<10} {shape}")
    if unusable := catalog.unusable(settings()):
        print("\nFolders of HEADVIZ_MODELS that cannot be used:")
        for name, why in unusable:
            print(f"{name:<40} {why}")
    print(
        f"\nFamilies that work: {', '.join(FAMILIES)}. Any hub id or local folder of these can be given as --model."
    )
    return 0


def tolerance(args: argparse.Namespace) -> int:
    """From measured points: the largest share of heads within a tolerance, and the area under each curve."""
    from headviz.analysis.tolerance import tolerance_rows

    rows = tolerance_rows(Path(args.points), args.margin)
    if args.json:
        print(json.dumps({"points": args.margin, "rows": rows}, indent=1))
        return 0
    for row in rows:
        area = "" if row["area"] is None else f"{row['area']:.4f}"
        print(f"{row['model']:<28} {row['score']:<12} {row['share_within']:6.2f}%  {area:<8} {row['status']}")
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
            print(_line(job))
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


def _line(job: JobView) -> str:
    """One job: id, when it was asked, state, kind, what it is about; what is being done only while it is."""
    from headviz.describe import describe
    from headviz.jobs.folder import ENDED

    words = [describe(job.request)]
    if job.doing and job.state not in ENDED:
        words.append(job.doing)
    if job.error:
        words.append(job.error.splitlines()[0])  # `jobs log` shows the rest
    return (
        f"{job.digest[:12]}  {job.created:%Y-%m-%d %H:%M}  {job.state:<11} {job.kind:<8} {' · '.join(words)}"
    )


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

    score.options(command("score", score.run))
    ablate.ablate_options(command("ablate", ablate.ablate))
    sweep.sweep_options(command("sweep", sweep.sweep))
    generate.options(command("generate", generate.run))
    checkpoint.options(command("checkpoint", checkpoint.run))
    order.options(command("order", order.run))
    bands.options(command("bands", bands.run))
    agree.options(command("agree", agree.run))
    compare.options(command("compare", compare.run))
    repair.options(command("repair", repair.run))
    export.options(command("export", export.run))
    within = command("tolerance", tolerance)
    within.add_argument(
        "points",
        metavar="CSV",
        help="columns model, score (or head_type), share or pct_zeroed, acc; if you like replace (zero or mean, what stood in "
        "for the heads: curves apart)",
    )
    within.add_argument(
        "--points", dest="margin", type=float, default=1.0, help="accuracy points that may be lost"
    )
    within.add_argument("--json", action="store_true", help="print JSON")
    command("models", models).add_argument("--json", action="store_true", help="print JSON")
    kept = command("store", store)
    kept.add_argument(
        "action", choices=["list", "prune"], nargs="?", default="list", help="what to do (default list)"
    )
    kept.add_argument(
        "--older-than", type=float, metavar="DAYS", help="prune: what is older than so many days"
    )
    kept.add_argument("--keep", metavar="SIZE", help="prune: the oldest, until SIZE (such as 2GB) is left")
    kept.add_argument("--all", action="store_true", help="prune: everything")
    job = command("jobs", jobs)
    job.add_argument(
        "action",
        choices=["list", "log", "cancel", "retry", "run"],
        nargs="?",
        default="list",
        help="what to do (default list)",
    )
    job.add_argument("job", nargs="?", help="id of the job, or its first digits")
    serve.options(command("serve", serve.run))
    return whole


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
    except BrokenPipeError:  # `headviz models | head`: nobody reads on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
