"""Which models can really lose heads: whole KV groups, as many in every layer, in a checkpoint that plain transformers loads.

A config has one head count for all layers, so what goes must be equal per layer; a query head shares keys and values, so
it must be whole groups. And the family must read the head size from its config instead of from the head count. Each row
was found by building, saving and reloading a tiny model (transformers 5.24), and a test repeats that. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headviz.types import Geometry, head_name

Heads = Iterable[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Slicing:
    """How a family's checkpoint gets smaller, or why it cannot.

    projections: names of what makes queries, keys and values in the attention module: three, or one that holds them as
                 blocks [Q; K; V]
    divides:     the config refuses a head count that does not divide the model size
    refused:     why the family cannot, empty where it can
    """

    projections: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    divides: bool = False
    refused: str = ""


_FROM_COUNT = (
    "{} computes the head size as model size / number of heads, so fewer heads would become wider ones"
)

SLICING: dict[str, Slicing] = {
    "llama": Slicing(divides=True),
    "qwen2": Slicing(),
    "qwen3": Slicing(),
    "olmo2": Slicing(
        refused="OLMo 2 normalises queries and keys over all heads of a layer together, so the heads that stay would "
        "change too"
    ),
    "mistral": Slicing(),
    "gemma2": Slicing(divides=True),
    "gemma3_text": Slicing(divides=True),
    "phi3": Slicing(projections=("qkv_proj",)),
    "gpt2": Slicing(refused=_FROM_COUNT.format("GPT-2")),
    "gpt_neox": Slicing(refused=_FROM_COUNT.format("GPT-NeoX")),
    "opt": Slicing(refused=_FROM_COUNT.format("OPT")),
    "bloom": Slicing(
        refused=_FROM_COUNT.format("BLOOM") + ", and the ALiBi slopes of those that stay would change too"
    ),
    "mpt": Slicing(
        refused=_FROM_COUNT.format("MPT") + ", and the ALiBi slopes of those that stay would change too"
    ),
    "falcon": Slicing(
        refused=_FROM_COUNT.format("Falcon") + ", and the ALiBi slopes of those that stay would change too"
    ),
}

HOW = 'Choose "Whole KV groups" and "Same number in every layer" under More, or --by group --per-layer, for a set that is.'


def groups_off(heads: Heads, geometry: Geometry) -> list[list[int]]:
    """For each layer, the KV groups all of whose query heads are in `heads`."""
    off, size = set(heads), geometry.heads // geometry.kv_heads
    return [
        [
            group
            for group in range(geometry.kv_heads)
            if all((layer, head) in off for head in range(group * size, (group + 1) * size))
        ]
        for layer in range(geometry.layers)
    ]


def why_not(heads: Heads, geometry: Geometry) -> str:
    """The sentence that says why a checkpoint without these heads cannot be made; empty where it can."""
    off, row = sorted(set(heads)), SLICING[geometry.family]
    if row.refused:
        return f"A smaller checkpoint cannot be made of this family: {row.refused}."
    if not off:
        return "No head is off, so nothing would get smaller."
    size, groups = geometry.heads // geometry.kv_heads, groups_off(off, geometry)
    for layer, head in off:
        if head // size not in groups[layer]:
            first = head // size * size
            stays = next(h for h in range(first, first + size) if (layer, h) not in off)
            return (
                f"A smaller checkpoint leaves out whole KV groups, and {head_name(layer, head)} is off while "
                f"{head_name(layer, stays)} of its group stays. {HOW}"
            )
    counts = [len(several) for several in groups]
    for layer, count in enumerate(counts):
        if count != counts[0]:
            return (
                "A config has one number of heads for all layers, and the set is not equal per layer: "
                f"{_groups(counts[0])} off in layer 0, {_groups(count)} in layer {layer}. {HOW}"
            )
    left = geometry.heads - counts[0] * size
    if not left:
        return "Every head of every layer is off: a checkpoint needs at least one KV group in each layer."
    if row.divides and geometry.hidden % left:
        return (
            f"The config of {geometry.family} refuses it: the hidden size ({geometry.hidden}) is not a multiple of the "
            f"number of attention heads that would be left ({left}), and transformers checks that even though the head "
            f"size stands in the config by itself. {_allowed(geometry, size)}"
        )
    return ""


def numbers_gone(heads: Heads, geometry: Geometry) -> int:
    """Weights that a smaller checkpoint does not have; biases, well below 1% of them, are not counted."""
    size = geometry.heads // geometry.kv_heads
    groups = sum(map(len, groups_off(heads, geometry)))
    return (
        groups * 2 * geometry.hidden * geometry.head_dim * (size + 1)
    )  # W_Q and W_O of its heads, W_K and W_V


def _groups(count: int) -> str:
    return "1 KV group is" if count == 1 else f"{count} KV groups are"


def _allowed(geometry: Geometry, size: int) -> str:
    fits = [n * size for n in range(geometry.kv_heads - 1, 0, -1) if geometry.hidden % (n * size) == 0]
    if not fits:
        return "No smaller number of whole groups divides it, so this model has no smaller checkpoint."
    return f"Numbers of heads that would do: {', '.join(map(str, fits))}."
