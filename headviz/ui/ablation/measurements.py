"""What an ablation page holds: what is measured of a plan, what it still wants, and the sentence that says it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import streamlit as st

from headviz.analysis import ablation, changes
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import HeadSet, too_small
from headviz.analysis.metrics import METRICS, inactive
from headviz.analysis.paired import MeanChange, PairedChange, RandomBand, among_random
from headviz.analysis.yardsticks import Yardstick, yardstick
from headviz.charts import fmt
from headviz.jobs.kinds import job_digest
from headviz.types import MeasureRequest, QuestionScores, ScoreTable, TextLosses
from headviz.ui.ablation import origins
from headviz.ui.ablation.hand import HAND
from headviz.ui.ablation.plan import is_small
from headviz.ui.answers import cached, cached_of, gather
from headviz.ui.once import once

QUANTITY = {"loss": "Loss", "accuracy": "Accuracy", "logprob": "Log-probability of the right answer"}
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
        origins.remember(plan.model, self.off.heads, ablation.chosen_by(plan), origins.chooser(plan))
        kinds = ("zero", "mean") if self.static else ("zero",)
        self.plans = {kind: dataclasses.replace(plan, replace=kind) for kind in kinds}
        self.base = job_digest(ablation.measuring(plan, None))
        self.started = is_small(plan) or self.base in st.session_state.setdefault("headviz_go", set())
        self.wanted = [ablation.measuring(plan, None), *(self.request(kind) for kind in self.plans)]
        self.there = gather(self.wanted, start=False)
        self.before = self.there.get(self.base)
        # by replacement: sentence, table, strip and curve all ask, and intervals and looks into the store take time
        self._told: dict[str, dict | None] = {}
        self._costs: dict[str, Cost | None] = {}
        self._random: dict[str, dict[str, tuple[MeasureRequest, ...]]] = {}
        self._beside: dict[str, dict[str, list[QuestionScores | TextLosses]]] = {}

    def request(self, kind: str) -> MeasureRequest:
        """The measurement of what is off now."""
        plan = self.plans[kind]
        if self.static:
            return ablation.measuring(plan, self.off)
        return ablation.measuring_per_input(plan, self.table)

    def after(self, kind: str) -> QuestionScores | TextLosses | None:
        """What was measured with it, None where it is not there yet."""
        return cached(self.request(kind)) if kind in self.plans else None

    def begin(self) -> None:
        """Queue what is wanted and not there, where runs are begun."""
        if self.started:
            self.there = gather(self.wanted, start=True)

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

    @property
    def scoring(self) -> str:
        return "" if self.plan.questions is None else self.plan.questions.scoring

    @property
    def yard(self) -> Yardstick | None:
        """What is counted as cost, in the sentence, the verdict and the curve; None before the baseline is there."""
        return None if self.before is None else yardstick(self.before, self.scoring)

    def controls(self, replace: str = "zero") -> dict[str, tuple[MeasureRequest, ...]]:
        """Random heads beside what is off, replaced alike; under the paper's rule at the share that it switched off."""
        if replace not in self._random:
            self._random[replace] = self._controls(replace)
        return self._random[replace]

    def _controls(self, replace: str) -> dict[str, tuple[MeasureRequest, ...]]:
        if self.static:
            return ablation.controls(self.plans[replace], self.off)
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
        off = self.off if self.static else None
        return changes.report(self.plans[replace], off, self.before, after, self._drawn(replace))

    def _drawn(self, replace: str) -> dict[str, list[QuestionScores | TextLosses]]:
        """Random sets that are measured."""
        if replace not in self._beside:
            asked = self.controls(replace)
            self._beside[replace] = {kind: cached_of(several) for kind, several in asked.items()}
        return self._beside[replace]

    def cost(self, replace: str) -> Cost | None:
        """What is off with that replacement costs by the yardstick, as far as it is measured."""
        if replace not in self._costs:
            after = self.after(replace)
            measured = self.before is not None and after is not None
            self._costs[replace] = (
                once(lambda: self._cost(replace, after), "cost", *self._measured(replace))
                if measured
                else None
            )
        return self._costs[replace]

    def _measured(self, replace: str) -> tuple:
        """Names of all results that the cost with that replacement is made of."""
        draws = (
            (kind, tuple(one.provenance.digest for one in several))
            for kind, several in self._drawn(replace).items()
        )
        return self.base, job_digest(self.request(replace)), *draws

    def _cost(self, replace: str, after: QuestionScores | TextLosses) -> Cost:
        yard, change = self.yard, self.yard.change(self.before, after, self.scoring)
        random = {
            kind: among_random(
                change.change,
                [yard.cost(self.before, one, self.scoring) for one in several],
                worse=yard.worse,
            )
            for kind, several in self._drawn(replace).items()
            if several
        }
        per_token = yard.id == "logprob" and self.scoring == "text"
        unit = "nats a token" if per_token else yard.unit
        return Cost(yard=yard, unit=unit, change=change, random=random)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What is off costs, counted by one yardstick. random: kind of random sets → where the cost stands among them."""

    yard: Yardstick
    unit: str
    change: MeanChange | PairedChange
    random: dict[str, RandomBand]

    def moved(self) -> str:
        """`3.50 → 3.70`, accuracy in percent."""
        told = fmt.percent if self.yard.id == "accuracy" else fmt.number
        return f"{told(self.change.baseline)} → {told(self.change.ablated)}"

    def words(self, unit: bool = True) -> str:
        """`+0.230 nats [0.200, 0.260]`."""
        return change_words(self.change, self.yard.scale, self.unit if unit else "")


def sentence(work: Measurements) -> str:
    """What a person would quote of this view."""
    text = _which(work)
    if work.static and not work.off.heads:
        return text + _nothing_off(work)
    zero, mean = work.cost("zero"), work.cost("mean")
    if zero is None:
        return text + (
            "What that costs is being measured." if work.started else "What that costs is not measured yet."
        )
    if zero.yard.id == "logprob":
        right = float(changes.correct(work.before, work.scoring).mean())
        text += (
            f"The model is at chance on these questions (accuracy {fmt.percent(right)} with nothing off), so accuracy says "
            "little. "
        )
    text += f"{QUANTITY[zero.yard.id]} {zero.words()} with zero in their place"
    text += f", {mean.words()} with their mean" if mean else ""
    for kind, what in RANDOM.items():
        if kind in zero.random:
            text += f"; {what}: {_band(zero, kind)}"
            text += f", with their mean {_band(mean, kind)}" if mean and kind in mean.random else ""
    return text + "."


def _band(cost: Cost, kind: str) -> str:
    band = cost.random[kind]
    draws = f"{band.n} draw" + ("" if band.n == 1 else "s")
    return f"{fmt.signed(band.mean * cost.yard.scale)} ({draws})"


def _nothing_off(work: Measurements) -> str:
    plan = work.plan
    small = ""
    if plan.by_score and plan.threshold is None:
        small = too_small(plan.share, work.off.geometry, plan.by, plan.per_layer)
    do = "Move the slider" if plan.by_score else "Click heads on the map"
    text = f"{small}." if small else f"{do}: nothing off costs nothing."
    if work.before is None:
        return text
    if work.yard.id == "loss":
        loss, _ = changes.headline(plan, work.before, work.before)
        return f"{text} The loss is {fmt.number(loss)} nats a token with nothing off."
    right = float(changes.correct(work.before, work.scoring).mean())
    chance = ", which is at chance" if work.yard.id == "logprob" else ""
    return f"{text} The accuracy is {fmt.percent(right)} with nothing off{chance}."


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


def change_words(change: MeanChange | PairedChange, scale: float = 1.0, unit: str = "") -> str:
    """`+0.230 nats [0.200, 0.260]`, on one line from the bracket on; in place of an interval, why there is none."""
    text = fmt.signed(change.change * scale) + (f" {unit}" if unit else "")
    if np.isnan(change.low):
        why = change.note.rstrip(".") if isinstance(change, MeanChange) else ""
        return f"{text} ({why[:1].lower()}{why[1:]})" if why else text
    low, high = fmt.number(change.low * scale), fmt.number(change.high * scale)
    return f"{text} [{low},\u00a0{high}]"
