"""From a rule, written as text, to the heads that a repair treats.

    bos>0.5                               attention on the first token above 0.5
    bos>0.5 & slope<0.1 & layers 5-22     all conditions at once
    class=dead                            a class of `headviz.analysis.bands`; `class=collapsed` is dead or sink
    lowest 20 by ahon_ln                  of the heads that meet the other conditions, the 20 with the lowest score
    heads L02.H09 L02.H10                 these very heads

Numbers are means over the inputs they were measured on. No torch. Letters: L layers, H heads.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headviz.analysis.bands import CLASSES, COLLAPSED, Thresholds, classes
from headviz.analysis.metrics import METRICS
from headviz.errors import BadInput, lookup
from headviz.types import Bands, Geometry, ScoreTable, head_name
from headviz.types.repairs import Heads

Source = Literal["bands", "scores", "shape"]
OPERATORS: dict[str, tuple[Callable, str]] = {
    ">=": (operator.ge, "at least"),
    "<=": (operator.le, "at most"),
    ">": (operator.gt, "over"),
    "<": (operator.lt, "under"),
}
EXAMPLES = (
    "bos>0.5", "bos>0.5 & slope<0.1 & layers 5-22", "class=dead", "class=low entropy", "lowest 20 by ahon_ln",
    "heads L02.H09 L02.H10",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number of every head that a rule may name. digits: for sentences."""

    name: str
    unit: str
    source: Source
    help: str


