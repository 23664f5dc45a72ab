"""Where a head's Q/K/V rows and its columns of W_O lie, family by family, and what of a head can be treated alone.

    treatment = treat(((5, 14), (5, 15)), geometry)
    trained_numbers(treatment, bias=True)      # what a repair of these heads trains
    whole_numbers(treatment, bias=True)        # the matrices they are part of: what a gradient mask would have to hold

Under grouped-query attention (GQA) a key and a value belong to a group of query heads. They are treated only where the
whole group is; else queries and output columns alone, and a note says so. Where the norm of queries and keys spans all
heads of a layer (OLMo 2), a new query or key would move every head: values and output columns alone.

No torch here. Letters: L layers, H query heads, G KV heads, D head size, M model size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headviz.errors import BadInput, lookup
from headviz.types import Geometry, head_name
from headviz.types.repairs import Heads

What = Literal["q", "k", "v"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a family's attention module holds queries, keys and values.

    projections: one name, or three for queries, keys and values
    grouped:     one projection as [G, H/G + 2, D]: each group's queries, its key, its value; with G = H that is [H, 3, D].
                 False with one projection: blocks [Q; K; V]
    bias:        name in the config of whether the projections have biases; or that they always or never do
    norm_spans:  queries and keys are normalised over all heads of a layer together
    """

    projections: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    grouped: bool = False
    bias: str | bool = False
    norm_spans: bool = False


LAYOUTS: dict[str, Layout] = {
    "llama": Layout(bias="attention_bias"),
    "qwen2": Layout(bias=True),
    "qwen3": Layout(bias="attention_bias"),
    "olmo2": Layout(bias="attention_bias", norm_spans=True),
    "mistral": Layout(),
    "gemma2": Layout(bias="attention_bias"),
    "gemma3_text": Layout(bias="attention_bias"),
    "phi3": Layout(projections=("qkv_proj",)),
    "gpt2": Layout(projections=("c_attn",), bias=True),
    "gpt_neox": Layout(projections=("query_key_value",), grouped=True, bias="attention_bias"),
    "opt": Layout(bias="enable_bias"),
    "bloom": Layout(projections=("query_key_value",), grouped=True, bias=True),
    "mpt": Layout(projections=("Wqkv",)),
    "falcon": Layout(projections=("query_key_value",), grouped=True, bias="bias"),
}


@dataclass(frozen=True, kw_only=True)
class Rows:
    """D rows of a projection: the query of a head, or the key or value of a KV head. start: the first of them."""

    what: What
    projection: str
    start: int


@dataclass(frozen=True, kw_only=True)
class Block:
    """Rows that are drawn together: all that a head owns alone, or the key and value that a group of heads shares.

    owner: `head` with the number of a query head, or `group` with the number of a KV head
    """

    owner: Literal["head", "group"]
    number: int
    rows: tuple[Rows, ...]


@dataclass(frozen=True, kw_only=True)
class Treated:
    """What is treated in one layer. heads: query heads whose output columns are; blocks: rows, in the order of drawing."""

    layer: int
    heads: tuple[int, ...]
    blocks: tuple[Block, ...]

    def rows(self) -> dict[str, tuple[int, ...]]:
        """Projection → first rows of all stretches of D rows in it that are treated, ascending."""
        found: dict[str, list[int]] = {}
        for block in self.blocks:
            for one in block.rows:
                found.setdefault(one.projection, []).append(one.start)
        return {name: tuple(sorted(starts)) for name, starts in found.items()}


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """What surgery on some heads touches. layers: those with a treated head, ascending; notes: what a reader must know."""

    heads: Heads
    layers: tuple[Treated, ...]
    geometry: Geometry
    notes: tuple[str, ...] = ()


def treat(heads: Heads, geometry: Geometry) -> Treatment:
    """What surgery on these heads touches in a model of this shape.

    Raises BadInput for no heads, a head that is not in the model or stands there twice.
    """
    check_heads(heads, geometry)
    layout = lookup(LAYOUTS, geometry.family, "model family")
    by_layer: dict[int, list[int]] = {}
    for layer, head in sorted(heads):
        by_layer.setdefault(layer, []).append(head)
    layers = tuple(
        Treated(layer=layer, heads=tuple(mine), blocks=_blocks(mine, layout, geometry))
        for layer, mine in by_layer.items()
    )
    return Treatment(
        heads=tuple(sorted(heads)), layers=layers, geometry=geometry, notes=_notes(by_layer, layout, geometry)
    )


def check_heads(heads: Heads, geometry: Geometry) -> None:
    """Raises BadInput, with the head, where surgery on these heads cannot be."""
    if not heads:
        raise BadInput("No head is to be treated. Choose at least one, or a rule that some head matches.")
    for layer, head in heads:
        if not (0 <= layer < geometry.layers and 0 <= head < geometry.heads):
            raise BadInput(
                f"The plan names {head_name(layer, head)}, and this model has {geometry.layers} layers of "
                f"{geometry.heads} heads: the plan is for another model."
            )
    if len(set(heads)) != len(heads):
        twice = next(one for at, one in enumerate(heads) if one in heads[:at])
        raise BadInput(f"The plan names {head_name(*twice)} twice. Name every head once.")


