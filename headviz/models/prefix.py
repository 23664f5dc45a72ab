"""Many inputs in one forward pass without padding, and a beginning that they share computed only once.

    with packed(model, gates=…) as watching:
        shared = watching.prefix(tokens[:P])              # keys and values of every layer, or None: not possible here
        hidden = watching.pack([tail, tail …], shared)    # (N, M), the tails one after the other

The tails lie one after the other in a single row. Every layer's linear maps see N tokens and no padding. Attention of a
tail to itself is one fused causal call a tail; attention of all tails to the shared beginning is one fused call, with
the N queries as one long sequence against one copy of its keys. Two softmaxes over disjoint keys, with their
log-sum-exps, give exactly the softmax over all of them. A tail may in turn go on where another tail of the same row, its
parent, ends: the four answers to one question.

    o = (e^ℓ₁·o₁ + e^ℓ₂·o₂) / (e^ℓ₁ + e^ℓ₂)

Where a layer needs more than plain causal attention (soft-capped logits, a sliding window shorter than the input,
ALiBi), or the rotation of positions depends on the length of the text, there is no shared beginning: `prefix` says None.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headviz.models import fused, gate
from headviz.models.attention import Probe, attached
from headviz.models.blocks import Attended, Attention, exact
from headviz.types import Watch


@dataclass(frozen=True)
class Shared:
    """Keys and values of a beginning of `length` tokens: (1, G, P, D) for each layer, after rotation."""

    length: int
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]


class Packed(Probe):
    """A probe that takes inputs one after the other in one row. It measures nothing: `want` is empty."""

    def __init__(
        self, model: nn.Module, gates: gate.Gate | None, watch: Watch, means: Tensor | None = None
    ) -> None:
        super().__init__(model, (), gates, watch, None, means)
        self._bounds: list[tuple[int, int]] = []
        self._positions: Tensor | None = None
        self._shared: Shared | None = None
        self._parents: Sequence[int | None] = ()
        self._kept: list[tuple[Tensor, Tensor, Attention]] | None = None

    def prefix(self, tokens: Sequence[int], longest: int) -> Shared | None:
        """Run a beginning that inputs of up to `longest` tokens share. None where they must be run whole."""
        if not tokens or self.alone or self.family.positions == "alibi":
            return None
        self._kept = []
        try:
            self.pack([tokens])
            kept = self._kept
        finally:
            self._kept = None
        windows = [ask.window for _, _, ask in kept if ask.window is not None]
        plain = all(
            ask.softcap is None
            and ask.slopes is None
            and fused.choose(k, k, Attention(ask.scale), self._refused)
            for k, _, ask in kept
        )
        if not plain or (windows and min(windows) < longest):
            return None
        keys, values = (tuple(fused.quick(layer[i]).contiguous() for layer in kept) for i in (0, 1))
        return Shared(len(tokens), keys, values)

    def pack(
        self,
        inputs: Sequence[Sequence[int]],
        shared: Shared | None = None,
        parents: Sequence[int | None] = (),
    ) -> Tensor:
        """What goes into the LM head for each token of `inputs`, one input after the other: (N, M).

        inputs: token ids, each at least one; with `shared` they go on where that ends
        parents: for each input the number of an earlier one that it goes on from, or None; only with `shared`
        """
        if any(parent is not None for parent in parents) and shared is None:
            raise ValueError(
                "inputs with parents need a shared beginning: without one they may not be possible"
            )
        start, self._bounds, positions = 0, [], []
        offset = shared.length if shared is not None else 0
        for number, ids in enumerate(inputs):
            self._bounds.append((start, start + len(ids)))
            start += len(ids)
            parent = parents[number] if parents else None
            first = offset + (len(inputs[parent]) if parent is not None else 0)
            positions.append(torch.arange(first, first + len(ids)))
        device = self.model.get_input_embeddings().weight.device
        row = torch.tensor([[token for ids in inputs for token in ids]], device=device)  # (1, N)
        self._positions = torch.cat(positions).to(device)
        more = {} if self.family.positions == "alibi" else {"position_ids": self._positions[None]}
        self._shared, self._parents = shared, parents
        try:
            return self.model.base_model(input_ids=row, use_cache=False, **more).last_hidden_state[0]
        finally:
            self._bounds, self._positions, self._shared, self._parents = [], None, None, ()

    @property
    def alone(self) -> bool:
        """Whether inputs must not share a pass, because the rotation of positions depends on the longest one."""
        return elastic(getattr(self.model.config, "rope_parameters", None))

    def _attended(self, layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention) -> Attended:
        """q (1, H, N, D), k and v (1, G, N, D)."""
        if self._kept is not None:
            self._kept.append((k, v, ask))
        if self._shared is None:
            own = [
                super(Packed, self)._attended(layer, *(x[:, :, a:b] for x in (q, k, v)), ask).output
                for a, b in self._bounds
            ]
            return Attended(torch.cat(own, 2) if len(own) > 1 else own[0], None, None)
        return Attended(self._merged(layer, *(fused.quick(x) for x in (q, k, v)), ask), None, None)

    def _merged(self, layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention) -> Tensor:
        """(1, H, N, D) attention to the shared beginning, to the parent, and to the input itself."""
        name = fused.choose(q, k, Attention(ask.scale), self._refused)
        own = [
            _joined(self._own(name, number, q, k, v, ask.scale)) for number in range(len(self._bounds))
        ]  # (1, H, T, D) and (1, H, T) each
        self.kernels.add(name)
        output = torch.cat([part for part, _ in own], 2), torch.cat([part for _, part in own], 2)
        keys, values = self._shared.keys[layer], self._shared.values[layer]
        return _joined([output, fused.run(name, q, keys, values, ask.scale, causal=False)])[0]

    def _own(
        self, name: str, number: int, q: Tensor, k: Tensor, v: Tensor, scale: float
    ) -> list[tuple[Tensor, Tensor]]:
        """One input's attention to itself and, where it has one, to its parent."""
        start, stop = self._bounds[number]
        mine = q[:, :, start:stop]
        found = [fused.run(name, mine, k[:, :, start:stop], v[:, :, start:stop], scale)]
        parent = self._parents[number] if self._parents else None
        if parent is not None:
            start, stop = self._bounds[parent]
            found.append(fused.run(name, mine, k[:, :, start:stop], v[:, :, start:stop], scale, causal=False))
        return found

    def _first(self, T: int, device: torch.device) -> Tensor:
        return self._positions.to(device) == 0


@contextmanager
def packed(
    model: nn.Module, *, gates: gate.Gate | None = None, watch: Watch, means: Tensor | None = None
) -> Iterator[Packed]:
    """Put `model` under a `Packed` probe; `gates` must give factors (H,), the same for every input."""
    watching = Packed(model, gates, watch, means)
    with attached(watching):
        yield watching


def _joined(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Outputs (1, H, T, D) and log-sum-exps (1, H, T) over disjoint keys, as those over all of the keys."""
    (output, total), *others = parts
    for other, other_total in others:
        share = torch.sigmoid(other_total - total)[..., None]  # (1, H, T, 1) of the weight
        output = exact(output) + share * (exact(other) - exact(output))
        total = torch.logaddexp(total, other_total)
    return output, total


def elastic(rope: object) -> bool:
    """Whether a config's rope_parameters, or any layer type's in them, stretch with the length of the input."""
    if not isinstance(rope, dict):
        return False
    return rope.get("rope_type") in ("dynamic", "longrope") or any(elastic(inner) for inner in rope.values())
