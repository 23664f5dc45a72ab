"""How much memory a model takes, known from its config before anything is downloaded or read."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from headviz import machine
from headviz.errors import NotEnoughMemory

_BYTES = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
_QUANTIZED = {"8bit": 1.0, "4bit": 0.5625}  # 4 bits, and a float32 scale for each 64 numbers
_TOKENS = 4096  # tokens of one batch
_ACTIVATIONS = 6  # (tokens, M) arrays alive at once in a layer, and two as wide as its MLP


def parameters(config: Any) -> tuple[int, int]:
    """(all, in linear layers of the blocks): exact counts, from a model of `config` without any storage.

    Tied weights count once. The second number is what quantisation makes smaller.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.pytorch_utils import Conv1D

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
    head = model.get_output_embeddings()
    everything = sum(weight.numel() for weight in model.parameters())
    linear = sum(
        module.weight.numel()
        for module in model.modules()
        if isinstance(module, torch.nn.Linear | Conv1D) and module is not head
    )
    return everything, linear


def estimate(config: Any, dtype: str, quantization: str = "none") -> int:
    """Bytes that a model of `config` needs to be scored: its weights, and the work on one batch."""
    everything, linear = parameters(config)
    small = linear if quantization != "none" else 0
    weights = (everything - small) * _BYTES[dtype] + small * _QUANTIZED.get(quantization, 0.0)
    hidden = config.hidden_size
    wide = getattr(config, "intermediate_size", None) or getattr(config, "ffn_dim", None) or 4 * hidden
    working = _TOKENS * (_ACTIVATIONS * hidden + 2 * wide) * 4  # statistics are float32 whatever the dtype
    return int(weights + working)


def available(device: str) -> int:
    """Bytes free where the model would go: main memory for cpu, else the GPU's; all GPUs' for `auto`."""
    if device == "cpu":
        return machine.memory()[1]
    import torch

    if device == "auto":
        return sum(torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count()))
    with torch.cuda.device(device) if torch.cuda.is_available() else nullcontext():
        return torch.cuda.mem_get_info(device)[0]


def check(config: Any, dtype: str, quantization: str, device: str, label: str) -> None:
    """Raises NotEnoughMemory, with the numbers and what to do, where the model would not fit on `device`."""
    need, free = estimate(config, dtype, quantization), available(device)
    if need <= free:
        return
    where = "main memory" if device == "cpu" else "GPU memory"
    advice = []
    if dtype == "float32" and estimate(config, "bfloat16", quantization) <= free:
        advice.append("choose bfloat16")
    if device != "cpu" and quantization == "none" and estimate(config, dtype, "4bit") <= free:
        advice.append("load it in 8 or 4 bits")
    advice.append("choose a smaller model, or free some memory")
    raise NotEnoughMemory(
        f"{label} needs about {need / 1e9:.1f} GB in {dtype}{'' if quantization == 'none' else ' ' + quantization}, "
        f"and {free / 1e9:.1f} GB of {where} are free. Either {' or '.join(advice)}."
    )
