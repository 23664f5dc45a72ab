"""`headviz order`: heads in the order of their gradients, and with --map what each costs when it alone is off."""

from __future__ import annotations

import argparse
import math
import sys
from typing import TYPE_CHECKING, Any

from headviz.commands.ablate import write
from headviz.commands.common import (
    Terminal,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    model_ref,
    writable,
)
from headviz.errors import BadInput
from headviz.types import DataRef, HeadGradients, HeadLosses, ScoreRequest, ScoreTable, plain

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.order import Agreement


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add_data(to, inputs=8)
    add = to.add_argument
    add("--map", action="store_true", help="measure each head off alone on that text: one run a head")
    add(
        "--replace",
        choices=["zero", "mean"],
        default="zero",
        help="with --map: what stands in for a head's output",
    )
    add(
        "--chosen-on",
        default="docstrings",
        metavar="CORPUS",
        help="text of gradients and scores (default docstrings)",
    )
    add("--chosen-part", default="train", help="its part (default train: apart from what is measured)")
    add("--chosen-inputs", type=int, default=16, help="how many of its inputs (default 16)")
    add("--chosen-tokens", type=int, default=512, help="tokens of each, BOS included (default 512)")
    add("--quiet", action="store_true", help="no progress")
    add("--out", required=True, metavar="FILE", help="where to write: .json")


def run(args: argparse.Namespace) -> int:
    """Order heads by gradient; with --map, measure each head off alone and rank every score by its agreement with that."""
    from headviz.analysis import order
    from headviz.data import corpora
    from headviz.jobs import local
    from headviz.settings import settings

    out = writable(args.out, (".json",))
    if args.replace == "mean" and not args.map:
        raise BadInput("--replace goes with --map: the gradient needs no replacement.")
    model = model_ref(args)
    chosen_on = corpora.resolve(
        args.chosen_on,
        part=args.chosen_part,
        inputs=args.chosen_inputs,
        tokens=args.chosen_tokens,
        settings=settings(),
    )
    text = data_ref(args) if args.map else None
    check_lengths(model, chosen_on, text)
    watch = Terminal(args.quiet)
    try:
        gradients = local.run_here(order.gradient_request(model, chosen_on), watch)
        tree: dict[str, Any] = {"gradient": gradient_tree(gradients)}
        if text is not None:
            table = local.run_here(ScoreRequest(model=model, data=chosen_on), watch)
            asked = order.map_request(model, text, replace=args.replace, means_on=chosen_on)
            tree |= map_tree(local.run_here(asked, watch), table, gradients, chosen_on)
    finally:
        watch.close()
    write(out, tree)
    if not args.quiet:
        print(sentence(tree), file=sys.stderr)
    return 0


def gradient_tree(found: HeadGradients) -> dict[str, Any]:
    """Every head's place, 1 for the smallest gradient; the gradients themselves for who adds them up, never as nats."""
    from headviz.analysis.order import SOURCE

    flat = found.values.ravel()
    place = flat.argsort(kind="stable").argsort(kind="stable") + 1
    H = found.geometry.heads
    return {
        "what": "mean over inputs of |d loss / d gate| at 1: an order, not a prediction",
        "source": SOURCE,
        "taken_on": found.provenance.request["data"],
        "heads": [
            {"layer": i // H, "head": i % H, "place": int(place[i]), "gradient": float(x)}
            for i, x in enumerate(flat)
        ],
        "provenance": plain(found.provenance),
    }


def map_tree(
    found: HeadLosses, table: ScoreTable, gradients: HeadGradients, chosen_on: DataRef
) -> dict[str, Any]:
    """Each head's cost with its interval, and every ordering's rank correlation with it, best first."""
    from headviz.analysis import order

    costs = order.head_costs(found)
    reliable = order.reliability(found)
    rows = order.agreements(found, order.activity(table) | {"gradient": gradients.values})
    request = found.provenance.request
    L, H = costs.change.shape
    numbers = {
        "change": costs.change, "ci_low": costs.low, "ci_high": costs.high, "p": costs.p, "p_holm": costs.p_holm,
    }  # fmt: skip
    return {
        "map": {
            "unit": "nats",
            "replace": request["replace"],
            "measured_on": request["text"],
            "baseline": float(found.baseline.sum() / found.predicted.sum()),
            "n": int((found.predicted > 0).sum()),
            "clusters": costs.clusters,
            "interval": costs.method,
            "heads": [
                {"layer": i, "head": j, **{name: float(x[i, j]) for name, x in numbers.items()}}
                for i in range(L)
                for j in range(H)
            ],
            "provenance": plain(found.provenance),
        },
        "correlations": [_row(row) for row in rows],
        "reliability": reliable,
        "most_to_expect": math.sqrt(reliable),
        "scores": {"chosen_on": plain(chosen_on), "provenance": plain(table.provenance)},
    }


def _row(row: Agreement) -> dict[str, Any]:
    return {"score": row.name, "rho": row.rho, "ci_low": row.low, "ci_high": row.high, "heads": row.heads}


def sentence(tree: dict[str, Any]) -> str:
    """What a terminal shows."""
    from headviz.charts import fmt

    heads = tree["gradient"]["heads"]
    if "map" not in tree:
        first = min(heads, key=lambda row: row["place"])
        return f"{len(heads)} heads ordered by gradient; the smallest is L{first['layer']:02d}.H{first['head']:02d}."
    rows = [row for row in tree["correlations"] if row["rho"] == row["rho"]]
    told = ", ".join(f"{row['score']} {fmt.signed(row['rho'])}" for row in rows)
    return (
        f"Each of {len(heads)} heads off alone, {tree['map']['clusters']} documents, "
        f"{fmt.duration(tree['map']['provenance']['seconds'])}. Rank correlation with the cost: {told}. "
        f"Most to expect: {fmt.number(tree['most_to_expect'])}."
    )
