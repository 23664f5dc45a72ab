"""The options of `headviz repair` that say how to train, on what, and with which controls; and the fields they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.commands.common import read_bytes
from headviz.errors import BadInput
from headviz.surgery.arms import ARMS, DEFAULT_ARMS, in_order
from headviz.types import BOS_POLICIES, DataRef, Recipe

if TYPE_CHECKING:
    from headviz.surgery.paper import Preset
    from headviz.surgery.plan import Facts

_RECIPE = {
    "init": "init", "rate": "rate", "weight_decay": "weight-decay", "clip": "clip", "batch": "batch",
    "accumulate": "accumulate", "warmup": "warmup", "schedule": "schedule", "master": "master",
    "checkpointing": "checkpointing",
}  # fmt: skip
_PLAN = ("steps", "every", "patience", "passes", "dead", "sink", "low_entropy", "threads", "shuffled")
SCHEMES = ("paper", "small")  # of surgery.plan, which takes too long to import for every command's start


def add(to: Callable[..., Any]) -> None:
    """`to`: add_argument of a parser, which notes what was given."""
    _texts(to)
    _training(to)
    _controls(to)


def _texts(add: Callable[..., Any]) -> None:
    add(
        "--corpus",
        default="docstrings",
        help="text: its train part trains, its held-out part judges (default docstrings)",
    )
    add("--text", metavar="FILE", help="train on your own text instead; --corpus is judged on")
    add(
        "--shuffled",
        nargs=0,
        default=False,
        help="train on the text with the words of every paragraph in random order",
    )
    add(
        "--other",
        default="stdlib-code",
        metavar="CORPUS",
        help="another domain, only judged by, or none (default stdlib-code)",
    )
    add("--tokens", type=int, help="tokens of every window, BOS included (default: the scheme's)")
    add("--windows", type=int, help="training windows (default: as many as the steps read)")
    add(
        "--held-out-windows",
        type=int,
        default=64,
        help="held-out windows; half choose the step, half report (default 64)",
    )
    add("--diagnose-windows", type=int, default=16, help="windows on which heads are looked at (default 16)")
    add(
        "--bos",
        choices=BOS_POLICIES,
        default="tokenizer",
        help="BOS token of all texts: as the tokenizer does it, always, never",
    )
    add("--data-seed", type=int, default=0, help="draws which windows are taken (default 0)")


def _training(add: Callable[..., Any]) -> None:
    add(
        "--scheme",
        choices=SCHEMES,
        help="paper: small steps, 512 tokens; small: for models of a few million numbers (default: by size)",
    )
    add("--steps", type=int, help="optimiser steps of a pass (default: the scheme's)")
    add("--every", type=int, help="steps between two evaluations")
    add(
        "--patience",
        type=int,
        help="end a pass after so many evaluations without a lower loss (default 0: never)",
    )
    add("--passes", type=int, help="treat what is collapsed after a pass in another one (default 1)")
    add("--rate", type=float, help="largest learning rate")
    add("--weight-decay", type=float, help="AdamW's, on what is trained alone (default 0)")
    add("--clip", type=float, help="largest gradient norm, 0 for no limit (default 1)")
    add("--batch", type=int, help="windows of a forward pass")
    add("--accumulate", type=int, help="forward passes of an optimiser step")
    add("--warmup", type=int, help="steps in which the rate rises, at most a quarter of all")
    add("--schedule", choices=["cosine", "constant"], help="the rate after the warm-up (default cosine)")
    add(
        "--init",
        choices=["xavier-uniform", "xavier-normal"],
        help="distribution of new weights (default xavier-uniform)",
    )
    add(
        "--per-projection",
        nargs=0,
        default=False,
        help="draw query, key and value each for itself, not as one block",
    )
    add(
        "--master",
        choices=["float32", "model"],
        help="number format of what is trained: float32 (default), or the model's own",
    )
    add(
        "--checkpointing",
        nargs=0,
        default=False,
        help="recompute activations: less memory, a third more time",
    )
    add(
        "--threads",
        type=int,
        help="of the processor, for each run; part of the plan, for another number rounds otherwise. Runs go side by side as cores and "
        "memory allow, which changes no number (HEADVIZ_SIDE_BY_SIDE=1: one after the other)",
    )


def _controls(add: Callable[..., Any]) -> None:
    add(
        "--arms",
        default=",".join(DEFAULT_ARMS),
        help=f"comma-separated: {', '.join(ARMS)} (default {','.join(DEFAULT_ARMS)})",
    )
    add(
        "--seeds",
        default="0,1,2",
        help="comma-separated; one run of every arm each, 3 or more for a verdict (default 0,1,2)",
    )
    add("--dead", type=float, help="a head with more BOS mass is dead (paper: 0.95)")
    add("--sink", type=float, help="else one with more is a sink (paper: 0.5)")
    add(
        "--low-entropy",
        type=float,
        help="else one with less entropy, in nats, is of low entropy (paper: 0.5)",
    )


def changes(args: argparse.Namespace, about: Facts, preset: Preset | None) -> dict[str, Any]:
    """What `plan.default_request` is given beside the model and the heads. Raises BadInput, UnknownName."""
    from headviz.surgery import plan

    noted = getattr(args, "given", set())
    if preset is not None and args.scheme:
        raise BadInput("--preset trains as the paper did; leave out --scheme, or change single numbers.")
    name = "paper" if preset is not None else args.scheme or plan.scheme_for(about)
    row = plan.SCHEMES[name]
    recipe = preset.recipe if preset is not None else row.recipe
    found: dict[str, Any] = {
        "scheme": name,
        "arms": in_order(part.strip() for part in args.arms.split(",") if part.strip()),
        "seeds": _numbers(args.seeds),
        "recipe": _recipe(args, recipe, noted),
        "corpus": args.corpus,
        "seed": args.data_seed,
        "other": None if args.other == "none" else args.other,
        "tokens": args.tokens or 0,
        "windows": args.windows or 0,
        "held_out_windows": args.held_out_windows,
        "diagnose_windows": args.diagnose_windows,
        "bos": args.bos,
    }
    if preset is not None:
        found |= {"steps": preset.steps, "every": preset.every}
    noted_fields = {field for field in _PLAN if f"--{field.replace('_', '-')}" in noted}
    found |= {field: getattr(args, field) for field in noted_fields}
    if "every" not in noted_fields and "every" in found:
        found["every"] = max(1, min(found["every"], found["steps"]))
    if args.text:
        found["train"] = _own(args, row.tokens, about)
    return found


def _recipe(args: argparse.Namespace, recipe: Recipe, noted: set[str]) -> Recipe:
    told = {field: getattr(args, field) for field, option in _RECIPE.items() if f"--{option}" in noted}
    return replace(recipe, **told, joint=recipe.joint and not args.per_projection)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise BadInput(f"--seeds is {text!r}; write whole numbers with commas, such as 0,1,2.") from None


def _own(args: argparse.Namespace, tokens: int, about: Facts) -> DataRef:
    """A text of one's own, kept by headviz, as the training text: all of it where it is shorter than the windows asked for."""
    from headviz.data import corpora, own_text
    from headviz.settings import settings

    kept = own_text.import_text(read_bytes(args.text), Path(args.text).name, settings=settings())
    tokens = args.tokens or min(tokens, about.longest or tokens)
    windows = args.windows or 20_000
    return corpora.resolve(
        "own", revision=kept.revision, inputs=windows, tokens=tokens, bos=args.bos, settings=settings()
    )
