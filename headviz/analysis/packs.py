"""Which prompts run together, and what they begin with. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headviz.analysis.batches import bytes_per_token
from headviz.data.prompts import Row
from headviz.types import Geometry

_TOKENS = {"cpu": 2048, "cuda": 16384}  # in one pass; a page that counts up wants the first ones soon
_SHARE = 0.25  # of the available memory that activations may take
_WORTH = 16  # tokens saved below which a beginning is not worth a pass of its own


@dataclass(frozen=True)
class Pack:
    """Rows of one subject whose first `prefix` tokens are the same. groups: numbers of rows that run together."""

    prefix: int
    groups: tuple[tuple[int, ...], ...]


def packs(
    rows: Sequence[Row],
    geometry: Geometry,
    device: str,
    available: int,
    *,
    alone: bool = False,
    share: bool = True,
) -> list[Pack]:
    """A plan that runs every row once.

    device "cpu", "cuda:0" …; available: free bytes on it; alone: one row at a time; share: look for common beginnings.
    A beginning is looked for in the token ids, so a tokenizer that joins texts at their border does no harm. Rows that
    lost their beginning begin unlike the others, and run whole.
    """
    most = _TOKENS.get(device.partition(":")[0], _TOKENS["cpu"])
    room = max(1, min(most, int(available * _SHARE) // bytes_per_token(geometry)))
    if alone:
        room = 1
    subjects: dict[str, list[int]] = {}
    for number, row in enumerate(rows):
        subjects.setdefault("" if row.cut or not share else row.subject, []).append(number)
    found, whole = [], subjects.pop("", [])
    for numbers in subjects.values():
        same = common_prefix(
            [rows[n].tokens for n in numbers], max(len(rows[n].reads[0].targets) for n in numbers)
        )
        if same * (len(numbers) - 1) < _WORTH:
            whole += numbers
        else:
            found.append(Pack(same, _groups(numbers, rows, same, room)))
    if whole:
        found.append(Pack(0, _groups(whole, rows, 0, room)))
    return found


def common_prefix(rows: Sequence[Sequence[int]], spare: int = 1) -> int:
    """How many tokens all rows begin with, leaving at least `spare` of each."""
    shortest = min(map(len, rows))
    low, high = min(rows), max(rows)  # these two differ first
    same = next((i for i in range(shortest) if low[i] != high[i]), shortest)
    return max(0, min(same, shortest - spare))


def _groups(numbers: Sequence[int], rows: Sequence[Row], skip: int, room: int) -> tuple[tuple[int, ...], ...]:
    """In order, each group at most `room` tokens together, and at least one row."""
    found: list[list[int]] = []
    free = 0
    for number in numbers:
        length = len(rows[number].tokens) - skip
        if not found or length > free:
            found.append([])
            free = room
        found[-1].append(number)
        free -= length
    return tuple(map(tuple, found))
