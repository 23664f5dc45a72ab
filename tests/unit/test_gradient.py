"""The gradient order against finite differences of a slow loss in float64."""

import numpy as np
import pytest
import torch

from headviz.analysis.gradient import gradient_order
from headviz.data.inputs import Inputs
from headviz.errors import BadInput, Cancelled
from headviz.models.architectures import FAMILIES, family_of, geometry
from headviz.models.loading import Loaded
from headviz.types import ModelRef, Silent
from tests import tiny

MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")
LENGTHS = [14, 9, 1, 6]


def make_loaded(case, dtype=torch.float64):
    model = tiny.build(case, dtype)
    return Loaded(MODEL, model, None, geometry(model.config), family_of(model.config), "cpu")


def make_inputs(lengths):
    ids, _ = tiny.tokens(lengths)
    beyond = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    names = tuple(f"text {i}" for i in range(len(lengths)))
    return Inputs(
        ids.masked_fill(beyond, -1).int().numpy(), np.array(lengths, np.int32), names,
        np.arange(len(lengths)), np.zeros(len(lengths), bool),
    )  # fmt: skip


def slow_loss(model, ids, layer, head, factor):
    """Mean next-token loss of one input (T,) with one head's output scaled before W_O, in the stock model."""
    family, D = FAMILIES[model.config.model_type], geometry(model.config).head_dim
    module = model.get_submodule(family.layers)[layer]
    projection = getattr(getattr(module, family.attention), family.output)

    def scale(_module, args):
        x = args[0].clone()
        x[..., head * D : (head + 1) * D] *= factor
        return (x, *args[1:])

    handle = projection.register_forward_pre_hook(scale)
    with torch.no_grad():
        scores = model(ids[None]).logits[0].log_softmax(-1)
    handle.remove()
    return -scores[:-1].gather(1, ids[1:, None]).mean().item()


@pytest.mark.parametrize("case", ["llama", "gpt2", "bloom", "gemma2"])
def test_finite_differences_input_by_input(case):
    loaded, inputs = make_loaded(case), make_inputs(LENGTHS)
    found = gradient_order(loaded, inputs, Silent())
    shape, step = loaded.geometry, 2e-3  # parts of the families compute in float32 whatever they are given
    expected = np.zeros((shape.layers, shape.heads))
    for layer in range(shape.layers):
        for head in range(shape.heads):
            steep = []
            for row, n in zip(inputs.tokens, inputs.lengths, strict=True):
                if n < 2:
                    continue
                ids = torch.from_numpy(row[:n].astype(np.int64))
                up, down = (slow_loss(loaded.model, ids, layer, head, 1 + s) for s in (step, -step))
                steep.append(abs(up - down) / (2 * step))
            expected[layer, head] = np.mean(steep)
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=5e-4)


def test_nothing_of_the_model_wants_a_gradient_afterwards():
    loaded = make_loaded("llama", torch.float32)
    before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    gradient_order(loaded, make_inputs([9, 5]), Silent())
    assert all(torch.equal(value, before[name]) for name, value in loaded.model.state_dict().items())
    assert not any(weight.requires_grad or weight.grad is not None for weight in loaded.model.parameters())


def test_inputs_of_one_token_have_no_loss():
    with pytest.raises(BadInput, match="No input has a second token"):
        gradient_order(make_loaded("llama"), make_inputs([1, 1]), Silent())


def test_a_cancel_is_heard():
    class Stop(Silent):
        def check(self):
            raise Cancelled("somebody asked to stop")

    with pytest.raises(Cancelled):
        gradient_order(make_loaded("llama"), make_inputs([5]), Stop())
