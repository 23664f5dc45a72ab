"""A checkpoint that is written: its folder appears whole or not at all, and its numbers are held against the model's.

What writing a checkpoint without some heads and writing a repaired model have in common.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.data.inputs import Inputs
from headviz.errors import BadInput, Failure
from headviz.models import head
from headviz.models.hashes import file_sha256
from headviz.settings import Settings
from headviz.types import SavedFile, Watch

# One of them lies in every checkpoint of ours.
HEADS_FILE, PLAN_FILE = "headviz-heads.json", "headviz-repair.json"
_TERMS = ("LICENSE*", "LICENCE*", "NOTICE*", "USE_POLICY*")  # of the model: they go where its weights go
_HELD = 1 << 25  # logits held for the comparison: 128 MB in float32


def refuse_folder(target: Path) -> None:
    """Only a checkpoint of ours is ever replaced. Raises BadInput."""
    ours = any((target / mark).is_file() for mark in (HEADS_FILE, PLAN_FILE)) or (
        target.is_dir() and not any(target.iterdir())
    )
    if target.exists() and not ours:
        raise BadInput(
            f"{target} is there already and is no checkpoint of headviz: it is left alone. Name a new folder."
        )


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A folder to write in, which becomes `target` when the block ends well and is removed when it does not.

    Raises Failure, a sentence, where it cannot be written.
    """
    folder = _fresh(target)
    try:
        yield folder
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)
    except OSError as error:
        raise Failure(
            f"The checkpoint could not be written to {target.parent}: {error.strerror or error}. Free some space, or "
            "choose another folder."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_room(state: dict[str, Tensor], folder: Path) -> None:
    """Raises Failure where the weights would not fit on the disk of `folder`."""
    need = sum({w.data_ptr(): w.numel() * w.element_size() for w in state.values()}.values())
    free = shutil.disk_usage(folder).free
    if need > 0.98 * free:
        raise Failure(
            f"The checkpoint takes {need / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free in {folder.parent}. Free some "
            "space, or write it to another disk."
        )


def add_terms(source: Path, folder: Path) -> None:
    """Copy the original's licence files from its folder."""
    for pattern in _TERMS:
        for path in sorted(source.glob(pattern)):
            shutil.copy2(path, folder / path.name)


def saved_files(target: Path, settings: Settings, watch: Watch) -> tuple[SavedFile, ...]:
    """The files of a written checkpoint, by name."""
    files = [path for path in sorted(target.iterdir()) if path.is_file()]
    return tuple(
        SavedFile(name=path.name, sha256=file_sha256(path, settings.home, watch), bytes=path.stat().st_size)
        for path in files
    )


def _fresh(target: Path) -> Path:
    """An empty folder beside `target` to write in; what a process that died left there is removed."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*"):
            if not _alive(left.suffix[1:]):
                shutil.rmtree(left, ignore_errors=True)
        folder = target.with_name(f".{target.name}.{os.getpid()}")
        folder.mkdir()
    except OSError as error:
        raise Failure(
            f"The checkpoint cannot be written to {target.parent}: {error.strerror or error}. Choose another folder."
        ) from error
    return folder


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return int(pid) != os.getpid()


# ------------------------------------------------------------------------------------------- held against the model


@dataclass
class Seen:
    """logits: (R, V) float32 of the first tokens; loss: nats a token over all inputs."""

    logits: Tensor
    loss: float


def plainly(model: Any) -> Callable[[Tensor], Tensor]:
    return lambda ids: model(input_ids=ids, use_cache=False).logits[0].float()


def probed(watching: Any) -> Callable[[Tensor], Tensor]:
    return lambda ids: head.logits(watching.model, watching.hidden(ids)[0])


def see(forward: Callable[[Tensor], Tensor], loaded: Any, inputs: Inputs, watch: Watch, doing: str) -> Seen:
    """What a model says of the inputs, one at a time; forward: ids (1, T) → logits (T, V)."""
    held: list[Tensor] = []
    total, predicted, N = 0.0, 0, len(inputs.lengths)
    with torch.inference_mode():
        for number, length in enumerate(inputs.lengths):
            watch.step(doing, number, N, "inputs")
            ids = torch.from_numpy(inputs.tokens[number, :length].astype(np.int64)).to(loaded.device)
            logits = forward(ids[None])  # (T, V)
            total += float(torch.nn.functional.cross_entropy(logits[:-1].double(), ids[1:], reduction="sum"))
            predicted += int(length) - 1
            room = _HELD // logits.shape[-1] - sum(map(len, held))
            if room > 0:
                held.append(logits[:room].cpu())
    return Seen(torch.cat(held), total / predicted)


def largest(one: Seen, other: Seen) -> float:
    return float((one.logits - other.logits).abs().max())


def check_same(
    difference: float,
    rounding: float,
    scale: float,
    dtype: torch.dtype,
    loss: float,
    due: float,
    moved: float,
    what: str,
) -> None:
    """A checkpoint that does not give the model's numbers is none: only rounding of its number format may differ.

    difference, rounding, scale: largest differences of logits, and the largest logit; loss, due: nats a token of the
    checkpoint, and what it should be; moved: by how much that differs from the stock model's; what: for the sentence

    Other shapes are multiplied in another order: 30 layers in float32 gave 1.5e-6 of the largest logit, a head too many
    or too few gives a hundredth of it and more. In 16 bits logits alone are too coarse, so the loss must agree too.
    Raises Failure.
    """
    if dtype == torch.float32:
        allowed = max(8 * rounding, 1e-4 * scale)
    else:
        allowed = 8 * (rounding + torch.finfo(dtype).eps * scale)
    apart, loss_allowed = abs(loss - due), max(0.02, 0.1 * abs(moved))
    if not (difference <= allowed and apart <= loss_allowed):
        raise Failure(
            f"The checkpoint was not kept: loaded again, its logits differ by {difference:.3g} and its loss by {apart:.3g} "
            f"from the model's {what}, where rounding explains at most {allowed:.3g} and {loss_allowed:.3g}. Please report "
            "this with the family and the version of transformers."
        )
