"""What is measured of a target, of whatever score: found in the store, and cheap to ask for again and again."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import cached_property

import streamlit as st

from headviz.analysis import ablation, changes, sweeps, yardsticks
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import HeadSet
from headviz.analysis.sweeps import Spot, Trace
from headviz.analysis.yardsticks import YARDSTICKS, Yardstick
from headviz.charts import curve
from headviz.jobs import many
from headviz.jobs.kinds import job_digest
from headviz.types import MeasureRequest, QuestionScores, ScoreTable, TextLosses, canonical
from headviz.ui.answers import cached

Parts = tuple[float, float, float]  # a change over everything, over the first half, over the second


@st.cache_resource(show_spinner=False)
def _known() -> dict[str, MeasureRequest | None]:
    """Digest → request, of every stored result: None where it is no measurement. `many.answered` keeps it in step."""
    return {}


def measured() -> dict[str, MeasureRequest]:
    """Every measurement of this machine: digest → request."""
    return many.answered("measure", _known())


@st.cache_resource(max_entries=20_000, show_spinner=False)
def _share(key: str, _request: MeasureRequest) -> float:
    return float(_there(_request).off_share.mean())


@st.cache_resource(max_entries=50_000, show_spinner=False)
def _parts(base: str, key: str, yard: str, scoring: str, seed: int, _before, _request) -> Parts:
    after = _there(_request)
    halves = yardsticks.halves(_before, seed)
    return tuple(YARDSTICKS[yard].cost(_before, after, scoring, some) for some in (None, *halves))


@st.cache_resource(max_entries=5_000, show_spinner=False)
def _interval(base: str, key: str, yard: str, scoring: str, _before, _request) -> tuple[float, float, float]:
    change = YARDSTICKS[yard].change(_before, _there(_request), scoring)
    return change.change, change.low, change.high


@st.cache_resource(max_entries=500, show_spinner=False)
def _spots(scores: str, plan: bytes, there: tuple[str, ...], _find) -> list[tuple[Spot, dict[str, tuple]]]:
    return _find()


def _there(request: MeasureRequest) -> QuestionScores | TextLosses:
    found = cached(request)
    if found is None:
        raise LookupError(request)  # removed at this very moment: not to be remembered
    return found


class Traces:
    """The curves of one model on one target.

    yard: what is counted; known: digest → request of what is measured with this model on this target
    """

    def __init__(
        self,
        plan: Plan,
        table: ScoreTable,
        before: QuestionScores | TextLosses,
        index: dict[str, MeasureRequest] | None = None,
    ) -> None:
        """index: what `measured` says, where somebody knows it already."""
        self.plan, self.table, self.before = plan, table, before
        self.scoring, self.seed = (
            ("", 0) if plan.questions is None else (plan.questions.scoring, plan.questions.seed)
        )
        self.yard: Yardstick = yardsticks.yardstick(before, self.scoring)
        self.base = job_digest(ablation.measuring(plan, None))
        target = (plan.model, plan.questions, plan.text)
        index = measured() if index is None else index
        self.known = {
            key: one for key, one in index.items() if (one.model, one.questions, one.text) == target
        }

    @cached_property
    def _digests(self) -> dict[MeasureRequest, str]:
        return {one: key for key, one in self.known.items()}

    @property
    def level(self) -> float:
        """What changes are changes of, with nothing off: nats a token, or a share of the questions, or nats."""
        if self.plan.questions is None:
            return float(self.before.loss.sum() / self.before.predicted.sum())
        read = changes.correct if self.yard.id == "accuracy" else changes.right_logprob
        return float(read(self.before, self.scoring).mean())

    def cost(self, request: MeasureRequest) -> float:
        """The change of one of `known`, in the unit on screen."""
        return self.yard.scale * self._parts_of(request)[0]

    def at(self, metric: str, replace: str) -> Plan:
        """The plan of another score or replacement, whatever the share."""
        return dataclasses.replace(ablation.with_share(self.plan, 0.0), metric=metric, replace=replace)

    def spots(self, metric: str, replace: str) -> list[tuple[Spot, dict[str, tuple[MeasureRequest, ...]]]]:
        """Measured points of a score by share, each with the random draws of its size."""
        plan = self.at(metric, replace)

        def find():
            there = set(self.known.values())
            found = sweeps.spots(plan, self.table, there, self._share_of)
            static = plan.mode == "static"
            return [(spot, sweeps.drawn(plan, self.table, spot, there) if static else {}) for spot in found]

        return _spots(self.table.provenance.digest, canonical(plan), tuple(sorted(self.known)), find)

    def _share_of(self, request: MeasureRequest) -> float:
        return _share(self._digests[request], request)

    # ------------------------------------------------------------------------------------------------ to draw

    def points(self, metric: str, replace: str) -> list[curve.Point]:
        """With intervals, in the unit on screen."""
        return [
            self._point(spot.request, spot.share, spot.heads, replace)
            for spot, _ in self.spots(metric, replace)
        ]

    def own(self, off: HeadSet, replace: str) -> list[curve.Point]:
        """The point of a set that somebody else chose, if it is measured."""
        request = ablation.measuring(dataclasses.replace(self.plan, replace=replace), off)
        return [self._point(request, off.share, off.count, replace)] if request in self._digests else []

    def _point(self, request: MeasureRequest, share: float, heads: int | None, replace: str) -> curve.Point:
        key = self._digests[request]
        numbers = _interval(self.base, key, self.yard.id, self.scoring, self.before, request)
        change, low, high = (self.yard.scale * x for x in numbers)
        return curve.Point(share=share, change=change, low=low, high=high, heads=heads, replace=replace)

    def draws(self, metric: str, replace: str) -> list[curve.Draw]:
        """Every random draw at every share where some were measured, in the unit on screen."""
        return [
            curve.Draw(share=share, change=self.yard.scale * parts[0], kind=kind, replace=replace)
            for kind, places in self._random(metric, replace).items()
            for share, several in places
            for parts in map(self._parts_of, several)
        ]

    def _random(self, metric: str, replace: str) -> dict[str, list[tuple[float, tuple[MeasureRequest, ...]]]]:
        if self.plan.mode == "per-input":
            if replace != "zero":
                return {}
            rates = sweeps.drawn_per_input(self.plan, self.known.values())
            places = [
                (sum(map(self._share_of, several)) / len(several), tuple(several))
                for several in rates.values()
            ]
            return {"uniform": places}
        spots = self.spots(metric, replace)
        return {
            kind: [(spot.share, beside[kind]) for spot, beside in spots if beside[kind]]
            for kind in sweeps.KINDS
        }

    # ------------------------------------------------------------------------------------------------ to rank

    def trace(self, metric: str, replace: str) -> Trace:
        """A score's curve, in nats or as a share of the questions."""
        return self._trace((spot.share, (spot.request,)) for spot, _ in self.spots(metric, replace))

    def random_trace(self, metric: str, replace: str, kind: str) -> Trace:
        """The mean over random draws of that kind beside a score's points."""
        return self._trace(self._random(metric, replace).get(kind, ()))

    def _trace(self, places: Iterable[tuple[float, tuple[MeasureRequest, ...]]]) -> Trace:
        ordered = sorted(places, key=lambda place: place[0])
        means = [
            tuple(sum(part) / len(part) for part in zip(*map(self._parts_of, several), strict=True))
            for _, several in ordered
        ]
        changes, first, second = zip(*means, strict=True) if means else ((), (), ())
        return Trace(shares=tuple(share for share, _ in ordered), changes=changes, first=first, second=second)

    def _parts_of(self, request: MeasureRequest) -> Parts:
        key = self._digests[request]
        return _parts(self.base, key, self.yard.id, self.scoring, self.seed, self.before, request)
