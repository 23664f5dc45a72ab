"""How a model goes on from a prompt with some heads off, the likeliest token each time: what a worker runs."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.provenance import provenance
from headviz.analysis.side_by_side import check_request
from headviz.analysis.switching import Switch
from headviz.data.encoding import prompt_ids
from headviz.data.inputs import pieces
from headviz.errors import BadInput, Failure
from headviz.models.architectures import context_length
from headviz.models.decode import decoding
from headviz.models.head import logits
from headviz.models.selfcheck import NotFiniteError, self_check
from headviz.types import GenerateRequest, Generation, Watch

# What transformers' `generate` would do beside taking the likeliest token, and the value with which it does not.
_PLAIN = {
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "min_length": 0,
    "min_new_tokens": None,
    "sequence_bias": None,
    "guidance_scale": None,
}


def run_generate(request: GenerateRequest, resources: Any) -> Generation:
    """The answer to a request. Raises Cancelled, BadInput, Failure."""
    started = time.perf_counter()
    check_request(request)
    loaded, watch = resources.model(request.model), resources.watch
    prompt = prompt_ids(loaded.tokenizer, request.prompt, bos=request.bos, chat=request.chat)
    _check_room(len(prompt), request.new_tokens, context_length(loaded.model.config))
    checked = loaded.self_check or _checked(prompt, loaded, watch)
    switch = Switch(request.ablation, loaded, resources)
    ends = end_tokens(loaded)
    tokens, logprob, entropy, notes = _written(prompt, request.new_tokens, ends, loaded, switch, watch)
    names = pieces(np.array([*prompt, *tokens]), loaded.tokenizer)
    made = provenance(request, loaded, started, (*_left_out(loaded.model), *notes))
    return Generation(
        prompt=np.array(prompt, np.int32),
        prompt_pieces=tuple(names[str(token)] for token in prompt),
        tokens=np.array(tokens, np.int32),
        pieces=tuple(names[str(token)] for token in tokens),
        text=loaded.tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False),
        logprob=np.array(logprob),
        entropy=np.array(entropy),
        stop="end" if tokens[-1] in ends else "length",
        geometry=loaded.geometry,
        provenance=replace(made, self_check=dict(checked)),
    )


def _written(
    prompt: list[int], most: int, ends: frozenset[int], loaded: Any, switch: Switch, watch: Watch
) -> tuple[list[int], list[float], list[float], tuple[str, ...]]:
    """(new tokens, log-probability and entropy of each, notes)."""
    tokens: list[int] = []
    logprobs: list[float] = []
    entropies: list[float] = []
    with (
        torch.inference_mode(),
        decoding(loaded.model, gates=switch.whole, watch=watch, means=switch.means) as watching,
    ):
        fresh = prompt
        while len(tokens) < most and not (tokens and tokens[-1] in ends):
            watch.step("writing", len(tokens), most, "tokens")
            scores = logits(loaded.model, watching.read(fresh)[None])[0]  # (V,)
            token, logprob, entropy = _likeliest(scores, loaded)
            tokens.append(token)
            logprobs.append(logprob)
            entropies.append(entropy)
            fresh = [token]
    watch.step("writing", len(tokens), len(tokens), "tokens")
    why = "the whole text was run again for each token: its positions depend on how long the text is"
    return tokens, logprobs, entropies, (why,) if watching.whole else ()


def end_tokens(loaded: Any) -> frozenset[int]:
    """Ids that end a text: those of the model's generation settings; the tokenizer's EOS where they name none."""
    settings = getattr(loaded.model, "generation_config", None)
    named = getattr(settings, "eos_token_id", None)
    if named is None:
        named = loaded.tokenizer.eos_token_id
    if named is None:
        return frozenset()
    return frozenset(named) if isinstance(named, (list, tuple)) else frozenset([named])


def _likeliest(scores: Tensor, loaded: Any) -> tuple[int, float, float]:
    """(token, its log-probability, entropy of the distribution) from logits (V,); ties go to the lowest id."""
    log = scores.double().log_softmax(-1)
    token = int(scores.argmax())
    entropy = -float(torch.xlogy(log.exp(), log.exp()).sum())
    if not np.isfinite([float(log[token]), entropy]).all():
        raise _not_finite(loaded)
    return token, float(log[token]), max(entropy, 0.0)


def _checked(prompt: list[int], loaded: Any, watch: Watch) -> dict[str, float]:
    """The self-check on the prompt. It is not kept for the model: a prompt may be short, and scores want a long input."""
    watch.step("checking fused attention against a slow one")
    try:
        return self_check(loaded.model, torch.tensor(prompt, device=loaded.device), watch)
    except NotFiniteError:
        raise _not_finite(loaded) from None


def _check_room(prompt: int, more: int, longest: int | None) -> None:
    """Raises BadInput where prompt and new tokens do not fit the model's context."""
    if longest is None or prompt + more <= longest:
        return
    rest = longest - prompt
    if rest < 1:
        raise BadInput(
            f"The prompt has {prompt:,} tokens and the model's context is {longest:,}, so there is no room for a new one. "
            "Shorten the prompt."
        )
    raise BadInput(
        f"The prompt has {prompt:,} tokens, {more} more are asked for, and the model's context is {longest:,}. Shorten the "
        f"prompt, or ask for at most {rest} new tokens."
    )


def _left_out(model: Any) -> tuple[str, ...]:
    """A note where the model's own generation settings would change even greedy decoding."""
    settings = getattr(model, "generation_config", None)
    asks = [
        f"{name} {value}"
        for name, plain in _PLAIN.items()
        if (value := getattr(settings, name, None)) not in (None, plain)
    ]
    if not asks:
        return ()
    return (
        f"the likeliest token each time; the model's own generation settings ({', '.join(asks)}) are left out",
    )


def _not_finite(loaded: Any) -> Failure:
    return Failure(
        f"The model's activations are not finite on this prompt, in {loaded.ref.dtype}. Load it in float32 or bfloat16, "
        "or check its weights."
    )
