"""The bundled quiz: easy four-choice questions that need no network, for models as small as 135M parameters.

Written for headviz and under its licence. It is not MMLU and holds no item of MMLU or of any other set; it only
has the same fields as `cais/mmlu`, so the same evaluator reads both. 16 subjects with 20 questions each, and 5
more each for few-shot prompts (split `dev`). Facts are plain and lasting, wrong choices are of the same kind and
length as the right one. Within a subject the right answer stands at each of the four places equally often; a seeded
shuffle put it there. No item was chosen, dropped or changed for what a model answered.

The questions say what a small model knows, not how able a large one is: large models get nearly all of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from importlib.resources import files

from headviz.errors import lookup

SPLITS: Mapping[str, str] = {"test": "questions.jsonl", "dev": "dev.jsonl"}


@dataclass(frozen=True)
class Question:
    """One item, fields as in `cais/mmlu`. A question may be a sentence that the right choice completes."""

    question: str
    subject: str
    choices: tuple[str, str, str, str]
    answer: int  # 0..3, the place of the right choice


def load(split: str = "test") -> tuple[Question, ...]:
    """The questions of `test` (320, to measure on) or `dev` (80, for few-shot prompts), sorted by subject.

    Raises UnknownName for another split.
    """
    name = lookup(SPLITS, split, "quiz split")
    rows = map(json.loads, files(__name__).joinpath(name).read_text("utf-8").splitlines())
    return tuple(Question(**row | {"choices": tuple(row["choices"])}) for row in rows)


def revision() -> str:
    """sha256 (64 hex digits) of every question of both splits, in order: what a request keeps as the version."""
    content = [[split, [astuple(item) for item in load(split)]] for split in SPLITS]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()
