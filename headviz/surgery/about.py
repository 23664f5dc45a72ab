"""What a plan needs to know of a model before anything is loaded. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from headviz.errors import BadInput
from headviz.models import architectures, catalog
from headviz.settings import Settings
from headviz.surgery.layouts import has_bias
from headviz.types import Geometry, ModelRef


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a plan needs to know of a model, from its config and the headers of its files alone.

    bias: whether Q/K/V have biases; longest: context in tokens, None for no end; numbers, bytes: of the model, None where its
    files are not here
    """

    geometry: Geometry
    bias: bool
    longest: int | None
    numbers: int | None
    bytes: int | None


def facts(model: ModelRef, settings: Settings) -> Facts:
    """Raises BadInput where the model's config is not on this machine yet."""
    config = catalog.config_here(model, settings)
    if config is None:
        raise BadInput(
            f"{catalog.label(model)} is not on this machine yet, so its heads are not known. Score it once, which fetches it."
        )
    size = catalog.size(model, settings)
    per = 4 if model.dtype == "float32" else 2
    return Facts(
        geometry=architectures.geometry(config),
        bias=has_bias(config),
        longest=architectures.context_length(config),
        numbers=None if size is None else size // per,
        bytes=size,
    )
