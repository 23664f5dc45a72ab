"""What the bands page holds: one model's measurement read at the thresholds of the view, with or without the first row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis import bands as of
from headviz.analysis.bands import Band, Thresholds
from headviz.analysis.nulls import null_mass, random_head
from headviz.charts.by_slope import Level
from headviz.models import catalog
from headviz.readers import parse_head
from headviz.types import Bands, BandsRequest, Geometry

RANDOM_SLOPES, RANDOM_DRAWS, RANDOM_TOKENS = 8, 6, 1024  # a page must not draw T×T numbers for long
GRID = 60  # points of the null curve


@dataclass(frozen=True)
class Work:
    """One measurement. later: without the first row, which adds 1/T to every head. share: of the layers, for the band."""

    request: BandsRequest
    bands: Bands
    at: Thresholds
    share: float
    later: bool

    @property
    def geometry(self) -> Geometry:
        return self.bands.geometry

    @property
    def slopes(self) -> tuple[float, ...] | None:
        return self.geometry.slopes

    @property
    def tokens(self) -> int:
        """The median length of the inputs."""
        return int(np.median(self.bands.lengths))

    @cached_property
    def mass(self) -> np.ndarray:
        """(L, H) over the rows that the view counts."""
        return of.mean_without_first_row(self.bands) if self.later else self.bands.mean_mass()

    @cached_property
    def named(self) -> np.ndarray:
        """(L, H) classes. Raises BadInput where no row is left."""
        return of.classify(self.mass, self.bands.mean_entropy(), self.at)

    @cached_property
    def sick(self) -> np.ndarray:
        return of.collapsed(self.named)

    @cached_property
    def band(self) -> Band:
        return of.find_band(self.sick, self.slopes, self.share)

    @cached_property
    def null(self) -> np.ndarray:
        """(H,) mass that the slope alone gives, over the same rows, mean over the inputs."""
        mass = of.nulls(self.bands).mass
        if not self.later:
            return mass
        rows = self.bands.lengths.astype(float)
        more = rows[rows > 1]
        slopes = self.slopes or (0.0,) * self.geometry.heads
        lengths, often = np.unique(more, return_counts=True)
        return np.array(
            [np.average([counted(null_mass(m, int(T)), int(T), True) for T in lengths], weights=often) for m in slopes]
        )  # fmt: skip

    @cached_property
    def per_input(self) -> np.ndarray:
        """(N, L, H) mass; NaN for an input of one token where the first row is left out."""
        return self.bands.without_first_row() if self.later else self.bands.mass.astype(np.float64)

    def order(self) -> list[int]:
        """Heads from left to right, as the view wants them."""
        if self.slopes is None or ui.value("order") == "index":
            return list(range(self.geometry.heads))
        return of.by_slope(self.slopes)

    @property
    def somebody_picked(self) -> bool:
        """Whether a head of this model is picked; one of another model is none."""
        if not ui.value("head"):
            return False
        layer, head = parse_head(ui.value("head"))
        return layer < self.geometry.layers and head < self.geometry.heads

    def picked(self) -> tuple[int, int]:
        """The head that is picked on every page; until somebody picks one, that with the most mass."""
        if self.somebody_picked:
            return parse_head(ui.value("head"))
        layer, head = np.unravel_index(int(np.argmax(self.mass)), self.mass.shape)
        return int(layer), int(head)

    def heads(self, which: str) -> tuple[tuple[int, int], ...]:
        """(layer, head) of `collapsed`, of those in the `band`, or of the `dead`."""
        where = self.named == "dead" if which == "dead" else self.sick
        pairs = [(int(layer), int(head)) for layer, head in np.argwhere(where)]
        return tuple(pair for pair in pairs if which != "band" or pair[1] in self.band.heads)


def counted(mass: float, T: int, later: bool) -> float:
    """A mean over all rows as one over the rows from the second on: row 0 has no choice, its weight is 1."""
    return (mass * T - 1) / (T - 1) if later else mass


def name_of(request: BandsRequest) -> str:
    return catalog.short(request.model)


def levels(work: Work) -> list[Level]:
    """The null of these slopes and a randomly initialised head's level, at the length of the inputs."""
    T = work.tokens
    if work.later and T < 2:
        return []
    if work.slopes is None:
        slopes = np.zeros(work.geometry.heads)  # as many as heads: the line spans them all
        drawn = np.array([0.0])
    else:
        ends = np.log2([max(work.slopes), min(work.slopes)])
        slopes = 2 ** np.linspace(*ends, GRID)
        by = np.array(sorted(set(work.slopes)))
        drawn = by[np.unique(np.linspace(0, len(by) - 1, RANDOM_SLOPES).round().astype(int))]
    null = np.array([counted(null_mass(float(m), T), T, work.later) for m in slopes])
    what = "even attention" if work.slopes is None else "slope alone"
    found = [Level(name=f"{what}, {T:,} tokens", slopes=slopes, mass=null)]
    if T <= RANDOM_TOKENS:
        shape = work.geometry
        raw = _random(tuple(map(float, drawn)), T, shape.hidden, shape.head_dim)
        mean, low, high = (np.array([counted(x, T, work.later) for x in column]) for column in raw)
        if work.slopes is None:
            drawn, mean, low, high = (np.repeat(y, shape.heads) for y in (drawn, mean, low, high))
        found.append(Level(name="a fresh random head", slopes=drawn, mass=mean, low=low, high=high))
    return found


@st.cache_resource(max_entries=32, show_spinner="Drawing random heads …")
def _random(slopes: tuple[float, ...], T: int, hidden: int, head_dim: int):
    """Columns mean, lowest, highest over the draws of each slope."""
    rows = [random_head(m, T, hidden, head_dim, draws=RANDOM_DRAWS) for m in slopes]
    return tuple(tuple(column) for column in zip(*rows, strict=True))
