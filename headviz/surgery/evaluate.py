"""What a model says of held-out text, and what its heads look at: the same batches every time, so the same bits.

Batches do not depend on the memory that happens to be free: another batch rounds otherwise, and a repair that goes on after
a kill must come to the very numbers of one that was not disturbed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from headviz.analysis.batches import batches
from headviz.analysis.scoring import batch_of
from headviz.data.inputs import Inputs
from headviz.models import gate
from headviz.models.activations import fused_activations
from headviz.models.attention import Probe, probe
from headviz.models.head import logprobs
from headviz.models.restart import entries, starting_at
from headviz.types import Watch
from headviz.types.repairs import Heads

_ROOM = 1 << 62  # no limit by memory: the most tokens of a batch decide
_NAMES = {"sink": "mass", "entropy": "entropy", "output_mean": "output_norm", "full_mean": "full_norm"}


def losses(loaded: Any, inputs: Inputs, watch: Watch) -> np.ndarray:
    """(N,) nats a token of each input, which has two tokens or more; not finite where the model's are not."""
    found = np.empty(len(inputs.lengths))
    with _probed(loaded, watch) as watching:
        for batch in _batches(loaded, inputs):
            found[batch] = _batch_losses(watching, loaded, inputs, batch, watch)
    return found


def diagnose(loaded: Any, inputs: Inputs, watch: Watch) -> dict[str, np.ndarray]:
    """`mass`, `entropy`, `output_norm` (AHON) and `full_norm` of every head, (N, L, H) float32 each."""
    shape = loaded.geometry
    found = {
        name: np.empty((len(inputs.lengths), shape.layers, shape.heads), np.float32)
        for name in _NAMES.values()
    }
    with _probed(loaded, watch, want=tuple(_NAMES)) as watching:
        for batch in _batches(loaded, inputs):
            watch.check()
            for name, numbers in watching.run(*batch_of(inputs, batch, loaded.device)).items():
                found[_NAMES[name]][batch] = numbers
    return found


def token_mean(each: np.ndarray, inputs: Inputs) -> float:
    """Nats a token over all inputs, from (N,) of each."""
    return float(np.average(each, weights=inputs.lengths - 1))


def losses_without(loaded: Any, inputs: Inputs, heads: Heads, watch: Watch) -> tuple[np.ndarray, np.ndarray]:
    """((N,) with nothing off, (N, K) with each of the K heads off alone), nats a token of each input."""
    N, H = len(inputs.lengths), loaded.geometry.heads
    plain, without = np.empty(N), np.empty((N, len(heads)))
    off: list[tuple[int, int]] = []
    with _probed(loaded, watch, gates=gate.alone(off, H)) as watching:
        for batch in _batches(loaded, inputs):
            off.clear()
            with entries(loaded.model, loaded.family) as into:
                plain[batch] = _batch_losses(watching, loaded, inputs, batch, watch)
            for number, (layer, head) in enumerate(heads):
                watch.step("testing each head alone", number, len(heads), "heads")
                off[:] = [(layer, head)]
                with starting_at(loaded.model, loaded.family, layer, into[layer]):
                    without[batch, number] = _batch_losses(watching, loaded, inputs, batch, watch)
    return plain, without


@contextmanager
def _probed(loaded: Any, watch: Watch, want: Collection[str] = (), **how: Any) -> Iterator[Probe]:
    with (
        torch.inference_mode(),
        fused_activations(loaded.model),
        probe(loaded.model, want=want, watch=watch, **how) as watching,
    ):
        yield watching


def _batches(loaded: Any, inputs: Inputs) -> list[np.ndarray]:
    return batches(inputs.lengths, loaded.geometry, str(loaded.device), _ROOM)


def _batch_losses(
    watching: Probe, loaded: Any, inputs: Inputs, batch: np.ndarray, watch: Watch
) -> np.ndarray:
    ids, lengths = batch_of(inputs, batch, loaded.device)
    hidden = watching.hidden(ids, lengths)  # (B, T, M)
    found = []
    for row, n in enumerate(lengths.tolist()):
        watch.check()
        found.append(-logprobs(loaded.model, hidden[row, : n - 1], ids[row, 1:n]).double().mean())
    return torch.stack(found).cpu().numpy()
