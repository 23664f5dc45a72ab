"""What results carry: the model's shape, where the numbers come from, and arrays that nobody can write to."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Shape of a model. `slopes`: ALiBi slope of each head, (H,), or None where positions are not ALiBi."""

    family: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    slopes: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What a figure carries beside its request: where, when, with what, and how far to trust the fast path.

    self_check: worst error of the fused statistics against the float32 block loop on one input of this model on
                this device: {"awft": …, "entropy": …, "value_norm": …, "output_norm": …} (norms relative)
    """

    request: dict[str, Any]
    digest: str
    device: str
    threads: int
    seconds: float
    finished: str  # ISO 8601, UTC
    versions: dict[str, str]
    self_check: dict[str, float]
    notes: tuple[
        str, ...
    ] = ()  # what a reader must know: "12 inputs, 16 were asked for: the text has no more"


class ReadOnlyArrays:
    """Arrays of a result cannot be written to: many pages share one copy."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, f.name, view)
