"""A result as bytes and back: a safetensors file whose metadata holds the rest of the dataclass as JSON.

Nothing here can run code when it is read. The checksum in the header covers the type, the JSON and every array, so a
damaged file is told from a good one, and any safetensors tool can still open it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headviz.errors import CorruptResult
from headviz.types import RESULTS, Result

FORMAT = 1
DTYPES = ("float32", "float64", "int32", "int64", "bool", "uint8")


def pack(result: Result) -> bytes:
    """`result` as bytes, the same bytes each time. Raises TypeError for what is no registered result."""
    name = type(result).__name__
    if RESULTS.get(name) is not type(result):
        raise TypeError(f"{name} is not in types.RESULTS")
    arrays: dict[str, np.ndarray] = {}
    # ensure_ascii: a lone surrogate, as a tokenizer can produce one, has no UTF-8 but has an escape.
    tree = json.dumps(_tree(result, name, arrays), ensure_ascii=True, separators=(",", ":"))
    # One metadata entry: the library keeps entries in no fixed order.
    note = {"format": FORMAT, "sha256": _checksum(name, tree, arrays), "type": name, "tree": tree}
    return save(arrays, metadata={"headviz": json.dumps(note, separators=(",", ":"))})


def unpack(blob: bytes) -> Result:
    """The result in `blob`, arrays read-only. Raises CorruptResult for anything that `pack` did not write."""
    try:
        size = int.from_bytes(blob[:8], "little")
        note = json.loads(json.loads(blob[8 : 8 + size])["__metadata__"]["headviz"])
        arrays = load(blob)
        name, tree = note["type"], note["tree"]
        if note["format"] != FORMAT:
            raise CorruptResult(
                f"The stored answer has format {note['format']!r}; this headviz reads {FORMAT}."
            )
        if note["sha256"] != _checksum(name, tree, arrays):
            raise CorruptResult("The stored answer does not match its checksum.")
        result = _restore(RESULTS[name], json.loads(tree), name, arrays)
    except CorruptResult:
        raise
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptResult(f"The stored answer is no result of headviz: {error}.") from None
    if arrays:
        raise CorruptResult(f"The stored answer holds an array that {name} does not have: {min(arrays)}.")
    return result


def _checksum(name: str, tree: str, arrays: dict[str, np.ndarray]) -> str:
    total = hashlib.sha256(f"{name}\n{tree}\n".encode())
    for path in sorted(arrays):
        array = arrays[path]
        total.update(f"{path} {array.dtype.name} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _tree(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON types; arrays go to `arrays` under their dotted path and leave a null behind."""
    if isinstance(value, np.ndarray):
        if value.dtype.name not in DTYPES:
            raise TypeError(f"{path} is an array of {value.dtype}; results hold {', '.join(DTYPES)}")
        arrays[path] = value.astype(value.dtype.newbyteorder("="), order="C", copy=True)
        return None
    if dataclasses.is_dataclass(value):
        return {
            f.name: _tree(getattr(value, f.name), f"{path}.{f.name}", arrays)
            for f in dataclasses.fields(value)
        }
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        if any(type(key) is not str for key in value):
            raise TypeError(f"{path} has a key that is not text")
        return {key: _tree(item, f"{path}.{key}", arrays) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_tree(item, f"{path}.{index}", arrays) for index, item in enumerate(value)]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise TypeError(f"{path} is a {type(value).__name__}, which a result cannot hold")


def _restore(hint: Any, item: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """`item` as the type that `hint` says, or CorruptResult. Takes what it uses out of `arrays`."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is np.ndarray:
        return arrays.pop(path)
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint)
        return hint(
            **{name: _restore(hints[name], part, f"{path}.{name}", arrays) for name, part in item.items()}
        )
    if origin in (Union, types.UnionType):
        (hint,) = set(inner) - {type(None)}
        absent = item is None and path not in arrays
        return None if absent else _restore(hint, item, path, arrays)
    if origin in (tuple, list) and type(item) is list:
        hints = [inner[0]] * len(item) if origin is list or inner[-1] is ... else inner
        parts = [
            _restore(h, i, f"{path}.{n}", arrays) for n, (h, i) in enumerate(zip(hints, item, strict=True))
        ]
        return origin(parts)
    if origin is dict and type(item) is dict:
        return {key: _restore(inner[1], part, f"{path}.{key}", arrays) for key, part in item.items()}
    if hint is float and type(item) is int:
        return float(item)
    if hint is Any or type(item) is hint or (origin is Literal and item in inner):
        return item
    raise CorruptResult(f"The stored answer has {type(item).__name__} where {path} should be.")
