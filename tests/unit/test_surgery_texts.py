"""Texts of a repair: disjoint, parted by document, and a noisy counterpart with the same words."""

from collections import Counter

import numpy as np
import pytest

from headviz.data.documents import Document
from headviz.data.inputs import Inputs
from headviz.errors import BadInput
from headviz.surgery.texts import GRAM, halves, parted, read_texts, shared_grams, shuffled, subset
from headviz.types import Silent
from tests.tiny_repair import Bench, documents


def inputs_of(clusters):
    N = len(clusters)
    return Inputs(
        np.arange(3 * N, dtype=np.int32).reshape(N, 3), np.full(N, 3, np.int32), tuple(f"d{c}" for c in clusters),
        np.array(clusters, np.int32), np.zeros(N, bool),
    )  # fmt: skip


def test_shuffling_keeps_the_words_of_every_paragraph():
    text = "one two three four five six\nseven\n\nand eight nine ten eleven twelve"
    mixed = shuffled(Document("d", text), 0)
    assert mixed.text != text
    before, after = text.split("\n\n"), mixed.text.split("\n\n")
    assert [Counter(part.split()) for part in after] == [Counter(part.split()) for part in before]
    assert mixed == shuffled(Document("d", text), 0)
    assert mixed != shuffled(Document("d", text), 1)
    assert mixed.text != shuffled(Document("e", text), 0).text


def test_held_out_documents_are_parted_in_turn():
    select, report = parted(inputs_of([4, 4, 0, 2, 0, 9]))
    assert report.documents == ("d4", "d4", "d2")
    assert select.documents == ("d0", "d0", "d9")
    assert select.cluster.tolist() == [0, 0, 1]
    with pytest.raises(BadInput, match="one document"):
        parted(inputs_of([3, 3]))


def test_halves_of_the_diagnostic_text():
    assert [half.tolist() for half in halves(inputs_of([1, 1, 0, 2]))] == [[0, 1, 3], [2]]
    assert [half.tolist() for half in halves(inputs_of([1, 1, 1]))] == [[0, 2], [1]]
    assert [half.tolist() for half in halves(inputs_of([1]))] == [[0], []]


def test_a_subset_keeps_what_belongs_to_its_inputs():
    some = subset(inputs_of([5, 7, 5]), np.array([2, 1]))
    assert some.tokens.tolist() == [[6, 7, 8], [3, 4, 5]]
    assert some.documents == ("d5", "d7")
    assert some.cluster.tolist() == [0, 1]


def grams_by_hand(texts):
    return [
        tuple(words[i : i + GRAM]) for words in map(str.split, texts) for i in range(len(words) - GRAM + 1)
    ]


def test_share_of_common_grams_against_a_slow_count():
    train, asked = documents(5, 1), documents(3, 2)
    asked[1] = asked[1][:100] + " " + train[2] + " " + asked[1][100:]
    known = set(grams_by_hand(train))
    wanted = grams_by_hand(asked)
    share = sum(gram in known for gram in wanted) / len(wanted)
    assert 0.1 < share < 0.5
    found = shared_grams([Document("a", text) for text in train], [Document("b", text) for text in asked])
    assert found == pytest.approx(share)
    assert shared_grams([], [Document("b", asked[0])]) == 0
    assert shared_grams([Document("a", train[0])], [Document("b", "too short")]) == 0


def read(bench, **changes):
    return read_texts(bench.plan(**changes), bench.loaded.tokenizer, bench.settings, Silent(), None)


def test_a_plan_gets_its_texts(tmp_path):
    bench = Bench(tmp_path)
    texts = read(bench)
    assert texts.train.tokens.shape == (12, 24)
    assert set(texts.select.documents).isdisjoint(texts.report.documents)
    assert len(texts.select.lengths) + len(texts.report.lengths) == 12
    assert texts.shared == 0
    assert read(bench, other=None).other is None


def test_a_shuffled_plan_trains_on_other_windows_and_is_compared_by_the_true_text(tmp_path):
    bench = Bench(tmp_path)
    plain, noisy = read(bench), read(bench, shuffled=True)
    assert not np.array_equal(plain.train.tokens, noisy.train.tokens)
    assert np.array_equal(plain.report.tokens, noisy.report.tokens)
    assert noisy.shared == plain.shared


def test_a_document_in_both_is_refused_by_its_text(tmp_path):
    bench = Bench(tmp_path)
    with pytest.raises(BadInput, match=r"in the training text and in the held-out text"):
        read(bench, held_out=bench.text(9, 1))  # the same eight documents and one more: another revision


def test_too_few_windows_name_what_a_step_reads(tmp_path):
    bench = Bench(tmp_path)
    with pytest.raises(BadInput, match="gives 2 windows of 24 tokens, and one optimiser step reads 4"):
        read(bench, train=bench.text(1, 8, inputs=2))
