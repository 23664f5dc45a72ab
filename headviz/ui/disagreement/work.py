"""From the view to two scores, their groups of heads, and what is measured of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis import agreement, groupcosts, sinkplace
from headviz.analysis.ablation import Plan
from headviz.analysis.agreement import Agreement, Matrices, Quadrants, Scored
from headviz.analysis.groupcosts import DISPUTED, GroupCosts
from headviz.errors import BadInput
from headviz.readers import parse_heads
from headviz.types import MeasureRequest, QuestionsRef, ScoreTable, SinkPlaces, SinkRequest

POSITIONS = 16  # first tokens among which the sink is looked for


@dataclass
class Work:
    """What the page shows.

    plan:  where heads are scored and where they are measured; its share and metric do not matter
    share: the budget of both scores, 0..1, None where each has a threshold; why: how that share came about
    """

    plan: Plan
    table: ScoreTable
    a: Scored
    b: Scored
    quadrants: Quadrants
    share: float | None
    why: str = ""

    @cached_property
    def plans(self) -> dict:
        groups = (*DISPUTED, "both") if ui.value("agreed") else DISPUTED
        return groupcosts.group_plans(self.plan, self.quadrants, groups)

    @cached_property
    def requests(self) -> list[MeasureRequest]:
        return groupcosts.requests(self.plans, self.table.geometry)

    @cached_property
    def costs(self) -> GroupCosts | None:
        """As far as they are measured."""
        return groupcosts.costs_of(self.plans, self.table.geometry, ui.cached)

    @cached_property
    def curve(self) -> Agreement:
        return _curve(self.table.provenance.digest, self.a.row.id, self.b.row.id, self.a, self.b)

    @cached_property
    def count(self) -> int:
        """Heads at which the two are compared: the budget, or the mean of what the thresholds take."""
        if self.quadrants.count is not None:
            return self.quadrants.count
        counts = self.quadrants.counts()
        return counts["both"] + (counts["only_a"] + counts["only_b"] + 1) // 2

    @cached_property
    def marked(self) -> set[tuple[int, int]]:
        """Heads that are marked on the page, as far as this model has them."""
        shape = self.table.geometry
        return {
            head
            for head in parse_heads(ui.value("marked"))
            if head[0] < shape.layers and head[1] < shape.heads
        }

    def matrices(self) -> Matrices:
        share = self.count / self.a.values.size
        metrics = tuple(one for one in agreement.TWELVE if one in self.table.metrics)
        return _matrices(self.table.provenance.digest, share, metrics, self.table)


@st.cache_resource(max_entries=32, show_spinner=False)
def _curve(digest: str, first: str, second: str, _a: Scored, _b: Scored) -> Agreement:
    return agreement.agreement(_a, _b)


@st.cache_resource(max_entries=32, show_spinner=False)
def _matrices(digest: str, share: float, metrics: tuple[str, ...], _table: ScoreTable) -> Matrices:
    return agreement.matrices(_table, share, metrics)


def sink_request(plan: Plan) -> SinkRequest:
    """Where the sink is, on the text on which heads are scored. Raises BadInput where that is no text."""
    if isinstance(plan.chosen_on, QuestionsRef):
        raise BadInput(
            "Where the sink is can be looked up on text, and heads are scored on questions here. Choose them on the text at "
            "the left, or on a corpus, under More."
        )
    return SinkRequest(model=plan.model, data=plan.chosen_on, positions=POSITIONS)


def scored(table: ScoreTable, metric: str, places: SinkPlaces | None) -> Scored:
    """A score of the table, or AWFT as it follows the strongest early column, where the view says so."""
    if places is None or metric != "awft":
        return agreement.scored(table, metric)
    follow = ui.value("follow")
    values = sinkplace.followed(places, follow)  # (N, L, H)
    known = ~np.isnan(values)
    count = known.sum(0)
    total = np.where(known, values, 0).sum(0, dtype=np.float64)
    mean = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return Scored(row=sinkplace.followed_row(places, follow), values=mean)
