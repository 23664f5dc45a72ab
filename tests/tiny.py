"""A tiny random model of every family, built from its config: seconds to run, nothing to download.

Weights are scaled so that attention is far from uniform, and biases are not zero, so that a forgotten bias, a wrong
scale or a swapped head shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

VOCABULARY = 61
LAYERS = 2
_LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 40,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_HEAD_DIM = {"head_dim": 8}  # and not hidden_size / heads = 12: the two must not be mixed up
_SHORT = {"num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "bos_token_id": 1, "eos_token_id": 2}
_MPT = {"n_layers": LAYERS, "vocab_size": VOCABULARY, "d_model": 32, "n_heads": 4, "max_seq_len": 256}
# Four heads: their slopes are powers of two, which transformers' rounding of Falcon's bias to bf16 leaves as they are.
_FALCON = {
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "alibi": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


@dataclass(frozen=True)
class Tiny:
    """A config class of transformers and what it is given."""

    config: str
    settings: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Tiny] = {
    "llama": Tiny("LlamaConfig", _LLAMA | {"attention_bias": True}),
    "llama-mha": Tiny("LlamaConfig", _LLAMA | {"num_key_value_heads": 4}),
    "llama-odd": Tiny(
        "LlamaConfig", _LLAMA | {"head_dim": 10, "num_attention_heads": 3, "num_key_value_heads": 1}
    ),
    "qwen2": Tiny("Qwen2Config", _LLAMA | {"use_sliding_window": False}),
    "qwen3": Tiny("Qwen3Config", _LLAMA | _HEAD_DIM),
    "olmo2": Tiny("Olmo2Config", _LLAMA),
    "mistral": Tiny("MistralConfig", _LLAMA | _HEAD_DIM | {"sliding_window": None}),
    "mistral-window": Tiny("MistralConfig", _LLAMA | _HEAD_DIM | {"sliding_window": 9}),
    "gemma2": Tiny(
        "Gemma2Config",
        _LLAMA
        | _HEAD_DIM
        | {"sliding_window": 16, "attn_logit_softcapping": 5.0, "query_pre_attn_scalar": 6},
    ),
    "gemma3_text": Tiny(
        "Gemma3TextConfig", _LLAMA | _HEAD_DIM | {"sliding_window": 16, "query_pre_attn_scalar": 6}
    ),
    "phi3": Tiny("Phi3Config", _LLAMA | {"sliding_window": None}),
    "gpt2": Tiny(
        "GPT2Config", _SHORT | {"hidden_size": 32, "num_attention_heads": 4, "max_position_embeddings": 256}
    ),
    "gpt2-layer-scale": Tiny(
        "GPT2Config",
        _SHORT | {"hidden_size": 32, "num_attention_heads": 4, "scale_attn_by_inverse_layer_idx": True},
    ),
    "gpt_neox": Tiny(
        "GPTNeoXConfig",
        _SHORT | {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 40},
    ),
    "opt": Tiny(
        "OPTConfig",
        _SHORT
        | {
            "hidden_size": 32,
            "num_attention_heads": 4,
            "ffn_dim": 40,
            "word_embed_proj_dim": 32,
            "max_position_embeddings": 256,
            "pad_token_id": 0,
        },
    ),
    "bloom": Tiny("BloomConfig", _SHORT | {"hidden_size": 32, "n_head": 4}),
    "bloom-six-heads": Tiny("BloomConfig", _SHORT | {"hidden_size": 48, "n_head": 6}),
    "mpt": Tiny("MptConfig", _MPT),
    "mpt-six-heads": Tiny(
        "MptConfig",
        _MPT | {"d_model": 48, "n_heads": 6, "attn_config": {"clip_qkv": 2.0, "softmax_scale": 0.3}},
    ),
    "falcon": Tiny("FalconConfig", _FALCON | {"multi_query": False, "bias": True}),
    "falcon-one-key": Tiny("FalconConfig", _FALCON | {"multi_query": True, "parallel_attn": False}),
    "falcon-groups": Tiny("FalconConfig", _FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}),
}


def build(case: str, dtype: torch.dtype = torch.float32, seed: int = 0, **changes: Any) -> torch.nn.Module:
    """The causal LM of a row of CASES, in eval mode, on stock eager attention. Same seed, same weights.

    Falcon is on sdpa: in transformers 5.24 its eager path adds the ALiBi bias twice.
    """
    row = CASES[case]
    config = getattr(transformers, row.config)(**(row.settings | changes))
    stock = "sdpa" if config.model_type == "falcon" else "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=stock)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in sorted(model.named_parameters()):
            noise = torch.randn(weight.shape, generator=draw)
            if weight.ndim == 1:
                centre = (
                    0.0 if name.endswith("bias") or "gemma" in case else 1.0
                )  # a norm's weight is around one
                weight.copy_(centre + 0.2 * noise)
            else:
                fan_in = weight.shape[0] if type(model).__name__.startswith("GPT2") else weight.shape[1]
                weight.copy_(
                    noise * (1.0 if "emb" in name or "wte" in name or "wpe" in name else 1.3 * fan_in**-0.5)
                )
    return model.to(dtype).eval().requires_grad_(False)


def tokens(lengths: list[int], seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """Random token ids (B, T), padded on the right with a real token id, and their lengths (B,)."""
    draw = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, VOCABULARY, (len(lengths), max(lengths)), generator=draw)
    return ids, torch.tensor(lengths)
