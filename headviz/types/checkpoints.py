"""A checkpoint that was written, as a result."""

from __future__ import annotations

from dataclasses import dataclass

from headviz.types.carried import Geometry, Provenance


@dataclass(frozen=True, kw_only=True)
class SavedFile:
    """A file of a written checkpoint."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Tokens a second, one number a turn; the model as it was and the checkpoint took turns, B = 1.

    doing:  `reading` `tokens` tokens of a prompt at once, or `writing` as many, one after the other
    """

    doing: str
    tokens: int
    before: tuple[float, ...]
    after: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class CheckpointReport:
    """A checkpoint that was written, and how it compares with the model that it was made from.

    name:       of its folder, and of the model in lists; revision: its content hash; off: how many heads are gone
    difference: largest |logit of the checkpoint in plain transformers − logit of the model with the heads switched off|
                over `compared` tokens; rounding: the same with nothing off, so what plain transformers and headviz differ by
                anyway; same_next: share of these tokens after which both put the same token first, 0..1
    loss_before, loss_off, loss_after: nats a token of the model, of the model with the heads switched off, and of the
                checkpoint in plain transformers
    speeds:     empty where they were not measured: then a note of the provenance says why
    """

    name: str
    revision: str
    smaller: bool
    off: int
    files: tuple[SavedFile, ...]
    parameters_before: int
    parameters_after: int
    difference: float
    rounding: float
    same_next: float
    compared: int
    loss_before: float
    loss_off: float
    loss_after: float
    speeds: tuple[Speed, ...]
    geometry: Geometry
    provenance: Provenance

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)
