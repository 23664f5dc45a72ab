"""The LM head on a few hidden states at a time: log-probabilities of given tokens, never (B, T, V) at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headviz.models.blocks import exact

_ELEMENTS = 1 << 24  # logits held at once: 64 MB in float32


def logits(model: nn.Module, hidden: Tensor) -> Tensor:
    """(R, V) logits of hidden states (R, M) in float32 (float64 for float64), soft-capped where the family does so."""
    found = exact(model.get_output_embeddings()(hidden))
    cap = getattr(model.config, "final_logit_softcapping", None)
    return found if cap is None else torch.tanh(found / cap) * cap


def logprobs(model: nn.Module, hidden: Tensor, targets: Tensor, which: Tensor | None = None) -> Tensor:
    """(K,) log-probability, in nats, of token targets[i] after hidden state which[i].

    hidden (R, M); targets (K,) token ids; which (K,) rows of `hidden`, not decreasing; None: one target a row.
    """
    R = hidden.shape[0]
    if which is None:
        which = torch.arange(R, device=hidden.device)
    found = []
    chunk = max(1, _ELEMENTS // model.get_output_embeddings().weight.shape[0])
    bounds = torch.searchsorted(which.contiguous(), torch.arange(0, R + chunk, chunk, device=which.device))
    for number, start in enumerate(range(0, R, chunk)):
        mine = slice(int(bounds[number]), int(bounds[number + 1]))
        scores = logits(model, hidden[start : start + chunk])  # (chunk, V)
        total = torch.logsumexp(scores, -1)  # (chunk,)
        row = which[mine] - start
        found.append(scores[row, targets[mine]] - total[row])
    return torch.cat(found) if found else exact(hidden.new_zeros(0))
