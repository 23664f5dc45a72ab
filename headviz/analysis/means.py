"""The mean output of every head on some text: what stands in for a head that is switched off, beside zero.

The first position has a mean of its own. A head's output there is its first value vector, often of another size by far
than at any later token, so that one mean over all positions would break the attention sink.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from headviz.analysis.batches import batches
from headviz.analysis.scoring import available, batch_of, ensure_checked
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import Failure
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.blocks import Attended, Attention
from headviz.types import DataRef, Watch

_KEPT = 4  # texts whose means are remembered for a loaded model

_known: WeakKeyDictionary[nn.Module, dict[DataRef, Tensor]] = WeakKeyDictionary()


def head_means(loaded: Any, ref: DataRef, resources: Any) -> Tensor:
    """(L, H, 2, D) float32 mean head outputs before W_O over the inputs of `ref`: [first position, all others].

    Every token counts the same. Kept as long as the model is loaded. Raises Failure where they are not finite, and
    what `build_inputs` raises.
    """
    known = _known.setdefault(loaded.model, {})
    if ref not in known:
        longest = context_length(loaded.model.config)
        inputs = build_inputs(
            ref, loaded.tokenizer, resources.settings, resources.watch, context_length=longest
        )
        ensure_checked(loaded, inputs, resources.watch)
        while len(known) >= _KEPT:
            known.pop(next(iter(known)))
        known[ref] = means_of(loaded, inputs, resources.watch)
    return known[ref]


def means_of(loaded: Any, inputs: Inputs, watch: Watch) -> Tensor:
    """The means over given inputs; where none has a second token, the other positions get the first one's mean."""
    shape, N = loaded.geometry, len(inputs.lengths)
    sums = torch.zeros(shape.layers, shape.heads, 2, shape.head_dim, dtype=torch.float64)
    real: list[Tensor] = []

    def observe(layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, found: Attended) -> None:
        output = found.output.double()  # (B, H, T, D)
        sums[layer, :, 0] += output[:, :, 0].sum(0).cpu()
        rest = torch.where(real[0][:, None, 1:, None], output[:, :, 1:], 0)
        sums[layer, :, 1] += rest.sum((0, 2)).cpu()

    done = 0
    with torch.inference_mode(), probe(loaded.model, want=(), watch=watch, observe=observe) as watching:
        for batch in batches(inputs.lengths, shape, loaded.device, available(loaded.device)):
            watch.step("averaging head outputs", done, N, "inputs")
            ids, lengths = batch_of(inputs, batch, loaded.device)
            real[:] = [torch.arange(ids.shape[1], device=ids.device) < lengths.to(ids.device)[:, None]]
            watching.hidden(ids, lengths)
            done += len(batch)
    if not bool(sums.isfinite().all()):
        raise Failure("The model's head outputs are not finite, so they have no mean. Load it in float32.")
    others = int(inputs.lengths.sum()) - N
    sums[:, :, 0] /= N
    sums[:, :, 1] = sums[:, :, 1] / others if others else sums[:, :, 0]
    return sums.float().to(loaded.device)
