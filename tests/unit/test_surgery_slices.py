"""Slices on a frozen model: they change what they should, nothing else, and leave nothing behind."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from headviz.models import gate
from headviz.models.architectures import FAMILIES, family_of, geometry
from headviz.models.attention import attention_modules, probe
from headviz.surgery.beside import SlicedOutput, SlicedProjection
from headviz.surgery.layouts import treat
from headviz.surgery.slices import drawn, frozen_hash, sliced, written
from headviz.types import Recipe
from tests.tiny import CASES, build, tokens

WANT = ("sink", "entropy", "output_mean", "full_mean")


def shape_of(model):
    return geometry(model.config)


def statistics(model, ids):
    with torch.inference_mode(), probe(model, want=WANT) as watching:
        return watching.run(ids)  # (B, L, H) each


def logits(model, ids, off=None):
    gates = gate.without(off, shape_of(model).layers, shape_of(model).heads) if off else None
    with torch.inference_mode(), probe(model, want=(), gates=gates) as watching:
        return model.get_output_embeddings()(watching.hidden(ids))


def group_of(model, layer=0, group=0):
    """All query heads of one KV group."""
    size = shape_of(model).heads // shape_of(model).kv_heads
    return tuple((layer, head) for head in range(group * size, (group + 1) * size))


def shake(slices, seed=5):
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in slices.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw).to(parameter))


def test_there_is_a_case_of_every_family():
    assert {family_of(build(case).config).model_type for case in CASES} == set(FAMILIES)


@pytest.mark.parametrize("case", CASES)
def test_installed_as_they_are_slices_change_no_logit(case):
    model = build(case)
    ids, _ = tokens([12, 12])
    modules, state = dict(model.named_modules()), {k: v.clone() for k, v in model.state_dict().items()}
    before, digest = logits(model, ids), frozen_hash(model)
    with sliced(model, treat((*group_of(model), (1, 1)), shape_of(model))) as slices:
        assert torch.allclose(logits(model, ids), before, atol=2e-5)
        assert all(parameter.requires_grad for parameter in slices.parameters())
        shake(slices)
        assert not torch.allclose(logits(model, ids), before, atol=1e-3)
    assert torch.equal(logits(model, ids), before)
    assert dict(model.named_modules()) == modules
    assert all(torch.equal(state[name], value) for name, value in model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert frozen_hash(model) == digest


@pytest.mark.parametrize("case", CASES)
def test_a_treated_head_without_output_leaves_its_neighbours_alone(case):
    model = build(case)
    ids, _ = tokens([12, 12])
    shape, heads = shape_of(model), group_of(model)
    treatment = treat(heads, shape)
    off = [head for _, head in heads]
    others = [head for head in range(shape.heads) if head not in off]
    with sliced(model, treatment) as slices:
        slices.silence()
        silent, before = logits(model, ids), statistics(model, ids)
        slices.reinitialise(0, 1, Recipe())
        after = statistics(model, ids)
        assert torch.equal(logits(model, ids), silent)
        for name in WANT:
            assert np.array_equal(after[name][:, 0, others], before[name][:, 0, others]), name
            assert np.array_equal(after[name][:, 1], before[name][:, 1]), name
        assert not after["full_mean"][:, 0, off].any()
        changed = "output_mean" if family_of(model.config).model_type == "olmo2" else "entropy"
        assert not np.allclose(after[changed][:, 0, off], before[changed][:, 0, off], atol=1e-3)


@pytest.mark.parametrize("case", [case for case in CASES if case != "llama-mha"])
def test_part_of_a_group_leaves_its_neighbours_alone(case):
    model = build(case)
    ids, _ = tokens([12])
    heads = group_of(model)[:1]
    with sliced(model, treat(heads, shape_of(model))) as slices:
        slices.silence()
        before = statistics(model, ids)
        shake_rows = [p for name, p in slices.named().items() if not name.endswith("columns")]
        with torch.no_grad():
            for parameter in shake_rows:
                parameter.normal_()
        after = statistics(model, ids)
    for name in WANT:
        assert np.array_equal(after[name][:, 0, 1:], before[name][:, 0, 1:])
        assert np.array_equal(after[name][:, 1], before[name][:, 1])


@pytest.mark.parametrize("case", CASES)
def test_slices_written_into_the_weights_give_what_slices_give(case):
    model = build(case)
    ids, _ = tokens([12, 12])
    treatment = treat((*group_of(model), (1, 1)), shape_of(model))
    before = frozen_hash(model)
    with sliced(model, treatment) as slices:
        shake(slices)
        ours, state = logits(model, ids), slices.state()
    merged = written(model.state_dict(), state, treatment)
    assert frozen_hash(model) == before
    other = build(case, seed=9)
    other.load_state_dict(merged)
    assert torch.allclose(logits(other, ids), ours, atol=5e-5)


@pytest.mark.parametrize("case", ["bloom", "llama", "gpt2", "phi3", "falcon-groups"])
def test_a_second_pass_lies_on_the_first(case):
    model = build(case)
    ids, _ = tokens([12])
    shape, state, plain = shape_of(model), dict(model.state_dict()), logits(model, ids)
    first, second = treat(group_of(model), shape), treat((*group_of(model), (1, 1)), shape)
    with sliced(model, first) as one:
        shake(one)
        one.freeze()
        after_first = logits(model, ids)
        with sliced(model, second) as two:
            assert torch.allclose(logits(model, ids), after_first, atol=2e-5)
            assert not any(parameter.requires_grad for parameter in one.parameters())
            shake(two, seed=6)
            after_second = logits(model, ids)
            merged = written(written(state, one.state(), first), two.state(), second)
        assert torch.equal(logits(model, ids), after_first)
    assert torch.equal(logits(model, ids), plain)
    other = build(case, seed=9)
    other.load_state_dict(merged)
    assert torch.allclose(logits(other, ids), after_second, atol=5e-5)


def test_an_exception_leaves_nothing_behind():
    model = build("bloom")
    module = attention_modules(model, family_of(model.config))[0].dense

    def broken():
        with sliced(model, treat(((0, 1),), shape_of(model))):
            assert isinstance(attention_modules(model, family_of(model.config))[0].dense, SlicedOutput)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert attention_modules(model, family_of(model.config))[0].dense is module


@pytest.mark.parametrize("case", ["bloom", "llama", "gpt2"])
def test_zeroing_the_treated_heads_gives_the_removed_arm_to_the_last_bit(case):
    model = build(case)
    ids, _ = tokens([12, 12])
    heads = group_of(model)
    with sliced(model, treat(heads, shape_of(model))) as slices:
        slices.silence()
        removed = logits(model, ids)
        slices.reinitialise(3, 1, Recipe())
        assert torch.equal(logits(model, ids), removed)
        shake(slices)
        assert not torch.equal(logits(model, ids), removed)
        assert torch.equal(logits(model, ids, off=list(heads)), removed)
    assert torch.equal(logits(model, ids, off=list(heads)), removed)


@pytest.mark.parametrize(
    ("init", "joint", "case", "rows"),
    [
        ("xavier-uniform", True, "bloom", [24]),
        ("xavier-uniform", False, "bloom", [8, 8, 8]),
        ("xavier-normal", True, "bloom", [24]),
        ("xavier-uniform", True, "llama", [12]),
    ],
)
def test_width_of_the_new_weights(init, joint, case, rows):
    model = build(case)
    shape = shape_of(model)
    treatment = treat(group_of(model), shape)
    recipe = Recipe(init=init, joint=joint)
    block = treatment.layers[0].blocks[0]
    many = torch.stack([drawn(block, 0, treatment, seed, 1, recipe) for seed in range(60)])
    fan = rows[0] + shape.hidden
    if init == "xavier-normal":
        assert many.std().item() == pytest.approx(math.sqrt(2 / fan), rel=0.02)
        assert many.abs().max() > math.sqrt(6 / fan)
    else:
        assert many.abs().max() <= math.sqrt(6 / fan)
        assert many.abs().max().item() == pytest.approx(math.sqrt(6 / fan), rel=0.01)
        assert many.std().item() == pytest.approx(math.sqrt(2 / fan), rel=0.02)


def test_a_whole_group_draws_its_keys_and_values_together():
    model = build("llama")
    treatment = treat(group_of(model), shape_of(model))
    owners = [(block.owner, len(block.rows)) for block in treatment.layers[0].blocks]
    assert owners == [("head", 1), ("head", 1), ("group", 2)]
    shared = drawn(treatment.layers[0].blocks[2], 0, treatment, 0, 1, Recipe())
    assert shared.shape == (24, 48)
    assert shared.abs().max() <= math.sqrt(6 / (24 + 48))


def test_the_bound_is_the_papers():
    assert math.sqrt(6 / (2048 + 3 * 128)) == pytest.approx(0.04967, abs=1e-5)


def test_a_head_gets_the_same_numbers_whichever_others_are_treated():
    model = build("bloom")
    found = []
    for heads in (((1, 2),), ((0, 0), (1, 1), (1, 2))):
        with sliced(model, treat(heads, shape_of(model))) as slices:
            slices.reinitialise(7, 1, Recipe())
            found.append(slices.named()["1.query_key_value.rows"][-24:].detach().clone())
            assert not slices.named()["1.query_key_value.bias"].any()
    assert torch.equal(*found)
    with sliced(model, treat(((1, 2),), shape_of(model))) as slices:
        slices.reinitialise(7, 2, Recipe())
        assert not torch.equal(slices.named()["1.query_key_value.rows"], found[0])


def test_masters_are_float32_over_a_bf16_model_or_not():
    model = build("bloom", torch.bfloat16)
    treatment = treat(((0, 1),), shape_of(model))
    ids, _ = tokens([12])
    before = logits(model, ids)
    for master, dtype in (("float32", torch.float32), ("model", torch.bfloat16)):
        with sliced(model, treatment, master) as slices:
            assert {parameter.dtype for parameter in slices.parameters()} == {dtype}
            assert torch.allclose(logits(model, ids).float(), before.float(), atol=0.15)
            with sliced(model, treatment, master) as again:
                assert {parameter.dtype for parameter in again.parameters()} == {dtype}


class Odd(nn.Module):
    """A linear layer whose weight cannot be read, as a quantised one."""

    def __init__(self, linear):
        super().__init__()
        self.hidden = [linear]
        self.weight = nn.Parameter(torch.zeros(7, 1, dtype=torch.uint8), requires_grad=False)
        self.bias = linear.bias

    def forward(self, x):
        return self.hidden[0](x)


def test_a_quantised_layer_is_called_and_not_read():
    model = build("bloom")
    ids, _ = tokens([12])
    treatment = treat(((0, 1),), shape_of(model))
    with sliced(model, treatment) as slices:
        plain, before = slices.state(), logits(model, ids)
    module = attention_modules(model, family_of(model.config))[0]
    module.query_key_value, module.dense = Odd(module.query_key_value), Odd(module.dense)
    with sliced(model, treatment) as slices:
        for name, tensor in slices.state().items():
            assert torch.allclose(tensor, plain[name], atol=1e-6), name
        assert torch.allclose(logits(model, ids), before, atol=1e-5)
        assert isinstance(module.query_key_value, SlicedProjection)


@pytest.mark.parametrize("case", CASES)
def test_training_leaves_out_what_is_replaced_and_gets_the_same(case, monkeypatch):
    """Outputs and gradients with the layer cut into pieces, and with the layer called whole."""
    found = []
    for pieces in (24, 0):
        monkeypatch.setattr("headviz.surgery.beside._PIECES", pieces)
        model = build(case, torch.float64)
        ids, _ = tokens([12, 12])
        with sliced(
            model, treat((*group_of(model), (1, 1), (1, 3 % shape_of(model).heads)), shape_of(model))
        ) as slices:
            shake(slices)
            with probe(model, want=()) as watching:
                hidden = watching.hidden(ids)
            hidden.square().mean().backward()
            grads = {name: parameter.grad for name, parameter in slices.named().items()}
            found.append((hidden.detach(), grads))
            cut = [module._stretches for module in model.modules() if isinstance(module, SlicedOutput)]
            assert all((one is None) == (pieces == 0) for one in cut)
    assert torch.allclose(found[0][0], found[1][0], rtol=1e-10, atol=1e-12)
    for name, grad in found[0][1].items():
        assert torch.allclose(grad, found[1][1][name], rtol=1e-9, atol=1e-14), name
