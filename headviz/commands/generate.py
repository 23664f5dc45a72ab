"""`headviz generate`: how a model goes on from a prompt as it is, with heads off, and with as many random heads off."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.commands.common import (
    Noted,
    Terminal,
    add_model,
    check_lengths,
    given,
    model_ref,
    read_bytes,
    writable,
)
from headviz.errors import BadInput
from headviz.types import BOS_POLICIES, Ablation, GenerateRequest, Generation, plain

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.ablation import Plan
    from headviz.analysis.choose import HeadSet

_CHOOSING = ("--metric", "--share", "--by", "--per-layer")


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add, noted = to.add_argument, partial(to.add_argument, action=Noted)
    add("--prompt", metavar="TEXT", help="what the model goes on from")
    add("--prompt-file", metavar="FILE", help="the prompt from a file instead, in UTF-8")
    noted("--chat", nargs=0, default=False, help="the prompt as a turn of the model's chat template")
    noted(
        "--bos",
        choices=BOS_POLICIES,
        default="tokenizer",
        help="BOS token: as the tokenizer does it, always, never",
    )
    add("--new-tokens", type=int, default=40, help="tokens to write at most, 1 to 256 (default 40)")
    add("--heads", metavar="FILE", help="switch off the heads of this file instead of choosing by a score")
    noted("--metric", default="ahon_ln", help="score that chooses the heads (default ahon_ln)")
    noted("--share", type=float, default=0.2, help="share of heads, a fraction (default 0.2)")
    noted("--by", choices=["head", "group"], default="head", help="single heads, or whole KV groups")
    noted("--per-layer", nargs=0, default=False, help="the same number of heads in every layer")
    add("--replace", choices=["zero", "mean"], default="zero", help="what stands in for a head's output")
    add("--random-draws", type=int, default=1, metavar="N", help="random sets of each kind (default 1)")
    add("--seed", type=int, default=0, help="draws the random sets and the inputs that choose (default 0)")
    add("--chosen-on", default="docstrings", metavar="CORPUS", help="text that chooses (default docstrings)")
    add("--chosen-part", default="train", help="its part (default train)")
    add("--chosen-inputs", type=int, default=16, help="how many of its inputs (default 16)")
    add("--chosen-tokens", type=int, default=512, help="tokens of each, BOS included (default 512)")
    add("--quiet", action="store_true", help="no progress, and no texts on the terminal")
    add("--out", required=True, metavar="FILE", help="where to write: .json")


def run(args: argparse.Namespace) -> int:
    """Go on from a prompt, the likeliest token each time: as it is, with heads off, with random heads off."""
    from headviz.analysis.side_by_side import check_request, sides, with_ablation

    out = writable(args.out, (".json",))
    if args.heads and (beside := given(args, *_CHOOSING)):
        raise BadInput(f"--heads names the heads, so {beside} cannot choose them. Leave one out.")
    if args.random_draws < 0:
        raise BadInput(f"--random-draws is 0 or more, not {args.random_draws}.")
    plan = plan_of(args)
    asked = GenerateRequest(
        model=plan.model,
        prompt=_prompt(args),
        chat=args.chat,
        bos=args.bos,
        new_tokens=args.new_tokens,
        ablation=Ablation(),
    )
    check_request(asked)
    watch = Terminal(args.quiet)
    try:
        stock = _answer(asked, watch, "as it is")
        off = _off(args, plan, stock, watch)
        texts = {
            kind: [_answer(with_ablation(asked, one), watch, kind.replace("_", "-")) for one in several]
            for kind, several in sides(plan, off, args.random_draws).items()
            if kind != "stock"
        }
    finally:
        watch.close()
    out.write_text(
        json.dumps(_tree(args, plan, asked, off, stock, texts), indent=1, ensure_ascii=False) + "\n"
    )
    if not args.quiet:
        _show(stock, texts)
    return 0


def plan_of(args: argparse.Namespace) -> Plan:
    """Which heads are off, and what stands in for them. A plan measures something; here nothing is measured of it."""
    from headviz.analysis.ablation import Plan
    from headviz.data import corpora
    from headviz.settings import settings

    model = model_ref(args)
    chosen_on = corpora.resolve(
        args.chosen_on,
        part=args.chosen_part,
        inputs=args.chosen_inputs,
        tokens=args.chosen_tokens,
        seed=args.seed,
        settings=settings(),
    )
    check_lengths(model, chosen_on)
    return Plan(
        model=model,
        chosen_on=chosen_on,
        metric=args.metric,
        share=args.share,
        by=args.by,
        per_layer=args.per_layer,
        text=chosen_on,
        replace=args.replace,
        seed=args.seed,
    )


def _prompt(args: argparse.Namespace) -> str:
    if (args.prompt is None) == (args.prompt_file is None):
        raise BadInput("Give the prompt in one way: --prompt TEXT, or --prompt-file FILE.")
    if args.prompt is not None:
        return args.prompt
    try:
        return read_bytes(args.prompt_file).decode()
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{Path(args.prompt_file).name} is not UTF-8 at byte {error.start}. Save it as UTF-8."
        ) from None


def _off(args: argparse.Namespace, plan: Plan, stock: Generation, watch: Terminal) -> HeadSet:
    from headviz.analysis import ablation
    from headviz.analysis.headfile import read_heads

    if not args.heads:
        return ablation.chosen(plan, _answer(ablation.scoring(plan), watch, "scoring heads"))
    return read_heads(
        read_bytes(args.heads), model=plan.model.name, revision=plan.model.revision, geometry=stock.geometry
    )


def _answer(request: Any, watch: Terminal, what: str) -> Any:
    from headviz.jobs import local

    watch.step(what)
    return local.run_here(request, watch)


def _tree(
    args: argparse.Namespace,
    plan: Plan,
    asked: GenerateRequest,
    off: HeadSet,
    stock: Generation,
    texts: dict[str, list[Generation]],
) -> dict[str, Any]:
    """What is written: ids and pieces as fed and as written, log-probabilities and entropies in nats."""
    by_score = not args.heads
    return {
        "model": plain(asked.model),
        "prompt": {
            "text": asked.prompt,
            "chat": asked.chat,
            "bos": asked.bos,
            "tokens": stock.prompt.tolist(),
            "pieces": list(stock.prompt_pieces),
        },
        "new_tokens": asked.new_tokens,
        "metric": plan.metric if by_score else None,
        "share_asked": plan.share if by_score else None,
        "share_off": off.share,
        "heads_off": off.count,
        "heads": [list(pair) for pair in off.heads],
        "replace": plan.replace,
        "chosen_on": plain(plan.chosen_on) if by_score or plan.replace == "mean" else None,
        "stock": _text(stock),
        "off": _text(texts["off"][0], stock) if "off" in texts else None,
        "random": {
            kind: [_text(one, stock) for one in several] for kind, several in texts.items() if kind != "off"
        },
    }


def _text(made: Generation, stock: Generation | None = None) -> dict[str, Any]:
    from headviz.analysis.side_by_side import first_difference

    tree = {
        "text": made.text,
        "tokens": made.tokens.tolist(),
        "pieces": list(made.pieces),
        "logprob": made.logprob.tolist(),
        "entropy": made.entropy.tolist(),
        "stop": made.stop,
        "request": made.provenance.digest,
        "notes": list(made.provenance.notes),
    }
    if stock is not None:
        heads = made.provenance.request["ablation"]["heads"]
        tree |= {"first_difference": first_difference(stock, made), "heads": [list(pair) for pair in heads]}
    return tree


def _show(stock: Generation, texts: dict[str, list[Generation]]) -> None:
    from headviz.analysis.side_by_side import difference_sentence

    print(f"As it is: {stock.text!r}")
    for kind, several in texts.items():
        for one in several:
            name = "Heads off" if kind == "off" else f"{kind.replace('_', '-').capitalize()} random heads off"
            print(f"{name}: {one.text!r} ({difference_sentence(stock, one)})")
    for note in stock.provenance.notes:
        print(f"Note: {note}.", file=sys.stderr)
