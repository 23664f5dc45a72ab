"""Slices as a file: safetensors whose metadata says which heads of which model they belong to, and from which plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from headviz.errors import BadData
from headviz.surgery.meter import Meter, write_whole
from headviz.types import RepairRequest, build
from headviz.types.repairs import Heads

FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class SliceFile:
    """What a file of slices holds.

    plan:  the request; arm, seed, number: which of its runs, and the pass; step: of training
    heads: the treated ones; ended: why the run ended, empty in between
    tensors: as in `Slices.state`, and with an optimiser `first.<name>` and `second.<name>`, AdamW's moments
    """

    plan: RepairRequest
    arm: str
    seed: int
    number: int
    step: int
    heads: Heads
    ended: str
    tensors: dict[str, Tensor]


def save_slices(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, Any], meter: Meter) -> None:
    """Write them whole. note: the other fields of `SliceFile`, as JSON types."""
    meta = {"headviz": json.dumps({"format": FORMAT, **note}, sort_keys=True)}
    ready = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_whole(path, lambda where: save_file(ready, where, metadata=meta), meter)


def read_slices(path: Path) -> SliceFile:
    """Raises FileNotFoundError where there is none, BadData for a file that is no such file."""
    if not path.is_file():
        raise FileNotFoundError(path)
    try:
        with safe_open(path, framework="pt") as file:
            note = json.loads((file.metadata() or {})["headviz"])
        if note.pop("format") != FORMAT:
            raise ValueError("another format")
        return SliceFile(
            tensors=load_file(path),
            heads=tuple((int(layer), int(head)) for layer, head in note.pop("heads")),
            plan=build(RepairRequest, note.pop("plan")),
            **note,
        )
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise BadData(
            f"{path.name} holds no slices of headviz ({error}). Choose a file that it wrote."
        ) from None
