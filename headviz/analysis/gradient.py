"""Heads in the order of their absolute gradient: a first guess at what switching one off would cost. Only an order.

Michel, Levy and Neubig 2019, "Are Sixteen Heads Really Better than One?" (arXiv 1905.10650): every head's output is
multiplied by a gate ξ = 1, and a head's importance is E |∂loss/∂ξ|, the absolute value taken input by input. It says
nothing in nats: the loss is far from linear between a head and no head.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import available, batch_of, ensure_checked
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import BadInput, Failure
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.head import logprobs
from headviz.types import GradientRequest, HeadGradients, Watch

_SHARE = 8  # every layer's activations are kept for the way back: a batch may take so much less


def run_gradient(request: GradientRequest, resources: Any) -> HeadGradients:
    """The answer to a request. Raises Cancelled, BadInput, Failure."""
    started = time.perf_counter()
    loaded = resources.model(request.model)
    longest = context_length(loaded.model.config)
    inputs = build_inputs(
        request.data, loaded.tokenizer, resources.settings, resources.watch, context_length=longest
    )
    ensure_checked(loaded, inputs, resources.watch)
    return HeadGradients(
        values=gradient_order(loaded, inputs, resources.watch),
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, tuple(inputs.notes)),
    )


def gradient_order(loaded: Any, inputs: Inputs, watch: Watch) -> np.ndarray:
    """(L, H) float64: mean over the inputs of |∂ mean next-token loss / ∂ gate|; larger matters more.

    Raises BadInput where no input has a second token, Failure where a gradient is not finite, Cancelled.
    """
    shape = loaded.geometry
    long_enough = np.flatnonzero(inputs.lengths > 1)
    if not len(long_enough):
        raise BadInput("No input has a second token, so there is nothing to predict. Ask for longer inputs.")
    total, done = np.zeros((shape.layers, shape.heads)), 0
    room = available(loaded.device) // (_SHARE * shape.layers)
    for batch in batches(inputs.lengths[long_enough], shape, loaded.device, room):
        watch.step("taking gradients", done, len(long_enough), "inputs")
        total += np.abs(_gradients(loaded, inputs, long_enough[batch], watch)).sum(0)
        done += len(batch)
    watch.step("taking gradients", done, done, "inputs")
    if not np.isfinite(total).all():
        raise Failure("The gradients of this model are not finite. Load it in float32 or bfloat16.")
    return total / done


def _gradients(loaded: Any, inputs: Inputs, batch: np.ndarray, watch: Watch) -> np.ndarray:
    """(B, L, H) gradient of each input's own mean loss."""
    shape, ids_lengths = loaded.geometry, batch_of(inputs, batch, loaded.device)
    ids, lengths = ids_lengths
    gates = torch.ones(shape.layers, len(batch), shape.heads, device=ids.device, requires_grad=True)

    def gate(layer: int, _statistics: Mapping[str, Tensor]) -> Tensor:
        return gates[layer]  # (B, H)

    with torch.enable_grad(), probe(loaded.model, want=(), gates=gate, watch=watch) as watching:
        hidden = watching.hidden(ids, lengths)  # (B, T, M)
        # back to the hidden states first, one input at a time, so that (B, T, V) never exists
        leaf = hidden.detach().requires_grad_()
        for row, n in enumerate(lengths.tolist()):
            watch.check()
            (-logprobs(loaded.model, leaf[row, : n - 1], ids[row, 1:n]).mean()).backward()
        hidden.backward(leaf.grad)
    return gates.grad.transpose(0, 1).double().cpu().numpy()
