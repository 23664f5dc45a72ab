"""Each head switched off alone: the measured map.

With a head of layer l off, everything below l is as it was. So for each layer the passes start there, from what one
ordinary pass brought to it: about half of the work of a whole pass for each head.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.means import head_means
from headviz.analysis.measure import token_losses
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import available, batch_of, ensure_checked
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import BadInput
from headviz.models import gate
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.restart import entries, starting_at
from headviz.types import HeadLosses, MapRequest, Watch


def run_map(request: MapRequest, resources: Any) -> HeadLosses:
    """The answer to a request. Raises Cancelled, BadInput, Failure."""
    started = time.perf_counter()
    if (request.replace == "mean") != (request.means_on is not None):
        raise BadInput(
            "means_on goes with replacing by the mean, and only with that: say on which text it is taken."
        )
    loaded = resources.model(request.model)
    longest = context_length(loaded.model.config)
    inputs = build_inputs(
        request.text, loaded.tokenizer, resources.settings, resources.watch, context_length=longest
    )
    if int(inputs.lengths.max()) < 2:
        raise BadInput("No input has a second token, so there is nothing to predict. Ask for longer inputs.")
    ensure_checked(loaded, inputs, resources.watch)
    means = head_means(loaded, request.means_on, resources) if request.replace == "mean" else None
    baseline, loss = losses_without_each(loaded, inputs, resources.watch, means)
    return HeadLosses(
        loss=loss,
        baseline=baseline,
        predicted=(inputs.lengths - 1).astype(np.int32),
        cluster=inputs.cluster.astype(np.int32),
        documents=tuple(inputs.documents),
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, tuple(inputs.notes)),
    )


def losses_without_each(
    loaded: Any, inputs: Inputs, watch: Watch, means: Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """((N,) losses with nothing off, (N, L, H) losses with each head off), nats summed over each input's tokens.

    means (L, H, 2, D): what stands in for a head; None for zeros.
    """
    shape, N = loaded.geometry, len(inputs.lengths)
    L, H = shape.layers, shape.heads
    baseline, loss = np.zeros(N), np.zeros((N, L, H))
    table = np.full((N, inputs.tokens.shape[1] - 1), np.nan)
    off: list[tuple[int, int]] = []
    # every layer's entry is kept, so a batch may take so much less
    plan = batches(inputs.lengths, shape, loaded.device, available(loaded.device) // 2)
    done, total = 0, len(plan) * (L * H + 1)
    with (
        torch.inference_mode(),
        probe(loaded.model, want=(), gates=gate.alone(off, H), watch=watch, means=means) as watching,
    ):

        def losses(batch: np.ndarray) -> np.ndarray:
            nonlocal done
            watch.step("switching off each head alone", done, total, "passes")
            done += 1
            token_losses(
                table, batch, watching.hidden(*batch_of(inputs, batch, loaded.device)), inputs, loaded, watch
            )
            return np.nansum(table[batch], 1)

        for batch in plan:
            off.clear()
            with entries(loaded.model, loaded.family) as into:
                baseline[batch] = losses(batch)
            for layer in range(L):
                with starting_at(loaded.model, loaded.family, layer, into[layer]):
                    for head in range(H):
                        off[:] = [(layer, head)]
                        loss[batch, layer, head] = losses(batch)
    watch.step("switching off each head alone", total, total, "passes")
    return baseline, loss
