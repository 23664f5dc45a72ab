"""Scores of every head on real text, and the attention pattern of one head: what a worker runs.

`run_score` and `run_pattern` answer requests. `score_inputs` is the part below them that knows no request: a loaded
model and token ids in, scores out.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.metrics import METRICS, statistics_for
from headviz.analysis.provenance import provenance
from headviz.data.inputs import Inputs, build_inputs, pieces
from headviz.errors import BadInput, Failure
from headviz.machine import memory
from headviz.models import fused
from headviz.models.architectures import context_length
from headviz.models.attention import Probe, probe
from headviz.models.blocks import Attended, Attention, exact, weights_of
from headviz.models.selfcheck import NotFiniteError, self_check
from headviz.models.statistics import norm
from headviz.types import (
    Geometry,
    HeadPattern,
    PatternRequest,
    ScoreRequest,
    ScoreTable,
    Silent,
    Watch,
    head_name,
)

if TYPE_CHECKING:
    from headviz.models.loading import Loaded

MOST_INPUTS = 2000  # values are kept input by input; past this a table would need quantiles instead
MOST_PATTERN_TOKENS = 4096  # T×T numbers: 64 MB

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Scores in the order of the inputs. values (K, N, L, H) float32, NaN with a reason; notes for the reader."""

    metrics: tuple[str, ...]
    values: np.ndarray
    reasons: dict[str, str]
    notes: tuple[str, ...]


def run_score(request: ScoreRequest, resources: Any) -> ScoreTable:
    """Every score of every head on every input of the request. Raises Cancelled, BadInput, Failure."""
    started = time.perf_counter()
    loaded = resources.model(request.model)
    inputs = _inputs(request, loaded, resources)
    scores = score_inputs(loaded, inputs, resources.watch)
    return ScoreTable(
        metrics=scores.metrics,
        values=scores.values,
        reasons=scores.reasons,
        lengths=inputs.lengths.astype(np.int32),
        tokens=inputs.tokens.astype(np.int32),
        pieces=pieces(inputs.tokens, loaded.tokenizer),
        documents=tuple(inputs.documents),
        cluster=inputs.cluster.astype(np.int32),
        first_is_bos=inputs.first_is_bos.astype(bool),
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, (*inputs.notes, *scores.notes)),
    )


def score_inputs(
    loaded: Loaded, inputs: Inputs, watch: Watch | None = None, *, metrics: tuple[str, ...] | None = None
) -> Scores:
    """Scores of a loaded model on token ids.

    loaded:  model (eval), ref, geometry, device; its self_check is filled on first use
    inputs:  tokens (N, T) padded with −1 on the right, lengths (N,), documents
    metrics: ids of METRICS, all of them if None. Without an entropy score a pass is about a third cheaper.
    Raises BadInput beyond 2,000 inputs, Failure for activations that are not finite, SelfCheckFailed, Cancelled.
    """
    watch = watch or Silent()
    chosen = tuple(METRICS) if metrics is None else tuple(metrics)
    want = statistics_for(chosen)
    N = len(inputs.lengths)
    if N > MOST_INPUTS:
        raise BadInput(
            f"{N:,} inputs were asked for; every input's values are kept, {MOST_INPUTS:,} at most."
        )
    ensure_checked(loaded, inputs, watch)
    geometry = loaded.geometry
    gathered = {name: np.empty((N, geometry.layers, geometry.heads), np.float32) for name in want}
    done = 0
    with torch.inference_mode(), probe(loaded.model, want=want, watch=watch) as watching:
        for batch in batches(inputs.lengths, geometry, str(loaded.device), available(loaded.device)):
            watch.step("scoring", done, N, "inputs")
            ids, lengths = batch_of(inputs, batch, loaded.device)
            statistics = watching.run(ids, lengths)
            _refuse_non_finite(statistics, batch, inputs, loaded)
            for name, number in statistics.items():
                gathered[name][batch] = number
            done += len(batch)
    watch.step("scoring", N, N, "inputs")
    values = np.stack([METRICS[name].compute(gathered) for name in chosen]).astype(np.float32)  # (K, N, L, H)
    missing = {name: METRICS[name].undefined for name, value in zip(chosen, values) if np.isnan(value).any()}
    return Scores(metrics=chosen, values=values, reasons=missing, notes=_notes(watching, loaded))


def run_pattern(request: PatternRequest, resources: Any) -> HeadPattern:
    """One head on one input, token by token. Raises BadInput when input, layer or head does not exist."""
    started = time.perf_counter()
    loaded = resources.model(request.model)
    inputs = _inputs(request, loaded, resources)
    _refuse_outside(request, loaded.geometry, len(inputs.lengths))
    T = int(inputs.lengths[request.input])
    if T > MOST_PATTERN_TOKENS:
        raise BadInput(
            f"Input {request.input} has {T:,} tokens; an attention pattern is drawn for {MOST_PATTERN_TOKENS:,} at most."
        )
    ensure_checked(loaded, inputs, resources.watch)
    resources.watch.step(f"reading {head_name(request.layer, request.head)}", 0, 1, "inputs")
    caught: dict[str, np.ndarray] = {}

    def observe(layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, fast: Attended) -> None:
        if layer == request.layer:
            caught.update(_pattern(request.head, q, k, v, ask, fast))

    ids, _ = batch_of(inputs, np.array([request.input]), loaded.device)
    with (
        torch.inference_mode(),
        probe(loaded.model, want=(), watch=resources.watch, observe=observe) as watching,
    ):
        watching.run(ids)
    if not all(np.isfinite(series).all() for series in caught.values()):
        raise _not_finite(request.layer, request.input, inputs, loaded)
    names = pieces(inputs.tokens[request.input : request.input + 1], loaded.tokenizer)
    return HeadPattern(
        layer=request.layer,
        head=request.head,
        **caught,
        pieces=tuple(names[str(token)] for token in ids[0].tolist()),
        document=inputs.documents[request.input],
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, (*inputs.notes, *_notes(watching, loaded))),
    )


