"""The arms, and where a head's numbers lie in every family, held against the modules themselves."""

import typing

import pytest

from headviz.errors import BadInput, UnknownName
from headviz.models.architectures import FAMILIES, family_of, geometry
from headviz.models.attention import attention_modules
from headviz.surgery.arms import ARMS, in_order
from headviz.surgery.layouts import (
    LAYOUTS,
    has_bias,
    heights_of,
    rows_of,
    trained_numbers,
    treat,
    whole_numbers,
)
from headviz.types import Arm, Geometry
from tests.tiny import CASES, build

BLOOM_1B7 = Geometry(family="bloom", layers=24, heads=16, kv_heads=16, head_dim=128, hidden=2048)
# the heads of the paper's first pass, layer by layer
PASS_1 = {
    5: "14 15", 6: "9 10 11 12 13 14 15", 7: "9 10 11 12 13 14", 8: "11 12 13 14 15", 9: "9 10 11 12 13 14 15",
    10: "9 10 11 12 13 14 15", 11: "10 11 12 13 14 15", 12: "9 10 11 12 13 14 15", 13: "9 10 11 12 13 14 15",
    14: "9 10 11 13 14 15", 15: "9 11 12 14 15", 16: "10 11 12 13 14 15", 17: "9 10 11 12 13 14",
    18: "9 10 11 12 13 14 15", 19: "9 10 11 12 13 14 15", 20: "9 10 11 12 13 14 15", 21: "9 10 11 12 13",
    22: "9 10 11 13 14",
}  # fmt: skip


def shape_of(family, heads=4, kv_heads=2):
    return Geometry(family=family, layers=3, heads=heads, kv_heads=kv_heads, head_dim=8, hidden=32)


def test_every_arm_of_a_request_has_a_row_in_the_same_order():
    assert tuple(ARMS) == typing.get_args(Arm)
    assert in_order(["removed", "repair", "removed"]) == ("repair", "removed")
    with pytest.raises(UnknownName, match="Did you mean 'repair'"):
        in_order(["repairs"])


def test_every_family_has_a_layout():
    assert set(LAYOUTS) == set(FAMILIES)


def test_numbers_of_the_papers_first_pass():
    heads = tuple((layer, int(head)) for layer, several in PASS_1.items() for head in several.split())
    treatment = treat(heads, BLOOM_1B7)
    assert len(heads) == 108
    assert trained_numbers(treatment, bias=True) == 108 * 1_048_960 == 113_287_680
    assert whole_numbers(treatment, bias=True) == 302_100_480
    assert not treatment.notes


@pytest.mark.parametrize("case", CASES)
def test_heights_and_biases_are_those_of_the_modules(case):
    model = build(case)
    shape, module = geometry(model.config), attention_modules(model, family_of(model.config))[0]
    for projection, height in heights_of(shape).items():
        weight = getattr(module, projection).weight
        assert height in weight.shape
        assert shape.hidden in weight.shape
        bias = getattr(module, projection).bias
        assert (bias is not None) == has_bias(model.config) == has_bias(model.config.to_dict())


@pytest.mark.parametrize("family", LAYOUTS)
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_rows_of_all_heads_fill_every_projection_once(family, kv_heads):
    shape = shape_of(family, kv_heads=kv_heads)
    found = [rows_of("q", head, shape) for head in range(4)]
    found += [rows_of(what, group, shape) for what in "kv" for group in range(kv_heads)]
    for projection, height in heights_of(shape).items():
        starts = sorted(one.start for one in found if one.projection == projection)
        assert starts == list(range(0, height, 8))


def test_a_head_of_bloom_is_one_stretch():
    (treated,) = treat(((1, 2),), shape_of("bloom", kv_heads=4)).layers
    assert treated.rows() == {"query_key_value": (48, 56, 64)}
    assert [one.what for one in treated.blocks[0].rows] == ["q", "k", "v"]


def test_shared_keys_and_values_are_treated_only_with_the_whole_group():
    part = treat(((0, 0), (0, 1), (0, 2)), shape_of("llama"))
    assert part.layers[0].rows() == {"q_proj": (0, 8, 16), "k_proj": (0,), "v_proj": (0,)}
    assert [(block.owner, block.number) for block in part.layers[0].blocks] == [
        ("head", 0),
        ("head", 1),
        ("head", 2),
        ("group", 0),
    ]
    assert "L00.H02" in part.notes[0]
    assert "whole groups of 2 heads" in part.notes[0]
    assert not treat(((0, 0), (0, 1)), shape_of("llama")).notes


def test_a_norm_over_all_heads_leaves_values_and_output():
    alone = treat(((0, 1),), shape_of("olmo2", kv_heads=4))
    assert alone.layers[0].rows() == {"v_proj": (8,)}
    assert "norm" in alone.notes[0]
    parted = treat(((0, 1),), shape_of("olmo2"))
    assert parted.layers[0].rows() == {}
    assert parted.layers[0].heads == (1,)
    assert len(parted.notes) == 2
    assert trained_numbers(parted, bias=False) == whole_numbers(parted, bias=False) // 4


@pytest.mark.parametrize(
    ("heads", "says"),
    [
        ((), "No head"),
        (((3, 0),), r"L03\.H00.*3 layers of 4 heads"),
        (((0, -1),), "3 layers of 4 heads"),
        (((0, 1), (0, 1)), r"L00\.H01 twice"),
    ],
)
def test_bad_heads(heads, says):
    with pytest.raises(BadInput, match=says):
        treat(heads, shape_of("llama"))
