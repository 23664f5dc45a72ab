"""Slices as a file: safetensors whose metadata says which heads of which model they belong to, and from which plan."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from headviz.errors import BadData, BadInput
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


def in_order(files: Sequence[SliceFile]) -> list[SliceFile]:
    """The files of one run, first pass first, in whatever order they are given.

    A pass is trained on the model that the one before made, so without it, or with one of another run, there never was such a
    model. Raises BadInput for files that are not pass 1, 2, … of one plan, arm and seed.
    """
    if not files:
        return []
    found = sorted(files, key=lambda file: file.number)
    numbers, first = [file.number for file in found], found[0]
    if any((one.plan, one.arm, one.seed) != (first.plan, first.arm, first.seed) for one in found):
        raise BadInput(
            "These files of slices belong to different runs, and only the passes of one run make a model. Give those of one "
            f"repair, arm and seed, such as arm {first.arm!r}, seed {first.seed}."
        )
    if twice := [number for number in numbers if numbers.count(number) > 1]:
        raise BadInput(
            f"Two of these files of slices are pass {twice[0]} of the same run. Give a single file for each pass."
        )
    if missing := sorted(set(range(1, numbers[-1] + 1)) - set(numbers)):
        one = len(missing) == 1
        raise BadInput(
            f"{'Pass' if one else 'Passes'} {', '.join(map(str, missing))} of this run {'is' if one else 'are'} missing, and pass "
            f"{numbers[-1]} was trained on the model with {'it' if one else 'them'}. Give the files of all passes together; on the "
            "command line, a folder that holds them."
        )
    return found
