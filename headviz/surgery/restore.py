"""A finished run on the loaded model again: the slices of all its passes, one on the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headviz.surgery import progress
from headviz.surgery.layouts import treat
from headviz.surgery.slicefile import SliceFile
from headviz.surgery.slices import Slices, sliced


@contextmanager
def restored(loaded: Any, files: Sequence[SliceFile]) -> Iterator[list[Slices]]:
    """The loaded model with the slices of these passes, first pass first, inside the block."""
    with ExitStack() as stack:
        found = []
        for file in files:
            slices = stack.enter_context(
                sliced(loaded.model, treat(file.heads, loaded.geometry), file.plan.recipe.master)
            )
            slices.load(file.tensors)
            slices.freeze()
            found.append(slices)
        yield found


def slice_files(place: Path, name: str, seed: int, point: str = "best") -> list[Path]:
    """The files that make up one run at its best or last step: the best of every pass before, and `point` of the last one.

    place: of `progress.folder`. Empty where the run has no state yet.
    """
    found: list[Path] = []
    number = 1
    while (folder := progress.run_folder(place, name, seed, number)).is_dir():
        found.append(folder / progress.BEST)
        number += 1
    if found and point == "last":
        found[-1] = found[-1].with_name(progress.LAST)
    return found if all(path.is_file() for path in found) else []
