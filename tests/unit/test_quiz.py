"""The bundled quiz: the format, one right answer at an even place, and nothing in the form that gives it away."""

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headviz.data import quiz
from headviz.errors import UnknownName

FOLDER = Path(quiz.__file__).parent
TEST, DEV = quiz.load(), quiz.load("dev")
BOTH = TEST + DEV
REVISION = "c945734bea36b48aebe454011993d557766b4e1078205b4e1b4cd4a6c1186534"


def normal(text: str) -> str:
    """`text` in lower case without punctuation, but with the signs that change a sum."""
    return " ".join(re.sub(r"[^\w+\-]", " ", text.lower()).split())


def share_right(items, pick) -> float:
    """Expected share right, 0..1, of who takes a choice of length `pick(lengths)`, at random among equals."""
    total = 0.0
    for item in items:
        lengths = [len(choice) for choice in item.choices]
        taken = [place for place in range(4) if lengths[place] == pick(lengths)]
        total += (item.answer in taken) / len(taken)
    return total / len(items)


@pytest.mark.parametrize("file", sorted(quiz.SPLITS.values()))
def test_every_line_has_the_fields_of_mmlu_and_nothing_else(file):
    for line in (FOLDER / file).read_text("utf-8").splitlines():
        row = json.loads(line)
        assert list(row) == ["question", "subject", "choices", "answer"]
        assert isinstance(row["choices"], list)
        assert len(row["choices"]) == 4
        assert type(row["answer"]) is int
        assert row["answer"] in range(4)
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", row["subject"])


def test_subjects_and_counts():
    counts = Counter(item.subject for item in TEST)
    assert len(counts) == 16
    assert set(counts.values()) == {20}
    assert Counter(item.subject for item in DEV) == dict.fromkeys(counts, 5)
    for items in (TEST, DEV):
        assert [item.subject for item in items] == sorted(item.subject for item in items)


def test_the_right_answer_stands_at_each_place_equally_often():
    for items in (TEST, DEV):
        assert set(Counter(item.answer for item in items).values()) == {len(items) // 4}
    by_subject = Counter((item.subject, item.answer) for item in TEST)
    assert set(by_subject.values()) == {5}
    assert set(Counter((item.subject, item.answer) for item in DEV).values()) <= {1, 2}


def test_no_simple_order_of_places_guesses_the_answers():
    """Neither the place relative to the question before, nor the position within the subject, tells the place."""
    for guess in range(4):
        at = [TEST[i].answer == (TEST[i - 1].answer + guess) % 4 for i in range(1, len(TEST))]
        assert sum(at) / len(at) == pytest.approx(0.25, abs=0.08)
    columns = [Counter(TEST[i].answer for i in range(k, len(TEST), 20)) for k in range(20)]
    assert max(max(column.values()) for column in columns) <= 11  # of 16 subjects


def test_no_question_twice_and_dev_shares_none():
    assert [text for text, n in Counter(normal(item.question) for item in BOTH).items() if n > 1] == []
    pairs = Counter((normal(item.question), tuple(sorted(map(normal, item.choices)))) for item in BOTH)
    assert len(pairs) == len(BOTH)


def test_choices_of_a_question_differ():
    for item in BOTH:
        assert len(set(map(normal, item.choices))) == 4, item


def test_length_does_not_give_the_answer_away():
    for pick in (max, min):
        assert share_right(TEST, pick) == pytest.approx(0.25, abs=0.06)
    right = [len(item.choices[item.answer]) for item in TEST]
    wrong = [
        len(choice) for item in TEST for place, choice in enumerate(item.choices) if place != item.answer
    ]
    assert sum(right) / len(right) == pytest.approx(sum(wrong) / len(wrong), abs=0.3)  # characters
    for item in BOTH:
        lengths = [len(choice) for choice in item.choices]
        assert max(lengths) - min(lengths) <= 8, item


def test_articles_do_not_give_the_answer_away():
    """After "a" or "an" at the end of a question, all four choices go with it."""
    for item in BOTH:
        last = item.question.split()[-1]
        vowels = [choice[0].lower() in "aeiou" for choice in item.choices]
        if last in ("a", "an"):
            assert set(vowels) == {last == "an"}, item


def test_text_is_plain():
    for item in BOTH:
        for text in (item.question, *item.choices):
            assert text.isascii(), item
            assert text.isprintable(), item
            assert text == " ".join(text.split()), item
            assert text, item
        assert item.question.count('"') % 2 == 0, item
        assert not re.search(r"\b(not|never|except|none of|all of the above)\b", item.question.lower()), item
        assert not any("of the above" in choice.lower() for choice in item.choices), item
        assert item.question[0].isupper(), item


def test_revision_is_that_of_the_questions_as_published():
    """A changed question changes every stored result that names this revision: raise it knowingly."""
    assert quiz.revision() == REVISION


def test_items_cannot_be_changed_and_an_unknown_split_is_refused():
    with pytest.raises(AttributeError):
        TEST[0].answer = 1
    with pytest.raises(UnknownName, match=r"quiz split 'tset'.*Did you mean 'test'"):
        quiz.load("tset")


def test_loading_needs_no_heavy_library():
    code = (
        "import sys; from headviz.data import quiz; quiz.revision();"
        "sys.exit(bool({'torch', 'transformers', 'datasets', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
