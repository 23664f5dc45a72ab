"""`headviz sweep`: what it costs to switch heads off, at several shares."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

from headviz.commands.ablate import measured, options, plan_of, sentence, write
from headviz.commands.common import Terminal, writable
from headviz.errors import BadInput


def sweep_options(to: argparse.ArgumentParser) -> None:
    options(to)
    to.add_argument(
        "--shares", default="0.05,0.1,0.15,0.2,0.25,0.3", help="shares of heads, fractions, comma-separated"
    )


def sweep(args: argparse.Namespace) -> int:
    """The same at several shares: a curve."""
    out = writable(args.out, (".json",))
    shares = _shares(args.shares)
    if args.heads:
        raise BadInput("A sweep chooses its heads by a score; --heads goes with `ablate`.")
    watch, rows = Terminal(args.quiet), []
    try:
        plan = plan_of(args, shares[0])
        for share in shares:
            rows.append(measured(replace(plan, share=share), None, watch)[0])
            if not args.quiet:
                print(sentence(rows[-1]), file=sys.stderr)
    finally:
        watch.close()
    write(out, {"rows": rows})
    return 0


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise BadInput(f"--shares {text!r}: write fractions between 0 and 1, such as 0.1,0.2,0.3.")
    return sorted(set(shares))
