"""Prompts: the texts and the tokens, as lm-evaluation-harness makes them."""

import numpy as np
import pytest

from headviz.data.items import Item
from headviz.data.prompts import build_rows
from headviz.data.questions import Questions
from headviz.errors import BadInput
from headviz.types import QuestionsRef
from tests import tiny_tokenizer

EXAMPLE = Item("Is the head there? ", ("yes", "no", "perhaps", "so"), 1, "a_head", 0)
ASKED = Item(" What is the token", ("the first", "the head", "a norm", "an output"), 2, "a_head", 3)
QUESTIONS = Questions((ASKED,), {"a_head": (EXAMPLE,)})
LETTERS = (
    "The following are multiple choice questions (with answers) about a head.\n\n"
    "Is the head there?\nA. yes\nB. no\nC. perhaps\nD. so\nAnswer: B\n\n"
    "What is the token\nA. the first\nB. the head\nC. a norm\nD. an output\nAnswer:"
)
TEXTS = "Question: Is the head there?\nAnswer: no\n\nQuestion: What is the token\nAnswer:"


class Bytes:
    """A tokenizer whose tokens are bytes, and whose chat template ends in blanks."""

    bos_token_id = None
    chat_template = "here"

    def __call__(self, texts, **_):
        if isinstance(texts, str):
            return {"input_ids": list(texts.encode())}
        return {"input_ids": [list(text.encode()) for text in texts], "offset_mapping": None}

    def apply_chat_template(self, turns, **_):
        self.turns = turns
        return "".join(f"[{turn['role']}]{turn['content']}" for turn in turns) + "[assistant] \n"


def ask(**changes):
    return QuestionsRef(source="own", revision="0" * 64, subjects=("a_head",), shots=1, **changes)


def ids(tokenizer, text):
    return tuple(tokenizer(text, add_special_tokens=False)["input_ids"])


def test_letters_share_one_row():
    (row,) = build_rows(QUESTIONS, ask(), Bytes())  # every letter is the tokens of a blank and of itself
    assert bytes(row.tokens).decode() == LETTERS + " "
    assert not row.cut
    assert [(read.choice, bytes(read.targets)) for read in row.reads] == [
        (0, b" A"),
        (1, b" B"),
        (2, b" C"),
        (3, b" D"),
    ]


def test_answers_are_cut_where_the_prompt_alone_would_end():
    tokenizer = tiny_tokenizer.make()
    rows = build_rows(QUESTIONS, ask(), tokenizer)
    before = ids(tokenizer, LETTERS)
    found = {read.choice: (row.tokens, read.targets) for row in rows for read in row.reads}
    assert sorted(found) == [0, 1, 2, 3]
    for choice, (tokens, targets) in found.items():
        whole = ids(tokenizer, f"{LETTERS} {'ABCD'[choice]}")
        assert (*tokens, targets[-1]) == whole
        assert targets == whole[len(before) :]


def test_answer_texts_follow_a_prompt_without_choices():
    tokenizer = tiny_tokenizer.make()
    rows = build_rows(QUESTIONS, ask(scoring="text"), tokenizer)
    found = {read.choice: (row.tokens, read.targets) for row in rows for read in row.reads}
    assert sorted(found) == [0, 1, 2, 3]
    for choice, (tokens, targets) in found.items():
        assert (*tokens, targets[-1]) == ids(tokenizer, f"{TEXTS} {ASKED.choices[choice]}")
        assert tokenizer.decode(targets) == f" {ASKED.choices[choice]}"


@pytest.mark.parametrize(("bos", "starts"), [("never", False), ("tokenizer", True), ("always", True)])
def test_bos(bos, starts):
    tokenizer = tiny_tokenizer.make()
    row = build_rows(QUESTIONS, ask(bos=bos), tokenizer)[0]
    assert (row.tokens[0] == tokenizer.bos_token_id) is starts
    assert ids(tokenizer, LETTERS) == row.tokens[starts : starts + len(ids(tokenizer, LETTERS))]


def test_too_long_prompts_lose_their_beginning():
    tokenizer = tiny_tokenizer.make()
    whole = build_rows(QUESTIONS, ask(), tokenizer)[0]
    row = build_rows(QUESTIONS, ask(), tokenizer, context_length=40)[0]
    assert row.cut
    assert row.tokens == whole.tokens[-40:]
    assert row.reads == whole.reads
    with pytest.raises(BadInput, match="has 10 tokens, and the model's context is 9"):
        build_rows(QUESTIONS, ask(scoring="text"), Bytes(), context_length=9)


def test_chat_turns_and_blanks_at_the_end():
    tokenizer = Bytes()
    (row,) = build_rows(QUESTIONS, ask(chat=True), tokenizer)
    roles = [turn["role"] for turn in tokenizer.turns]
    assert roles == ["system", "user", "assistant", "user"]
    assert tokenizer.turns[0]["content"].endswith("about a head.\n\n")
    assert tokenizer.turns[2]["content"] == "B"
    # the blanks after the last turn belong to the answer
    assert [bytes(read.targets) for read in row.reads] == [b" \nA", b" \nB", b" \nC", b" \nD"]
    assert bytes(row.tokens).endswith(b"Answer:[assistant] \n")


def test_no_chat_template():
    with pytest.raises(BadInput, match="has no chat template"):
        build_rows(QUESTIONS, ask(chat=True), tiny_tokenizer.make())


def test_every_question_is_asked_in_order():
    many = tuple(Item(f"What is {i}", ("a", "b"), 0, "a_head", i) for i in range(5))
    rows = build_rows(Questions(many, {"a_head": (EXAMPLE,)}), ask(), Bytes())
    assert [row.reads[0].question for row in rows] == list(range(5))
    assert np.all([len(row.reads) == 2 for row in rows])
