"""The bundled model: its known answers, and bf16 against transformers' own eager attention on the same inputs."""

import logging

import numpy as np
import pytest
import torch

from headviz.data import corpora
from headviz.data.inputs import build_inputs
from headviz.models import catalog, fused, loading
from headviz.models.attention import probe
from headviz.models.selfcheck import self_check
from headviz.settings import Settings
from headviz.types import Silent

pytestmark = pytest.mark.slow
N, T = 4, 256


@pytest.fixture(scope="module")
def model_and_ids(tmp_path_factory):
    """The bundled model in float32, and four inputs of 256 tokens of held-out docstrings."""
    here = Settings(home=tmp_path_factory.mktemp("bundled"))
    loaded = loading.load(
        catalog.resolve("smollm2", dtype="float32", settings=here), device="cpu", settings=here
    )
    ref = corpora.resolve("docstrings", inputs=N, tokens=T, settings=here)
    inputs = build_inputs(ref, loaded.tokenizer, here, Silent())
    return loaded.model, torch.from_numpy(inputs.tokens.astype("int64"))


@pytest.fixture(scope="module")
def exact(model_and_ids):
    model, ids = model_and_ids
    with torch.inference_mode(), probe(model) as watching:
        return watching.run(ids)


def test_known_answers_on_technical_prose_in_float32(model_and_ids, exact):
    model, ids = model_and_ids
    with torch.inference_mode(), probe(model, want=()):
        loss = model(ids, labels=ids).loss.item()
    assert loss == pytest.approx(3.7, abs=0.5)  # nats a token
    assert exact["sink"].shape == (N, 30, 9)
    assert (exact["sink"].mean(0) > 0.5).sum() == pytest.approx(90, abs=12)


@pytest.mark.parametrize("native", [True, False], ids=["bf16 attention", "float32 attention"])
def test_bf16_is_as_near_to_stock_bf16_as_was_promised(model_and_ids, exact, native, monkeypatch):
    """Every head's mean AWFT within 0.01 and entropy within 0.02 nats of stock bf16 eager; the distance to float32 is logged."""
    monkeypatch.setattr(fused, "low_precision_pays", lambda: native)
    model, ids = model_and_ids
    low = type(model)._from_config(model.config, dtype=torch.bfloat16).eval()
    low.load_state_dict(model.state_dict())
    awft, entropy = stock(low, ids)
    with torch.inference_mode(), probe(low) as watching:
        ours = watching.run(ids)
    errors = self_check(low, ids[0])
    for name, reference, bound in (("sink", awft, 0.01), ("entropy", entropy, 0.02)):
        to_stock = np.abs(ours[name].mean(0) - reference).max()
        to_float32 = np.abs(ours[name].mean(0) - exact[name].mean(0)).max()
        stock_to_float32 = np.abs(reference - exact[name].mean(0)).max()
        told = (
            f"{to_stock:.4f} to stock bf16, {to_float32:.4f} to float32 (stock bf16: {stock_to_float32:.4f})"
        )
        logging.getLogger(__name__).info("worst head's mean %s: %s", name, told)
        assert to_stock < bound, name
    assert errors["entropy"] < 0.01
    assert errors["awft"] < 0.001


def stock(model, ids):
    """(L, H) mean AWFT and entropy of stock eager attention, from the matrices it returns."""
    model.set_attn_implementation("eager")
    sinks, entropies = [], []
    with torch.inference_mode():
        for row in ids:
            attentions = model.base_model(
                input_ids=row[None], use_cache=False, output_attentions=True
            ).attentions
            A = torch.cat(attentions).double()  # (L, H, T, T)
            sinks.append(A[..., 0].mean(-1))
            entropies.append(torch.special.entr(A).sum(-1).mean(-1))
    return torch.stack(sinks).mean(0).numpy(), torch.stack(entropies).mean(0).numpy()
