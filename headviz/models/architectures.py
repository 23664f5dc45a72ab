"""Model families: one row each. No torch here, so that menus, help and docs read the very rows that compute.

A row says where the layers are and how to get between a head's output and W_O. Two ways exist:

* `interface`: the family calls transformers' attention interface with unrepeated keys and values after RoPE; a
  function of ours is selected by name, nothing is replaced;
* `module`: the family computes attention itself; its attention module is replaced by one of ours over the very
  same weights, and put back afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headviz.errors import UnsupportedModel
from headviz.models.slopes import alibi_slopes, falcon_slopes, mpt_slopes
from headviz.types import Geometry


@dataclass(frozen=True, kw_only=True)
class Family:
    """One model family.

    model_type: transformers' name in config.json
    layers:     path from the model with its LM head to the list of layers
    attention:  name of the attention module in a layer
    output:     name of the projection W_O in the attention module; its input is the concatenated head outputs
    hook:       how attention is reached, see above
    positions:  rope (rotated queries and keys), learned (added to the embeddings) or alibi (a slope a head)
    transposed: W_O is stored (heads × head size, model size), as GPT-2's Conv1D does
    """

    model_type: str
    title: str
    layers: str
    attention: str
    output: str
    hook: Literal["interface", "module"] = "interface"
    positions: Literal["rope", "learned", "alibi"] = "rope"
    transposed: bool = False
    notes: str = ""


def _decoder(model_type: str, title: str, notes: str = "") -> Family:
    """A family with the module names of llama."""
    return Family(
        model_type=model_type,
        title=title,
        layers="model.layers",
        attention="self_attn",
        output="o_proj",
        notes=notes,
    )


FAMILIES: dict[str, Family] = {
    "llama": _decoder(
        "llama", "Llama 2 and 3, SmolLM2", "Shared key and value heads (GQA) from Llama 2 70B on."
    ),
    "qwen2": _decoder("qwen2", "Qwen2 and Qwen2.5", "Large key biases; no BOS token."),
    "qwen3": _decoder("qwen3", "Qwen3", "Queries and keys are normalised head by head."),
    "olmo2": _decoder("olmo2", "OLMo 2", "The norm of queries and keys spans all heads of a layer."),
    "mistral": _decoder("mistral", "Mistral", "Early versions attend to a sliding window of tokens."),
    "gemma2": _decoder(
        "gemma2",
        "Gemma 2",
        "Soft-capped logits, and a sliding window in every other layer: exact, but slower.",
    ),
    "gemma3_text": _decoder("gemma3_text", "Gemma 3 (text)", "A sliding window in five layers of six."),
    "phi3": _decoder(
        "phi3", "Phi-3 and Phi-4", "Queries, keys and values in one projection, block by block."
    ),
    "gpt2": Family(
        model_type="gpt2",
        title="GPT-2",
        layers="transformer.h",
        attention="attn",
        output="c_proj",
        positions="learned",
        transposed=True,
        notes="Projections are stored transposed (Conv1D).",
    ),
    "gpt_neox": Family(
        model_type="gpt_neox",
        title="GPT-NeoX and Pythia",
        layers="gpt_neox.layers",
        attention="attention",
        output="dense",
        notes="Queries, keys and values in one projection, head by head.",
    ),
    "opt": Family(
        model_type="opt",
        title="OPT",
        layers="model.decoder.layers",
        attention="self_attn",
        output="out_proj",
        positions="learned",
        notes="The query is scaled before attention.",
    ),
    "bloom": Family(
        model_type="bloom",
        title="BLOOM",
        layers="transformer.h",
        attention="self_attention",
        output="dense",
        hook="module",
        positions="alibi",
        notes="ALiBi slopes; transformers has only an eager attention for it, ours is faster and closer to exact.",
    ),
    "mpt": Family(
        model_type="mpt",
        title="MPT",
        layers="transformer.blocks",
        attention="attn",
        output="out_proj",
        hook="module",
        positions="alibi",
        notes="ALiBi slopes in an order of their own where the head count is no power of two.",
    ),
    "falcon": Family(
        model_type="falcon",
        title="Falcon with ALiBi (falcon-rw)",
        layers="transformer.h",
        attention="self_attention",
        output="dense",
        hook="module",
        positions="alibi",
        notes="ALiBi slopes divided by √(head size), as Falcon adds them before it scales the logits.",
    ),
}

_ALIASES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "hidden": ("hidden_size", "n_embd", "n_embed", "d_model"),
}


def family_of(config: Any) -> Family:
    """The row for a transformers config, or for a dict read from config.json.

    Raises UnsupportedModel with the family's name and what works, and for bidirectional variants.
    """
    model_type = _get(config, "model_type")
    if model_type not in FAMILIES:
        works = ", ".join(FAMILIES)
        raise UnsupportedModel(
            f"Models of the family {model_type!r} are not supported yet. These families work: {works}."
        )
    if _get(config, "use_bidirectional_attention") or _get(config, "is_causal") is False:
        raise UnsupportedModel(
            f"This {model_type} model attends in both directions. headviz measures causal language models: "
            "choose the causal checkpoint of the same family."
        )
    if why := _variant(config, model_type):
        raise UnsupportedModel(f"This {model_type} model {why}. Choose another checkpoint of the family.")
    return FAMILIES[model_type]


def geometry(config: Any) -> Geometry:
    """The shape of a model from its config (an object with the attributes, or a dict). Raises UnsupportedModel."""
    family = family_of(config)
    layers, heads, hidden = (_count(config, family, what) for what in ("layers", "heads", "hidden"))
    head_dim = _get(config, "head_dim") or hidden // heads
    return Geometry(
        family=family.model_type,
        layers=layers,
        heads=heads,
        kv_heads=_falcon_groups(config, heads)
        if family.model_type == "falcon"
        else _get(config, "num_key_value_heads") or heads,
        head_dim=head_dim,
        hidden=hidden,
        slopes=_slopes(config, family, heads, head_dim),
    )


def _slopes(config: Any, family: Family, heads: int, head_dim: int) -> tuple[float, ...] | None:
    if family.positions != "alibi":
        return None
    if family.model_type == "mpt":
        return mpt_slopes(heads, _get(_get(config, "attn_config") or {}, "alibi_bias_max") or 8)
    return falcon_slopes(heads, head_dim) if family.model_type == "falcon" else alibi_slopes(heads)


def _falcon_groups(config: Any, heads: int) -> int:
    """Key and value heads of a Falcon: of its own in the new architecture, else one (multi-query) or all."""
    if _get(config, "new_decoder_architecture"):
        return _get(config, "num_kv_heads") or heads
    multi = _get(config, "multi_query")
    return 1 if multi or multi is None else heads  # transformers' default is multi-query


def _variant(config: Any, model_type: str) -> str:
    """What a variant of a family has that transformers or headviz does not compute; empty for the usual one."""
    if model_type == "falcon" and not _get(config, "alibi"):
        return "rotates its positions, and only Falcon with ALiBi (falcon-rw) is supported"
    inner = _get(config, "attn_config") if model_type == "mpt" else None
    if inner is not None:
        if _get(inner, "alibi") is False:
            return "has learned positions instead of ALiBi, which transformers ignores"
        if (
            _get(inner, "qk_ln")
            or _get(inner, "prefix_lm")
            or _get(inner, "attn_type") == "multiquery_attention"
        ):
            return "has qk_ln, prefix_lm or multi-query attention, which transformers ignores"
    return ""


def context_length(config: Any) -> int | None:
    """The longest input in tokens that the positions allow; None where there is no end (ALiBi)."""
    if family_of(config).positions == "alibi":
        return None
    return _get(config, "max_position_embeddings") or _get(config, "n_positions")


def _get(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, Mapping) else getattr(config, name, None)


def _count(config: Any, family: Family, what: str) -> int:
    for name in _ALIASES[what]:
        if value := _get(config, name):
            return int(value)
    raise UnsupportedModel(
        f"The config of this {family.model_type} model has no {_ALIASES[what][0]}, so its shape is unknown. "
        "Check that the model's config.json is complete."
    )
