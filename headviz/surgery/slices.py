"""Trained slices of a frozen model: a head's rows of Q/K/V and its columns of W_O, as the only parameters there are.

    with sliced(model, treat(heads, geometry)) as slices:       # nothing has changed yet: slices are as the model has them
        slices.reinitialise(seed=0, number=1, recipe=recipe)
        optimiser = AdamW(slices.parameters())

The frozen projection is called, and the treated rows of what it gives are replaced by `linear(x, rows)`; W_O is called on
its input with the treated heads zero, and `linear(heads, columns)` is added. So the frozen matrices need no gradient and
no optimiser state and cannot change, and they may be quantised: they are only called. Where a plain matrix is trained
beside, the way there and back leaves out the rows and columns that are replaced; measuring always calls the layer, so that
untouched heads are the stock model's to the last bit. Slices may lie on slices (a second pass). Afterwards the model is
what it was, module for module and bit for bit, also after an exception.

Letters: R treated rows, C treated columns, M model size, D head size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headviz.models.architectures import FAMILIES, family_of
from headviz.models.attention import attention_modules
from headviz.surgery.beside import SlicedOutput, SlicedProjection, columns_of, rows_of
from headviz.surgery.layouts import Block, Treated, Treatment
from headviz.types import Recipe, Silent, Watch

State = dict[str, Tensor]


class Slices:
    """What is trained in one pass. `modules`: (layer, name in the attention module) → what stands there now."""

    def __init__(self, treatment: Treatment, modules: dict[tuple[int, str], nn.Module], output: str) -> None:
        self.treatment, self._modules, self._output = treatment, modules, output

    def named(self) -> dict[str, nn.Parameter]:
        """`<layer>.<projection>.rows`, `.bias` and `.columns` → the parameter, in the order of layers."""
        return {
            f"{layer}.{name}.{part}": parameter
            for (layer, name), module in self._modules.items()
            for part, parameter in module.named_parameters(recurse=False)
        }

    def parameters(self) -> list[nn.Parameter]:
        return list(self.named().values())

    def state(self) -> State:
        """Copies in main memory."""
        return {name: parameter.detach().cpu().clone() for name, parameter in self.named().items()}

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take these numbers. Raises KeyError where a slice is missing."""
        for name, parameter in self.named().items():
            parameter.copy_(state[name])

    def freeze(self) -> None:
        """From here on they are part of the model: another pass lies on top."""
        for parameter in self.parameters():
            parameter.requires_grad_(False)

    @torch.no_grad()
    def silence(self) -> None:
        """Output columns zero: the heads add nothing."""
        for treated in self.treatment.layers:
            self._modules[treated.layer, self._output].columns.zero_()

    @torch.no_grad()
    def reinitialise(self, seed: int, number: int, recipe: Recipe) -> None:
        """New Q/K/V weights, Q/K/V biases and output columns zero, as the paper does it.

        With `joint`, all that a head owns alone is drawn as one block, (3·D, M) without sharing: uniform in ±√(6/(M + 3·D)),
        or normal with deviation √(2/(M + 3·D)). Under GQA a head owns only its query (D, M), and a group owns its key and
        value, a block (2·D, M); where only values are treated, a block is (D, M). Without `joint` every block is (D, M).
        Each block has a generator of its own, seeded by (seed, pass, layer, owner), so that a head gets the same numbers
        whichever others are treated, in every arm and on every device.
        """
        self.silence()
        D = self.treatment.geometry.head_dim
        for treated in self.treatment.layers:
            rows = treated.rows()
            for name in rows:
                if (bias := self._modules[treated.layer, name].bias) is not None:
                    bias.zero_()
            for block in treated.blocks:
                fresh = drawn(block, treated.layer, self.treatment, seed, number, recipe)
                for one, part in zip(block.rows, fresh.split(D), strict=True):
                    at = rows[one.projection].index(one.start) * D
                    self._modules[treated.layer, one.projection].rows[at : at + D].copy_(part)


def drawn(block: Block, layer: int, treatment: Treatment, seed: int, number: int, recipe: Recipe) -> Tensor:
    """(rows of the block, M) float32: the new weights of one block in pass `number`."""
    draw = torch.Generator().manual_seed(_seed(seed, number, layer, block))
    fill = {"xavier-uniform": nn.init.xavier_uniform_, "xavier-normal": nn.init.xavier_normal_}[recipe.init]
    D, M = treatment.geometry.head_dim, treatment.geometry.hidden
    sizes = [D * len(block.rows)] if recipe.joint else [D] * len(block.rows)
    return torch.cat([fill(torch.empty(size, M), generator=draw) for size in sizes])


