"""Values as they stand in a URL or in a field: text → what it means, or BadInput with the reason.

Each takes the text of one value. `head`, and those of several, give back one fixed spelling of it, as a URL holds it;
`parse_…` give what such a text stands for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headviz.errors import BadInput, lookup
from headviz.types import head_name

_HEAD = re.compile(r"\s*[Ll]?(\d{1,3})\s*[.,: ]\s*[Hh]?(\d{1,3})\s*")


def parse_head(text: str) -> tuple[int, int]:
    """(layer, head) of `L03.H07`, `3.7`, `l3 h7`. Raises BadInput with an example."""
    match = _HEAD.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r} is no head. Write it like L03.H07 (layer 3, head 7, both from zero).")
    return int(match[1]), int(match[2])


def text(value: str) -> str:
    if len(value) > 300 or any(ord(char) < 32 for char in value):
        raise BadInput("it is too long or holds control characters")
    return value


def prose(value: str) -> str:
    """A longer text, of several lines."""
    if len(value) > 2_000 or any(ord(char) < 32 and char not in "\n\t" for char in value):
        raise BadInput("it is longer than 2,000 characters or holds control characters")
    return value


def choice(options) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in options:
            raise BadInput(f"it must be one of {', '.join(options)}")
        return value

    return read


def row(table: Mapping, kind: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        lookup(table, value, kind)
        return value

    return read


def whole(low: int, high: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"\d{1,9}", value) or not low <= int(value) <= high:
            raise BadInput(f"it must be a whole number from {low:,} to {high:,}")
        return int(value)

    return read


def number(low: float, high: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise BadInput(f"it must be a number from {low:g} to {high:g}")
        return number

    return read


def unless_empty(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """None where the text is empty: nobody has set it."""
    return lambda value: read(value) if value else None


def flag(value: str) -> bool:
    return choice(("true", "false"))(value) == "true"


def head(value: str) -> str:
    return head_name(*parse_head(value)) if value else ""


def parse_heads(text: str) -> tuple[tuple[int, int], ...]:
    """The heads of `3:0,4,7;5:1` (layer 3, heads 0, 4 and 7; layer 5, head 1), sorted. Raises BadInput with an example."""
    found = set()
    for part in text.split(";") if text else ():
        match = re.fullmatch(r"(\d{1,3}):(\d{1,3}(?:,\d{1,3})*)", part)
        if not match:
            raise BadInput(
                f"{part[:60]!r} is no list of heads. Write it like 3:0,4,7;5:1 (layer, then its heads)"
            )
        found |= {(int(match[1]), int(head)) for head in match[2].split(",")}
    return tuple(sorted(found))


def write_heads(heads: Iterable[tuple[int, int]]) -> str:
    """What `parse_heads` reads."""
    layers: dict[int, list[int]] = {}
    for layer, head in sorted(set(heads)):
        layers.setdefault(layer, []).append(head)
    return ";".join(f"{layer}:{','.join(map(str, several))}" for layer, several in layers.items())


def heads(value: str) -> str:
    return write_heads(parse_heads(value))


def picked_on(value: str) -> str:
    """Where a set by hand was chosen, and of which set that is told: `headviz.ui.ablation.hand` writes it."""
    if value and (len(value) > 8_000 or not re.fullmatch(r"[0-9a-f]{8}\[.*\]", value)):
        raise BadInput("it must be what headviz wrote about where a set of heads was chosen")
    return value


def several(table: Mapping, kind: str) -> Callable[[str], str]:
    """Rows of a table, comma-separated, each once, in the table's order."""

    def read(value: str) -> str:
        names = [part.strip() for part in value.split(",") if part.strip()]
        for one in names:
            lookup(table, one, kind)
        return ",".join(name for name in table if name in names)

    return read


def names(value: str) -> str:
    """Names, comma-separated, each once, in their order; what they name is known to who uses them."""
    if len(value) > 4_000 or any(ord(char) < 32 for char in value):
        raise BadInput("it is too long or holds control characters")
    return ",".join(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def lengths(value: str) -> str:
    """Input lengths in tokens, comma-separated, each once, shortest first."""
    read = whole(1, 131_072)
    return ",".join(map(str, sorted({read(part.strip()) for part in value.split(",") if part.strip()})))


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds of `0,1,2`, each once, in their order. Raises BadInput for none, or for what is no seed."""
    read = whole(0, 999_999)
    found = tuple(dict.fromkeys(read(part.strip()) for part in text.split(",") if part.strip()))
    if not found:
        raise BadInput("There is no seed. Write one or more whole numbers, such as 0,1,2.")
    return found


def seeds(value: str) -> str:
    return ",".join(map(str, parse_seeds(value)))


def sha(value: str) -> str:
    if value and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise BadInput("it must be 64 hex digits, under which headviz kept a text or a job")
    return value