QUANTITIES: dict[str, Quantity] = {
    "bos": Quantity(
        name="BOS mass",
        unit="",
        source="bands",
        help="share of its attention that a head gives the first token, 0 to 1",
    ),
    "entropy": Quantity(
        name="entropy", unit=" nats", source="bands", help="how spread a head's attention is, nats"
    ),
    "slope": Quantity(
        name="slope",
        unit="",
        source="shape",
        help="ALiBi slope: how fast attention falls with distance, nats a token",
    ),
} | {row.id: Quantity(name=row.symbol, unit="", source="scores", help=row.help) for row in METRICS.values()}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a rule may look at: the model's shape, and what was measured of its heads. None: not measured."""

    geometry: Geometry
    bands: Bands | None = None
    scores: ScoreTable | None = None
    at: Thresholds | None = None

    def values(self, name: str) -> np.ndarray:
        """(L, H) of a row of QUANTITIES; NaN where a head has none. Raises BadInput where it was not measured."""
        row = lookup(QUANTITIES, name, "number of a head")
        if name == "slope":
            if self.geometry.slopes is None:
                raise BadInput(
                    f"Heads of this model ({self.geometry.family}) have no slope: its positions are not ALiBi. "
                    "Use another condition."
                )
            return np.tile(self.geometry.slopes, (self.geometry.layers, 1))
        if row.source == "bands":
            found = self._bands(row.name)
            return found.mean_mass() if name == "bos" else found.mean_entropy()
        if self.scores is None or name not in self.scores.metrics:
            raise BadInput(f"The rule asks for {name}, which was not measured. Score the heads first.")
        return self.scores.mean(name)

    def classes(self) -> np.ndarray:
        """(L, H) names of CLASSES."""
        return classes(self._bands("class"), self.at)

    def _bands(self, what: str) -> Bands:
        if self.bands is None:
            raise BadInput(
                f"The rule asks for a head's {what}, and attention on the first token was not measured."
            )
        return self.bands


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One part of a rule. kind: compare, class, layers, indices, heads, extreme."""

    kind: Literal["compare", "class", "layers", "indices", "heads", "extreme"]
    text: str
    name: str = ""
    how: str = ""
    number: float = 0.0
    names: tuple[str, ...] = ()
    first: int = 0
    last: int = 0
    heads: Heads = ()


_COMPARE = re.compile(r"([a-z_]+)\s*(>=|<=|>|<)\s*(\S+)")
_CLASS = re.compile(r"class\s*=\s*(.+)")
_RANGE = re.compile(r"(layer|layers|index|indices|heads?)\s+(\d+)(?:\s*(?:-|–|to)\s*(\d+))?")
_EXTREME = re.compile(r"(lowest|highest|fewest|most)\s+(\d+)\s+(?:by|of)\s+([a-z_]+)")
_HEADS = re.compile(r"(?:heads?\s+)?((?:l\d+\.h\d+[\s,]*)+)")


def parse(rule: str) -> tuple[Condition, ...]:
    """The conditions of a rule. Raises BadInput, with examples, for one that cannot be read."""
    parts = [part.strip() for part in re.split(r"&|\band\b", rule.strip().lower())]
    if not rule.strip() or not all(parts):
        raise BadInput(f"The rule {rule!r} is empty, or has an empty part. Write it like {EXAMPLES[1]!r}.")
    found = tuple(_condition(part) for part in parts)
    if sum(one.kind == "extreme" for one in found) > 1:
        raise BadInput(f"The rule {rule!r} asks for the lowest or highest twice. Ask once.")
    return found


def _condition(part: str) -> Condition:
    if found := _COMPARE.fullmatch(part):
        lookup(QUANTITIES, found[1], "number of a head")
        return Condition(kind="compare", text=part, name=found[1], how=found[2], number=_number(found[3]))
    if found := _CLASS.fullmatch(part):
        names: list[str] = []
        for name in found[1].split(","):
            name = name.strip().replace("-", " ").replace("_", " ")
            names += COLLAPSED if name == "collapsed" else [name]
        for name in names:
            lookup({**CLASSES, "collapsed": ""}, name, "class of heads")
        return Condition(kind="class", text=part, names=tuple(names))
    if found := _RANGE.fullmatch(part):
        first, last = int(found[2]), int(found[3] or found[2])
        if first > last:
            raise BadInput(f"{part!r} runs backwards: write the smaller number first.")
        kind = "layers" if found[1].startswith("layer") else "indices"
        return Condition(kind=kind, text=part, first=first, last=last)
    if found := _EXTREME.fullmatch(part):
        lookup(QUANTITIES, found[3], "number of a head")
        how = "lowest" if found[1] in ("lowest", "fewest") else "highest"
        return Condition(kind="extreme", text=part, name=found[3], how=how, number=int(found[2]))
    if found := _HEADS.fullmatch(part):
        pairs = re.findall(r"l(\d+)\.h(\d+)", found[1])
        return Condition(kind="heads", text=part, heads=tuple((int(a), int(b)) for a, b in pairs))
    raise BadInput(f"The rule {part!r} cannot be read. Rules look like {'; '.join(EXAMPLES)}.")


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise BadInput(f"{text!r} is no number: a rule compares with one, such as bos>0.5.")
    return value


def needs(rule: str) -> frozenset[Source]:
    """What must be measured before the rule can be read off: of `bands` and `scores`. Raises BadInput."""
    found: set[Source] = set()
    for one in parse(rule):
        if one.kind in ("compare", "extreme"):
            found.add(QUANTITIES[one.name].source)
        elif one.kind == "class":
            found.add("bands")
    return frozenset(found - {"shape"})


def heads_by_rule(rule: str, measured: Measured) -> Heads:
    """The heads that meet all conditions, sorted. A head without a number meets none.

    `lowest` and `highest` come last, whatever their place in the text; equal scores stand by layer, then head.
    Raises BadInput where no head is left, with what the nearest one has; where the model has no such layer or head; where
    something was not measured.
    """
    shape = measured.geometry
    order = {"layers": 0, "indices": 0, "heads": 0, "compare": 1, "class": 1, "extreme": 2}
    conditions = sorted(
        parse(rule), key=lambda one: (order[one.kind], _is_measured(one))
    )  # sorted is stable: else as written
    left, said = np.ones((shape.layers, shape.heads), dtype=bool), []
    for one in conditions:
        meets = _meets(one, measured, left)
        if not (left & meets).any():
            raise BadInput(_none(one, measured, left, said))
        left &= meets
        said.append(_words(one))
    return tuple(map(tuple, np.argwhere(left).tolist()))


def _is_measured(one: Condition) -> bool:
    return one.kind != "compare" or QUANTITIES[one.name].source != "shape"


def _meets(one: Condition, measured: Measured, left: np.ndarray) -> np.ndarray:
    """(L, H) bool."""
    shape = measured.geometry
    if one.kind == "compare":
        values = measured.values(one.name)
        with np.errstate(invalid="ignore"):  # NaN compares as False
            return OPERATORS[one.how][0](values, one.number)
    if one.kind == "class":
        return np.isin(measured.classes(), one.names)
    if one.kind == "extreme":
        return _extreme(one, measured.values(one.name), left)
    meets = np.zeros((shape.layers, shape.heads), dtype=bool)
    if one.kind == "heads":
        for layer, head in one.heads:
            if not (layer < shape.layers and head < shape.heads):
                raise BadInput(
                    f"There is no head {head_name(layer, head)}: the model has layers 0 to {shape.layers - 1} and heads 0 to "
                    f"{shape.heads - 1}."
                )
            meets[layer, head] = True
        return meets
    count, what = (shape.layers, "layers") if one.kind == "layers" else (shape.heads, "heads")
    if one.last >= count:
        raise BadInput(f"The rule says {one.text!r}, and the model has {what} 0 to {count - 1}.")
    if one.kind == "layers":
        meets[one.first : one.last + 1] = True
    else:
        meets[:, one.first : one.last + 1] = True
    return meets


def _extreme(one: Condition, values: np.ndarray, left: np.ndarray) -> np.ndarray:
    """(L, H) bool: the `number` lowest or highest of those that are left."""
    known = left & ~np.isnan(values)
    if not 1 <= one.number <= known.sum():
        raise BadInput(
            f"The rule asks for {one.number:g} heads, and {int(known.sum())} that meet the rest of it have a value of "
            f"{one.name}. Ask for 1 to {int(known.sum())}."
        )
    key = np.where(known, values if one.how == "lowest" else -values, np.inf).ravel()
    meets = np.zeros(values.size, dtype=bool)
    meets[np.argsort(key, kind="stable")[: int(one.number)]] = True
    return meets.reshape(values.shape)


def _none(one: Condition, measured: Measured, left: np.ndarray, said: list[str]) -> str:
    """Why no head is left after a condition: what the nearest of those that were left has."""
    among = f" {' and '.join(said)}" if said else ""
    if one.kind == "class":
        there = measured.classes()[left]
        counts = ", ".join(f"{int((there == name).sum())} {name}" for name in CLASSES)
        return f"No head{among} is {' or '.join(one.names)}: there are {counts}."
    if one.kind != "compare":
        return f"No head{among} is {_words(one)}."
    row, values = QUANTITIES[one.name], np.where(left, measured.values(one.name), np.nan)
    if np.isnan(values).all():
        return f"No head{among} has a value of {row.name}."
    over = one.how in (">", ">=")
    place = int(np.nanargmax(values) if over else np.nanargmin(values))
    at = (place // values.shape[1], place % values.shape[1])
    return (
        f"No head{among} has {row.name} {OPERATORS[one.how][1]} {one.number:g}{row.unit}; the "
        f"{'largest' if over else 'smallest'} is {values[at]:.3g} ({head_name(*at)})."
    )


def _words(one: Condition) -> str:
    """A condition after the word `head`."""
    if one.kind == "compare":
        row = QUANTITIES[one.name]
        return f"with {row.name} {OPERATORS[one.how][1]} {one.number:g}{row.unit}"
    if one.kind == "class":
        return f"of class {' or '.join(one.names)}"
    if one.kind == "heads":
        return "of those named"
    single, several = ("in layer", "in layers") if one.kind == "layers" else ("of index", "of indices")
    return f"{single} {one.first}" if one.first == one.last else f"{several} {one.first} to {one.last}"
