"""The paper's presets: the counts that it reports come out of its lists and of our layouts."""

import pytest
import torch
from transformers import AutoModelForCausalLM, BloomConfig

from headviz.errors import BadInput, UnknownName
from headviz.models.architectures import geometry
from headviz.surgery import paper
from headviz.surgery.layouts import has_bias, trained_numbers, treat, whole_numbers
from headviz.surgery.rules import parse
from headviz.surgery.train import rate_at

CONFIG = BloomConfig(hidden_size=2048, n_layer=24, n_head=16, vocab_size=250_880)


@pytest.mark.parametrize(("heads", "count"), [(paper.PASS_1, 108), (paper.PASS_2, 39), (paper.COLUMN, 126)])
def test_counts(heads, count):
    assert len(heads) == len(set(heads)) == count


def test_pass_1_by_index_and_by_layer():
    assert [sum(head == h for _, head in paper.PASS_1) for h in range(9, 16)] == [14, 15, 17, 15, 16, 17, 14]
    assert {layer for layer, _ in paper.PASS_1} == set(range(5, 23))
    assert 18 * 7 - 108 == 18, "in-band heads that stay"
    assert not set(paper.PASS_1) & set(paper.PASS_2), "what was operated on once is frozen"


def test_bloom_1b7_trains_113_million_numbers_and_not_302():
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32)
    shape = geometry(model.config)
    treatment = treat(paper.heads_for(paper.preset("bloom-1b7-pass-1"), shape), shape)
    bias = has_bias(model.config)
    assert trained_numbers(treatment, bias) == 113_287_680
    assert whole_numbers(treatment, bias) == 302_100_480
    # the matrices, counted in the skeleton itself
    whole = 0
    for treated in treatment.layers:
        attention = model.transformer.h[treated.layer].self_attention
        whole += attention.query_key_value.weight.numel() + attention.query_key_value.bias.numel()
        whole += attention.dense.weight.numel()
    assert whole == 302_100_480
    second = treat(paper.PASS_2, shape)
    assert trained_numbers(second, bias) == 40_909_440  # the paper's "40M"


@pytest.mark.parametrize("row", paper.PRESETS.values(), ids=paper.PRESETS)
def test_every_preset_is_whole(row):
    assert bool(row.heads) != bool(row.rule)
    assert row.published
    assert row.source == paper.PAPER
    assert 0 < row.every <= row.steps
    if row.rule:
        assert parse(row.rule)
        assert "no list of heads" in row.help


def test_another_shape_is_refused_with_a_sentence():
    small = geometry(BloomConfig(hidden_size=64, n_layer=2, n_head=4))
    with pytest.raises(BadInput, match="24 layers of 16 heads; this model is a bloom with 2 layers of 4"):
        paper.heads_for(paper.preset("bloom-1b7-pass-1"), small)
    with pytest.raises(UnknownName):
        paper.preset("bloom-176b")


def test_released_checkpoints():
    assert list(paper.RELEASED) == ["pass1_e3", "pass2_e1", "c4_baseline_e3", "h5_step42"]
    assert len(paper.RELEASED["pass2_e1"].heads) == 147
    assert paper.fits("bigscience/bloom-1b7", paper.preset("bloom-1b7-pass-1"))
    assert not paper.fits("bigscience/bloom-560m", paper.preset("bloom-1b7-pass-1"))


@pytest.mark.parametrize(
    ("name", "warmup", "theirs"),
    [("bloom-1b7-pass-1", 99, "94.0%"), ("bloom-1b7-pass-2", 33, "99.9%"), ("bloom-1b7-column", 35, None)],
)
def test_how_the_rate_differs_from_the_papers_is_said_in_words(name, warmup, theirs):
    row = paper.preset(name)
    said = " ".join(row.doubts)
    rates = [rate_at(step, row.steps, row.recipe) for step in range(row.steps + 1)]
    assert rates.index(max(rates)) == warmup
    assert rates[-1] == pytest.approx(0)
    assert f"Here, in {row.steps} steps, it rises for {warmup} and has fallen to 0 at the last." in said
    assert "100 steps" in said, "those of the paper"
    if theirs:
        planned = rate_at(row.steps, 1980, row.recipe) / row.recipe.rate
        assert f"{100 * planned:.1f}%" == theirs
        assert (
            f"over about 1,980 planned ones, so that at step {row.steps} it is still {theirs} of the" in said
        )
