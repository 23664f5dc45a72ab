"""Tokens a second of models that take turns: reading a prompt at once, and writing one token after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from headviz.types import Watch

TURNS = 3


def take_turns(
    models: Sequence[Any], prompt: Tensor, new: int, watch: Watch
) -> tuple[list[list[float]], list[list[float]]]:
    """(reading, writing): for each model, tokens a second in each of TURNS turns, after one turn that does not count.

    prompt (1, P): token ids, read at once; then `new` tokens follow, the likeliest each time. The models are on one device
    and run as transformers runs them; the machine's other work disturbs all of them alike.
    """
    reading: list[list[float]] = [[] for _ in models]
    writing: list[list[float]] = [[] for _ in models]
    with torch.inference_mode():
        for turn in range(TURNS + 1):
            for number, model in enumerate(models):
                watch.step("timing", turn * len(models) + number, (TURNS + 1) * len(models), "runs")
                read, wrote = _one(model, prompt, new, watch)
                if turn:
                    reading[number].append(prompt.shape[1] / read)
                    writing[number].append(new / wrote)
    return reading, writing


def _one(model: Any, prompt: Tensor, new: int, watch: Watch) -> tuple[float, float]:
    """Seconds to read the prompt, and to write `new` tokens after it."""
    started = _now(prompt)
    kept = DynamicCache(config=model.config)
    seen = model(input_ids=prompt, use_cache=True, cache=kept, logits_to_keep=1)
    read = _now(prompt) - started
    started = _now(prompt)
    for _ in range(new):
        watch.check()
        token = seen.logits[:, -1:].argmax(-1)  # (1, 1)
        seen = model(input_ids=token, use_cache=True, cache=kept)
    return read, _now(prompt) - started


def _now(where: Tensor) -> float:
    """Seconds; what the GPU was asked for is done."""
    if where.device.type == "cuda":
        torch.cuda.synchronize(where.device)
    return time.perf_counter()
