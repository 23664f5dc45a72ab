"""One multiple-choice question, and what a row must hold to become one. No torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headviz.errors import BadData

LETTERS = "ABCDEFGHIJ"
COLUMNS = ("question", "choices", "answer")


@dataclass(frozen=True)
class Item:
    """One question. `answer`: number of the right choice from 0; `index`: its place within its subject, in file order."""

    question: str
    choices: tuple[str, ...]
    answer: int
    subject: str
    index: int


def item(row: Mapping[str, Any], index: int, where: str) -> Item:
    """The question in a row with question, choices, answer and, where there are several, subject.

    choices: a list of 2 to 10 texts, or one written as JSON; answer: a letter, or a number from 0.
    Raises BadData that names `where` for anything else.
    """
    question, subject = row.get("question"), row.get("subject") or "own"
    if not isinstance(question, str) or not question.strip():
        raise BadData(f"{where} has no question. Write its text into the column question.")
    if not isinstance(subject, str):
        raise BadData(f"{where} has a subject that is no text: {subject!r}.")
    choices = _choices(row.get("choices"), where)
    return Item(question, choices, _answer(row.get("answer"), len(choices), where), subject, index)


def _choices(given: Any, where: str) -> tuple[str, ...]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, list | tuple) or not all(isinstance(one, str) and one.strip() for one in given):
        raise BadData(f'{where} has no list of choices. Write them like ["red", "blue", "green", "black"].')
    if not 2 <= len(given) <= len(LETTERS):
        raise BadData(f"{where} has {len(given)} choices; a question has 2 to {len(LETTERS)}.")
    return tuple(given)


def _answer(given: Any, count: int, where: str) -> int:
    letters = LETTERS[:count]
    text = str(given).strip().upper() if isinstance(given, str | int) and not isinstance(given, bool) else ""
    if len(text) == 1 and text in letters:
        return letters.index(text)
    if text.isdecimal() and int(text) < count:
        return int(text)
    raise BadData(
        f"{where} has the answer {given!r}. Write a letter from A to {letters[-1]}, or a number from 0 to {count - 1}."
    )
