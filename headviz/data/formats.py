"""How a row of a data set becomes text: one function a format, row of columns in, text out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from headviz.errors import BadData

Row = dict[str, Any]


def mmlu(row: Row) -> str:
    """A question, its four choices and `Answer:`, as lm-evaluation-harness writes it without examples."""
    choices = row["choices"]
    if len(choices) != 4:
        raise BadData(
            f"An MMLU question has {len(choices)} choices where there should be 4: {row['question']!r}."
        )
    subject = row["subject"].replace("_", " ")
    lines = [f"The following are multiple choice questions (with answers) about {subject}.", ""]
    lines.append(row["question"].strip())
    lines += [f"{letter}. {choice}" for letter, choice in zip("ABCD", choices, strict=True)]
    return "\n".join([*lines, "Answer:"])


def piqa(row: Row) -> str:
    """`Question: …` and `Answer:`, as lm-evaluation-harness writes it; the two solutions are left out."""
    return f"Question: {row['goal']}\nAnswer:"


def winogrande(row: Row) -> str:
    """The sentence with the right option in the place of the blank. Raises BadData where no answer is given."""
    if str(row["answer"]) not in ("1", "2"):
        raise BadData(
            "A winogrande row has no answer (1 or 2). The test split has none: use validation or train."
        )
    return row["sentence"].replace("_", row[f"option{row['answer']}"], 1)


_TITLE = re.compile(r"^ = [^=].* = \n?$")


def wikitext_articles(lines: Iterable[str]) -> Iterator[str]:
    """Articles from wikitext's rows, which are single lines: one starts at each ` = Title = `."""
    article: list[str] = []
    for line in lines:
        if _TITLE.match(line) and article:
            yield "".join(article)
            article = []
        article.append(line)
    if article:
        yield "".join(article)
