"""What an ablation page holds: the plan in the view, what is measured of it, and the sentence that says it."""

from __future__ import annotations

import dataclasses

import streamlit as st

from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import HeadSet
from headviz.charts import curve, fmt
from headviz.jobs.kinds import job_digest
from headviz.types import ScoreTable, TextLosses
from headviz.ui.answers import cached, gather

GRID = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)


class Measurements:
    """What is measured already for this plan, and what the page still wants."""

    def __init__(self, plan: Plan, table: ScoreTable) -> None:
        self.plan, self.table = plan, table
        self.off = ablation.chosen(plan, table)
        self.plans = {kind: dataclasses.replace(plan, replace=kind) for kind in ("zero", "mean")}
        base = ablation.measuring(plan, None)
        self.wanted = [base, *(ablation.measuring(p, self.off) for p in self.plans.values())]
        if st.session_state.get("headviz_random") == self.key():
            self.wanted += [
                r for several in ablation.controls(self.plans["zero"], self.off).values() for r in several
            ]
        if st.session_state.get("headviz_curve") == (plan.metric, job_digest(base)):
            self.wanted += [r for share in GRID for r in self._at(share)]
        self.there = gather(self.wanted, start=True)
        self.before = self.there.get(job_digest(base))

    def key(self) -> tuple:
        return (self.off.heads, self.plan.draws)

    def _at(self, share: float) -> list:
        off = ablation.chosen(ablation.with_share(self.plan, share), self.table)
        return [ablation.measuring(p, off) for p in self.plans.values()]

    def missing(self) -> tuple[str, ...]:
        digests = dict.fromkeys(job_digest(request) for request in self.wanted)
        return tuple(digest for digest in digests if digest not in self.there)

    def report(self, replace: str) -> dict | None:
        """The report of this set with that replacement, as far as it is measured."""
        plan = self.plans[replace]
        after = self.there.get(job_digest(ablation.measuring(plan, self.off)))
        if self.before is None or after is None:
            return None
        drawn = ablation.controls(self.plans["zero"], self.off) if replace == "zero" else {}
        random = {kind: [m for r in several if (m := cached(r))] for kind, several in drawn.items()}
        return ablation.report(plan, self.off, self.before, after, random)

    def points(self) -> list[curve.Point]:
        """Every measured point of this score on this target: the grid's, and the slider's."""
        if self.before is None:
            return []
        found = []
        for share in sorted({*GRID, self.plan.share} - {0.0}):
            off = ablation.chosen(ablation.with_share(self.plan, share), self.table)
            for kind, plan in self.plans.items():
                after = cached(ablation.measuring(plan, off)) if off.heads else None
                if after is not None:
                    cost = change_of(plan, self.before, after)
                    found.append(
                        curve.Point(
                            share=off.share,
                            change=cost.change,
                            low=cost.low,
                            high=cost.high,
                            heads=off.count,
                            replace=kind,
                        )
                    )
        return found

    def draws(self) -> list[curve.Draw]:
        tree = self.report("zero")
        return [
            curve.Draw(share=self.off.share, change=change, kind=kind, replace="zero")
            for kind, band in (tree["random"].items() if tree else ())
            for change in band["changes"]
        ]


def change_of(plan: Plan, before, after):
    if isinstance(before, TextLosses):
        return ablation.loss_change(before, after)
    return ablation.accuracy_change(before, after, plan.questions.scoring)


def sentence(off: HeadSet, zero: dict | None, mean: dict | None) -> str:
    text = f"**{fmt.count(off.count, off.geometry.layers * off.geometry.heads)} heads are off.** "
    if not off.heads:
        return text + "Move the slider: nothing off costs nothing."
    if zero is None:
        return text + "What that costs is being measured."
    if zero.get("at_chance"):
        text += "The model is at chance on these questions, so accuracy says little: read log-probability and loss. "
    name = "Loss" if zero["unit"] == "nats" else "Accuracy"
    text += f"{name} {change_text(zero)} with zero in their place"
    text += f", {change_text(mean)} with their mean" if mean else ""
    for kind, what in (
        ("uniform", "as many random heads"),
        ("layer_matched", "random with as many in each layer"),
    ):
        if band := zero["random"].get(kind):
            text += f"; {what}: {fmt.signed(band['mean'])} ({band['n']} draws)"
    return text + "."


def change_text(tree: dict) -> str:
    """`+0.230 nats [0.200, 0.260]`, or points of accuracy."""
    scale, unit = (1, "nats") if tree["unit"] == "nats" else (100, "points")
    low, high = fmt.number(tree["ci_low"] * scale), fmt.number(tree["ci_high"] * scale)
    return f"{fmt.signed(tree['change'] * scale)} {unit} [{low}, {high}]"
