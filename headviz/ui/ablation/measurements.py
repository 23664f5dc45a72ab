"""What an ablation page holds: what is measured of a plan, what it still wants, and the sentence that says it."""

from __future__ import annotations

import dataclasses

import numpy as np
import streamlit as st

from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import HeadSet
from headviz.analysis.metrics import METRICS, inactive
from headviz.charts import curve, fmt
from headviz.jobs.kinds import job_digest
from headviz.types import MeasureRequest, QuestionScores, ScoreTable, TextLosses
from headviz.ui.ablation.hand import HAND
from headviz.ui.ablation.plan import is_small
from headviz.ui.answers import cached, gather

GRID = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)
RANDOM = {
    "uniform": "as many random heads",
    "layer_matched": "random with as many in each layer",
}


class Measurements:
    """What is measured already for this plan, and what the page still wants.

    off:   the static set; without heads under the paper's rule, where each input has its own
    plans: replacement → the plan with it; zero only under the paper's rule
    started: whether runs are begun: small ones are, others once somebody has asked for them
    """

    def __init__(self, plan: Plan, table: ScoreTable) -> None:
        self.plan, self.table = plan, table
        self.static = plan.mode == "static"
        self.off = ablation.chosen(plan, table) if self.static else HeadSet(heads=(), geometry=table.geometry)
        kinds = ("zero", "mean") if self.static else ("zero",)
        self.plans = {kind: dataclasses.replace(plan, replace=kind) for kind in kinds}
        self.base = job_digest(ablation.measuring(plan, None))
        self.started = is_small(plan) or self.base in st.session_state.setdefault("headviz_go", set())
        self.wanted = [ablation.measuring(plan, None), *(self.request(kind) for kind in self.plans)]
        self.there = gather(self.wanted, start=self.started)
        self.before = self.there.get(self.base)
        self._told: dict[str, dict | None] = {}  # sentence, table and curve all ask, and intervals take time

    def request(self, kind: str) -> MeasureRequest:
        """The measurement of what is off now."""
        plan = self.plans[kind]
        if self.static:
            return ablation.measuring(plan, self.off)
        return ablation.measuring_per_input(plan, self.table)

    def after(self, kind: str) -> QuestionScores | TextLosses | None:
        """What was measured with it, None where it is not there yet."""
        return cached(self.request(kind)) if kind in self.plans else None

    def go(self) -> None:
        """Begin the runs of this target; a callback."""
        st.session_state.headviz_go.add(self.base)

    @property
    def share(self) -> float:
        """Share of the heads that is off, 0..1; under the paper's rule as measured, NaN until then."""
        if self.static:
            return self.off.share
        after = self.after("zero")
        return float(after.off_share.mean()) if after is not None else np.nan

    def off_share_map(self) -> np.ndarray:
        """(L, H) share of the inputs that chose in which a head lies beyond the threshold of the paper's rule."""
        p = self.plan
        threshold = ablation.threshold_per_input(p, self.table)
        return inactive(self.table.per_input(p.metric), p.metric, threshold, p.turned).mean(0)

    def _at(self, plan: Plan, share: float) -> MeasureRequest:
        there = ablation.with_share(plan, share)
        if self.static:
            return ablation.measuring(there, ablation.chosen(there, self.table))
        return ablation.measuring_per_input(there, self.table)

    def controls(self) -> dict[str, tuple[MeasureRequest, ...]]:
        """Random heads beside what is off, zero in their place; under the paper's rule at the share that it switched off."""
        if self.static:
            return ablation.controls(self.plans["zero"], self.off)
        after = self.after("zero")
        if after is None or not after.off_share.any():
            return {"uniform": ()}
        return {"uniform": ablation.controls_per_input(self.plan, float(after.off_share.mean()))}

    def missing(self) -> tuple[str, ...]:
        digests = dict.fromkeys(job_digest(request) for request in self.wanted)
        return tuple(digest for digest in digests if digest not in self.there)

    def report(self, replace: str) -> dict | None:
        """The report of what is off with that replacement, as far as it is measured."""
        if replace not in self._told:
            self._told[replace] = self._report(replace)
        return self._told[replace]

    def _report(self, replace: str) -> dict | None:
        after = self.after(replace)
        if self.before is None or after is None:
            return None
        drawn = self.controls() if replace == "zero" else {}
        random = {kind: [m for r in several if (m := cached(r))] for kind, several in drawn.items()}
        off = self.off if self.static else None
        return ablation.report(self.plans[replace], off, self.before, after, random)

    def points(self) -> list[curve.Point]:
        """Every measured point of this score, this mode and this target: the grid's, and the slider's."""
        if self.before is None:
            return []
        found = []
        total = self.off.geometry.layers * self.off.geometry.heads
        shares = {*GRID, self.plan.share} if self.plan.by_score else set(GRID)
        for share in sorted(shares - {0.0}):
            for kind, plan in self.plans.items():
                asked = self._at(plan, share)
                after = cached(asked) if asked.ablation.mode != "none" else None
                if after is not None:
                    cost = change_of(plan, self.before, after)
                    off = float(after.off_share.mean())
                    found.append(
                        curve.Point(
                            share=off,
                            change=cost.change,
                            low=cost.low,
                            high=cost.high,
                            heads=round(off * total),
                            replace=kind,
                        )
                    )
        return found

    def draws(self) -> list[curve.Draw]:
        tree = self.report("zero")
        return [
            curve.Draw(share=self.share, change=change, kind=kind, replace="zero")
            for kind, band in (tree["random"].items() if tree else ())
            for change in band["changes"]
        ]


