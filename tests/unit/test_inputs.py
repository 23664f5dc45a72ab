"""Windows, BOS policies and the chat template, with a small real tokenizer."""

import itertools

import numpy as np
import pytest

from headviz.data import inputs as inputs_module
from headviz.data.documents import Document
from headviz.data.encoding import encoder
from headviz.data.inputs import build_inputs, pieces
from headviz.data.own_text import import_text
from headviz.errors import BadData, BadInput, Cancelled
from headviz.settings import Settings
from headviz.types import DataRef, Silent
from tests import tiny_tokenizer
from tests.tiny_tokenizer import NO_BOS_TEMPLATE, TEMPLATE, TEXT

BOS = 1


@pytest.fixture(scope="module")
def tokenizer():
    return tiny_tokenizer.make(template=TEMPLATE)


@pytest.fixture
def corpus(monkeypatch):
    """Stand-in for what `read_documents` gives."""

    def put(texts):
        documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
        monkeypatch.setattr(inputs_module, "read_documents", lambda ref, settings, watch: iter(documents))

    return put


def ref(corpus="docstrings", **more):
    return DataRef(**{"corpus": corpus, "revision": "0" * 64, "inputs": 4, "tokens": 8, **more})


def made(ref, tokenizer, tmp_path, **more):
    return build_inputs(ref, tokenizer, Settings(home=tmp_path), Silent(), **more)


def plain(tokenizer, text):
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def row(found, number=0):
    return found.tokens[number, : found.lengths[number]].tolist()


def test_documents_give_full_windows_from_their_start_round_by_round(tokenizer, corpus, tmp_path):
    texts = [f"{word} " + TEXT * 3 for word in ("one", "two", "three")]
    corpus([*texts, "short"])
    found = made(ref(inputs=7), tokenizer, tmp_path)
    assert found.tokens.shape == (7, 8)
    assert (found.lengths == 8).all()
    assert found.tokens.dtype == np.int32
    assert set(found.documents[:3]) == {"d0", "d1", "d2"}
    assert found.documents[:3] == found.documents[3:6]
    assert found.cluster.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert found.first_is_bos.all()
    whole = plain(tokenizer, texts[int(found.documents[0][1])])
    assert row(found, 0) == [BOS, *whole[:7]]
    assert row(found, 3) == [BOS, *whole[7:14]]
    assert found.notes == ()


def test_the_seed_decides_the_order_and_nothing_else_does(tokenizer, corpus, tmp_path):
    corpus([f"{number} " + TEXT for number in range(20)])
    orders = [made(ref(inputs=20, seed=seed), tokenizer, tmp_path).documents for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]
    # a golden order: it must not change with versions, machines or hash seeds
    assert orders[0][:6] == tuple(
        f"d{n}" for n in np.random.Generator(np.random.PCG64(0)).permutation(20)[:6]
    )
    assert made(ref(inputs=5), tokenizer, tmp_path).documents == orders[0][:5]


def test_a_long_text_is_tokenised_only_as_far_as_needed_and_the_same(tokenizer):
    text = "".join(f"{TEXT} {number} " for number in range(400))
    whole = plain(tokenizer, text)
    seen = []

    class Counting:
        is_fast, bos_token_id, chat_template = True, BOS, None

        def __call__(self, text, **options):
            seen.append(len(text))
            return tokenizer(text, **options)

    windows = encoder(Counting(), tokens=64, bos="never", chat=False).windows(text)
    first = next(windows)[0]
    assert sum(seen) < len(text) / 10
    found = list(itertools.chain([first], (ids for ids, _ in windows)))
    assert list(itertools.chain(*found)) == whole
    assert sum(seen) < 6 * len(text)


def test_tokens_at_a_cut_inside_a_word_are_not_trusted():
    class Sevens:  # a token is seven characters, so a cut anywhere else makes another last token
        is_fast, bos_token_id = False, None

        def __call__(self, text, **options):
            return {"input_ids": [int(text[at : at + 7], 36) for at in range(0, len(text), 7)]}

    text = "".join(str(number) for number in range(1_000_000, 1_000_400))  # no blank to cut at
    windows = encoder(Sevens(), tokens=1, bos="never", chat=False).windows(text)
    assert [ids[0] for ids, _ in windows] == [int(str(number), 36) for number in range(1_000_000, 1_000_400)]


@pytest.mark.parametrize(
    ("adds_bos", "bos", "first", "is_bos"),
    [
        (True, "tokenizer", [BOS], True),
        (True, "always", [BOS], True),
        (True, "never", [], False),
        (False, "tokenizer", [], False),
        (False, "always", [BOS], True),
        (False, "never", [], False),
    ],
)
def test_bos_policies(adds_bos, bos, first, is_bos, corpus, tmp_path):
    tokenizer = tiny_tokenizer.make(adds_bos=adds_bos)
    corpus([TEXT])
    found = made(ref(inputs=1, bos=bos), tokenizer, tmp_path)
    assert row(found) == [*first, *plain(tokenizer, TEXT)[: 8 - len(first)]]
    assert found.first_is_bos.tolist() == [is_bos]


