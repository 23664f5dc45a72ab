"""`headviz ablate`: what it costs to switch heads off, beside random heads. `headviz sweep` is the same at several shares."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.commands.common import (
    Terminal,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    model_ref,
    read_bytes,
    writable,
)
from headviz.errors import BadInput
from headviz.types import MeasureRequest, QuestionScores

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.ablation import Plan
    from headviz.analysis.choose import HeadSet

TARGETS = ("loss", "quiz", "mmlu", "own")


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add = to.add_argument
    add("--target", choices=TARGETS, default="loss", help="what is measured (default loss)")
    add_data(to, inputs=32)
    add("--metric", default="ahon_ln", help="score that chooses the heads (default ahon_ln)")
    add(
        "--mode",
        choices=["static", "per-input"],
        default="static",
        help="one set, or the paper's rule per input",
    )
    add("--heads", metavar="FILE", help="switch off the heads of this file instead of choosing by a score")
    add("--by", choices=["head", "group"], default="head", help="single heads, or whole KV groups")
    add("--per-layer", action="store_true", help="the same number of heads in every layer")
    add("--replace", choices=["zero", "mean"], default="zero", help="what stands in for a head's output")
    add("--random-draws", type=int, default=0, metavar="N", help="random sets of each kind beside it")
    add(
        "--chosen-on",
        default="docstrings",
        metavar="CORPUS",
        help="text whose scores choose (default docstrings)",
    )
    add("--chosen-part", default="train", help="its part (default train: apart from what is measured)")
    add("--chosen-inputs", type=int, default=16, help="how many of its inputs (default 16)")
    add("--chosen-tokens", type=int, default=512, help="tokens of each, BOS included (default 512)")
    add("--questions", metavar="FILE", help="with --target own: jsonl or csv with question, choices, answer")
    add("--subjects", default="", help="comma-separated; default all")
    add("--per-subject", type=int, default=0, help="questions a subject; 0 takes all")
    add("--shots", type=int, default=5, help="worked examples before each question, 0 to 5")
    add(
        "--scoring",
        choices=["letter", "text"],
        default="letter",
        help="score the letter, or the answer's text",
    )
    add("--quiet", action="store_true", help="no progress")
    add("--out", required=True, metavar="FILE", help="where to write: .json")


def ablate_options(to: argparse.ArgumentParser) -> None:
    options(to)
    to.add_argument("--share", type=float, default=0.2, help="share of heads, a fraction (default 0.2)")
    to.add_argument(
        "--per-question", action="store_true", help="add every question: its answer and log-probabilities"
    )


def ablate(args: argparse.Namespace) -> int:
    """Switch heads off and say what it costs, beside random heads."""
    out = writable(args.out, (".json",))
    watch = Terminal(args.quiet)
    try:
        plan = plan_of(args, args.share)
        tree, before, after = measured(plan, _file_set(args, plan, watch), watch)
    finally:
        watch.close()
    if args.per_question:
        tree["questions"] = _per_question(before, after)
    write(out, tree)
    if not args.quiet:
        print(sentence(tree), file=sys.stderr)
    return 0


def plan_of(args: argparse.Namespace, share: float) -> Plan:
    """The plan that the options stand for. Raises BadInput."""
    from headviz.analysis.ablation import Plan
    from headviz.data import corpora, questions
    from headviz.settings import settings

    model = model_ref(args)
    chosen_on = corpora.resolve(
        args.chosen_on,
        part=args.chosen_part,
        inputs=args.chosen_inputs,
        tokens=args.chosen_tokens,
        settings=settings(),
    )
    on_text = args.target == "loss"
    text = data_ref(args) if on_text else None
    check_lengths(model, chosen_on, text)
    asked = None
    if not on_text:
        revision = ""
        if args.target == "own":
            if not args.questions:
                raise BadInput(
                    "--target own needs --questions FILE: jsonl or csv with question, choices and answer."
                )
            name = Path(args.questions).name
            revision = questions.import_questions(read_bytes(args.questions), name, settings())
        asked = questions.resolve_questions(
            args.target,
            subjects=tuple(name.strip() for name in args.subjects.split(",") if name.strip()),
            per_subject=args.per_subject,
            seed=args.seed,
            shots=args.shots,
            scoring=args.scoring,
            chat=args.chat,
            revision=revision,
            settings=settings(),
        )
    return Plan(
        model=model,
        chosen_on=chosen_on,
        metric=args.metric,
        share=share,
        mode=args.mode,
        by=args.by,
        per_layer=args.per_layer,
        questions=asked,
        text=text,
        replace=args.replace,
        draws=args.random_draws,
    )


def _file_set(args: argparse.Namespace, plan: Plan, watch: Terminal) -> HeadSet | None:
    from headviz.analysis import ablation
    from headviz.analysis.headfile import read_heads

    if not args.heads:
        return None
    table = answer(ablation.scoring(plan), watch)
    return read_heads(
        read_bytes(args.heads), model=plan.model.name, revision=plan.model.revision, geometry=table.geometry
    )


def measured(plan: Plan, off: HeadSet | None, watch: Terminal) -> tuple[dict[str, Any], Any, Any]:
    """(report, baseline, ablated), every measurement from the store where it is there already."""
    from headviz.analysis import ablation

    table = answer(ablation.scoring(plan), watch)
    before = answer(ablation.measuring(plan, None), watch)
    if plan.mode == "per-input" and off is None:
        after = answer(ablation.measuring_per_input(plan, table), watch)
        random = {"uniform": ablation.controls_per_input(plan, float(after.off_share.mean()))}
    else:
        off = off if off is not None else ablation.chosen(plan, table)
        after = answer(ablation.measuring(plan, off), watch)
        random = ablation.controls(plan, off)
    drawn = {kind: [answer(request, watch) for request in requests] for kind, requests in random.items()}
    return ablation.report(plan, off, before, after, drawn), before, after


def answer(request: Any, watch: Terminal) -> Any:
    from headviz.jobs import local

    if isinstance(request, MeasureRequest) and request.ablation.mode == "none":
        watch.step("measuring the model as it is")
    return local.run_here(request, watch)


def _per_question(before: Any, after: Any) -> list[dict[str, Any]]:
    if not isinstance(before, QuestionScores):
        raise BadInput("--per-question goes with questions, not with --target loss.")

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

    told = f"{fmt.percent(tree['share_off'])} of heads off by {tree['metric']}: {tree['target']} "
    told += f"{fmt.signed(tree['change'])} {tree['unit']} [{fmt.number(tree['ci_low'])}, {fmt.number(tree['ci_high'])}]"
    for kind, band in tree["random"].items():
        told += f"; {kind.replace('_', '-')} random heads {fmt.signed(band['mean'])} (n={band['n']})"
    return told


def write(out: Path, tree: dict[str, Any]) -> None:
    out.write_text(json.dumps(_null(tree), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _null(tree: Any) -> Any:
    """What is not defined is null in JSON, which has no NaN."""
    if isinstance(tree, dict):
        return {name: _null(item) for name, item in tree.items()}
    if isinstance(tree, list | tuple):
        return [_null(item) for item in tree]
    return None if isinstance(tree, float) and math.isnan(tree) else tree
