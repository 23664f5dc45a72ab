"""Every error that headviz raises on purpose.

    HeadvizError
    ├── BadInput                the person can fix it: exit code 2
    │   ├── UnknownName         no such metric, corpus, model family … (lists what there is)
    │   ├── ModelNotFound       no such model, revision, or folder
    │   ├── GatedModel          the hub wants a login or an accepted licence
    │   ├── UnsupportedModel    family, quantisation or file format that headviz does not handle
    │   ├── UnsafeModel         pickle-only weights, or code that would have to be trusted
    │   ├── BadData             text, file, column or corpus that cannot be scored
    │   └── NotEnoughMemory     estimated before loading
    ├── Failure                 it should have worked: exit code 1
    │   ├── Unreachable         the network or the hub does not answer
    │   ├── SelfCheckFailed     the fast statistics disagree with the slow ones on this machine
    │   ├── StoreFull           HEADVIZ_STORE_LIMIT would be passed
    │   ├── CorruptResult       a stored answer does not match its checksum
    │   └── JobFailed           a worker died or gave up; carries the end of its log
    └── Cancelled               somebody asked for it to stop

A message says what happened, with which value, and what to do. Pages print it as it is.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

Row = TypeVar("Row")


class HeadvizError(Exception):
    """Root of the tree. `exit_code` is what the command line returns."""

    exit_code = 1


class BadInput(HeadvizError):
    """Something the person gave cannot be used."""

    exit_code = 2


class UnknownName(BadInput):
    """A name that is in no table."""


class ModelNotFound(BadInput):
    """No model under this id, revision or folder."""


class GatedModel(BadInput):
    """The hub asks for a login or an accepted licence."""


class UnsupportedModel(BadInput):
    """A family, a quantisation or a file format that headviz does not handle."""


class UnsafeModel(BadInput):
    """Loading it would mean running somebody's code or unpickling a file."""


class BadData(BadInput):
    """Text, file, column or corpus that cannot be scored."""


class NotEnoughMemory(BadInput):
    """The model would not fit; said before anything is loaded."""


class Failure(HeadvizError):
    """It should have worked."""


class Unreachable(Failure):
    """The network, or the hub, does not answer."""


class SelfCheckFailed(Failure):
    """The fast statistics disagree with the slow ones on this machine."""


class StoreFull(Failure):
    """Writing would pass HEADVIZ_STORE_LIMIT."""


class CorruptResult(Failure):
    """A stored answer does not match its checksum, or is no answer of ours."""


class JobFailed(Failure):
    """A worker died or gave up."""


class Cancelled(HeadvizError):
    """Somebody asked for it to stop."""


BY_NAME: dict[str, type[HeadvizError]] = {
    cls.__name__: cls
    for cls in (
        HeadvizError,
        BadInput,
        UnknownName,
        ModelNotFound,
        GatedModel,
        UnsupportedModel,
        UnsafeModel,
        BadData,
        NotEnoughMemory,
        Failure,
        Unreachable,
        SelfCheckFailed,
        StoreFull,
        CorruptResult,
        JobFailed,
        Cancelled,
    )
}


MANY = 20  # names beyond which a sentence that lists them all is no sentence


def lookup(table: Mapping[str, Row], name: str, kind: str) -> Row:
    """`table[name]`, or an `UnknownName` that suggests the nearest name and lists all of them; of many, the nearest few."""
    if name in table:
        return table[name]
    if len(table) > MANY:
        raise UnknownName(f"Unknown {kind} {name!r}.{_nearest(table, str(name))}")
    near = difflib.get_close_matches(str(name), table, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownName(f"Unknown {kind} {name!r}.{hint} Available: {', '.join(sorted(table))}.")


def _nearest(table: Mapping[str, Row], name: str) -> str:
    """The nearest names of many: those that hold the word, else those written much like it."""
    held = [one for one in sorted(table) if name and name.lower() in one.lower()]
    near = held[:3] or difflib.get_close_matches(name, table, n=3)
    if not near:
        return f" There are {len(table)}, such as {', '.join(sorted(table)[:3])}."
    return f" Did you mean {' or '.join(map(repr, near))}? There are {len(table)}."
