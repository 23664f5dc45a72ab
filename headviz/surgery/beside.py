"""A frozen projection with trained rows or columns beside it, as modules that stand where the projection was.

The frozen layer is called as it is, so it may be quantised. Where it is a plain matrix and gradients are wanted, it is
multiplied piece by piece instead, without the rows and columns that are replaced: less work on the way there and back.
Letters: R treated rows, C treated columns, M model size, D head size.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

_PIECES = 24  # a layer is cut into at most so many while it trains


class SlicedProjection(nn.Module):
    """A frozen projection with some of its rows trained. rows (R, M), bias (R,) or None, index (R,) which rows they are."""

    def __init__(self, frozen: nn.Module, index: Tensor, rows: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.frozen = frozen
        self.rows = nn.Parameter(rows.contiguous())
        self.bias = None if bias is None else nn.Parameter(bias)
        self.register_buffer("index", index, persistent=False)
        self._stretches = _stretches(index, frozen, 0)
        self.train(frozen.training)

    @property
    def weight(self) -> Tensor:
        """The frozen weight, for who asks for its dtype and device."""
        return self.frozen.weight

    def forward(self, x: Tensor) -> Tensor:
        """(…, M) → (…, all rows)."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        mine = linear(x, self.rows.to(x.dtype), bias)  # (…, R)
        if self._stretches is None or not torch.is_grad_enabled():
            whole = self.frozen(x)
            return whole.index_copy(-1, self.index, mine.to(whole.dtype))
        # the same without the rows that would be thrown away, on the way there and back
        matrix, own = _plain_matrix(self.frozen), self.frozen.bias
        treated = iter(mine.split([size for _, size, kept in self._stretches if not kept], -1))
        pieces = [
            linear(x, matrix[start : start + size], None if own is None else own[start : start + size])
            if kept
            else next(treated)
            for start, size, kept in self._stretches
        ]
        return torch.cat(pieces, -1)


class SlicedOutput(nn.Module):
    """A frozen W_O with some heads' columns trained. columns (M, C), index (C,) which columns they are."""

    def __init__(self, frozen: nn.Module, index: Tensor, columns: Tensor) -> None:
        super().__init__()
        self.frozen = frozen
        self.columns = nn.Parameter(columns.contiguous())
        self.register_buffer("index", index, persistent=False)
        self._stretches = _stretches(index, frozen, 1)
        self.train(frozen.training)

    @property
    def weight(self) -> Tensor:
        """The frozen weight, for who asks for its dtype and device."""
        return self.frozen.weight

    def forward(self, x: Tensor) -> Tensor:
        """(…, H·D) head outputs → (…, M)."""
        columns = self.columns.to(x.dtype)
        if self._stretches is None or not torch.is_grad_enabled():
            mine = x.index_select(-1, self.index)  # (…, C)
            rest = self.frozen(x.index_fill(-1, self.index, 0))
            return rest + linear(mine, columns).to(rest.dtype)
        matrix, pieces = _plain_matrix(self.frozen), x.split([size for _, size, _ in self._stretches], -1)
        mine = [piece for piece, (_, _, kept) in zip(pieces, self._stretches, strict=True) if not kept]
        total = linear(torch.cat(mine, -1), columns, self.frozen.bias)
        for piece, (start, size, kept) in zip(pieces, self._stretches, strict=True):
            if kept:
                total = total + linear(piece, matrix[:, start : start + size])
        return total


# -------------------------------------------------------------------------------------------- what the frozen layer holds


def _stretches(index: Tensor, frozen: nn.Module, side: int) -> list[tuple[int, int, bool]] | None:
    """(start, size, whether it stays frozen) of neighbouring rows (side 0) or columns (side 1), in order.

    None where the layer must be called as it is (quantised, or itself sliced), or is cut into too many pieces to be quick.
    """
    matrix = None if isinstance(frozen, SlicedProjection | SlicedOutput) else _plain_matrix(frozen)
    if matrix is None:
        return None
    stays = torch.ones(matrix.shape[side], dtype=torch.bool)
    stays[index.cpu()] = False
    ends = [0, *(stays[1:] != stays[:-1]).nonzero().flatten().add(1).tolist(), len(stays)]
    if len(ends) > _PIECES:
        return None
    return [(start, stop - start, bool(stays[start])) for start, stop in pairwise(ends)]


@torch.no_grad()
def rows_of(module: nn.Module, index: Tensor, M: int, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Copies of some rows of a projection, (R, M), and of their biases, in `dtype`, whatever kind of module it is."""
    if isinstance(module, SlicedProjection):
        rows, bias = rows_of(module.frozen, index, M, dtype)
        mine, theirs = (index[:, None] == module.index).nonzero(as_tuple=True)
        rows[mine] = module.rows[theirs].to(rows)
        if bias is not None:
            bias[mine] = module.bias[theirs].to(bias)
        return rows, bias
    if (matrix := _plain_matrix(module)) is not None:
        bias = getattr(module, "bias", None)
        return matrix[index].to(dtype), None if bias is None else bias[index].to(dtype)
    units, zero = _units(module, M)
    whole, bias = module(units), module(zero)[0]
    rows = (whole - bias).T[index].to(dtype)
    return rows, None if getattr(module, "bias", None) is None else bias[index].to(dtype)


@torch.no_grad()
def columns_of(module: nn.Module, index: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """A copy of some columns of W_O, (M, C), in `dtype`."""
    if isinstance(module, SlicedOutput):
        columns = columns_of(module.frozen, index, width, dtype)
        mine, theirs = (index[:, None] == module.index).nonzero(as_tuple=True)
        columns[:, mine] = module.columns[:, theirs].to(columns)
        return columns
    if (matrix := _plain_matrix(module)) is not None:
        return matrix[:, index].to(dtype)
    units, zero = _units(module, width)
    return (module(units[index]) - module(zero)).T.to(dtype).contiguous()


def _plain_matrix(module: nn.Module) -> Tensor | None:
    """(out, in) the weight of a Linear or a Conv1D that holds it as it is; None for a quantised layer."""
    from transformers.pytorch_utils import Conv1D

    weight = module.weight
    if not weight.is_floating_point() or weight.is_meta:
        return None
    if isinstance(module, Conv1D):
        return weight.T
    return weight if isinstance(module, nn.Linear) else None


def _units(module: nn.Module, width: int) -> tuple[Tensor, Tensor]:
    """Unit vectors, (width, width), and a zero vector: what a layer makes of them is its matrix, however it is stored."""
    weight = module.weight
    dtype = weight.dtype if weight.is_floating_point() else torch.float32
    units = torch.eye(width, device=weight.device, dtype=dtype)
    return units, torch.zeros_like(units[:1])
