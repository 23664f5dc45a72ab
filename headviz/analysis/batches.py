"""Inputs into batches: alike in length, and no larger than the memory at hand allows. No torch here."""

from __future__ import annotations

import numpy as np

from headviz.types import Geometry

_TOKENS = {"cpu": 4096, "cuda": 16384}  # more at once is no faster
_SHARE = 0.25  # of the available memory that activations may take


def batches(
    lengths: np.ndarray, geometry: Geometry, device: str, available: int, *, soon: bool = False
) -> list[np.ndarray]:
    """Indices of the inputs of each batch, longest inputs first: too little memory then shows at once.

    lengths (N,) tokens; device "cpu", "cuda:0" …; available: free bytes on it. A batch holds at least one input.
    soon: the first batch is an eighth of the others, so that a page that counts up has a first figure soon
    """
    most = _TOKENS.get(device.partition(":")[0], _TOKENS["cpu"])
    room = max(1, min(most, int(available * _SHARE) // bytes_per_token(geometry)))
    order = np.argsort(-lengths, kind="stable")
    found: list[list[int]] = []
    for index in order:
        limit = room // 8 if soon and len(found) == 1 else room
        if found and lengths[found[-1][0]] * (len(found[-1]) + 1) <= limit:  # padded to the longest
            found[-1].append(int(index))
        else:
            found.append([int(index)])
    return [np.array(batch) for batch in found]


def bytes_per_token(geometry: Geometry) -> int:
    """A generous estimate of what one token's activations take at the widest point of the forward pass.

    In float32: a dozen vectors of head outputs, and a dozen of the model's size for the stream and the MLP.
    """
    return 4 * 12 * (geometry.heads * geometry.head_dim + geometry.hidden)