def has_bias(config: Any) -> bool:
    """Whether the Q/K/V projections of a model have biases; config: transformers' object, or a dict from config.json.

    A name that config.json leaves out has the value that transformers gives it: OPT's and GPT-NeoX' are true.
    """
    family = config.get("model_type") if isinstance(config, Mapping) else config.model_type
    bias = lookup(LAYOUTS, family, "model family").bias
    if isinstance(bias, bool):
        return bias
    given = config.get(bias) if isinstance(config, Mapping) else getattr(config, bias, None)
    return family in ("opt", "gpt_neox") if given is None else bool(given)


def trained_numbers(treatment: Treatment, bias: bool) -> int:
    """Numbers that are trained: rows of Q/K/V with their biases, and output columns."""
    D, M = treatment.geometry.head_dim, treatment.geometry.hidden
    total = 0
    for treated in treatment.layers:
        rows = D * sum(len(starts) for starts in treated.rows().values())
        total += rows * (M + bias) + M * D * len(treated.heads)
    return total


def whole_numbers(treatment: Treatment, bias: bool) -> int:
    """Numbers of the matrices that the trained ones are part of; the bias of W_O, which nobody touches, is not counted."""
    shape = treatment.geometry
    heights = heights_of(shape)
    total = 0
    for treated in treatment.layers:
        total += sum(heights[name] for name in treated.rows()) * (shape.hidden + bias)
        total += shape.hidden * shape.heads * shape.head_dim
    return total


def heights_of(geometry: Geometry) -> dict[str, int]:
    """Projection → how many rows it has."""
    names = lookup(LAYOUTS, geometry.family, "model family").projections
    queries, shared = geometry.heads * geometry.head_dim, geometry.kv_heads * geometry.head_dim
    sizes = (queries, shared, shared)
    return dict(zip(names, sizes, strict=True)) if len(names) == 3 else {names[0]: sum(sizes)}


def rows_of(what: What, number: int, geometry: Geometry) -> Rows:
    """Where the query of query head `number`, or the key or value of KV head `number`, lies."""
    layout = lookup(LAYOUTS, geometry.family, "model family")
    H, G, D = geometry.heads, geometry.kv_heads, geometry.head_dim
    at = ("q", "k", "v").index(what)
    if len(layout.projections) == 3:
        return Rows(what=what, projection=layout.projections[at], start=number * D)
    if layout.grouped:
        size = H // G
        group, place = divmod(number, size) if what == "q" else (number, size + at - 1)
        unit = group * (size + 2) + place
    else:
        unit = (0, H, H + G)[at] + number
    return Rows(what=what, projection=layout.projections[0], start=unit * D)


def _blocks(heads: list[int], layout: Layout, geometry: Geometry) -> tuple[Block, ...]:
    """Without sharing a head owns [Q; K; V]. With it a head owns Q, and its group [K; V], where the whole group is treated."""
    size = geometry.heads // geometry.kv_heads
    own: tuple[What, ...] = () if layout.norm_spans else ("q",)
    shared: tuple[What, ...] = ("v",) if layout.norm_spans else ("k", "v")
    if size == 1:
        own, shared = (*own, *shared), ()
    found = [_block("head", head, own, geometry) for head in heads] if own else []
    if shared:
        groups = [
            group
            for group in range(geometry.kv_heads)
            if set(range(group * size, (group + 1) * size)) <= set(heads)
        ]
        found += [_block("group", group, shared, geometry) for group in groups]
    return tuple(found)


def _block(
    owner: Literal["head", "group"], number: int, whats: tuple[What, ...], geometry: Geometry
) -> Block:
    return Block(owner=owner, number=number, rows=tuple(rows_of(what, number, geometry) for what in whats))


def _notes(by_layer: dict[int, list[int]], layout: Layout, geometry: Geometry) -> tuple[str, ...]:
    notes = []
    size = geometry.heads // geometry.kv_heads
    parted = [
        (layer, head)
        for layer, heads in by_layer.items()
        for head in heads
        if not set(range(head // size * size, (head // size + 1) * size)) <= set(heads)
    ]
    if layout.norm_spans:
        notes.append(
            "In this family one norm spans the queries, and one the keys, of all heads of a layer, so a new query would "
            "change every other head: only values and output columns are new and trained."
        )
    if parted:
        count = "One head shares" if len(parted) == 1 else f"{len(parted)} heads share"
        theirs = "its" if len(parted) == 1 else "their"
        kept = "values" if layout.norm_spans else "keys and values"
        trained = "output columns" if layout.norm_spans else "queries and output columns"
        notes.append(
            f"{count} {kept} with heads that are not treated (for one, {head_name(*parted[0])}): these stay, and only "
            f"{theirs} {trained} are new and trained. Choose whole groups of {size} heads to treat them too."
        )
    return tuple(notes)
