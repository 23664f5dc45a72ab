"""Requests as canonical JSON, their digest, and back."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from headviz.errors import BadInput
from headviz.types.tables import Request

SCHEMA = 1


def plain(value: Any) -> Any:
    """`value` as JSON types, every default written out. Refuses NaN, infinity and anything JSON does not have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput(f"{value} cannot stand in a request: numbers there are finite.")
        return value + 0.0  # −0.0 + 0.0 is 0.0
    if value is None or isinstance(value, (str, int, bool)):
        return value
    raise TypeError(f"{type(value).__name__} cannot stand in a request")


def canonical(value: Any) -> bytes:
    """The one UTF-8 JSON text of a request: sorted keys, no spaces, no NaN, no −0."""
    return json.dumps(
        plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digest(request: Request, method_version: int) -> str:
    """sha256 of {schema, kind, method_version, request}: cache key and job id, 64 hex digits."""
    whole = {"schema": SCHEMA, "kind": request.kind, "method_version": method_version, "request": request}
    return hashlib.sha256(canonical(whole)).hexdigest()


def build(cls: type, tree: Any) -> Any:
    """The dataclass `cls` from its JSON tree. Raises BadInput for an unknown, missing or wrong field."""
    if not isinstance(tree, dict):
        raise BadInput(f"{cls.__name__} must be a JSON object, not {type(tree).__name__}.")
    hints = get_type_hints(cls)
    known = {f.name: hints[f.name] for f in dataclasses.fields(cls)}
    if extra := sorted(set(tree) - set(known)):
        raise BadInput(f"{cls.__name__} has no field {extra[0]!r}. Its fields: {', '.join(known)}.")
    try:
        return cls(
            **{name: _read(known[name], item, f"{cls.__name__}.{name}") for name, item in tree.items()}
        )
    except TypeError as error:  # a field without default is missing
        raise BadInput(f"{cls.__name__}: {error}.") from None


def _read(hint: Any, item: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return build(hint, item)
    origin = get_origin(hint)
    if origin is types.UnionType:  # X | None: the only unions of a request
        return None if item is None else _read(get_args(hint)[0], item, where)
    if origin is Literal:
        if item not in get_args(hint):
            raise BadInput(f"{where} is {item!r}; it must be one of {', '.join(map(str, get_args(hint)))}.")
        return item
    if origin is tuple:
        if not isinstance(item, list | tuple):
            raise BadInput(f"{where} is {item!r}; it must be a list.")
        inner = get_args(hint)[0]
        return tuple(_read(inner, part, where) for part in item)
    if hint is float and isinstance(item, int) and not isinstance(item, bool):
        return float(item)
    if hint in (str, int, float, bool) and type(item) is not hint:
        raise BadInput(f"{where} is {item!r}; it must be a {hint.__name__}.")
    return item
