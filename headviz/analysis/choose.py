"""Which heads a static set switches off: chosen by a score, or at random as a control. numpy only.

Letters: L layers, H query heads, G KV heads. Shares are fractions, 0..1, of all L·H query heads. Query head h belongs
to KV group h // (H / G), as grouped-query attention repeats keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from headviz.analysis.metrics import METRICS, high_first, inactive
from headviz.errors import BadInput, lookup
from headviz.types import Geometry, head_name

By = Literal["head", "group"]


@dataclass(frozen=True, kw_only=True)
class HeadSet:
    """Query heads that are switched off on every input, whatever it is.

    heads: (layer, head), zero-based, sorted. Raises BadInput for a head that the model does not have, or twice the same.
    """

    heads: tuple[tuple[int, int], ...]
    geometry: Geometry

    def __post_init__(self) -> None:
        try:
            pairs = [(layer, head) for layer, head in self.heads]
        except (TypeError, ValueError):
            raise BadInput("A head is a layer and a head number, such as [3, 7].") from None
        layers, heads = self.geometry.layers, self.geometry.heads
        for pair in pairs:
            if any(isinstance(i, bool) or not isinstance(i, (int, np.integer)) for i in pair):
                raise BadInput(f"A head is two whole numbers, layer and head, not {list(pair)!r}.")
            if not (0 <= pair[0] < layers and 0 <= pair[1] < heads):
                raise BadInput(
                    f"There is no head {head_name(*pair)}: the model has layers 0 to {layers - 1} and heads 0 to "
                    f"{heads - 1}."
                )
        ordered = sorted((int(layer), int(head)) for layer, head in pairs)
        if twice := next((a for a, b in pairwise(ordered) if a == b), None):
            raise BadInput(f"{head_name(*twice)} is in the set twice.")
        object.__setattr__(self, "heads", tuple(ordered))

    @property
    def count(self) -> int:
        return len(self.heads)

    @property
    def share(self) -> float:
        """Achieved share of all query heads, 0..1."""
        return self.count / (self.geometry.layers * self.geometry.heads)

    def mask(self) -> np.ndarray:
        """(L, H) bool, True where off."""
        mask = np.zeros((self.geometry.layers, self.geometry.heads), dtype=bool)
        if self.heads:
            mask[tuple(np.array(self.heads).T)] = True
        return mask

    def per_layer(self) -> np.ndarray:
        """(L,) how many heads are off in each layer."""
        return self.mask().sum(1)

    def whole_groups(self) -> np.ndarray:
        """(L, G) bool: KV groups whose query heads are all off, so that their keys and values are never read."""
        return _grouped(self.mask(), self.geometry).all(2)


def head_set(mask: np.ndarray, geometry: Geometry) -> HeadSet:
    """The set of an (L, H) bool mask. Raises BadInput for another shape."""
    mask = np.asarray(mask)
    _check_shape(mask, geometry)
    return HeadSet(heads=tuple(map(tuple, np.argwhere(mask).tolist())), geometry=geometry)


def choose(
    scores: np.ndarray,
    metric: str,
    *,
    geometry: Geometry,
    share: float | None = None,
    count: int | None = None,
    threshold: float | None = None,
    by: By = "head",
    per_layer: bool = False,
    turned: bool = False,
) -> HeadSet:
    """The most inactive heads by a score's mean over inputs: a row of METRICS says whether high or low is inactive.

    scores:    (L, H) mean scores; a head without a value (NaN) is never chosen, nor the group it is in
    share, count, threshold: exactly one. A share becomes a count by rounding to the nearest head, halves up; a threshold
               takes what is strictly beyond it
    by="head": the `count` most inactive heads, ties by layer, then head
    by="group": whole KV groups by the mean of their heads' scores, as many as fit in `count` heads. Groups with equal
               means stand or fall together, and what does not fit is left out: the budget is never passed, and the
               achieved share may be below the asked one, even 0
    per_layer: the same budget in every layer: the share of H, rounded; a count must divide by L
    turned:    from the other end: the most active heads go first

    Raises BadInput for scores of another shape, a share outside 0..1, a count that cannot be met, none or several of
    share, count and threshold, a threshold with per_layer; UnknownName for a score.
    """
    lookup(METRICS, metric, "score")
    scores = np.asarray(scores, dtype=np.float64)
    _check_shape(scores, geometry)
    if sum(option is not None for option in (share, count, threshold)) != 1:
        raise BadInput("Say how many heads to switch off in one way: a share, a count, or a threshold.")
    if by not in ("head", "group"):
        raise BadInput(f"Heads are chosen by 'head' or by 'group', not by {by!r}.")
    size = geometry.heads // geometry.kv_heads if by == "group" else 1
    units = scores.reshape(geometry.layers, -1, size).mean(2)  # (L, H) or (L, G)
    if threshold is not None:
        if per_layer:
            raise BadInput(
                "A threshold decides how many heads go in each layer; it cannot be equal per layer."
            )
        chosen = inactive(units, metric, threshold, turned)
    else:
        budget = _budget(share, count, geometry, per_layer)
        urgency = units if high_first(metric, turned) else -units  # most inactive first
        lots = urgency if per_layer else urgency.reshape(1, -1)  # (L, units of a layer) or (1, all units)
        chosen = np.stack([_take(lot, budget, size) for lot in lots]).reshape(units.shape)
    return head_set(np.repeat(chosen, size, axis=1), geometry)


def _take(urgency: np.ndarray, budget: int, size: int) -> np.ndarray:
    """Which units, (U,) bool, the budget of heads buys, at `size` heads each."""
    order = np.argsort(-urgency, kind="stable")  # ties by place; NaN last
    known = int((~np.isnan(urgency)).sum())
    take = budget // size
    if take > known:
        raise BadInput(
            f"{budget} heads are to be switched off, but only {known * size} of {urgency.size * size} have a value of "
            "this score."
        )
    if size > 1 and 0 < take < known and urgency[order[take - 1]] == urgency[order[take]]:
        take = int((urgency > urgency[order[take]]).sum())  # the cut runs through equal groups: none of them
    chosen = np.zeros(urgency.size, dtype=bool)
    chosen[order[:take]] = True
    return chosen


def _budget(share: float | None, count: int | None, geometry: Geometry, per_layer: bool) -> int:
    """Heads to switch off, in all or in each layer."""
    heads = geometry.heads if per_layer else geometry.layers * geometry.heads
    if share is not None:
        return _share_to_count(share, heads)
    if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
        raise BadInput(f"A number of heads is 0 or more, not {count!r}.")
    if per_layer and count % geometry.layers:
        raise BadInput(
            f"{count} heads cannot be shared out equally over {geometry.layers} layers: ask for a multiple of that."
        )
    budget = count // geometry.layers if per_layer else int(count)
    if budget > heads:
        raise BadInput(
            f"The model has {geometry.layers * geometry.heads} heads; {count} cannot be switched off."
        )
    return budget


def check_share(share: float) -> None:
    """Raises BadInput for a share outside 0..1."""
    if not 0 <= share <= 1:
        hint = f" {share:g}% is {share / 100:g}." if 1 < share <= 100 else ""
        raise BadInput(f"A share of heads lies between 0 and 1, where 1 is 100%, not at {share:g}.{hint}")


def _share_to_count(share: float, heads: int) -> int:
    check_share(share)
    return int(share * heads + 0.5)


def too_small(share: float, geometry: Geometry, by: By, per_layer: bool, step: float = 0.005) -> str:
    """Why a share above 0 switches nothing off, and the next share, a multiple of `step`, that does; "" where it is enough."""
    size = geometry.heads // geometry.kv_heads if by == "group" else 1
    heads = geometry.heads if per_layer else geometry.layers * geometry.heads
    if not share or _share_to_count(share, heads) >= size:
        return ""
    enough = (n * step for n in range(round(1 / step) + 1) if _share_to_count(n * step, heads) >= size)
    unit = f"one KV group of {size}" if size > 1 else "half a head"
    return (
        f"{100 * share:.3g}% of {heads:,} heads{' a layer' if per_layer else ''} is fewer than {unit}; the next step is "
        f"{100 * next(enough, 1.0):.3g}%"
    )


@lru_cache(maxsize=128, typed=True)
def random_sets(
    count: int,
    geometry: Geometry,
    draws: int,
    seed: int,
    layer_matched: HeadSet | None = None,
    by: By = "head",
) -> tuple[HeadSet, ...]:
    """Random controls for a set of `count` heads, one HeadSet a draw.

    layer_matched: None: uniform over the model; a set: as many in each layer as that set has, which takes away what a
                   score gains from choosing good layers only. Its size must be `count`
    by="group":    whole KV groups, where the set in question holds whole groups

    Draw i is the same whatever the number of draws, so more of them extend what was measured.
    Raises BadInput for fewer than one draw, a count that the model, or whole groups, cannot give.
    """
    if draws < 1:
        raise BadInput(f"Random heads need at least one draw, not {draws}.")
    size = geometry.heads // geometry.kv_heads if by == "group" else 1
    total = _budget(None, count, geometry, per_layer=False)
    budgets = np.array([total]) if layer_matched is None else layer_matched.per_layer()  # (1,) or (L,) heads
    if layer_matched is not None and (layer_matched.geometry != geometry or layer_matched.count != count):
        raise BadInput(
            f"Random heads with the same number in each layer need a set of {count} heads of the same model, not of "
            f"{layer_matched.count}."
        )
    if (budgets % size).any():
        raise BadInput(
            f"Whole KV groups have {size} heads each; {count} heads do not make whole groups here."
        )
    units = geometry.layers * geometry.heads // size
    sets = []
    for i in range(draws):
        rng = np.random.default_rng([seed, i])
        order = (
            rng.random((budgets.size, units // budgets.size)).argsort(1).argsort(1)
        )  # rank of each unit in its lot
        off = (order < (budgets // size)[:, None]).reshape(geometry.layers, -1)  # (L, H) or (L, G)
        sets.append(head_set(np.repeat(off, size, axis=1), geometry))
    return tuple(sets)


@dataclass(frozen=True, kw_only=True)
class Savings:
    """What a runtime that skips whole KV groups could save. headviz itself saves nothing: it computes and zeroes.

    groups, groups_total: KV groups with every query head off, of all L·G
    share: groups / groups_total. All groups of a model cost the same, so this is the share of KV-cache bytes and of
           attention FLOPs alike
    kv_bytes_per_token: bytes of keys and values not kept, groups × 2 × D × bytes per number; kv_bytes_total: of all groups
    flops_per_token:    attention FLOPs not done for one more token at the given context; flops_total: of all groups
    """

    groups: int
    groups_total: int
    share: float
    kv_bytes_per_token: int
    kv_bytes_total: int
    flops_per_token: int
    flops_total: int
    context: int
    bytes_per_number: int


def savings(chosen: HeadSet, *, context: int, bytes_per_number: int = 2) -> Savings:
    """Bytes and FLOPs of the set's whole KV groups; heads of broken groups save nothing, their keys are still read.

    FLOPs of a group for one token that looks at `context` tokens (a multiplication and an addition are two), with
    R = H / G query heads and model size M: projections of query and output 2 × 2·M·D·R, of key and value 2 × 2·M·D,
    scores and weighted sum 2 × 2·context·D·R. Softmax, positions and biases are left out (below 1%).
    Raises BadInput for a context or bytes below 1.
    """
    if context < 1 or bytes_per_number < 1:
        raise BadInput(
            "Savings are counted for a context of at least one token and numbers of at least one byte."
        )
    g = chosen.geometry
    repeat = g.heads // g.kv_heads
    groups, total = int(chosen.whole_groups().sum()), g.layers * g.kv_heads
    kv_bytes = 2 * g.head_dim * bytes_per_number
    flops = 4 * g.hidden * g.head_dim * (repeat + 1) + 4 * context * g.head_dim * repeat
    return Savings(
        groups=groups,
        groups_total=total,
        share=groups / total,
        kv_bytes_per_token=groups * kv_bytes,
        kv_bytes_total=total * kv_bytes,
        flops_per_token=groups * flops,
        flops_total=total * flops,
        context=context,
        bytes_per_number=bytes_per_number,
    )


def _grouped(array: np.ndarray, geometry: Geometry) -> np.ndarray:
    """(L, H) → (L, G, H/G)"""
    return array.reshape(geometry.layers, geometry.kv_heads, -1)


def _check_shape(array: np.ndarray, geometry: Geometry) -> None:
    if array.shape != (geometry.layers, geometry.heads):
        raise BadInput(
            f"The model has {geometry.layers} layers of {geometry.heads} heads; these numbers have shape {array.shape}."
        )