def ensure_checked(loaded: Loaded, inputs: Inputs, watch: Watch) -> None:
    """Run the self-check on the longest input, once for a loaded model. Raises SelfCheckFailed."""
    if loaded.self_check is None:
        watch.step("checking the fast statistics against slow ones", 0, 1, "inputs")
        longest = int(np.argmax(inputs.lengths))
        ids, _ = batch_of(inputs, np.array([longest]), loaded.device)
        try:
            loaded.self_check = self_check(loaded.model, ids[0], watch)
        except NotFiniteError as error:
            raise _not_finite(error.layer, longest, inputs, loaded) from None
        _log.info("self-check of %s: %s", loaded.ref.name, loaded.self_check)


def _inputs(request: ScoreRequest | PatternRequest, loaded: Loaded, resources: Any) -> Inputs:
    longest = context_length(loaded.model.config)
    return build_inputs(
        request.data, loaded.tokenizer, resources.settings, resources.watch, context_length=longest
    )


def batch_of(inputs: Inputs, batch: np.ndarray, device: Any) -> tuple[Tensor, Tensor]:
    """Token ids (B, T) and lengths (B,) of a batch. Padding becomes token 0: no real token sees it."""
    lengths = inputs.lengths[batch]
    ids = np.maximum(inputs.tokens[batch, : lengths.max()], 0).astype(np.int64)
    return torch.from_numpy(ids).to(device), torch.from_numpy(lengths.astype(np.int64))


def _pattern(
    head: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, fast: Attended
) -> dict[str, np.ndarray]:
    """One head's (T, T) attention in float32 and what follows from it, from a layer's tensors of one input."""
    group = head * k.shape[1] // q.shape[1]
    one = slice(head, head + 1)
    slopes = None if ask.slopes is None else ask.slopes[one]
    alone = Attention(ask.scale, ask.window, ask.softcap, slopes)
    weights = weights_of(q[:, one], k[:, group : group + 1], alone)[0, 0]  # (T, T)
    found = {
        "attention": weights,
        "entropy": torch.special.entr(weights).sum(-1),
        "sink": weights[:, 0],
        "value_norm": norm(v[0, group]),
        "output_norm": norm(exact(fast.output[0, head])),
    }
    return {name: series.float().cpu().numpy() for name, series in found.items()}


def _refuse_outside(request: PatternRequest, geometry: Geometry, inputs: int) -> None:
    for what, number, count in (
        ("input", request.input, inputs),
        ("layer", request.layer, geometry.layers),
        ("head", request.head, geometry.heads),
    ):
        if not 0 <= number < count:
            raise BadInput(f"There is no {what} {number} here: the {what}s are numbered 0 to {count - 1}.")


def _refuse_non_finite(
    statistics: dict[str, np.ndarray], batch: np.ndarray, inputs: Inputs, loaded: Loaded
) -> None:
    broken = np.zeros((len(batch), loaded.geometry.layers), bool)  # (B, L)
    for number in statistics.values():
        broken |= ~np.isfinite(number).all(-1)
    if broken.any():
        layer = int(np.argmax(broken.any(0)))
        raise _not_finite(layer, int(batch[np.argmax(broken[:, layer])]), inputs, loaded)


def _not_finite(layer: int, number: int, inputs: Inputs, loaded: Loaded) -> Failure:
    return Failure(
        f"The model's activations are not finite: first in layer {layer}, on input {number} "
        f"({inputs.documents[number]}), in {loaded.ref.dtype}. Load it in float32 or bfloat16, or check its weights."
    )


def available(device: Any) -> int:
    """Free bytes on the device that computes."""
    if torch.device(device).type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return memory()[1]


def _notes(watching: Probe, loaded: Loaded) -> tuple[str, ...]:
    notes = []
    if watching.in_blocks:
        count = len(watching.in_blocks)
        notes.append(
            f"{count} of {loaded.geometry.layers} layers were computed in float32 blocks of queries, where no fused "
            "operation applies: soft-capped logits, a sliding window shorter than the input, or this device."
        )
    low = next(loaded.model.parameters()).dtype in (torch.bfloat16, torch.float16)
    if "cpu-flash" in watching.kernels and low and not fused.low_precision_pays():
        notes.append(
            f"Attention was computed in float32 from {loaded.ref.dtype} activations, which is faster on this processor."
        )
    return tuple(notes)
