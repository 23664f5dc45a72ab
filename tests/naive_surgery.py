"""Surgery the naive way: whole matrices with requires_grad, gradients masked to rows and columns, AdamW over all of it.

Slow and obvious, written from the paper's description; what headviz trains is held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from headviz.models.attention import probe


def head_places(family: str, head: int, heads: int, kv_heads: int, D: int) -> dict[str, list[int]]:
    """Projection → the rows of a head with its own keys and values, by hand for the two families of the test."""
    if family == "bloom":  # [H, 3, D]
        return {"query_key_value": list(range(head * 3 * D, (head + 1) * 3 * D))}
    group = head // (heads // kv_heads)
    shared = list(range(group * D, (group + 1) * D))
    return {"q_proj": list(range(head * D, (head + 1) * D)), "k_proj": shared, "v_proj": shared}


class Naive:
    """Masked full-matrix training. matrices: parameter → bool mask of what may move."""

    def __init__(self, model: nn.Module, masks: Mapping[str, Tensor], weight_decay: float = 0.0) -> None:
        self.model = model.requires_grad_(False)
        self.parameters = {name: model.get_parameter(name) for name in masks}
        self.masks = dict(masks)
        for name, parameter in self.parameters.items():
            parameter.requires_grad_(True)
            parameter.register_hook(lambda grad, mask=self.masks[name]: grad * mask)
        self.optimiser = torch.optim.AdamW(self.parameters.values(), lr=0.0, weight_decay=weight_decay)

    def step(self, windows: Iterable[Tensor], rate: float, clip: float) -> tuple[float, float]:
        """One optimiser step over windows (B, T) each, with equal weight: (mean loss, norm before clipping)."""
        windows = list(windows)
        self.optimiser.zero_grad()
        total = 0.0
        with probe(self.model, want=()):
            for ids in windows:
                logits = self.model(input_ids=ids, use_cache=False).logits  # (B, T, V)
                loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
                (loss / len(windows)).backward()
                total += loss.item() / len(windows)
        norm = nn.utils.clip_grad_norm_(self.parameters.values(), clip)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()
        return total, float(norm)


def masks_for(
    model: nn.Module, where: str, output: str, rows: dict[str, list[int]], columns: list[int]
) -> dict:
    """Parameter name → mask, for the attention module at the path `where`."""
    found = {}
    for name, several in rows.items():
        for part in ("weight", "bias"):
            full = f"{where}.{name}.{part}"
            if full in dict(model.named_parameters()):
                mask = torch.zeros_like(model.get_parameter(full), dtype=torch.bool)
                mask[several] = True
                found[full] = mask
    mask = torch.zeros_like(model.get_parameter(f"{where}.{output}.weight"), dtype=torch.bool)
    mask[:, columns] = True
    found[f"{where}.{output}.weight"] = mask
    return found
