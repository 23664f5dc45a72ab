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
class Branch:
    """Rows of one question, by number. `trunk`: how many tokens after the pack's beginning all of them share and run once;
    0 where each runs on its own. size: tokens that run."""

    rows: tuple[int, ...]
    trunk: int
    size: int


@dataclass(frozen=True)
class Pack:
    """Rows of one subject whose first `prefix` tokens are the same. groups: what runs together."""

    prefix: int
    groups: tuple[tuple[Branch, ...], ...]


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
        subjects.setdefault("" if row.cut or not share or alone else row.subject, []).append(number)
    found, whole = [], subjects.pop("", [])
    for numbers in subjects.values():
        spare = max(len(rows[number].reads[0].targets) for number in numbers)
        same = common_prefix([rows[number].tokens for number in numbers], spare)
        branches = _branches(numbers, rows, same)
        saved = sum(len(rows[number].tokens) for number in numbers) - same - sum(b.size for b in branches)
        if not same or saved < _WORTH:
            whole += numbers
        else:
            found.append(Pack(same, _groups(branches, room, soon=not found)))
    if whole:
        single = [Branch((number,), 0, len(rows[number].tokens)) for number in whole]
        found.append(Pack(0, _groups(single, room, soon=not found)))
    return found


def common_prefix(rows: Sequence[Sequence[int]], spare: int = 1) -> int:
    """How many tokens all rows begin with, leaving at least `spare` of each."""
    shortest = min(map(len, rows))
    low, high = min(rows), max(rows)  # these two differ first
    same = next((i for i in range(shortest) if low[i] != high[i]), shortest)
    return max(0, min(same, shortest - spare))


def _branches(numbers: Sequence[int], rows: Sequence[Row], skip: int) -> list[Branch]:
    """One branch a question: what its rows share after `skip` tokens, and what each goes on with."""
    questions: dict[int, list[int]] = {}
    for number in numbers:
        questions.setdefault(rows[number].reads[0].question, []).append(number)
    found = []
    for mine in questions.values():
        tails = [rows[number].tokens[skip:] for number in mine]
        trunk = common_prefix(tails, spare=0) if len(tails) > 1 else 0
        found.append(Branch(tuple(mine), trunk, trunk + sum(len(tail) - trunk for tail in tails)))
    return found


def _groups(branches: Sequence[Branch], room: int, soon: bool) -> tuple[tuple[Branch, ...], ...]:
    """In order, each group at most `room` tokens together, and at least one branch. soon: the first one is a quarter of
    that, so that a page has a first figure soon."""
    found: list[list[Branch]] = []
    free = 0
    for branch in branches:
        if not found or branch.size > free:
            free = room // 4 if soon and not found else room
            found.append([])
        found[-1].append(branch)
        free -= branch.size
    return tuple(map(tuple, found))
