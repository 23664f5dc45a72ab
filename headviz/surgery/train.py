"""Optimiser steps on slices: which windows, at which rate, and the loss without ever holding all logits.

Nothing here draws a random number: the order of the windows follows from the seed and the epoch, and models are in
evaluation mode (no dropout), so a step count, the slices and AdamW's moments are all there is to go on from.

Letters: B windows of a forward pass, T tokens, M model size, V vocabulary, N windows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headviz.analysis.scoring import batch_of
from headviz.data.inputs import Inputs
from headviz.models.activations import fused_activations
from headviz.models.attention import Probe, probe
from headviz.models.forwards import forwards
from headviz.models.head import logits
from headviz.surgery.meter import Meter
from headviz.surgery.slices import Slices
from headviz.types import Recipe

_LOGITS, _FEWEST = 1 << 22, 128  # logits held at once; but fewer rows than that read the LM head too often


class NotFiniteError(ArithmeticError):
    """A loss or a gradient was not finite in optimiser step `step`, which was not made."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(f"{what} was not finite at step {step}")
        self.what, self.step = what, step


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """Some optimiser steps: mean loss in nats a token, mean norm before clipping, last rate, tokens a second."""

    train_loss: float
    gradient_norm: float
    rate: float
    tokens_per_second: float


