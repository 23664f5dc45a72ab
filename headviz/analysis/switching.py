"""From an `Ablation` to factors on head outputs, and what was really off.

switch = Switch(ablation, loaded, resources)
switch.whole          None, or the gate of a static set: the same for every input
switch.begin(numbers) before each batch of a rule that decides input by input; then switch.gate, switch.end()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.means import head_means
from headviz.analysis.metrics import METRICS, inactive, statistics_for
from headviz.analysis.scoring import batch_of
from headviz.data.inputs import Inputs
from headviz.errors import BadInput, lookup
from headviz.models import gate
from headviz.models.attention import Probe, probe
from headviz.types import Ablation, Geometry, Watch, head_name

_COMPARED = 2000  # inputs whose sets are compared pair by pair, at most


class Switch:
    """What is off, for every input or input by input.

    per_input: whether it depends on the input; want: statistics the probe must record for it
    means:     (L, H, 2, D) or None for zeros; share: of the heads, for a static set
    """

    def __init__(self, ablation: Ablation, loaded: Any, resources: Any) -> None:
        check(ablation, loaded.geometry)
        self._ablation, self._shape = ablation, loaded.geometry
        L, H = self._shape.layers, self._shape.heads
        self.per_input = ablation.mode in ("per-input", "random-per-input")
        self.want = statistics_for((ablation.metric,)) if ablation.mode == "per-input" else frozenset()
        self.share = len(ablation.heads) / (L * H) if ablation.mode == "static" else 0.0
        self.whole = gate.without(ablation.heads, L, H) if ablation.mode == "static" else None
        self.means: Tensor | None = None
        if ablation.mode != "none" and ablation.replace == "mean":
            self.means = head_means(loaded, ablation.means_on, resources)
        self._off: list[Tensor | None] = [None] * L  # (B, H) bool each

    def begin(self, numbers: np.ndarray) -> None:
        """A batch of the inputs with these numbers is about to run."""
        L, H, ask = self._shape.layers, self._shape.heads, self._ablation
        self._off = [None] * L
        if ask.mode == "random-per-input":
            off = np.stack([drawn(ask.seed, int(number), ask.rate, L, H) for number in numbers], 1)
            self._off = list(torch.from_numpy(off))  # L of (B, H)

    def gate(self, layer: int, statistics: Mapping[str, Tensor]) -> Tensor | None:
        """Factors (B, H) of a layer, from the scores of this very pass."""
        ask = self._ablation
        if ask.mode == "per-input":
            values = METRICS[ask.metric].compute(statistics)  # (B, H)
            self._off[layer] = inactive(values, ask.metric, ask.threshold, ask.turned)
        off = self._off[layer]
        return (~off).float() if bool(off.any()) else None

    def end(self) -> np.ndarray:
        """(B, L, H) bool: which heads were off in the batch that has just run."""
        return torch.stack([layer.cpu() for layer in self._off], 1).numpy()


def check(ablation: Ablation, shape: Geometry) -> None:
    """Raises BadInput, UnknownName for an ablation that this model cannot have."""
    heads = ablation.heads
    if heads and ablation.mode != "static":
        raise BadInput("A list of heads goes with the mode static.")
    if list(heads) != sorted(set(heads)):
        raise BadInput("The heads of a set are sorted by layer, then head, and each stands there once.")
    for layer, head in heads:
        if not (0 <= layer < shape.layers and 0 <= head < shape.heads):
            raise BadInput(
                f"The head set names {head_name(layer, head)}, and this model has {shape.layers} layers of "
                f"{shape.heads} heads: the set is for another model."
            )
    if ablation.mode == "per-input":
        lookup(METRICS, ablation.metric, "score")
    if not 0 <= ablation.rate <= 1:
        raise BadInput(f"A rate of heads lies between 0 and 1, not at {ablation.rate}.")
    if ablation.mode != "none" and ablation.replace == "mean" and ablation.means_on is None:
        raise BadInput(
            "The mean of a head needs text to be taken on: say which (means_on), or replace by zero."
        )


def drawn(seed: int, number: int, rate: float, L: int, H: int) -> np.ndarray:
    """(L, H) bool: each head of input `number` with probability `rate`, whatever batch it comes in."""
    return np.random.Generator(np.random.PCG64([seed, number])).random((L, H)) < rate


def overlap(off: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """How alike the sets of N inputs are: off (N, L, H) bool, group (N,) subject or document of each.

    distinct: number of different sets; overlap_within, overlap_between: mean Jaccard index (common heads / heads in
    either, 1 for two empty sets) over pairs of one group and of two; left out where there is no such pair. Beyond
    2,000 inputs, pairs of 2,000 evenly spaced ones.
    """
    N = len(off)
    sets = off.reshape(N, -1)
    found = {"distinct": float(len(np.unique(np.packbits(sets, axis=1), axis=0)))}
    if N > _COMPARED:
        some = np.linspace(0, N - 1, _COMPARED).astype(int)
        sets, group, N = sets[some], group[some], _COMPARED
    wide = sets.astype(np.float32)
    common = wide @ wide.T  # (N, N)
    size = wide.sum(1)
    either = size[:, None] + size - common
    index = np.divide(common, either, out=np.ones_like(common), where=either > 0)
    pair = np.triu(np.ones((N, N), bool), 1)
    same = group[:, None] == group
    for name, chosen in (("overlap_within", pair & same), ("overlap_between", pair & ~same)):
        if chosen.any():
            found[name] = float(index[chosen].mean(dtype=np.float64))
    return found


def each_alone(loaded: Any, switch: Switch, watch: Watch) -> Any:
    """The model under a probe for padded batches."""
    gates = switch.gate if switch.per_input else switch.whole
    return probe(loaded.model, want=switch.want, gates=gates, watch=watch, means=switch.means)


def run_batch(watching: Probe, switch: Switch, inputs: Inputs, batch: np.ndarray, loaded: Any) -> Tensor:
    ids, lengths = batch_of(inputs, batch, loaded.device)
    switch.begin(batch)
    return watching.hidden(ids, lengths)
