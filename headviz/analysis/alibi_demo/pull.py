"""Attention for training, and the auxiliary loss that pulls chosen heads onto one token.

Attention is torch's fused one with ALiBi as extra coordinates (`models/alibi.py`). Only for pulled heads, and only
while they are pulled, the T×T weights are held.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from headviz.analysis.alibi_demo.plan import INTO_STREAM, MARGINS, PULLED_INPUTS, PULLS
from headviz.models.alibi import widened, with_coordinates
from headviz.models.slopes import alibi_slopes


class Pulled(nn.Module):
    """Stands in for transformers' BloomAttention in training, over the same two projections.

    pulls: (head, what) of this layer; of the kinds in `pulling`, each forward pass leaves their losses in `losses`
    into_stream: how much of these losses' gradient goes beyond the heads' own queries and keys
    """

    def __init__(self, original: nn.Module, layer: int) -> None:
        super().__init__()
        self.query_key_value, self.dense = original.query_key_value, original.dense
        self.heads, self.head_dim = original.num_heads, original.head_dim
        self.register_buffer("slopes", torch.tensor(alibi_slopes(self.heads)), persistent=False)
        self.pulls = [(h, what) for what, pairs in PULLS.items() for at, h in pairs if at == layer]
        self.pulling: frozenset[str] = frozenset()
        self.into_stream = INTO_STREAM
        self.losses: dict[str, list[Tensor]] = {}

    def forward(self, hidden_states: Tensor, residual: Tensor, **_: object) -> tuple[Tensor, None]:
        B, T, M = hidden_states.shape
        fused = self.query_key_value(hidden_states).float().view(B, T, self.heads, 3, self.head_dim)
        q, k, v = (x.transpose(1, 2) for x in fused.unbind(3))  # (B, H, T, D) each
        scale = self.head_dim**-0.5
        pulls = [pair for pair in self.pulls if pair[1] in self.pulling]
        self.losses = self._losses(hidden_states, scale, pulls) if pulls else {}
        wide_q, wide_k = with_coordinates(q, k, self.slopes, scale)
        output = functional.scaled_dot_product_attention(
            wide_q, wide_k, widened(v, wide_k.shape[-1]), is_causal=True, scale=scale
        )[..., : self.head_dim]
        return residual + self.dense(output.transpose(1, 2).reshape(B, T, M)), None

    def _losses(
        self, hidden_states: Tensor, scale: float, pulls: list[tuple[int, str]]
    ) -> dict[str, list[Tensor]]:
        """What each of these heads still lacks, in nats."""
        chosen = [head for head, _ in pulls]
        seen = hidden_states[:PULLED_INPUTS]  # (b, T, M): some inputs will do
        seen = self.into_stream * seen + (1 - self.into_stream) * seen.detach()
        b, T, _ = seen.shape
        position = torch.arange(T)
        fused = self.query_key_value(seen).float().view(b, T, self.heads, 3, self.head_dim)
        q, k = (fused[:, :, chosen, part].transpose(1, 2) for part in (0, 1))  # (b, h, T, D) each
        logits = scale * q @ k.transpose(-1, -2)  # (b, h, T, T)
        logits = logits + self.slopes[chosen][:, None, None] * (position - position[:, None])
        weights = logits.masked_fill(position > position[:, None], -torch.inf).log_softmax(-1)
        found: dict[str, list[Tensor]] = {}
        for number, (_, what) in enumerate(pulls):
            found.setdefault(what, []).append(_lack(weights[:, number], what))
        return found


def _lack(weights: Tensor, what: str) -> Tensor:
    """weights (b, T, T) log-probabilities of one head → how far it is from where it is pulled, in nats, ≥ 0."""
    T = weights.shape[-1]
    wanted = torch.eye(T, dtype=torch.bool) if what == "self" else torch.arange(T).expand(T, T) == 0
    wanted = wanted[1:]  # the first query has no other key
    mine = weights[:, 1:].masked_fill(~wanted, -torch.inf).logsumexp(-1)  # (b, T−1)
    others = weights[:, 1:].masked_fill(wanted, -torch.inf).logsumexp(-1)
    return functional.relu(MARGINS[what] - (mine - others)).mean()


def attach(model: nn.Module) -> list[Pulled]:
    """Put `Pulled` into every layer of a BloomForCausalLM that is to be trained."""
    layers = [Pulled(block.self_attention, number) for number, block in enumerate(model.transformer.h)]
    for block, attention in zip(model.transformer.h, layers, strict=True):
        block.self_attention = attention
        # the same function, without Python in the backward pass
        block.mlp.gelu_impl = nn.GELU(approximate="tanh")
    return layers


def auxiliary(layers: list[Pulled]) -> dict[str, Tensor]:
    """Mean lack in nats of each kind of pulled heads, after a forward pass with `pulling`."""
    found: dict[str, list[Tensor]] = {}
    for layer in layers:
        for what, losses in layer.losses.items():
            found.setdefault(what, []).extend(losses)
    return {what: torch.stack(losses).mean() for what, losses in found.items()}
