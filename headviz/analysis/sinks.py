"""Where attention goes among the first tokens: what a worker runs. What follows from it is in `sinkplace.py`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import available, batch_of, ensure_checked
from headviz.analysis.sinkplace import check_positions, check_size
from headviz.data.inputs import Inputs, build_inputs, pieces
from headviz.errors import Failure
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.blocks import Attended, Attention
from headviz.models.early import early_means
from headviz.types import SinkPlaces, SinkRequest, Watch

if TYPE_CHECKING:
    from headviz.models.loading import Loaded


def run_sinks(request: SinkRequest, resources: Any) -> SinkPlaces:
    """Mean attention on each of the first tokens, head by head. Raises Cancelled, BadInput, Failure."""
    started = time.perf_counter()
    check_positions(request.positions)
    loaded = resources.model(request.model)
    longest = context_length(loaded.model.config)
    inputs = build_inputs(
        request.data, loaded.tokenizer, resources.settings, resources.watch, context_length=longest
    )
    weights = early_weights(loaded, inputs, request.positions, resources.watch)
    tokens = inputs.tokens[:, : weights.shape[-1]].astype(np.int32)
    return SinkPlaces(
        weights=weights,
        lengths=inputs.lengths.astype(np.int32),
        tokens=tokens,
        pieces=pieces(tokens, loaded.tokenizer),
        documents=tuple(inputs.documents),
        cluster=inputs.cluster.astype(np.int32),
        first_is_bos=inputs.first_is_bos.astype(bool),
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, tuple(inputs.notes)),
    )


def early_weights(loaded: Loaded, inputs: Inputs, positions: int, watch: Watch) -> np.ndarray:
    """(N, L, H, P) float32, P = min(positions, longest input): mean weight on token j over the queries i ≥ j.

    NaN where an input has no token j. Raises BadInput for more numbers than are kept, Failure where attention is not
    finite, Cancelled.
    """
    shape, N = loaded.geometry, len(inputs.lengths)
    P = min(positions, int(inputs.lengths.max()))
    check_size(N, shape, P)
    ensure_checked(loaded, inputs, watch)
    found = np.full((N, shape.layers, shape.heads, P), np.nan, np.float32)
    batch, lengths = np.arange(0), torch.zeros(0)  # of the pass that runs now

    def observe(layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, attended: Attended) -> None:
        means = early_means(q, k, ask, attended, lengths, P)  # (B, H, P of this batch)
        found[batch, layer, :, : means.shape[-1]] = means.float().cpu().numpy()

    done = 0
    with torch.inference_mode(), probe(loaded.model, want=(), watch=watch, observe=observe) as watching:
        for batch in batches(inputs.lengths, shape, str(loaded.device), available(loaded.device)):
            watch.step("looking for sinks", done, N, "inputs")
            ids, lengths = batch_of(inputs, batch, loaded.device)
            watching.hidden(ids, lengths)
            done += len(batch)
    watch.step("looking for sinks", N, N, "inputs")
    there = np.arange(P) < inputs.lengths[:, None]  # (N, P)
    if not np.isfinite(found.transpose(0, 3, 1, 2)[there]).all():
        raise Failure(
            f"The model's attention is not finite, in {loaded.ref.dtype}. Load it in float32 or bfloat16, or check its "
            "weights."
        )
    return found
