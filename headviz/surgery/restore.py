"""A finished run on the loaded model again: the slices of all its passes, one on the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

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
