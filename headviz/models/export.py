"""A loaded model without some heads, as a checkpoint: safetensors that plain `from_pretrained` reads.

The loaded model is only read. Either the heads' columns of W_O are zero, which is what the gate computes, or whole KV
groups are left out of every projection and the config says so (`headviz.models.smaller` says where that is exact).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headviz.errors import UnsupportedModel
from headviz.models.architectures import Family
from headviz.models.quiet import quiet
from headviz.models.smaller import SLICING, groups_off, why_not
from headviz.types import Geometry

Heads = Iterable[tuple[int, int]]
State = dict[str, Tensor]


def zeroed(loaded: Any, heads: Heads) -> State:
    """The model's weights with the heads' part of W_O zero; what is not touched is shared, not copied."""
    state, shape = dict(loaded.model.state_dict()), loaded.geometry
    by_layer: dict[int, list[int]] = {}
    for layer, head in heads:
        by_layer.setdefault(layer, []).append(head)
    for layer, several in by_layer.items():
        name = f"{_attention(loaded.family, layer)}.{loaded.family.output}.weight"
        weight = state[name].clone()  # (M, H·D), or (H·D, M) where it is stored transposed
        columns = weight.T if loaded.family.transposed else weight
        for head in several:
            columns[:, head * shape.head_dim : (head + 1) * shape.head_dim] = 0
        state[name] = weight
    return state


def sliced(loaded: Any, heads: Heads) -> tuple[State, Any]:
    """(weights, config) without the KV groups of `heads`. Raises UnsupportedModel with the reason where it cannot be."""
    shape, heads = loaded.geometry, tuple(heads)
    if why := why_not(heads, shape):
        raise UnsupportedModel(why)
    state, groups = dict(loaded.model.state_dict()), groups_off(heads, shape)
    size = shape.heads // shape.kv_heads
    for layer, gone in enumerate(groups):
        kept = [group for group in range(shape.kv_heads) if group not in gone]
        queries = _places([group * size + i for group in kept for i in range(size)], shape)
        values = _places(kept, shape)
        where = _attention(loaded.family, layer)
        for projection, rows in _rows(loaded.family, shape, queries, values).items():
            for part in ("weight", "bias"):
                if (name := f"{where}.{projection}.{part}") in state:
                    state[name] = state[name][rows.to(state[name].device)].contiguous()
        name = f"{where}.{loaded.family.output}.weight"
        state[name] = state[name][:, queries.to(state[name].device)].contiguous()
    return state, _config(loaded, shape.kv_heads - len(groups[0]), size)


def write(loaded: Any, state: State, folder: Path, config: Any = None) -> None:
    """Weights, config, generation config and tokenizer into `folder`, which is there and empty."""
    with quiet():
        loaded.model.save_pretrained(folder, state_dict=state)
        if config is not None:
            config.save_pretrained(folder)
        loaded.tokenizer.save_pretrained(folder)


def reload(folder: Path, like: Any) -> Any:
    """The checkpoint as anybody would load it, in `like.dtype` on `like.device`."""
    from transformers import AutoModelForCausalLM

    with quiet():
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=like.dtype, use_safetensors=True, trust_remote_code=False, local_files_only=True
        )
    return model.to(like.device).eval().requires_grad_(False)


def _attention(family: Family, layer: int) -> str:
    return f"{family.layers}.{layer}.{family.attention}"


def _places(units: list[int], shape: Geometry) -> Tensor:
    """Rows that belong to these heads, or KV heads, of D numbers each."""
    return torch.tensor([unit * shape.head_dim + i for unit in units for i in range(shape.head_dim)])


def _rows(family: Family, shape: Geometry, queries: Tensor, values: Tensor) -> dict[str, Tensor]:
    """Projection → the rows that stay."""
    names = SLICING[family.model_type].projections
    if len(names) == 3:
        return dict(zip(names, (queries, values, values), strict=True))
    keys_from = shape.heads * shape.head_dim  # one projection: [Q; K; V]
    values_from = keys_from + shape.kv_heads * shape.head_dim
    return {names[0]: torch.cat([queries, keys_from + values, values_from + values])}


def _config(loaded: Any, groups: int, size: int) -> Any:
    """The model's config with fewer heads; the config itself judges it. Raises UnsupportedModel with its words."""
    tree = copy.deepcopy(loaded.model.config.to_dict())
    tree |= {
        "num_attention_heads": groups * size,
        "num_key_value_heads": groups,
        "head_dim": loaded.geometry.head_dim,
        "architectures": [type(loaded.model).__name__],
        "dtype": str(loaded.model.dtype).removeprefix("torch."),
    }
    try:
        return type(loaded.model.config)(**tree)
    except Exception as error:  # transformers' strict configs raise several types of their own
        said = " ".join(str(error).split())
        raise UnsupportedModel(
            f"The config of {loaded.family.model_type} refuses {groups * size} heads: {said[:300]}"
        ) from None