@contextmanager
def sliced(
    model: nn.Module, treatment: Treatment, master: Literal["float32", "model"] = "float32"
) -> Iterator[Slices]:
    """Slices of `treatment` on `model` inside the block, with the numbers that the model has there; they want gradients.

    master: `float32` (float64 for a float64 model), or `model`: in the model's own dtype. Each slice lies on the device of
    its layer.
    """
    family = family_of(model.config)
    dtype = model.get_input_embeddings().weight.dtype
    if master == "float32":
        dtype = torch.promote_types(dtype, torch.float32)
    attention = attention_modules(model, family)
    modules: dict[tuple[int, str], nn.Module] = {}
    originals: list[tuple[nn.Module, str, nn.Module]] = []
    try:
        for treated in treatment.layers:
            parts = _parts(treated, attention[treated.layer], family.output, treatment, dtype)
            for name, module in parts.items():
                originals.append((attention[treated.layer], name, getattr(attention[treated.layer], name)))
                setattr(attention[treated.layer], name, module)
                modules[treated.layer, name] = module
        yield Slices(treatment, modules, family.output)
    finally:
        for module, name, original in reversed(originals):
            setattr(module, name, original)


def written(state: Mapping[str, Tensor], slices: Mapping[str, Tensor], treatment: Treatment) -> State:
    """The model's state dict with `slices` (of `Slices.state`) in their places, in the state's own dtype.

    What is not touched is shared, not copied; `state` itself does not change. The weights must not be quantised.
    """
    family = FAMILIES[treatment.geometry.family]
    found = dict(state)
    for treated in treatment.layers:
        where = f"{family.layers}.{treated.layer}.{family.attention}"
        for name, index in _indices(treated, treatment, family.output).items():
            weight = found[f"{where}.{name}.weight"].clone()
            # Conv1D is stored (in, out): its columns are the rows of a Linear
            view = weight.T if family.transposed else weight
            index = index.to(weight.device)
            key = f"{treated.layer}.{name}"
            if name == family.output:
                view[:, index] = slices[f"{key}.columns"].to(weight)
            else:
                view[index] = slices[f"{key}.rows"].to(weight)
                if f"{key}.bias" in slices:
                    bias = found[f"{where}.{name}.bias"].clone()
                    bias[index] = slices[f"{key}.bias"].to(bias)
                    found[f"{where}.{name}.bias"] = bias
            found[f"{where}.{name}.weight"] = weight
    return found


# ------------------------------------------------------------------------------------------------- how a slice begins


def _indices(treated: Treated, treatment: Treatment, output: str) -> dict[str, Tensor]:
    """Projection → the rows of it that are treated, ascending; W_O → columns."""
    D = treatment.geometry.head_dim
    starts = {**treated.rows(), output: tuple(head * D for head in treated.heads)}
    within = torch.arange(D)
    return {name: (torch.tensor(several)[:, None] + within).flatten() for name, several in starts.items()}


def _parts(
    treated: Treated, attention: nn.Module, output: str, treatment: Treatment, dtype: torch.dtype
) -> dict[str, nn.Module]:
    found: dict[str, nn.Module] = {}
    for name, index in _indices(treated, treatment, output).items():
        frozen = getattr(attention, name)
        index = index.to(frozen.weight.device)
        if name == output:
            width = treatment.geometry.heads * treatment.geometry.head_dim
            found[name] = SlicedOutput(frozen, index, columns_of(frozen, index, width, dtype))
        else:
            found[name] = SlicedProjection(
                frozen, index, *rows_of(frozen, index, treatment.geometry.hidden, dtype)
            )
    return found


def _seed(seed: int, number: int, layer: int, block: Block) -> int:
    words = f"{seed} {number} {layer} {block.owner} {block.number}"
    return int.from_bytes(hashlib.sha256(words.encode()).digest()[:7], "big")


def frozen_hash(model: Any, watch: Watch | None = None) -> str:
    """sha256, 64 hex digits, over the names and bytes of all tensors of a model without slices. Raises Cancelled."""
    whole, watch = hashlib.sha256(), watch or Silent()
    for name, tensor in sorted(model.state_dict().items()):
        watch.check()
        if not isinstance(tensor, Tensor):
            whole.update(f"{name}\0{tensor!r}\n".encode())
            continue
        whole.update(f"{name}\0{tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().contiguous().flatten()
        whole.update(flat.view(torch.uint8).cpu().numpy() if flat.numel() else b"")
    return whole.hexdigest()
