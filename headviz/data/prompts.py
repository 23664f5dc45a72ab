"""From questions to token ids, as lm-evaluation-harness builds them for its task `mmlu`.

An answer's log-probability is that of its tokens after the prompt. Answers that are read from the same input share one
`Row`: with letters, all four of them. A tokenizer is one of transformers, handed in; nothing of it is imported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headviz.data.encoding import encoder
from headviz.data.items import LETTERS, Item
from headviz.data.questions import Questions
from headviz.errors import BadInput
from headviz.types import QuestionsRef

_NO_LIMIT = 1 << 30


@dataclass(frozen=True)
class Read:
    """An answer to read from a row: the log-probabilities of `targets` at its last len(targets) positions."""

    question: int
    choice: int
    targets: tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One input of the model. subject: rows of one subject begin alike; cut: it lost its beginning."""

    tokens: tuple[int, ...]
    subject: str
    reads: tuple[Read, ...]
    cut: bool


def build_rows(
    questions: Questions, ref: QuestionsRef, tokenizer: Any, context_length: int | None = None
) -> list[Row]:
    """The rows of all questions, in their order. Inputs longer than `context_length` lose their beginning.

    Raises BadInput where there is no BOS token or no chat template to use, or an answer alone is too long.
    """
    most = context_length or _NO_LIMIT
    first = () if ref.chat else encoder(tokenizer, tokens=_NO_LIMIT, bos=ref.bos, chat=False).prefix
    if ref.bos == "never":
        first = ()  # as in the harness: no special token of any kind
    asked = [_texts(one, questions.examples[one.subject], ref, tokenizer) for one in questions.items]
    encode = _Encoder(tokenizer)
    encode.learn(text for context, answers in asked for text in _pair_texts(context, answers))
    rows: list[Row] = []
    for number, (context, answers) in enumerate(asked):
        reads: dict[tuple[int, ...], list[Read]] = {}  # whole input → what is read from it
        for choice, answer in enumerate(answers):
            before, targets = encode.pair(context, answer)
            if len(targets) > most:
                raise BadInput(
                    f"An answer of question {number} has {len(targets)} tokens, and the model's context is {most}."
                )
            reads.setdefault((*first, *before, *targets[:-1]), []).append(Read(number, choice, targets))
        subject = questions.items[number].subject
        rows += [
            Row(tokens[-most:], subject, tuple(found), len(tokens) > most) for tokens, found in reads.items()
        ]
    return rows


def description(subject: str) -> str:
    """The sentence that stands before everything."""
    about = subject.replace("_", " ")
    return f"The following are multiple choice questions (with answers) about {about}.\n\n"


def question_text(one: Item, scoring: str) -> str:
    """A question up to `Answer:`, with its lettered choices or without them."""
    if scoring == "text":
        return f"Question: {one.question.strip()}\nAnswer:"
    lines = [one.question.strip(), *(f"{letter}. {choice}" for letter, choice in zip(LETTERS, one.choices))]
    return "\n".join([*lines, "Answer:"])


def answer_text(one: Item, choice: int, scoring: str) -> str:
    """What stands after `Answer:` and a space."""
    return LETTERS[choice] if scoring == "letter" else one.choices[choice]


def _texts(one: Item, examples: Iterable[Item], ref: QuestionsRef, tokenizer: Any) -> tuple[str, list[str]]:
    """(prompt, what may follow it)."""
    answers = [answer_text(one, choice, ref.scoring) for choice in range(len(one.choices))]
    shown = [(question_text(x, ref.scoring), answer_text(x, x.answer, ref.scoring)) for x in examples]
    asked = question_text(one, ref.scoring)
    # where no choices are shown, the sentence about multiple choice would not be true
    opening = description(one.subject) if ref.scoring == "letter" else ""
    if not ref.chat:
        shots = "".join(f"{question} {answer}\n\n" for question, answer in shown)
        return f"{opening}{shots}{asked}", [f" {answer}" for answer in answers]
    turns = [{"role": "system", "content": opening}] if opening else []
    for question, answer in shown:
        turns += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return _rendered(tokenizer, [*turns, {"role": "user", "content": asked}]), answers


def _rendered(tokenizer: Any, turns: list[dict[str, str]]) -> str:
    """The turns in the model's chat template, the answer about to begin."""
    if not getattr(tokenizer, "chat_template", None):
        raise BadInput(
            "This model has no chat template. Switch the template off, or choose a model tuned for chat."
        )
    try:
        return tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's author: anything can go wrong in it
        raise BadInput(
            f"This model's chat template does not take a system message and turns ({type(error).__name__}: {error}). "
            "Switch the template off."
        ) from error


def _moved(context: str, answer: str) -> tuple[str, str]:
    """Blanks at the end of the prompt belong to the answer: a tokenizer joins them with what follows."""
    bare = context.rstrip()
    return bare, context[len(bare) :] + answer


def _pair_texts(context: str, answers: list[str]) -> Iterable[str]:
    for answer in answers:
        before, after = _moved(context, answer)
        yield before
        yield before + after


class _Encoder:
    """Texts to ids without added special tokens, all at once: a fast tokenizer then uses every core."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._ids: dict[str, tuple[int, ...]] = {}

    def learn(self, texts: Iterable[str]) -> None:
        wanted = list(dict.fromkeys(texts))
        for start in range(0, len(wanted), 1000):
            some = wanted[start : start + 1000]
            found = self._tokenizer(some, add_special_tokens=False, verbose=False)["input_ids"]
            self._ids.update(zip(some, map(tuple, found), strict=True))

    def pair(self, context: str, answer: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(ids of the prompt, ids of the answer): the whole is encoded, and cut where the prompt alone would end."""
        before, after = _moved(context, answer)
        start, whole = self._ids[before], self._ids[before + after]
        return start, whole[len(start) :]
