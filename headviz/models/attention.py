"""The probe: exact attention statistics of every head, without ever holding the T×T attention matrices.

    with probe(model, want={"sink", "entropy"}) as watching:
        statistics = watching.run(tokens, lengths)      # {"sink": (B, L, H), "entropy": (B, L, H)}

While it is on, attention is computed here: by fused operations that return the log-sum-exp (`fused.py`), or by blocks
of queries in float32 where those do not apply (`blocks.py`). Afterwards the model is what it was before, bit for bit
and module for module, also after an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from headviz.errors import lookup
from headviz.models import blocks, fused, gate
from headviz.models.architectures import Family, family_of, geometry
from headviz.models.blocks import Attended, Attention
from headviz.models.bloom import BloomAttention
from headviz.models.falcon import FalconAttention
from headviz.models.interface import NAME, forget_module, register, watch_module
from headviz.models.mpt import MptAttention
from headviz.models.statistics import STATISTICS, Rows, reduce, roots
from headviz.types import Silent, Watch

# what stands in for a family's attention module: (original, probe, layer, slopes) → module
MODULES: dict[str, Callable[..., nn.Module]] = {
    "bloom": BloomAttention,
    "mpt": MptAttention,
    "falcon": FalconAttention,
}

# layer, q (B, H, T, D), k and v (B, G, K, D), what was asked, what came out
Observer = Callable[[int, Tensor, Tensor, Tensor, Attention, Attended], None]


class Probe:
    """What attention layers call while a probe is on.

    kernels: fused operations that were used; in_blocks: layers that had to be computed in blocks of queries
    """

    def __init__(
        self,
        model: nn.Module,
        want: Collection[str],
        gates: gate.Gate | None,
        watch: Watch,
        observe: Observer | None,
        means: Tensor | None = None,
    ) -> None:
        for name in want:
            lookup(STATISTICS, name, "statistic")
        self.model, self.want = model, frozenset(want)
        self.family, self.geometry = family_of(model.config), geometry(model.config)
        self.kernels: set[str] = set()
        self.in_blocks: set[int] = set()
        self._gate, self._watch, self._observe, self._means = gates, watch, observe, means
        self._lengths: Tensor | None = None
        self._layers: list[dict[str, Tensor]] = [{} for _ in range(self.geometry.layers)]
        self._rows: dict[tuple, Rows] = {}
        self._roots: dict[int, Tensor] = {}
        self._refused: set[str] = set()

    def run(self, tokens: Tensor, lengths: Tensor | None = None) -> dict[str, np.ndarray]:
        """Statistics of tokens (B, T), padded on the right: name → (B, L, H) float32 (float64 if the model is).

        lengths (B,): real tokens of each input, at least 1; None when nothing is padded. The LM head does not run.
        Raises Cancelled when the watch says so, within a layer.
        """
        self.hidden(tokens, lengths)
        return self.statistics()

    def hidden(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        """What goes into the LM head, (B, T, M), for tokens (B, T) as in `run`. Rows of padding mean nothing."""
        self._lengths, self._rows = lengths, {}
        try:
            return self.model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        finally:
            self._lengths, self._rows = None, {}

    def statistics(self) -> dict[str, np.ndarray]:
        """The statistics of the last forward pass: name → (B, L, H)."""
        return {
            name: torch.stack([layer[name].cpu() for layer in self._layers], 1).numpy() for name in self.want
        }

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention) -> Tensor:
        """One layer's attention: q (B, H, T, D), k and v (B, G, K, D) → (B, H, T, D), gated, in q's dtype."""
        self._watch.check()
        attended = self._attended(layer, q, k, v, ask)
        if self._observe is not None:
            self._observe(layer, q, k, v, ask, attended)
        if self.want:
            root = self._root(layer, q) if "full_mean" in self.want else None
            self._layers[layer] = reduce(attended, v, self._real(q), self.want, root)
        output = attended.output.to(q.dtype)
        factors = self._gate(layer, self._layers[layer]) if self._gate is not None else None
        if factors is None:
            return output
        means = None if self._means is None else self._means[layer]
        return gate.apply(output, factors, means, self._first(output.shape[2], output.device))

    def _first(self, T: int, device: torch.device) -> Tensor:
        """(T,) which tokens are at the first position of their input."""
        return torch.arange(T, device=device) == 0

    def _attended(self, layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention) -> Attended:
        while name := fused.choose(q, k, ask, self._refused):
            try:
                attended = fused.attend(name, q, k, v, ask, self.want)
            except fused.KernelUnavailableError:
                self._refused.add(name)
            else:
                self.kernels.add(name)
                return attended
        self.in_blocks.add(layer)
        return blocks.attend(q, k, v, ask, self.want)

    def _real(self, q: Tensor) -> Rows:
        key = (q.device, q.shape[0], q.shape[2])
        if key not in self._rows:
            self._rows[key] = Rows(self._lengths, q.shape[0], q.shape[2], q.device)
        return self._rows[key]

    def _root(self, layer: int, q: Tensor) -> Tensor:
        if layer not in self._roots:
            projection = getattr(attention_modules(self.model, self.family)[layer], self.family.output)
            self._roots[layer] = roots(projection, q.shape[1], q.shape[-1]).to(q.device)
        return self._roots[layer]


@contextmanager
def probe(
    model: nn.Module,
    *,
    want: Collection[str] = tuple(STATISTICS),
    gates: gate.Gate | None = None,
    watch: Watch | None = None,
    observe: Observer | None = None,
    means: Tensor | None = None,
) -> Iterator[Probe]:
    """Put `model` (a causal LM of a family in FAMILIES) under a probe for the length of a `with` block.

    want:    names from STATISTICS; without `entropy` the second fused call is not made
    gates:   factors on the head outputs before W_O; statistics are of the outputs before the gate
    watch:   its `check` is called in every layer
    observe: called in every layer with the tensors themselves
    means:   (L, H, 2, D) what stands in for a head that the gate switches off: its mean output at the first position,
             and at all others; None for zeros
    Raises UnsupportedModel for a family without a row, UnknownName for a statistic that does not exist.
    """
    watching = Probe(model, want, gates, watch or Silent(), observe, means)
    with attached(watching):
        yield watching


@contextmanager
def attached(watching: Probe) -> Iterator[None]:
    """Attention of the probe's model goes through the probe inside the block; afterwards all is as it was."""
    model = watching.model
    register()
    with ExitStack() as undo:
        if watching.family.hook == "module":
            _replace_modules(watching, undo)
        else:
            for layer, module in enumerate(attention_modules(model, watching.family)):
                watch_module(module, watching, layer)
                undo.callback(forget_module, module)
        _select(model, undo)
        yield


def attention_modules(model: nn.Module, family: Family) -> list[nn.Module]:
    """The attention module of each layer."""
    return [getattr(layer, family.attention) for layer in model.get_submodule(family.layers)]


def _replace_modules(watching: Probe, undo: ExitStack) -> None:
    family = watching.family
    ours = MODULES[family.model_type]
    for number, layer in enumerate(watching.model.get_submodule(family.layers)):
        original = getattr(layer, family.attention)
        undo.callback(setattr, layer, family.attention, original)
        setattr(layer, family.attention, ours(original, watching, number, watching.geometry.slopes))


def _select(model: nn.Module, undo: ExitStack) -> None:
    """Our name as the attention of every config in the model, and the old names again at the end."""
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    for config in list(configs.values()):
        for name in getattr(config, "sub_configs", {}):
            if (inner := getattr(config, name, None)) is not None:
                configs[id(inner)] = inner
    for config in configs.values():
        if hasattr(config, "_attn_implementation_internal"):
            before = config._attn_implementation_internal
            undo.callback(setattr, config, "_attn_implementation_internal", before)
            # the attribute itself: the property would also write to sub-configs behind our back
            config._attn_implementation_internal = NAME
