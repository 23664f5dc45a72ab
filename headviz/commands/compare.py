"""`headviz compare`: how far apart the scores of two or more models are on the same text."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.commands.ablate import write
from headviz.commands.agree import metric_ids
from headviz.commands.common import Terminal, add_data, check_lengths, data_ref, writable
from headviz.commands.trees import tree
from headviz.errors import BadInput
from headviz.types import DTYPES, QUANTIZATIONS, ModelRef, ScoreRequest, ScoreTable, head_name, plain

if TYPE_CHECKING:
    from headviz.analysis.distance import Comparison


def options(to: argparse.ArgumentParser) -> None:
    add = to.add_argument
    add(
        "models",
        nargs="+",
        metavar="MODEL",
        help="bundled names, hub ids or folders, the first is what the others are compared with; ID@REVISION for a branch, "
        "tag or commit of a hub model; MODEL:float32 (bfloat16, float16) for a number format of its own",
    )
    add(
        "--dtype",
        choices=["auto", *DTYPES],
        default="auto",
        help="number format of all of them (default auto: what the machine is fast in)",
    )
    add("--quantization", choices=QUANTIZATIONS, default="none", help="8bit or 4bit, on a GPU")
    add_data(to)
    add("--metrics", default="", metavar="A,B…", help="scores to compare by (default: the paper's twelve)")
    add("--movers", type=int, default=20, metavar="N", help="heads that changed most, to write (default 20)")
    add("--draws", type=int, default=200, help="resamples of documents for an interval (default 200)")
    add("--splits", type=int, default=100, help="halvings for the yardstick of no change (default 100)")
    add("--quiet", action="store_true", help="no progress")
    add("--out", required=True, metavar="FILE", help="where to write: .json")


def run(args: argparse.Namespace) -> int:
    """Compare the scores of two or more models: distances beside the yardstick of no change, and heads that changed."""
    from headviz.analysis.agreement import TWELVE
    from headviz.jobs import local

    out = writable(args.out, (".json",))
    if len(args.models) < 2:
        raise BadInput(f"Only {args.models[0]} was given: compare needs two models or more.")
    metrics = metric_ids(args.metrics) or TWELVE
    for name in ("movers", "draws", "splits"):
        if getattr(args, name) < (least := 0 if name == "movers" else 1):
            raise BadInput(f"--{name} is {getattr(args, name)}; it must be {least} or more.")
    refs = labelled([_resolved(name, args) for name in args.models])
    data = data_ref(args)
    for ref in refs.values():
        check_lengths(ref, data)
    watch, tables = Terminal(args.quiet), {}
    try:
        for label, ref in refs.items():
            watch.step(f"scoring {label}")
            tables[label] = local.run_here(ScoreRequest(model=ref, data=data), watch)
        report = report_of(tables, metrics, args, watch)
    finally:
        watch.close()
    write(out, {"models": {label: plain(ref) for label, ref in refs.items()}, "data": plain(data), **report})
    if not args.quiet:
        for metric in metrics:
            print(sentence(report["scores"][metric]), file=sys.stderr)
    return 0


def labelled(refs: list[ModelRef]) -> dict[str, ModelRef]:
    """A name for each: its own, with revision and number format where they tell two apart, a number where nothing does."""
    from headviz.models import catalog

    found: dict[str, ModelRef] = {}
    for ref in refs:
        name = catalog.short_name(ref.name)
        alike = [other for other in refs if catalog.short_name(other.name) == name]
        if len({other.revision for other in alike}) > 1:
            name = f"{name}@{ref.revision[:7]}"
        if len({other.dtype for other in alike}) > 1:
            name = f"{name} {ref.dtype}"
        label, number = name, 2
        while label in found:
            label, number = f"{name} ({number})", number + 1
        found[label] = ref
    return found


def report_of(
    tables: dict[str, ScoreTable], metrics: tuple[str, ...], args: argparse.Namespace, watch: Terminal
) -> dict[str, Any]:
    """What is written beside models and data, as JSON types."""
    from headviz.analysis import distance

    first, *others = tables
    scores = {}
    for number, metric in enumerate(metrics):
        watch.step("comparing", number, len(metrics), "scores")
        found = [
            distance.compare(
                tables[first],
                tables[other],
                metric,
                labels=(first, other),
                draws=args.draws,
                splits=args.splits,
            )
            for other in others
        ]
        scores[metric] = {
            "distances": tree(distance.distances(tables, metric)),
            "comparisons": [_comparison(one, args.movers) for one in found],
        }
    return {
        "provenance": {label: tree(table.provenance) for label, table in tables.items()},
        "scores": scores,
    }


def sentence(score: dict[str, Any]) -> str:
    """One score in one line: every other model against the first."""
    from headviz.analysis.metrics import METRICS
    from headviz.charts import fmt

    told = []
    for one in score["comparisons"]:
        pooled, yardstick = one["pooled"], one["yardstick"]
        words = f"{one['b']} is {fmt.interval(pooled['scaled'], pooled['scaled_low'], pooled['scaled_high'])} spreads from "
        words += f"{one['a']} "
        if yardstick["note"]:
            words += f"(no yardstick: {yardstick['note'][0].lower()}{yardstick['note'][1:].rstrip('.')})"
        else:
            words += f"(halves of one model: up to {fmt.number(yardstick['scaled_same_high'])}, of the two: "
            words += f"{fmt.number(yardstick['scaled_between'])})"
        told.append(words)
    return f"{METRICS[score['distances']['metric']].symbol}: {'; '.join(told)}"


def _comparison(one: Comparison, movers: int) -> dict[str, Any]:
    found = tree(one)
    if one.changes is None:
        return found
    changes = one.changes
    found["changes"]["movers"] = [
        {
            "head": head_name(*place),
            "layer": place[0],
            "index": place[1],
            "change": float(changes.change[place]),
            "ci_low": float(changes.low[place]),
            "ci_high": float(changes.high[place]),
            "p_holm": float(changes.p_holm[place]),
        }
        for place in changes.movers(movers)
    ]
    return found


def _resolved(name: str, args: argparse.Namespace) -> ModelRef:
    from headviz.models import catalog
    from headviz.settings import settings

    dtype, (plain_name, colon, last) = args.dtype, name.rpartition(":")
    if colon and last in DTYPES and not Path(name).exists():
        name, dtype = plain_name, last
    whole, at, revision = name.rpartition("@")
    if not at or Path(name).exists():
        whole, revision = name, ""
    return catalog.resolve(
        whole,
        revision=revision,
        dtype=dtype,
        quantization=args.quantization,
        settings=settings(),
        allow_paths=True,
    )
