"""Memory is known before loading: parameter counts are exact, and the advice only names what would help."""

from __future__ import annotations

import pytest

from headviz.errors import NotEnoughMemory
from headviz.models import memory
from tests import tiny


@pytest.mark.parametrize("case", tiny.CASES)
def test_parameters_are_counted_exactly(case):
    model = tiny.build(case)
    everything, linear = memory.parameters(model.config)
    assert everything == sum(weight.numel() for weight in model.parameters())
    blocks = [name for name, weight in model.named_parameters() if weight.ndim == 2 and ".0." in name]
    shapes = dict(model.named_parameters())
    assert linear == tiny.LAYERS * sum(shapes[name].numel() for name in blocks)


def test_a_smaller_dtype_and_quantisation_need_less():
    config = tiny.build("llama").config
    need = [
        memory.estimate(config, *how)
        for how in (
            ("float32",),
            ("bfloat16",),
            ("bfloat16", "8bit"),
            ("bfloat16", "4bit"),
        )
    ]
    assert need == sorted(need, reverse=True)
    assert len(set(need)) == 4
    everything, _ = memory.parameters(config)
    assert need[0] - need[1] == 2 * everything


@pytest.mark.parametrize(
    ("device", "share", "said", "unsaid"),
    [
        ("cpu", 1.01, "bfloat16", "4 bits"),  # of what bfloat16 needs
        ("cuda:0", 1.01, "bfloat16 or load it in 8 or 4 bits", ""),
        ("cpu", 0.5, "smaller model", "bfloat16"),
    ],
)
def test_advice_is_only_what_would_help(monkeypatch, device, share, said, unsaid):
    config = tiny.build("llama").config
    free = int(share * memory.estimate(config, "bfloat16"))
    monkeypatch.setattr(memory, "available", lambda device: free)
    with pytest.raises(NotEnoughMemory) as caught:
        memory.check(config, "float32", "none", device, "m")
    assert said in str(caught.value)
    assert not unsaid or unsaid not in str(caught.value)


def test_enough_memory_is_silent(monkeypatch):
    config = tiny.build("llama").config
    monkeypatch.setattr(memory, "available", lambda device: memory.estimate(config, "float32"))
    memory.check(config, "float32", "none", "cpu", "m")


def test_free_gpu_memory_is_summed_for_auto(monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index: (10 + index, 100))
    assert memory.available("auto") == 21