def change_of(plan: Plan, before, after):
    if isinstance(before, TextLosses):
        return ablation.loss_change(before, after)
    return ablation.accuracy_change(before, after, plan.questions.scoring)


def sentence(work: Measurements) -> str:
    """What a person would quote of this view."""
    text = _which(work)
    if work.static and not work.off.heads:
        do = "Move the slider" if work.plan.by_score else "Click heads on the map"
        return f"{text}{do}: nothing off costs nothing."
    zero, mean = work.report("zero"), work.report("mean")
    if zero is None:
        return text + (
            "What that costs is being measured." if work.started else "What that costs is not measured yet."
        )
    how = (
        f" with zero in their place, {change_text(mean)} with their mean"
        if mean
        else " with zero in their place"
    )
    if zero.get("at_chance"):
        right = zero["logprob"]
        text += (
            f"The model is at chance on these questions (accuracy {fmt.percent(zero['baseline'])}), so accuracy says "
            f"little. Log-probability of the right answer {_interval(right)} nats; accuracy "
        )
    else:
        text += "Loss " if zero["unit"] == "nats" else "Accuracy "
    text += change_text(zero) + how
    scale = 1 if zero["unit"] == "nats" else 100
    for kind, what in RANDOM.items():
        if band := zero["random"].get(kind):
            draws = f"{band['n']} draw" + ("" if band["n"] == 1 else "s")
            text += f"; {what}: {fmt.signed(band['mean'] * scale)} ({draws})"
    return text + "."


def _which(work: Measurements) -> str:
    plan = work.plan
    if not work.static:
        end = "most active" if plan.turned else "most inactive"
        share = work.share
        shown = f"On average {fmt.percent(share)} of the heads are off" if share == share else "Heads are off"
        asked = f", {fmt.percent(plan.share)} asked" if plan.threshold is None else ""
        return (
            f"**{shown}, chosen anew for each input** (the {end} by {METRICS[plan.metric].symbol}{asked}). "
        )
    total = work.off.geometry.layers * work.off.geometry.heads
    count = fmt.count(work.off.count, total)
    whose = f", chosen {plan.origin}" if plan.origin.startswith(HAND) else f", read from {plan.origin}"
    return f"**{count} heads are off{'' if plan.by_score else whose}.** "


def change_text(tree: dict) -> str:
    """`+0.230 nats [0.200, 0.260]`, or points of accuracy."""
    scale, unit = (1, "nats") if tree["unit"] == "nats" else (100, "points")
    low, high = fmt.number(tree["ci_low"] * scale), fmt.number(tree["ci_high"] * scale)
    return f"{fmt.signed(tree['change'] * scale)} {unit} [{low}, {high}]"


def _interval(tree: dict) -> str:
    return f"{fmt.signed(tree['change'])} [{fmt.number(tree['ci_low'])}, {fmt.number(tree['ci_high'])}]"
