"""`headviz bands`: how much attention every head gives the first token, beside what its ALiBi slope alone would give."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import asdict
from typing import Any

from headviz.commands.common import (
    Terminal,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    model_ref,
    writable,
)
from headviz.types import Bands, BandsRequest

PRESETS = ("paper", "summary")


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add_data(to)
    add = to.add_argument
    add("--preset", choices=PRESETS, default="paper", help="thresholds of the classes (default paper)")
    add("--dead", type=float, metavar="MASS", help="a head with more BOS mass is dead (paper: 0.95)")
    add("--sink", type=float, metavar="MASS", help="else one with more is a sink (paper: 0.5)")
    add(
        "--low-entropy",
        type=float,
        metavar="NATS",
        help="else one with less entropy is of low entropy (paper: 0.5)",
    )
    add(
        "--layers",
        type=float,
        default=0.3,
        metavar="SHARE",
        help="the band: head indices collapsed in more than this share of the layers (default 0.3)",
    )
    add("--out", required=True, metavar="FILE", help="where to write: .json")
    add("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Find sinks, dead heads and the band of head indices in which they gather."""
    from headviz.analysis import bands as of
    from headviz.jobs import local

    out = writable(args.out, (".json",))
    given = {name: getattr(args, name) for name in ("dead", "sink", "low_entropy")}
    at = of.Thresholds(
        **asdict(of.preset(args.preset)) | {name: x for name, x in given.items() if x is not None}
    )
    of.check_share(args.layers)
    request = BandsRequest(model=model_ref(args), data=data_ref(args))
    check_lengths(request.model, request.data)
    watch = Terminal(args.quiet)
    try:
        found = local.run_here(request, watch)
    finally:
        watch.close()
    tree = report(found, at, args.layers)
    out.write_text(json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    if not args.quiet:
        for note in found.provenance.notes:
            print(f"Note: {note}.", file=sys.stderr)
        print(f"{args.out}: {_said(tree)}")
    return 0


def report(found: Bands, at: Any, share: float) -> dict[str, Any]:
    """The answer as JSON types. A number that does not exist (one-token inputs, no slope) is null."""
    from headviz.analysis import bands as of

    named, null, shape = of.classes(found, at), of.nulls(found), found.geometry
    mass, entropy = found.mean_mass(), found.mean_entropy()
    later = of.mean_without_first_row(found)
    alike, spread = of.agreement(found, at), found.mass.std(0)
    heads = [
        {
            "layer": layer,
            "head": head,
            "slope": None if shape.slopes is None else shape.slopes[head],
            "bos_mass": float(mass[layer, head]),
            "bos_mass_without_first_row": _number(later[layer, head]),
            "entropy": float(entropy[layer, head]),
            "null_bos_mass": float(null.mass[head]),
            "null_entropy": float(null.entropy[head]),
            "class": str(named[layer, head]),
            "bos_mass_sd": float(spread[layer, head]),
            "class_share": float(alike[layer, head]),
        }
        for layer in range(shape.layers)
        for head in range(shape.heads)
    ]
    return {
        "heads": heads,
        "band": asdict(of.find_band(of.collapsed(named), shape.slopes, share)),
        "counts": of.counts(named),
        "share_between_0.4_and_0.6": of.share_between(mass),
        "thresholds": asdict(at),
        "inputs": len(found.lengths),
        "provenance": asdict(found.provenance),
    }


def _number(x: float) -> float | None:
    return None if math.isnan(x) else float(x)


def _said(tree: dict[str, Any]) -> str:
    """One line for the terminal."""
    band, total = tree["band"], len(tree["heads"])
    counted = ", ".join(f"{count} {name}" for name, count in tree["counts"].items())
    if not band["heads"]:
        where = f"no head index is collapsed in more than {band['share']:.0%} of the layers"
    else:
        where = f"band H{band['first']:02d} to H{band['last']:02d}"
        if band["gaps"]:
            where += f" without {', '.join(f'H{head:02d}' for head in band['gaps'])}"
    return f"of {total} heads {counted}; {where}"
