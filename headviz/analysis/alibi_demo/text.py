"""The tokenizer of the bundled ALiBi model, and its training text as one row of token ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from headviz.analysis.alibi_demo.plan import VOCABULARY

SPECIALS = ("<unk>", "<s>", "</s>", "<pad>")  # as in BLOOM, in its order


def make_tokenizer(texts: Iterable[str]) -> Any:
    """A byte-level BPE of VOCABULARY tokens trained on `texts`. As BLOOM's, it puts nothing before a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    unknown, bos, eos, pad = SPECIALS
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token=unknown, bos_token=bos, eos_token=eos, pad_token=pad,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def stream(tokenizer: Any, texts: Iterable[str]) -> np.ndarray:
    """(N,) int64 ids of all texts one after the other, `</s>` behind each, as BLOOM's training packed them."""
    end = tokenizer.eos_token_id
    rows = tokenizer.backend_tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return np.concatenate([np.array([*row.ids, end], dtype=np.int64) for row in rows])


def batch(ids: np.ndarray, seed: int, step: int, batch: int, tokens: int) -> np.ndarray:
    """(batch, tokens) windows of `ids` at random places, the same for the same seed and step."""
    draw = np.random.Generator(np.random.PCG64([seed, step]))
    starts = draw.integers(0, len(ids) - tokens, size=batch)
    return ids[starts[:, None] + np.arange(tokens)]
