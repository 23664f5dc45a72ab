"""Tokens a second of models that take turns: reading a prompt at once, and writing one token after another."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from headviz.types import Watch

TURNS = 5


def take_turns(
    models: Sequence[Any], prompt: Tensor, new: int, watch: Watch
) -> tuple[list[list[float]], list[list[float]]]:
    """(reading, writing): for each model, tokens a second in each of TURNS turns, after one turn that does not count.

    prompt (1, P): token ids, read at once; then `new` tokens follow, the likeliest each time. The models are on one device
    and run as transformers runs them. They take turns token by token, and who comes first changes, so that the machine's
    other work disturbs all of them alike.
    """
    reading: list[list[float]] = [[] for _ in models]
    writing: list[list[float]] = [[] for _ in models]
    with torch.inference_mode():
        for turn in range(TURNS + 1):
            watch.step("timing", turn, TURNS + 1, "turns")
            order = range(len(models)) if turn % 2 else reversed(range(len(models)))
            read, wrote = _turn(models, list(order), prompt, new, watch)
            for number in range(len(models)) if turn else ():
                reading[number].append(prompt.shape[1] / read[number])
                writing[number].append(new / wrote[number])
    return reading, writing


def _turn(
    models: Sequence[Any], order: list[int], prompt: Tensor, new: int, watch: Watch
) -> tuple[list[float], list[float]]:
    """For each model, seconds to read the prompt, and to write `new` tokens after it."""
    read, wrote = [0.0] * len(models), [0.0] * len(models)
    caches = [DynamicCache(config=model.config) for model in models]
    tokens: list[Any] = [None] * len(models)

    def run(number: int, ids: Tensor) -> float:
        watch.check()
        started = _now(prompt)
        seen = models[number](input_ids=ids, use_cache=True, cache=caches[number], logits_to_keep=1)
        tokens[number] = seen.logits[:, -1:].argmax(-1)  # (1, 1)
        return _now(prompt) - started

    for number in order:
        read[number] = run(number, prompt)
    for _ in range(new):
        for number in order:
            wrote[number] += run(number, tokens[number])
    return read, wrote


def _now(where: Tensor) -> float:
    """Seconds; what the GPU was asked for is done."""
    if where.device.type == "cuda":
        torch.cuda.synchronize(where.device)
    return time.perf_counter()
