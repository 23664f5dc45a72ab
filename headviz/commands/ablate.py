"""`headviz ablate`: what it costs to switch heads off, beside random heads. `headviz sweep` is the same at several shares."""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.commands.common import Noted, Terminal, read_bytes, writable
from headviz.commands.plan import options, plan_of
from headviz.types import MeasureRequest, QuestionScores

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.ablation import Plan


def ablate_options(to: argparse.ArgumentParser) -> None:
    options(to)
    add = partial(to.add_argument, action=Noted)
    add("--share", type=float, default=0.2, help="share of heads, a fraction (default 0.2)")
    add("--threshold", type=float, metavar="X", help="instead of a share: every head beyond this score")
    add("--per-question", nargs=0, default=False, help="add every question: answer and log-probabilities")


def ablate(args: argparse.Namespace) -> int:
    """Switch heads off and say what it costs, beside random heads."""
    out = writable(args.out, (".json",))
    content = read_bytes(args.heads) if args.heads else None
    watch = Terminal(args.quiet)
    try:
        plan = plan_of(args, args.share)
        if content is not None:
            plan = _with_file(plan, content, Path(args.heads).name, watch)
        tree, before, after = measured(plan, watch)
    finally:
        watch.close()
    if args.per_question:
        tree["questions"] = _per_question(before, after)
    write(out, tree)
    if not args.quiet:
        print(sentence(tree), file=sys.stderr)
    return 0


def _with_file(plan: Plan, content: bytes, name: str, watch: Terminal) -> Plan:
    """The plan with the heads of a file. Raises BadInput where it is no head set of this model."""
    from headviz.analysis import ablation
    from headviz.analysis.headfile import read_heads, read_origin

    shape = answer(ablation.scoring(plan), watch).geometry
    read = read_heads(content, model=plan.model.name, revision=plan.model.revision, geometry=shape)
    return replace(plan, heads=read.heads, origin=name, origin_on=read_origin(content))


def measured(plan: Plan, watch: Terminal) -> tuple[dict[str, Any], Any, Any]:
    """(report, baseline, ablated), every measurement from the store where it is there already."""
    from headviz.analysis import ablation, changes

    table = answer(ablation.scoring(plan), watch)
    before = answer(ablation.measuring(plan, None), watch)
    off = None
    if plan.mode == "per-input":
        after = answer(ablation.measuring_per_input(plan, table), watch)
        random = {"uniform": ablation.controls_per_input(plan, float(after.off_share.mean()))}
    else:
        off = ablation.chosen(plan, table)
        after = answer(ablation.measuring(plan, off), watch)
        random = ablation.controls(plan, off)
    drawn = {kind: [answer(request, watch) for request in requests] for kind, requests in random.items()}
    return changes.report(plan, off, before, after, drawn), before, after


def answer(request: Any, watch: Terminal) -> Any:
    from headviz.jobs import local

    if isinstance(request, MeasureRequest) and request.ablation.mode == "none":
        watch.step("measuring the model as it is")
    return local.run_here(request, watch)


def _per_question(before: QuestionScores, after: QuestionScores) -> list[dict[str, Any]]:
    def known(row) -> list[float | None]:
        return [None if x != x else float(x) for x in row]

    return [
        {
            "subject": before.subjects[before.subject[i]],
            "index": int(before.index[i]),
            "answer": int(before.answer[i]),
            "baseline": known(before.logprob[i]),
            "ablated": known(after.logprob[i]),
        }
        for i in range(len(before.answer))
    ]


def sentence(tree: dict[str, Any]) -> str:
    from headviz.charts import fmt

    by = f"by {tree['metric']}" if tree["metric"] else f"({tree['chosen_by']})"
    told = f"{fmt.percent(tree['share_off'])} of heads off {by}: {tree['target']} "
    main, unit = tree, tree["unit"]
    if tree["counts"] == "logprob":
        told = (
            f"At chance (accuracy {fmt.percent(tree['baseline'])} with nothing off), so the log-probability of the right answer "
            f"counts. {told}"
        )
        main, unit = tree["logprob"], "nats"
    told += (
        f"{fmt.signed(main['change'])} {unit} [{fmt.number(main['ci_low'])}, {fmt.number(main['ci_high'])}]"
    )
    for kind, band in tree["random"].items():
        told += f"; {kind.replace('_', '-')} random heads {fmt.signed(band['mean'])} (n={band['n']})"
    return told


def write(out: Path, tree: dict[str, Any]) -> None:
    out.write_text(written(tree))


def written(tree: dict[str, Any]) -> str:
    """JSON types as text, what is not defined as null."""
    return json.dumps(_null(tree), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _null(tree: Any) -> Any:
    """What is not defined is null in JSON, which has no NaN."""
    if isinstance(tree, dict):
        return {name: _null(item) for name, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [_null(item) for item in tree]
    return None if isinstance(tree, float) and math.isnan(tree) else tree
