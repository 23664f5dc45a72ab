"""A BLOOM whose heads collapse by construction: which ones, and how far, is written into its weights by hand.

Two tokens (MARKS) carry a mark that no other token has. The stream is never changed, so every layer sees it. A planted
head's keys read the mark and its queries are a constant, which raises the logit of a marked token by a chosen number of
nats; all other heads have no logits but ALiBi's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
import transformers

from headviz.analysis.nulls import advantage
from headviz.models.slopes import alibi_slopes

LAYERS, HEADS, HIDDEN, VOCABULARY = 4, 16, 64, 61
BOS = 1
MARKS = (BOS, 60)  # the BOS, and a token that is none and that no text has


def model(plan: Mapping[tuple[int, int], float], T: int) -> torch.nn.Module:
    """plan: (layer, head) → mean mass on a marked first token of T, 0..1."""
    config = transformers.BloomConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=BOS,
        eos_token_id=2,
    )
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    D = HIDDEN // HEADS
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        embedding = torch.randn(VOCABULARY, HIDDEN, generator=draw)
        embedding[:, 0] = 0
        embedding[list(MARKS)] = 0
        embedding[list(MARKS), 0] = math.sqrt(HIDDEN)
        made.get_input_embeddings().weight.copy_(embedding)
        for weight in made.transformer.h.parameters():
            weight.zero_()
        for layer in made.transformer.h:
            for norm in (layer.input_layernorm, layer.post_attention_layernorm):
                norm.weight.fill_(1)
        ahead = _mark(made)
        for (layer, head), mass in plan.items():
            qkv = made.transformer.h[layer].self_attention.query_key_value
            qkv.bias.view(HEADS, 3, D)[head, 0, 0] = math.sqrt(D)
            wanted = advantage(alibi_slopes(HEADS)[head], T, mass)
            qkv.weight.view(HEADS, 3, D, HIDDEN)[head, 1, 0, 0] = wanted / ahead
    return made.requires_grad_(False)


def _mark(made: torch.nn.Module) -> float:
    """How much larger the marked number is on marked tokens than on the others, as attention sees it.

    On others it differs a little from token to token: the mean of the largest and the smallest is taken.
    """
    inner = made.transformer
    seen = inner.word_embeddings_layernorm(inner.word_embeddings.weight)
    seen = inner.h[0].input_layernorm(seen)[:, 0]
    others = torch.tensor([token not in MARKS for token in range(VOCABULARY)])
    return float(seen[MARKS[0]] - (seen[others].max() + seen[others].min()) / 2)


def tokens(N: int, T: int, first: int = MARKS[1], seed: int = 0) -> np.ndarray:
    """(N, T) int32: `first`, then random unmarked tokens."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(3, MARKS[1], (N, T)).astype(np.int32)
    ids[:, 0] = first
    return ids
