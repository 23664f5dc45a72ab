"""A forward pass that starts at a later layer, from what an earlier pass brought there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from headviz.models.architectures import Family


@dataclass(frozen=True)
class Entry:
    """What goes into a layer, (B, T, M), and whether layers of this family give their output inside a tuple."""

    hidden: Tensor
    in_tuple: bool


@contextmanager
def entries(model: nn.Module, family: Family) -> Iterator[list[Entry]]:
    """Collects what goes into each layer, in order, during a pass inside the block."""
    found: list[Entry] = []

    def note(_module: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
        found.append(Entry(args[0] if args else kwargs["hidden_states"], isinstance(output, tuple)))

    handles = [
        layer.register_forward_hook(note, with_kwargs=True) for layer in model.get_submodule(family.layers)
    ]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def starting_at(model: nn.Module, family: Family, layer: int, entry: Entry) -> Iterator[None]:
    """Layers before `layer` cost nothing inside the block: what comes out of the last of them is `entry`.

    Exact for a pass over the same tokens in which nothing before `layer` has changed. Afterwards the layers are the
    very same objects in the very same places.
    """
    layers = model.get_submodule(family.layers)
    originals = list(layers)
    try:
        for number in range(layer):
            layers[number] = _Passed(originals[number], entry)
        yield
    finally:
        for number in range(layer):
            layers[number] = originals[number]


class _Passed(nn.Module):
    """Stands where a layer was, and gives `entry` in the form in which the layer gives its output."""

    def __init__(self, layer: nn.Module, entry: Entry) -> None:
        super().__init__()
        object.__setattr__(self, "_layer", layer)  # no child: its weights belong to the model, not to this
        object.__setattr__(self, "_entry", entry)
        self.train(layer.training)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(
                self.__dict__["_layer"], name
            )  # such as the kind of attention, which the model asks for

    def forward(self, *_: Any, **__: Any) -> Any:
        return (self._entry.hidden,) if self._entry.in_tuple else self._entry.hidden