def test_an_eos_that_the_tokenizer_appends_is_not_fed(corpus, tmp_path):
    tokenizer = tiny_tokenizer.make(appends_eos=True)
    corpus(["the head"])
    assert tokenizer("the head")["input_ids"][-1] == tokenizer.eos_token_id
    found = made(ref("mmlu", inputs=1), tokenizer, tmp_path)
    assert row(found) == [BOS, *plain(tokenizer, "the head")]


def test_no_bos_token_to_put_first(corpus, tmp_path):
    corpus([TEXT])
    tokenizer = tiny_tokenizer.make(has_bos=False)
    with pytest.raises(BadInput, match="no BOS token"):
        made(ref(bos="always"), tokenizer, tmp_path)
    assert not made(ref(bos="tokenizer", inputs=1), tokenizer, tmp_path).first_is_bos.any()


def test_chat_wraps_one_user_turn_without_a_second_bos(tokenizer, corpus, tmp_path):
    corpus(["the head looks"])
    found = made(ref("mmlu", inputs=1, tokens=32, chat=True), tokenizer, tmp_path)
    assert tokenizer.decode(row(found)) == "<s><user>the head looks</s><bot>"
    assert row(found).count(BOS) == 1
    never = made(ref("mmlu", inputs=1, tokens=32, chat=True, bos="never"), tokenizer, tmp_path)
    assert row(never) == row(found)[1:]


def test_chat_puts_a_bos_before_a_template_without_one_when_always(corpus, tmp_path):
    tokenizer = tiny_tokenizer.make(template=NO_BOS_TEMPLATE)
    corpus(["the head looks"])
    found = [
        made(ref("mmlu", inputs=1, tokens=32, chat=True, bos=bos), tokenizer, tmp_path)
        for bos in ("tokenizer", "always")
    ]
    assert not found[0].first_is_bos[0]
    assert row(found[1]) == [BOS, *row(found[0])]


def test_chat_cuts_the_text_and_keeps_the_template_whole(tokenizer, corpus, tmp_path):
    corpus([TEXT * 3])
    found = made(ref(inputs=3, tokens=16, chat=True), tokenizer, tmp_path)
    said = [tokenizer.decode(row(found, number)) for number in range(3)]
    assert all(text.startswith("<s><user>") and text.endswith("</s><bot>") for text in said)
    assert (found.lengths <= 16).all()
    assert found.lengths.max() == 16
    contents = [text.removeprefix("<s><user>").removesuffix("</s><bot>") for text in said]
    assert (TEXT * 3).replace(" ", "").startswith("".join(contents).replace(" ", ""))


def test_chat_shortens_the_text_when_the_template_makes_more_of_it(corpus, tmp_path):
    tokenizer = tiny_tokenizer.make(
        template="<user>{{ messages[0]['content'] }}|{{ messages[0]['content'] }}<bot>"
    )
    corpus([TEXT * 3])
    found = made(ref(inputs=3, tokens=24, chat=True), tokenizer, tmp_path)
    assert (found.lengths <= 24).all()
    said = [tokenizer.decode(row(found, number)) for number in range(3)]
    contents = [text.removeprefix("<user>").removesuffix("<bot>").split("|")[0] for text in said]
    assert all(
        text == f"<user>{content}|{content}<bot>" for text, content in zip(said, contents, strict=True)
    )
    assert (TEXT * 3).startswith("".join(contents))  # what was cut off begins the next input


def test_chat_shortens_to_a_single_token_before_it_gives_up(corpus, tmp_path):
    tokenizer = tiny_tokenizer.make(
        template="{% for _ in range(4) %}{{ messages[0]['content'] }}|{% endfor %}"
    )
    corpus([TEXT])
    found = made(ref(inputs=2, tokens=16, chat=True), tokenizer, tmp_path)  # nine tokens of text would be 40
    assert (found.lengths <= 16).all()


def test_chat_without_a_template_or_with_one_that_refuses(corpus, tmp_path):
    corpus([TEXT])
    with pytest.raises(BadInput, match="no chat template"):
        made(ref(chat=True), tiny_tokenizer.make(), tmp_path)
    refusing = tiny_tokenizer.make(template="{{ raise_exception('system turn first') }}")
    with pytest.raises(BadInput, match=r"does not take a single user turn.*system turn first"):
        made(ref(chat=True), refusing, tmp_path)


def test_items_are_one_input_each_and_cut_off(tokenizer, corpus, tmp_path):
    corpus(["the head", TEXT, "a norm"])
    found = made(ref("mmlu", inputs=3), tokenizer, tmp_path)
    by_name = {name: row(found, number) for number, name in enumerate(found.documents)}
    assert by_name["d0"] == [BOS, *plain(tokenizer, "the head")]
    assert by_name["d1"] == [BOS, *plain(tokenizer, TEXT)[:7]]
    assert found.cluster.tolist() == [0, 1, 2]
    assert (found.tokens[found.lengths[:, None] <= np.arange(8)] == -1).all()
    assert found.notes == ("1 of 3 inputs are longer and are cut off at 8 tokens",)