def rate_at(step: int, steps: int, recipe: Recipe) -> float:
    """Learning rate of step `step`, 0 … steps − 1: from 0 up over the warm-up, then down to 0 as a cosine, or constant.

    The first step of a warm-up has rate 0, as in the paper's code; the warm-up is at most a quarter of all steps.
    """
    warmup = min(recipe.warmup, steps // 4)
    if step < warmup:
        return recipe.rate * step / warmup
    if recipe.schedule == "constant":
        return recipe.rate
    return recipe.rate * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def windows_of(step: int, count: int, N: int, seed: int) -> np.ndarray:
    """(count,) numbers of the windows of optimiser step `step`: all N in an order drawn from (seed, epoch), then anew."""
    places = np.arange(step * count, (step + 1) * count)
    orders = {
        epoch: np.random.Generator(np.random.PCG64([seed, epoch])).permutation(N)
        for epoch in np.unique(places // N).tolist()
    }
    return np.array([orders[place // N][place % N] for place in places.tolist()])


class Trainer:
    """AdamW on slices that are installed on a loaded model. `step`: how many optimiser steps were made."""

    def __init__(
        self, loaded: Any, slices: Slices, recipe: Recipe, steps: int, windows: Inputs, seed: int
    ) -> None:
        """steps: of the whole pass, which the schedule runs over; windows: two tokens or more each."""
        self.loaded, self.slices, self.recipe = loaded, slices, recipe
        self.steps, self.windows, self.seed, self.step = steps, windows, seed, 0
        self._named = slices.named()
        self._optimiser = torch.optim.AdamW(
            self._named.values(), lr=recipe.rate, weight_decay=recipe.weight_decay
        )

    def train_until(self, stop: int, meter: Meter) -> Stretch:
        """Steps up to `stop`. Raises NotFiniteError before the step that it would spoil, Cancelled within any layer."""
        started, tokens, losses, norms = time.perf_counter(), 0, [], []
        first = self.slices.treatment.layers[0].layer
        with (
            torch.enable_grad(),
            fused_activations(self.loaded.model),
            _recomputed(self.loaded, first, self.recipe.checkpointing),
            probe(self.loaded.model, want=(), watch=meter) as watching,
        ):
            begin = self.step
            while self.step < stop:
                loss, norm, seen = self.one_step(watching, meter)
                losses.append(loss)
                norms.append(norm)
                tokens += seen
                meter.at(self.step)
        return Stretch(
            train_loss=float(np.mean(losses)),
            gradient_norm=float(np.mean(norms)),
            rate=rate_at(stop - 1, self.steps, self.recipe),
            tokens_per_second=tokens / (time.perf_counter() - started) if stop > begin else math.nan,
        )

    def one_step(self, watching: Probe, meter: Meter) -> tuple[float, float, int]:
        """(nats a token, gradient norm before clipping, tokens read) of one optimiser step."""
        recipe = self.recipe
        chosen = windows_of(self.step, recipe.batch * recipe.accumulate, len(self.windows.lengths), self.seed)
        predicted = int((self.windows.lengths[chosen] - 1).sum())
        self._optimiser.zero_grad(set_to_none=True)
        total = sum(
            self._backward(chosen[start : start + recipe.batch], predicted, watching, meter)
            for start in range(0, len(chosen), recipe.batch)
        )
        if not math.isfinite(total):
            raise NotFiniteError("The loss", self.step + 1)
        norm = float(
            nn.utils.clip_grad_norm_(self._named.values(), recipe.clip if recipe.clip > 0 else math.inf)
        )
        if not math.isfinite(norm):
            raise NotFiniteError("The gradient", self.step + 1)
        for group in self._optimiser.param_groups:
            group["lr"] = rate_at(self.step, self.steps, recipe)
        self._optimiser.step()
        self.step += 1
        return total, norm, int(self.windows.lengths[chosen].sum())

    def _backward(self, batch: np.ndarray, predicted: int, watching: Probe, meter: Meter) -> float:
        """Gradients of the loss of one forward pass; its share of the step's nats a token."""
        ids, lengths = batch_of(self.windows, batch, self.loaded.device)
        hidden = watching.hidden(ids, lengths)  # (B, T, M)
        # back to the hidden states first, some rows at a time, so that (B, T, V) never exists
        way_back = torch.zeros_like(hidden)
        total = hidden.new_zeros((), dtype=torch.float64)
        some = _rows_at_once(self.loaded.model)
        for row, n in enumerate(lengths.tolist()):
            for start in range(0, n - 1, some):
                meter.check()
                rows = slice(start, min(start + some, n - 1))
                part = hidden[row, rows].detach().requires_grad_()
                scores = logits(self.loaded.model, part)  # (rows, V), on the device of the LM head
                targets = ids[row, rows.start + 1 : rows.stop + 1].to(scores.device)
                loss = nn.functional.cross_entropy(scores, targets, reduction="sum") / predicted
                loss.backward()
                way_back[row, rows] = part.grad
                total += loss.detach().double().to(total.device)
        hidden.backward(way_back)
        return float(total)

    def state(self) -> dict[str, Tensor]:
        """Slices, and AdamW's moments once there are some; not copied."""
        found: dict[str, Tensor] = {}
        for name, parameter in self._named.items():
            found[name] = parameter.detach()
            moments = self._optimiser.state.get(parameter)
            if moments:
                found[f"first.{name}"], found[f"second.{name}"] = moments["exp_avg"], moments["exp_avg_sq"]
        return found

    def load(self, state: Mapping[str, Tensor], step: int) -> None:
        """Go on from `state` after `step` steps, to the same bits as without the break."""
        self.slices.load(state)
        self.step = step
        self._optimiser.state.clear()
        for name, parameter in self._named.items():
            if f"first.{name}" in state:
                self._optimiser.state[parameter] = {
                    "step": torch.tensor(float(step)),
                    "exp_avg": state[f"first.{name}"].to(parameter),
                    "exp_avg_sq": state[f"second.{name}"].to(parameter),
                }


def _rows_at_once(model: nn.Module) -> int:
    """How many hidden states go through the LM head together on the way back."""
    return max(_FEWEST, _LOGITS // model.get_output_embeddings().weight.shape[0])


def _recomputed(loaded: Any, first: int, wanted: bool) -> AbstractContextManager[None]:
    """Inside the block, layers from `first` on keep only what goes into them, and compute the rest again on the way back."""
    layers = list(loaded.model.get_submodule(loaded.family.layers))[first:] if wanted else []
    return forwards({layer: partial(checkpoint, layer.forward, use_reentrant=False) for layer in layers})
