"""`headviz score`: every score of every head, one row a head and metric."""

from __future__ import annotations

import argparse
import sys

from headviz.commands.common import (
    Terminal,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    given,
    model_ref,
    read_json,
    writable,
)
from headviz.errors import BadInput
from headviz.types import ScoreRequest


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add_data(to)
    add = to.add_argument
    add(
        "--request",
        metavar="FILE",
        help="run a request as downloaded from a page, instead of the options above",
    )
    add("--out", required=True, metavar="FILE", help="where to write: .parquet, .csv or .json")
    add("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Score every head of a model and write one row a head and metric."""
    from headviz.charts import files, tables
    from headviz.jobs import local

    out = writable(args.out, (".parquet", ".csv", ".json"))
    request = request_of(args)
    check_lengths(request.model, request.data)
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
        for note in table.provenance.notes:
            print(f"Note: {note}.", file=sys.stderr)
        print(
            f"{args.out}: {len(table.metrics)} scores of {table.geometry.layers * table.geometry.heads} heads"
        )
    return 0


def request_of(args: argparse.Namespace) -> ScoreRequest:
    """The request that the options, or the file of --request, stand for."""
    from headviz.jobs.kinds import read_spec

    if not args.request:
        return ScoreRequest(model=model_ref(args), data=data_ref(args))
    if beside := given(args):
        raise BadInput(
            f"--request holds the whole request, so {beside} cannot be given beside it. Leave one out."
        )
    request = read_spec(read_json(args.request))
    if not isinstance(request, ScoreRequest):
        raise BadInput(f"{args.request} holds a {request.kind!r} request; `score` runs 'score' requests.")
    return request
