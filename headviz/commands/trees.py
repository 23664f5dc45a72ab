"""Results of the analysis as JSON types: dataclasses and arrays become objects and lists."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


def tree(value: Any) -> Any:
    """`value` without dataclasses, arrays, tuples and numpy's numbers. NaN stays: writing makes it null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: tree(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): tree(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [tree(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    return value
