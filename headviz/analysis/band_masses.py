"""Attention on the first token, by column and by distance: what a worker runs. What follows from it is in `bands.py`."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import available, batch_of, ensure_checked
from headviz.data.inputs import Inputs, build_inputs, pieces
from headviz.errors import BadInput, Failure
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.blocks import Attended, Attention, weight_blocks
from headviz.types import (
    AttentionByDistance,
    Bands,
    BandsRequest,
    DataRef,
    DistanceRequest,
    Silent,
    Watch,
    head_name,
)

if TYPE_CHECKING:
    from headviz.models.loading import Loaded

_COLUMNS = ("strongest", "strongest_at", "at_bos")


def run_bands(request: BandsRequest, resources: Any) -> Bands:
    """Mass and entropy of every head on every input of the request. Raises Cancelled, BadInput, Failure."""
    started = time.perf_counter()
    check_start(request)
    loaded = resources.model(request.model)
    inputs = _begun(_inputs(request.data, loaded, resources), request, loaded.tokenizer)
    found = masses(loaded, inputs, resources.watch, columns=request.columns)
    texts = pieces(inputs.tokens[:, :1], loaded.tokenizer)
    return Bands(
        **found,
        lengths=inputs.lengths.astype(np.int32),
        cluster=inputs.cluster.astype(np.int32),
        documents=tuple(inputs.documents),
        first_is_bos=inputs.first_is_bos.astype(bool),
        first=tuple(texts[str(token)] for token in inputs.tokens[:, 0].tolist()),
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, tuple(inputs.notes)),
    )


def run_distance(request: DistanceRequest, resources: Any) -> AttentionByDistance:
    """One head's attention by distance. Raises BadInput for a head that does not exist, Cancelled, Failure."""
    started = time.perf_counter()
    loaded = resources.model(request.model)
    for what, number, count in (
        ("layer", request.layer, loaded.geometry.layers),
        ("head", request.head, loaded.geometry.heads),
    ):
        if not 0 <= number < count:
            raise BadInput(f"There is no {what} {number} here: the {what}s are numbered 0 to {count - 1}.")
    inputs = _inputs(request.data, loaded, resources)
    return AttentionByDistance(
        layer=request.layer,
        head=request.head,
        **by_distance(loaded, inputs, request.layer, request.head, resources.watch),
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, tuple(inputs.notes)),
    )


def check_start(request: BandsRequest) -> None:
    """Raises BadInput where a beginning is asked for that cannot be made."""
    if request.start != "data" and request.data.bos != "always":
        raise BadInput(
            f"The beginning {request.start!r} is made from inputs with BOS first: ask with the BOS policy always."
        )
    if request.start != "data" and request.data.chat:
        raise BadInput(f"The beginning {request.start!r} goes with plain text: switch the chat template off.")
    if (request.start == "other") != bool(request.other):
        raise BadInput(
            "The text whose first token stands in for BOS goes with the beginning 'other', and with no other."
        )
    if request.start == "two" and request.data.tokens < 2:
        raise BadInput("Two BOS tokens need inputs of 2 tokens or more.")


def masses(
    loaded: Loaded, inputs: Inputs, watch: Watch | None = None, *, columns: bool = False
) -> dict[str, np.ndarray]:
    """`mass` and `entropy`, and with `columns` the three others of `Bands`, each (N, L, H) in the order of the inputs.

    Padding (−1) may stand on either side of an input; the first real token is what counts. Raises BadInput for an input
    without tokens or with padding inside, Failure for attention that is not finite, Cancelled.
    """
    watch, inputs, shape = watch or Silent(), aligned(inputs), loaded.geometry
    ensure_checked(loaded, inputs, watch)
    N, done = len(inputs.lengths), 0
    found = {name: np.empty((N, shape.layers, shape.heads), np.float32) for name in ("mass", "entropy")}
    if columns:
        found |= {name: np.empty((N, shape.layers, shape.heads), np.float32) for name in _COLUMNS}
    bos = loaded.tokenizer.bos_token_id
    here: dict[str, Any] = {}  # the batch that is running, for `observe`

    def observe(layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, _: Attended) -> None:
        for name, numbers in _columns(q, k, ask, here["ids"], here["lengths"], bos).items():
            found[name][here["batch"], layer] = numbers.float().cpu().numpy()

    want = ("sink", "entropy")
    with (
        torch.inference_mode(),
        probe(loaded.model, want=want, watch=watch, observe=observe if columns else None) as watching,
    ):
        for batch in batches(inputs.lengths, shape, str(loaded.device), available(loaded.device)):
            watch.step("measuring attention on the first token", done, N, "inputs")
            ids, lengths = batch_of(inputs, batch, loaded.device)
            here.update(ids=ids, lengths=lengths.to(ids.device), batch=batch)
            statistics = watching.run(ids, lengths)
            found["mass"][batch], found["entropy"][batch] = (statistics[name] for name in want)
            done += len(batch)
    watch.step("measuring attention on the first token", N, N, "inputs")
    for name in ("mass", "entropy"):
        if not np.isfinite(found[name]).all():
            layer = int(np.argmax(~np.isfinite(found[name]).all((0, 2))))
            raise Failure(
                f"The attention of this model is not finite, first in layer {layer}, in {loaded.ref.dtype}. Load it in "
                "float32 or bfloat16, or check its weights."
            )
    if columns:
        found["strongest_at"] = found["strongest_at"].astype(np.int32)
    return found