def test_an_item_of_exactly_the_length_is_not_called_cut_off(tokenizer, corpus, tmp_path):
    ids = plain(tokenizer, TEXT)[:7]
    corpus([tokenizer.decode(ids)])
    assert made(ref("mmlu", inputs=1), tokenizer, tmp_path).notes == ()


def test_own_text_is_cut_from_its_start_and_keeps_its_last_piece(tokenizer, tmp_path):
    own = import_text(TEXT.encode(), "a.txt", settings=Settings(home=tmp_path))
    whole = plain(tokenizer, TEXT)
    count = -(-len(whole) // 7)
    data = ref("own", revision=own.revision, part="all", inputs=50)
    found = made(data, tokenizer, tmp_path)
    assert [i for number in range(count) for i in row(found, number)[1:]] == whole
    assert found.lengths[-1] == 1 + len(whole) - 7 * (count - 1)
    assert found.notes == (f"{count} inputs, 50 were asked for: the text has no more of this length",)
    assert set(found.cluster) == {0}
    start = made(ref("own", revision=own.revision, part="all", inputs=2), tokenizer, tmp_path)
    assert start.notes == ("the text has more than these 2 inputs; its start is used",)
    assert row(start, 0) == row(found, 0)


def test_one_token_is_an_input(tmp_path):
    tokenizer = tiny_tokenizer.make(adds_bos=False)
    own = import_text(b"a", "a.txt", settings=Settings(home=tmp_path))
    found = made(ref("own", revision=own.revision, part="all"), tokenizer, tmp_path)
    assert found.tokens.shape == (1, 1)
    assert found.lengths.tolist() == [1]


def test_fewer_inputs_than_asked_for_are_told(tokenizer, corpus, tmp_path):
    corpus(["the head looks at a norm " * 4])
    found = made(ref(inputs=100), tokenizer, tmp_path)
    assert 0 < len(found.lengths) < 100
    assert found.notes[-1].startswith(f"{len(found.lengths)} inputs, 100 were asked for")


def test_no_input_at_all_is_refused(tokenizer, corpus, tmp_path):
    corpus(["short"])
    with pytest.raises(BadData, match="No document of docstrings, held-out has 100 tokens"):
        made(ref(tokens=100), tokenizer, tmp_path)
    corpus([])
    with pytest.raises(BadData, match="no text in docstrings"):
        made(ref(), tokenizer, tmp_path)


def test_longer_than_the_context_names_both_numbers(tokenizer, corpus, tmp_path):
    corpus([TEXT])
    with pytest.raises(BadInput, match=r"600 tokens.*512 tokens"):
        made(ref(tokens=600), tokenizer, tmp_path, context_length=512)
    assert made(ref(tokens=8), tokenizer, tmp_path, context_length=8).lengths.size


def test_no_room_for_text(tokenizer, corpus, tmp_path):
    corpus([TEXT])
    with pytest.raises(BadInput, match="no room"):
        made(ref(tokens=1), tokenizer, tmp_path)
    with pytest.raises(BadInput, match="no room"):
        made(ref(tokens=4, chat=True), tokenizer, tmp_path)
    assert (made(ref(tokens=1, bos="never"), tokenizer, tmp_path).lengths == 1).all()


def test_arrays_cannot_be_written_to(tokenizer, corpus, tmp_path):
    corpus([TEXT])
    found = made(ref(inputs=1), tokenizer, tmp_path)
    for array in (found.tokens, found.lengths, found.cluster, found.first_is_bos):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_pieces_say_what_is_fed(tokenizer, corpus, tmp_path):
    corpus(["the é norm"])
    found = made(ref("mmlu", inputs=1, tokens=20), tokenizer, tmp_path)
    names = pieces(found.tokens, tokenizer)
    assert [names[str(token)] for token in row(found)[:2]] == ["<s>", "the"]
    assert set(names) == {str(i) for i in row(found)}
    assert "\ufffd" not in "".join(names.values())  # half an é is shown as the vocabulary writes it


def test_a_lone_surrogate_is_refused(tokenizer, corpus, tmp_path):
    corpus(["the head \ud800 looks"])
    with pytest.raises(BadData, match="surrogate"):
        made(ref("mmlu"), tokenizer, tmp_path)


def test_a_cancel_is_heard(tokenizer, corpus, tmp_path):
    corpus([TEXT])

    class Stop(Silent):
        def step(self, *rest):
            raise Cancelled("stop")

    with pytest.raises(Cancelled):
        build_inputs(ref(inputs=1), tokenizer, Settings(home=tmp_path), Stop())
