"""Classes of heads by their mass on the first token, and the band of head indices in which collapse gathers. numpy only.

"Surgical Repair of Collapsed Attention Heads in ALiBi Transformers" (arXiv 2603.09616) calls a head DEAD, BOS-sink, low
entropy or healthy, in this order, and prints as its band the indices that are collapsed in more than 30% of the layers.
BOS mass is continuous in its models, and thresholds decide: count them along the whole axis (`count_above`) and say how
many heads sit near one (`share_between`). Letters: N inputs, L layers, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from headviz.analysis.nulls import null_entropy, null_mass
from headviz.errors import BadInput, lookup
from headviz.types import Bands, BandsRequest, DataRef, ModelRef

CLASSES: dict[str, str] = {
    "dead": "nearly all attention on the first token",
    "sink": "more attention on the first token than on all others together",
    "low entropy": "attention on very few tokens, mostly others than the first",
    "healthy": "none of these",
}
COLLAPSED = ("dead", "sink")
SHARE = 0.3  # of the layers: an index that is collapsed in more of them belongs to the band
LENGTHS = (64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """Where the classes part: BOS mass above `dead`, else above `sink`, else entropy in nats below `low_entropy`.

    dead, sink: 0..1, dead ≥ sink; low_entropy: ≥ 0. Raises BadInput for others.
    """

    dead: float = 0.95
    sink: float = 0.5
    low_entropy: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.sink <= self.dead <= 1:
            raise BadInput(
                f"Thresholds of BOS mass must be 0 ≤ sink ≤ dead ≤ 1; sink is {self.sink:g}, dead {self.dead:g}."
            )
        if not 0 <= self.low_entropy < np.inf:
            raise BadInput(f"The entropy threshold is 0 nats or more, not {self.low_entropy:g}.")


PRESETS: dict[str, Thresholds] = {
    "paper": Thresholds(),
    "summary": Thresholds(
        dead=0.8
    ),  # a summary of the paper that goes around calls a head collapsed above 0.8
}


def preset(name: str) -> Thresholds:
    """Raises UnknownName."""
    return lookup(PRESETS, name, "preset of thresholds")


@dataclass(frozen=True, kw_only=True)
class Band:
    """Head indices that are collapsed in more than `share` of the layers.

    share:     0..1; by_index: (H,) share of the layers in which each index is collapsed
    heads:     the indices, ascending; empty where there is no band
    first, last: the range as the paper reports it, smallest and largest of `heads`; None without a band
    gaps:      indices inside the range that do not belong to the band
    steepest, shallowest: slopes at the ends of the band, in nats a token; None without ALiBi or without a band
    inside:    indices without collapse whose slope lies between these two: 0 where the band is one stretch of slopes
    """

    share: float
    by_index: tuple[float, ...]
    heads: tuple[int, ...]
    first: int | None
    last: int | None
    gaps: tuple[int, ...]
    steepest: float | None
    shallowest: float | None
    inside: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Nulls:
    """(H,) BOS mass and entropy in nats that each head would have from its slope alone, mean over the inputs."""

    mass: np.ndarray
    entropy: np.ndarray


def classify(mass: np.ndarray, entropy: np.ndarray, at: Thresholds | None = None) -> np.ndarray:
    """Names of CLASSES, same shape as `mass` (0..1) and `entropy` (nats), in the paper's order of questions.

    Raises BadInput where a number is missing: a head without a number has no class.
    """
    at = at or Thresholds()
    mass, entropy = np.asarray(mass), np.asarray(entropy)
    if np.isnan(mass).any() or np.isnan(entropy).any():
        raise BadInput(
            "A head without a measured BOS mass and entropy has no class. Measure on other inputs."
        )
    low = np.where(entropy < at.low_entropy, "low entropy", "healthy")
    return np.where(mass > at.dead, "dead", np.where(mass > at.sink, "sink", low))


def classes(bands: Bands, at: Thresholds | None = None) -> np.ndarray:
    """(L, H) class of every head by its means over the inputs."""
    return classify(bands.mean_mass(), bands.mean_entropy(), at)


def agreement(bands: Bands, at: Thresholds | None = None) -> np.ndarray:
    """(L, H) share of the inputs on which a head is of the class that its means give, 0..1."""
    each = classify(bands.mass, bands.entropy, at)  # (N, L, H)
    return (each == classes(bands, at)).mean(0)


def counts(named: np.ndarray) -> dict[str, int]:
    """How many heads are of each class, all classes named."""
    return {name: int((named == name).sum()) for name in CLASSES}


def collapsed(named: np.ndarray) -> np.ndarray:
    """(L, H) bool: sinks and dead heads, the paper's "sick" ones."""
    return np.isin(named, COLLAPSED)


