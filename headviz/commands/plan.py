"""The options of `ablate` and `sweep`, and the plan that they stand for: which heads, chosen where, measured on what."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headviz.commands.common import (
    Noted,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    given,
    model_ref,
    read_bytes,
)
from headviz.errors import BadInput
from headviz.types import BOS_POLICIES, DataRef, QuestionsRef

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.ablation import Plan

TARGETS = ("loss", "quiz", "mmlu", "own")
MEASURED = "measured"
HALF = "half"

_OF_TEXT = (
    "--corpus", "--text", "--data-revision", "--dataset", "--config", "--split", "--column", "--part", "--inputs",
    "--tokens",
)  # fmt: skip
_OF_QUESTIONS = (
    "--questions", "--subjects", "--per-subject", "--half", "--shots", "--scoring", "--per-question",
)  # fmt: skip
_OF_SCORE = ("--metric", "--mode", "--by", "--per-layer", "--turned", "--share", "--threshold")
_OF_CHOOSING = (
    "--chosen-part", "--chosen-inputs", "--chosen-tokens", "--chosen-seed", "--chosen-bos", "--chosen-chat",
)  # fmt: skip


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add = partial(to.add_argument, action=Noted)
    add("--target", choices=TARGETS, default="loss", help="what is measured (default loss)")
    add_data(to, inputs=32)
    _which(add)
    _where(add)
    _questions(add)
    to.add_argument("--quiet", action="store_true", help="no progress")
    to.add_argument("--out", required=True, metavar="FILE", help="where to write: .json")


def _which(add) -> None:
    add("--metric", default="ahon_ln", help="score that chooses the heads (default ahon_ln)")
    add(
        "--mode",
        choices=["static", "per-input"],
        default="static",
        help="one set, or the paper's rule per input",
    )
    add("--turned", nargs=0, default=False, help="from the other end: the most active heads first")
    add("--heads", metavar="FILE", help="switch off the heads of this file instead of choosing by a score")
    add("--by", choices=["head", "group"], default="head", help="single heads, or whole KV groups")
    add("--per-layer", nargs=0, default=False, help="the same number of heads in every layer")
    add("--replace", choices=["zero", "mean"], default="zero", help="what stands in for a head's output")
    add("--random-draws", type=int, default=0, metavar="N", help="random sets of each kind beside it")


def _where(add) -> None:
    add(
        "--chosen-on",
        default="docstrings",
        metavar="CORPUS",
        help=f"text whose scores choose (default docstrings); {HALF}: one half of the questions, the other half is measured (the "
        f"second unless --half says so); {MEASURED}: the very inputs that are measured, which the JSON flags",
    )
    add("--chosen-part", default="train", help="its part (default train: apart from what is measured)")
    add("--chosen-inputs", type=int, default=16, help="how many of its inputs (default 16)")
    add("--chosen-tokens", type=int, default=512, help="tokens of each, BOS included (default 512)")
    add("--chosen-seed", type=int, default=0, help="draws which inputs are taken (default 0)")
    add("--chosen-bos", choices=BOS_POLICIES, default="tokenizer", help="their BOS token, as --bos")
    add("--chosen-chat", nargs=0, default=False, help="wrap each of them in the model's chat template")


def _questions(add) -> None:
    add(
        "--questions",
        metavar="FILE",
        help="with --target own: jsonl or csv with question, choices, answer; or the sha256 of kept ones",
    )
    add("--subjects", default="", help="comma-separated; default all")
    add("--per-subject", type=int, default=0, help="questions a subject; 0 takes all")
    add(
        "--half",
        choices=["all", "first", "second"],
        default="all",
        help="half of the questions: choose on one, confirm on the other",
    )
    add("--shots", type=int, default=5, help="worked examples before each question, 0 to 5")
    add(
        "--scoring",
        choices=["letter", "text"],
        default="letter",
        help="score the letter, or the answer's text",
    )


def plan_of(args: argparse.Namespace, share: float) -> Plan:
    """The plan that the options stand for; a file of heads is read by who has the model's shape.

    Raises BadInput, also for an option that would have no effect.
    """
    from headviz.analysis.ablation import Plan

    _refuse(args)
    model = model_ref(args)
    asked = _asked(args) if args.target != "loss" else None
    text = data_ref(args) if asked is None else None
    chosen_on = _chosen_on(args, asked or text)
    check_lengths(model, *(one for one in (chosen_on, text) if isinstance(one, DataRef)))
    return Plan(
        model=model,
        chosen_on=chosen_on,
        metric=args.metric,
        share=share,
        threshold=getattr(args, "threshold", None),
        turned=args.turned,
        mode=args.mode,
        by=args.by,
        per_layer=args.per_layer,
        questions=asked,
        text=text,
        replace=args.replace,
        draws=args.random_draws,
    )


def _refuse(args: argparse.Namespace) -> None:
    """Raises BadInput where an option was given that the others leave without effect."""
    on_text = args.target == "loss"
    if beside := given(args, *(_OF_QUESTIONS if on_text else _OF_TEXT)):
        what = "questions" if on_text else "text"
        raise BadInput(
            f"--target {args.target} measures {'text' if on_text else 'questions'}, and {beside} would choose {what}. Leave "
            "one out."
        )
    if args.questions and args.target != "own":
        raise BadInput(f"--questions goes with --target own, not with {args.target}.")
    if args.heads and (beside := given(args, *_OF_SCORE)):
        raise BadInput(f"--heads names the heads itself, with which {beside} cannot be used. Leave one out.")
    if len(both := given(args, "--share", "--threshold").split(", ")) == 2:
        raise BadInput(f"{' and '.join(both)} both say how many heads go. Leave one out.")
    if args.chosen_on in (MEASURED, HALF) and (beside := given(args, *_OF_CHOOSING)):
        which = "inputs that are measured" if args.chosen_on == MEASURED else "other half of the questions"
        raise BadInput(f"--chosen-on {args.chosen_on} takes the {which}, so {beside} cannot be used.")
    if args.chosen_on == HALF and on_text:
        raise BadInput(
            f"--chosen-on {HALF} is for questions. Text has parts: --chosen-part train chooses apart from the held-out one."
        )
    if args.chosen_on == HALF and args.half == "all" and given(args, "--half"):
        raise BadInput(
            f"--half all leaves no other half to choose on. Leave out --half, or --chosen-on {HALF}."
        )
    if args.mode == "per-input" and (beside := given(args, "--by", "--per-layer")):
        raise BadInput(f"Per input, every head is judged by itself: {beside} cannot be used.")


def _chosen_on(args: argparse.Namespace, measured: DataRef | QuestionsRef) -> DataRef | QuestionsRef:
    from headviz.data import corpora, questions
    from headviz.settings import settings

    if args.chosen_on not in (MEASURED, HALF):
        return corpora.resolve(
            args.chosen_on,
            part=args.chosen_part,
            inputs=args.chosen_inputs,
            tokens=args.chosen_tokens,
            seed=args.chosen_seed,
            bos=args.chosen_bos,
            chat=args.chosen_chat,
            settings=settings(),
        )
    if isinstance(measured, QuestionsRef) and args.replace == "mean":
        raise BadInput(
            f"The mean of a head is taken on text, and with --chosen-on {args.chosen_on} there are only questions. Use --replace "
            "zero, or choose on a corpus."
        )
    return questions.other_half(measured) if args.chosen_on == HALF else measured


def _asked(args: argparse.Namespace) -> QuestionsRef:
    from headviz.data import questions
    from headviz.settings import settings

    revision = ""
    if args.target == "own":
        if not args.questions:
            raise BadInput(
                "--target own needs --questions FILE: jsonl or csv with question, choices and answer."
            )
        path = Path(args.questions)
        if re.fullmatch(r"[0-9a-f]{64}", args.questions) and not path.exists():
            revision = args.questions  # kept already
        else:
            revision = questions.import_questions(read_bytes(args.questions), path.name, settings())
    return questions.resolve_questions(
        args.target,
        subjects=tuple(name.strip() for name in args.subjects.split(",") if name.strip()),
        per_subject=args.per_subject,
        seed=args.seed,
        half="second" if args.chosen_on == HALF and args.half == "all" else args.half,
        shots=args.shots,
        scoring=args.scoring,
        chat=args.chat,
        bos=args.bos if given(args, "--bos") else "never",
        revision=revision,
        settings=settings(),
    )
