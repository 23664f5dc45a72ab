"""The corpus of docstrings: rules of prose, the split by packages, and that nothing is imported for it."""

import os
import random
import re
from pathlib import Path

import pytest

from headviz.data import docstrings
from headviz.data.documents import canonical_text
from headviz.errors import BadData, Failure


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A home in which the texts are built once for this file."""
    return tmp_path_factory.mktemp("docstrings")


@pytest.mark.parametrize(
    "paragraph",
    [
        "Return the head output before it is projected, one row a token.",
        "Two lines of text that go on\nhere, and they end with a question mark?",
        "    An indented block of prose, all of whose lines start at\n    the same column.",
        "Use `name` or ``None`` to say that there is none of this kind.",
    ],
)
def test_prose(paragraph):
    assert docstrings.prose(paragraph) == " ".join(paragraph.split())


@pytest.mark.parametrize(
    "paragraph",
    [
        "Too short to be prose, this.",
        "this sentence does not start with a capital letter at all.",
        "This one has no mark at its end but has words enough",
        ">>> Compute the value of this and show it to me please.",
        "Text that goes on for a while here\n>>> and then a doctest.",
        ".. note:: This is a directive with enough words to pass otherwise.",
        "x : array of floats that holds what is to be read here.",
        "Parameters\n----------\nThe values that are given to the function are here.",
        ":param x: The value that is to be read by this function here.",
        "- A bullet that has words enough to be a sentence of its own.",
        "1. A numbered item that has words enough to be a sentence here.",
        "| A line of a table that | has words enough | to be a sentence |.",
        "Value first line of a list\n    whose second line hangs deeper than the first line.",
        "X = [1, 2, 3, 4]; Y = {5: 6, 7: 8}; Z = (9, 10, 11, 12, 13) and so on.",
    ],
)
def test_no_prose(paragraph):
    assert docstrings.prose(paragraph) is None


def test_docstrings_of_everything_that_has_one_and_of_nothing_else():
    source = b'''
"""module"""
"""no docstring"""
x = """no docstring"""
class A:
    """class"""
    def f(self):
        """method"""
        def g():
            """inner"""
    y: int
    """no docstring"""
if x:
    """no docstring"""
    async def h():
        """async"""
try:
    pass
except E: pass
'''
    found = list(docstrings.docstrings_of(source, "m"))
    assert found == ["module", "class", "method", "inner", "async"]


def test_a_module_that_cannot_be_parsed_is_a_sentence():
    with pytest.raises(Failure, match=r"p/m\.py cannot be parsed"):
        list(docstrings.docstrings_of(b'def f(:\n """x"""', "p/m.py"))


def test_a_package_is_read_in_order_without_repeats_or_imports(tmp_path):
    sentence = "The {} of this package says something in enough words to count."
    for name, body in {
        "b.py": f'raise SystemExit  # never imported\n"""no docstring"""\ndef f():\n    """{sentence.format("B")}"""',
        "a.py": f'"""{sentence.format("A")}\n\n{sentence.format("second paragraph")}\n"""',
        "sub/c.py": f'"""{sentence.format("A").upper()}\n\n{sentence.format("C")}"""',
        "tests/d.py": f'"""{sentence.format("D")}"""',
        "empty.py": "x = 1",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(body)
    found = list(docstrings.package_documents("p", tmp_path, set()))
    assert [document.name for document in found] == ["p/a.py", "p/b.py", "p/sub/c.py"]
    assert found[0].text == f"{sentence.format('A')}\n\n{sentence.format('second paragraph')}"
    assert found[2].text == sentence.format("C")  # the repeat is gone, though its case differs


def words_13(text):
    words = re.findall(r"\w+", text.lower())
    return {hash(tuple(words[at : at + 13])) for at in range(len(words) - 12)}


def leak(train, held_out) -> float:
    """Share of held-out 13-grams (of words) that training has too. Both are lists of sets of 13-grams."""
    known = set().union(*train)
    return sum(len(grams & known) for grams in held_out) / sum(map(len, held_out))


def test_the_split_by_packages_does_not_leak_and_a_random_one_does(kept):
    train, held_out = (docstrings.load(part, kept) for part in ("train", "held-out"))
    texts = [[document.text for document in part.documents] for part in (train, held_out)]
    paragraphs = [[p for text in part for p in text.split("\n\n")] for part in texts]
    grams = [[words_13(paragraph) for paragraph in part] for part in paragraphs]
    assert leak(*grams) <= 0.02

    mixed = grams[0] + grams[1]
    random.Random(0).shuffle(mixed)
    fifth = len(mixed) // 5
    assert leak(mixed[fifth:], mixed[:fifth]) > 0.04

    assert train.characters > 3_000_000
    assert held_out.characters > 500_000
    long = [
        text for text in texts[1] if len(text) > 512 * 5
    ]  # these give 512 tokens with any usual tokenizer
    assert len(long) >= 64
    both = paragraphs[0] + paragraphs[1]
    assert len(both) == len({p.casefold() for p in both})  # repeats are dropped across both parts


def test_parts_are_whole_packages_and_generated_text_is_out(kept):
    def packages(part):
        return {document.name.split("/")[0] for document in docstrings.load(part, kept).documents}

    assert packages("held-out") == set(docstrings.HELD_OUT)
    assert packages("train") == set(docstrings.TRAIN)
    assert not packages("all") & {"plotly", "altair"}
    names = [document.name for document in docstrings.load("all", kept).documents]
    assert not [name for name in names if "/tests/" in name or name.startswith("transformers/models/")]
    assert len(names) == len(set(names))


def test_built_once_and_built_anew_when_damaged(kept, monkeypatch):
    first = docstrings.load("held-out", kept)
    with monkeypatch.context() as patch:
        patch.setattr(docstrings, "build", lambda *rest: pytest.fail("built a second time"))
        assert docstrings.load("held-out", kept) == first
    (path,) = (kept / "corpora").glob("docstrings-held-out-*.json")
    good = path.read_bytes()
    path.write_bytes(good.replace(b"The ", b"An  ", 1))
    assert docstrings.load("held-out", kept) == first
    assert path.read_bytes() == good
    assert canonical_text(first.documents) in good
    assert len(list((kept / "corpora").glob(".*"))) == 0  # no temporary file is left


def test_another_version_is_another_text(kept, monkeypatch, tmp_path):
    before = set((kept / "corpora").glob("docstrings-held-out-*"))
    monkeypatch.setattr(docstrings.metadata, "version", lambda package: "0.0")
    docstrings.load("held-out", kept)
    assert len(set((kept / "corpora").glob("docstrings-held-out-*")) - before) == 1


def test_a_package_that_is_not_installed_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(docstrings, "HELD_OUT", ("pandas", "no_such_package"))
    with pytest.raises(BadData, match=r"no_such_package is not installed.*make install"):
        docstrings.load("held-out", tmp_path)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_packages_are_direct_dependencies_or_come_with_one():
    pinned = (Path(__file__).parents[2] / "requirements.txt").read_text().lower().replace("_", "-")
    unpinned = [
        p for p in (*docstrings.HELD_OUT, *docstrings.TRAIN) if f"{p.replace('_', '-')}==" not in pinned
    ]
    assert not set(docstrings.HELD_OUT) & set(unpinned)  # the default text must not change with a resolver
    assert set(unpinned) <= {"sympy", "networkx"}  # torch brings them