def find_band(sick: np.ndarray, slopes: Sequence[float] | None = None, share: float = SHARE) -> Band:
    """The band of a map of collapsed heads, (L, H) bool. slopes: (H,) or None.

    An index is in it when more than `share` of its layers are collapsed; so 0 takes every index with a collapsed head.
    Raises BadInput for a share outside 0..1.
    """
    check_share(share)
    by_index = np.asarray(sick, dtype=bool).mean(0)  # (H,)
    heads = tuple(np.flatnonzero(by_index > share).tolist())
    first, last = (heads[0], heads[-1]) if heads else (None, None)
    steepest = shallowest = None
    inside: tuple[int, ...] = ()
    if heads and slopes is not None:
        mine = [slopes[head] for head in heads]
        steepest, shallowest = max(mine), min(mine)
        inside = tuple(
            head for head, slope in enumerate(slopes) if shallowest <= slope <= steepest and head not in heads
        )
    return Band(
        share=share,
        by_index=tuple(by_index.tolist()),
        heads=heads,
        first=first,
        last=last,
        gaps=tuple(sorted(set(range(first, last + 1)) - set(heads))) if heads else (),
        steepest=steepest,
        shallowest=shallowest,
        inside=inside,
    )


def check_share(share: float) -> None:
    """Raises BadInput for a share of layers that no index can be collapsed in more of, or that is below 0."""
    if not 0 <= share < 1:
        raise BadInput(f"The share of layers is 0 or more and less than 1, not {share:g}.")


def mean_without_first_row(bands: Bands) -> np.ndarray:
    """(L, H) mass over the rows from the second on, mean over the inputs that have some; NaN where none has."""
    long = bands.lengths > 1
    if not long.any():
        return np.full(bands.mass.shape[1:], np.nan)
    return bands.without_first_row()[long].mean(0)


def nulls(bands: Bands) -> Nulls:
    """What the slopes alone give at the lengths of these inputs; even attention where there are no slopes."""
    slopes = bands.geometry.slopes or (0.0,) * bands.geometry.heads
    lengths, often = np.unique(bands.lengths, return_counts=True)
    found = [
        [np.average([of(slope, int(T)) for T in lengths], weights=often) for slope in slopes]
        for of in (null_mass, null_entropy)
    ]
    return Nulls(mass=np.array(found[0]), entropy=np.array(found[1]))


def share_between(mass: np.ndarray, low: float = 0.4, high: float = 0.6) -> float:
    """Share of the heads with a mass in low..high, both ends included: many there, and no threshold is safe."""
    return float(((mass >= low) & (mass <= high)).mean())


def count_above(mass: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """How many heads have a mass above each threshold: the number of collapsed heads as the threshold moves."""
    return (np.asarray(mass).reshape(1, -1) > np.asarray(thresholds)[:, None]).sum(1)


def by_slope(slopes: Sequence[float]) -> list[int]:
    """Head indices from the steepest slope to the shallowest; equal slopes keep their order."""
    return sorted(range(len(slopes)), key=lambda head: -slopes[head])


def sweep(model: ModelRef, data: DataRef, longest: int | None = None) -> list[BandsRequest]:
    """One request a length of LENGTHS that fits the model's context (`longest`, None: no end). Raises BadInput for none."""
    fits = [T for T in LENGTHS if longest is None or longest >= T]
    if not fits:
        raise BadInput(
            f"The model's context is {longest} tokens; the sweep over lengths starts at {LENGTHS[0]}."
        )
    return [BandsRequest(model=model, data=replace(data, tokens=T)) for T in fits]


LAB: dict[str, str] = {
    "tokenizer": "as the tokenizer makes it",
    "always": "with BOS first",
    "never": "without BOS",
    "two": "with BOS twice",
    "other": "another token in BOS' place",
}


def lab(model: ModelRef, data: DataRef, other: str) -> dict[str, BandsRequest]:
    """The same texts with five beginnings: condition of LAB → request. other: text whose first token stands in for BOS."""
    found = {
        bos: BandsRequest(model=model, data=replace(data, bos=bos), columns=True)
        for bos in ("tokenizer", "always", "never")
    }
    always = found["always"]
    return found | {
        "two": replace(always, start="two"),
        "other": replace(always, start="other", other=other),
    }
