"""One measurement of the surgery benchmark, in a process of its own; prints JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from headviz.models import steady

if sys.argv[1:2] == ["peak"]:
    # every block comes from the system and goes back to it, or steps would be charged for holes that loading left
    if mallopt := steady.mallopt():
        mallopt(steady.MMAP_THRESHOLD, 128 * 1024)
else:
    steady.steady_memory()  # before torch, as the worker does

import numpy as np
import torch
from torch import nn

from headviz.data.inputs import Inputs
from headviz.models.architectures import family_of, geometry
from headviz.models.attention import probe
from headviz.models.loading import Loaded
from headviz.surgery.layouts import treat
from headviz.surgery.meter import Meter
from headviz.surgery.slices import Slices, sliced
from headviz.surgery.train import Trainer, rate_at, windows_of
from headviz.types import ModelRef, Recipe, Silent
from tests.bench.score_child import peak

V, N = 16_384, 8  # vocabulary, and windows
RECIPE = Recipe(rate=5e-5, batch=1, accumulate=2, warmup=0)
STEPS, METER = 100, Meter(Silent(), 0)


class Setting:
    """A model of BLOOM's shape, its windows, and the heads to treat."""

    def __init__(self, layers: int, heads: int, width: int, tokens: int) -> None:
        from transformers import AutoModelForCausalLM, BloomConfig

        torch.manual_seed(0)
        config = BloomConfig(vocab_size=V, hidden_size=width, n_head=heads, n_layer=layers)
        self.model = (
            AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval().requires_grad_(False)
        )
        draw = np.random.Generator(np.random.PCG64(0))
        self.windows = Inputs(
            draw.integers(V, size=(N, tokens), dtype=np.int32), np.full(N, tokens, np.int32), ("random",) * N,
            np.zeros(N, np.int32), np.zeros(N, bool),
        )  # fmt: skip
        ref = ModelRef(source="bundled", name="random", revision="0" * 64, dtype="float32")
        self.loaded = Loaded(ref, self.model, None, geometry(config), family_of(config), "cpu")
        # the paper: three quarters of the layers, and six heads of sixteen in each
        some = range(layers // 8, layers // 8 + layers * 3 // 4)
        self.treatment = treat(
            tuple((layer, head) for layer in some for head in range(heads * 9 // 16, heads * 15 // 16)),
            self.loaded.geometry,
        )
        self.undo = ExitStack()


def ours(setting: Setting) -> tuple[Callable[[], float], Callable[[], dict[str, int]]]:
    """(a step → its loss, bytes that are held)."""
    slices = setting.undo.enter_context(sliced(setting.model, setting.treatment))
    slices.reinitialise(0, 1, RECIPE)
    trainer = Trainer(setting.loaded, slices, RECIPE, STEPS, setting.windows, seed=0)
    return lambda: trainer.train_until(trainer.step + 1, METER).train_loss, lambda: _held(
        slices.parameters(), trainer._optimiser
    )


def naive(
    setting: Setting, *, our_attention: bool = False
) -> tuple[Callable[[], float], Callable[[], dict[str, int]]]:
    """The paper's code: whole matrices want gradients, hooks mask them, AdamW holds all of them."""
    model = setting.model
    with sliced(model, setting.treatment) as slices:
        slices.reinitialise(0, 1, RECIPE)
        fresh, masks = slices.state(), _masks(setting, slices)
    parameters = []
    with torch.no_grad():
        for name, (path, mask) in masks.items():
            parameter = model.get_parameter(path)
            parameter[mask] = fresh[name].flatten()
            parameters.append(parameter)
    for parameter, (_, mask) in zip(parameters, masks.values(), strict=True):
        parameter.requires_grad_(True)
        parameter.register_hook(partial(torch.mul, mask.float()))
    optimiser = torch.optim.AdamW(parameters, lr=RECIPE.rate, weight_decay=0.0)
    done = 0

    def step() -> float:
        nonlocal done
        optimiser.zero_grad(set_to_none=True)
        total = 0.0
        with ExitStack() as stack:
            if our_attention:
                stack.enter_context(probe(model, want=()))
            for row in windows_of(done, RECIPE.accumulate, N, 0).tolist():
                ids = torch.from_numpy(setting.windows.tokens[row : row + 1].astype(np.int64))
                loss = model(input_ids=ids, labels=ids, use_cache=False).loss / RECIPE.accumulate
                loss.backward()
                total += loss.item()
        nn.utils.clip_grad_norm_(parameters, RECIPE.clip)
        optimiser.param_groups[0]["lr"] = rate_at(done, STEPS, RECIPE)
        optimiser.step()
        done += 1
        return total

    return step, lambda: _held(parameters, optimiser)


WAYS = {"ours": ours, "naive": naive}


def _masks(setting: Setting, slices: Slices) -> dict[str, tuple[str, torch.Tensor]]:
    """Name of a slice → (path of the matrix that it is part of, which numbers of it)."""
    found = {}
    for name, parameter in slices.named().items():
        layer, projection, part = name.split(".")
        module = setting.model.transformer.h[int(layer)].self_attention.get_submodule(projection)
        whole = module.frozen.bias if part == "bias" else module.frozen.weight
        mask = torch.zeros(whole.shape, dtype=torch.bool)
        if part == "columns":
            mask[:, module.index] = True
        else:
            mask[module.index] = True
        kind = "bias" if part == "bias" else "weight"
        found[name] = (f"transformer.h.{layer}.self_attention.{projection}.{kind}", mask)
        if parameter.numel() != int(mask.sum()):
            raise SystemExit(f"{name} and its mask differ")
    return found


def _held(parameters: list[Any], optimiser: torch.optim.Optimizer) -> dict[str, int]:
    """Bytes of gradients and moments, and with what is trained."""
    tensors = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        moments = optimiser.state[parameter]
        tensors += [moments["exp_avg"], moments["exp_avg_sq"]]
    counted = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    mine = sum(parameter.numel() * parameter.element_size() for parameter in parameters)
    return {"optimiser": counted, "all": counted + mine}


def held(way: str, *shape: str) -> dict[str, int]:
    setting = Setting(*map(int, shape))
    step, bytes_held = WAYS[way](setting)
    step()
    return bytes_held()


def peak_of(way: str, *shape: str) -> float:
    setting = Setting(*map(int, shape))
    step, _ = WAYS[way](setting)

    def two() -> None:
        step()
        step()

    return peak(two)


def times(repeats: str, threads: str, *shape: str) -> dict[str, Any]:
    """Seconds of steps that take turns, and the loss of the last step of each way."""
    torch.set_num_threads(int(threads))
    one, two, three = (Setting(*map(int, shape)) for _ in range(3))
    steps = {
        "ours": ours(one)[0],
        "naive": naive(two)[0],
        "naive, our attention": naive(three, our_attention=True)[0],
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    losses = {}
    for turn in range(int(repeats) + 1):
        for name, step in steps.items():
            started = time.perf_counter()
            losses[name] = round(step(), 5)
            if turn:
                seconds[name].append(time.perf_counter() - started)
    return {"times": seconds, "losses": losses}


JOBS = {"held": held, "peak": peak_of, "times": times}

if __name__ == "__main__":
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