def aligned(inputs: Inputs) -> Inputs:
    """The inputs with all padding on the right, and their lengths counted. Raises BadInput for holes and empty inputs."""
    real = inputs.tokens >= 0  # (N, T)
    lengths = real.sum(1)
    start = real.argmax(1)
    T = inputs.tokens.shape[1]
    whole = np.arange(T) < lengths[:, None]
    moved = np.take_along_axis(inputs.tokens, np.minimum(start[:, None] + np.arange(T), T - 1), 1)
    if not lengths.all() or (moved[whole] < 0).any():
        wrong = int(np.argmax((lengths == 0) | ((moved < 0) & whole).any(1)))
        raise BadInput(f"Input {wrong} has no token, or padding between its tokens. Leave it out.")
    return replace(
        inputs, tokens=np.where(whole, moved, -1).astype(np.int32), lengths=lengths.astype(np.int32)
    )


def by_distance(
    loaded: Loaded, inputs: Inputs, layer: int, head: int, watch: Watch | None = None
) -> dict[str, np.ndarray]:
    """`mean`, `without_first` and `queries` of `AttentionByDistance`. Raises Cancelled."""
    watch, inputs = watch or Silent(), aligned(inputs)
    ensure_checked(loaded, inputs, watch)
    T, N = int(inputs.lengths.max()), len(inputs.lengths)
    total, first = torch.zeros(T, dtype=torch.float64), torch.zeros(T, dtype=torch.float64)
    lengths: list[Tensor] = []

    def observe(at: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, _: Attended) -> None:
        if at != layer:
            return
        group = head * k.shape[1] // q.shape[1]
        slopes = None if ask.slopes is None else ask.slopes[head : head + 1]
        alone = Attention(ask.scale, ask.window, ask.softcap, slopes)
        for rows, keys, weights in weight_blocks(q[:, head : head + 1], k[:, group : group + 1], alone):
            row = torch.arange(rows.start, rows.stop, device=q.device)
            far = row[:, None] - torch.arange(keys.start, keys.stop, device=q.device)  # (rows, keys) distance
            real = row < lengths[0].to(q.device)[:, None]  # (B, rows)
            seen = torch.where(real[:, :, None], weights[:, 0], 0).sum(0)  # (rows, keys)
            total.index_add_(0, far.clamp(min=0).flatten().cpu(), seen.double().flatten().cpu())
            if keys.start == 0:
                first.index_add_(0, row.cpu(), seen[:, 0].double().cpu())

    with torch.inference_mode(), probe(loaded.model, want=(), watch=watch, observe=observe) as watching:
        done = 0
        for batch in batches(inputs.lengths, loaded.geometry, str(loaded.device), available(loaded.device)):
            watch.step(f"measuring {head_name(layer, head)} by distance", done, N, "inputs")
            ids, real = batch_of(inputs, batch, loaded.device)
            lengths[:] = [real]
            watching.hidden(ids, real)
            done += len(batch)
    return _means(total.numpy(), first.numpy(), inputs.lengths)


def _means(total: np.ndarray, first: np.ndarray, lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Sums by distance, (T,) over all keys and over first tokens alone, as means over the queries that reach so far."""
    distance = np.arange(len(total))
    queries = np.maximum(lengths[:, None] - distance, 0).sum(0)  # (T,)
    # of each input, exactly one query has its first token at a distance
    others = queries - (lengths[:, None] > distance).sum(0)
    left = np.divide(total - first, others, out=np.full(total.shape, np.nan), where=others > 0)
    return {
        "mean": total / queries,
        "without_first": np.maximum(left, 0),
        "queries": queries.astype(np.int64),
    }


def _columns(
    q: Tensor, k: Tensor, ask: Attention, ids: Tensor, lengths: Tensor, bos: int | None
) -> dict[str, Tensor]:
    """The strongest column, where it is, and the weight on BOS, (B, H) each, from blocks of one layer's weights."""
    B, T = ids.shape
    total = torch.zeros(B, q.shape[1], T, device=q.device, dtype=torch.float64)
    real = torch.arange(T, device=q.device) < lengths[:, None]  # (B, T)
    for rows, keys, weights in weight_blocks(q, k, ask):
        mine = torch.where(real[:, None, rows, None], weights, 0)
        total[:, :, keys] += mine.sum(2, dtype=torch.float64)
    mean = total / lengths[:, None, None]
    strongest, at = mean.max(-1)
    is_bos = (ids == -1 if bos is None else ids == bos) & real  # (B, T)
    on_bos = (mean * is_bos[:, None]).sum(-1)
    there = is_bos.any(-1)[:, None]
    return {"strongest": strongest, "strongest_at": at, "at_bos": torch.where(there, on_bos, torch.nan)}


def _inputs(data: DataRef, loaded: Loaded, resources: Any) -> Inputs:
    longest = context_length(loaded.model.config)
    return build_inputs(data, loaded.tokenizer, resources.settings, resources.watch, context_length=longest)


def _begun(inputs: Inputs, request: BandsRequest, tokenizer: Any) -> Inputs:
    """The inputs with the beginning that was asked for; their lengths stay."""
    if request.start == "data":
        return inputs
    tokens = inputs.tokens.copy()  # (N, T), BOS in column 0
    if request.start == "two":
        tokens[:, 1:] = np.where(inputs.tokens[:, 1:] >= 0, inputs.tokens[:, :-1], -1)
        return replace(inputs, tokens=tokens)
    ids = tokenizer(request.other, add_special_tokens=False, verbose=False)["input_ids"]
    if not ids:
        raise BadInput(
            f"The tokenizer makes no token of {request.other!r}. Give another text for the first token."
        )
    tokens[:, 0] = ids[0]
    return replace(inputs, tokens=tokens, first_is_bos=np.full(len(tokens), ids[0] == tokenizer.bos_token_id))
