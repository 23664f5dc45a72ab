"""What it costs to lose the heads that two scores disagree about, so that one can ask who is right.

Each group of heads that one score alone calls inactive is switched off as a set of its own, beside as many random heads.
If losing the heads that only one score calls inactive costs more than losing those of the other, the other is right about
them. Both groups are measured on the same inputs, so the difference has a paired interval. numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.agreement import Group, Quadrants
from headviz.analysis.changes import Measured
from headviz.analysis.choose import HeadSet
from headviz.analysis.yardsticks import Yardstick, yardstick
from headviz.types import Geometry, MeasureRequest

DISPUTED: tuple[Group, ...] = ("only_a", "only_b")
REPLACEMENTS: tuple[Literal["zero", "mean"], ...] = ("zero", "mean")

Find = Callable[[MeasureRequest], Measured | None]


@dataclass(frozen=True, kw_only=True)
class GroupCost:
    """One group switched off. change, low, high: ablated − baseline with its 95% interval, in the yardstick's own unit
    (nats, or a share of the questions); random: kind → change of each draw of as many random heads that is measured"""

    group: Group
    heads: int
    replace: str
    change: float
    low: float
    high: float
    random: dict[str, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """The two disputed groups against each other on the same inputs: change of only_a − change of only_b, 95% interval.

    costlier: the group that costs more to lose, where the interval lies on one side of 0; None where it does not
    equal:    whether both groups hold as many heads; if not, costs cannot say who is right
    """

    replace: str
    change: float
    low: float
    high: float
    costlier: Group | None
    equal: bool


@dataclass(frozen=True, kw_only=True)
class GroupCosts:
    """What is measured so far. baseline: loss in nats, accuracy, or log-probability with nothing off"""

    yard: Yardstick
    baseline: float
    costs: tuple[GroupCost, ...]
    contests: tuple[Contest, ...]

    def of(self, group: Group, kind: str) -> GroupCost | None:
        return next((one for one in self.costs if (one.group, one.replace) == (group, kind)), None)

    def contest(self, kind: str) -> Contest | None:
        return next((one for one in self.contests if one.replace == kind), None)


def group_plans(plan: Plan, quadrants: Quadrants, groups: Sequence[Group] = DISPUTED) -> dict[Group, Plan]:
    """The plan with each group as its set of heads; a group without heads is left out."""
    return {
        group: replace(plan, heads=tuple(heads), origin=quadrants.names[group], mode="static", threshold=None)
        for group in groups
        if (heads := quadrants.heads(group))
    }


def requests(plans: Mapping[Group, Plan], geometry: Geometry) -> list[MeasureRequest]:
    """All measurements, each once, what answers first in front: nothing off, the groups, then the random draws.

    Groups of the same size share their uniform draws.
    """
    wanted: list[MeasureRequest] = [ablation.measuring(plan, None) for plan in plans.values()]
    random: list[MeasureRequest] = []
    for kind in REPLACEMENTS:
        for plan in plans.values():
            mine, off = replace(plan, replace=kind), _set(plan, geometry)
            wanted.append(ablation.measuring(mine, off))
            random += [one for several in ablation.controls(mine, off).values() for one in several]
    return list(dict.fromkeys(wanted + random))


def costs_of(plans: Mapping[Group, Plan], geometry: Geometry, find: Find) -> GroupCosts | None:
    """What the measurements say that `find` knows; None where there is no group, or nothing off is not measured yet."""
    plan = next(iter(plans.values()), None)
    before = find(ablation.measuring(plan, None)) if plan is not None else None
    if before is None:
        return None
    scoring = plan.questions.scoring if plan.questions is not None else ""
    yard = yardstick(before, scoring)
    costs, contests, baseline = [], [], float("nan")
    for kind in REPLACEMENTS:
        there: dict[Group, Measured] = {}
        for group, one in plans.items():
            mine, off = replace(one, replace=kind), _set(one, geometry)
            after = find(ablation.measuring(mine, off))
            if after is None:
                continue
            there[group] = after
            moved = yard.change(before, after, scoring)
            baseline = moved.baseline
            random = {
                name: tuple(yard.cost(before, m, scoring) for r in several if (m := find(r)) is not None)
                for name, several in ablation.controls(mine, off).items()
            }
            costs.append(
                GroupCost(
                    group=group, heads=off.count, replace=kind, random=random,
                    change=moved.change, low=moved.low, high=moved.high,
                )
            )  # fmt: skip
        if all(group in there for group in DISPUTED):
            sizes = {len(plans[group].heads) for group in DISPUTED}
            contests.append(_contest(yard, there, scoring, kind, len(sizes) == 1))
    return GroupCosts(yard=yard, baseline=baseline, costs=tuple(costs), contests=tuple(contests))


def _contest(yard: Yardstick, there: dict[Group, Measured], scoring: str, kind: str, equal: bool) -> Contest:
    apart = yard.change(there["only_b"], there["only_a"], scoring)
    sign = 1 if yard.worse == "higher" else -1
    costlier: Group | None = None
    if apart.low > 0 or apart.high < 0:  # NaN, of one document, is neither
        costlier = "only_a" if sign * apart.change > 0 else "only_b"
    return Contest(
        replace=kind, change=apart.change, low=apart.low, high=apart.high, costlier=costlier, equal=equal
    )


def right(contest: Contest) -> Literal["a", "b"] | None:
    """Which score is right about the heads they dispute: the one whose own heads cost less to lose. None: not shown."""
    if contest.costlier is None or not contest.equal:
        return None
    return "b" if contest.costlier == "only_a" else "a"


def report(costs: GroupCosts, quadrants: Quadrants, plan: Plan) -> dict[str, Any]:
    """JSON types: changes in `unit`, shares of the questions or nats. `right` names the score, or is null."""
    names = {"a": quadrants.a, "b": quadrants.b, None: None}
    return {
        "what": costs.yard.what,
        "unit": "share of the questions" if costs.yard.id == "accuracy" else "nats",
        "worse": costs.yard.worse,
        "baseline": costs.baseline,
        "draws": plan.draws,
        "same_inputs": ablation.same_inputs(replace(plan, heads=None)),
        "groups": [
            {
                "group": one.group,
                "name": quadrants.names[one.group],
                "heads": one.heads,
                "replace": one.replace,
                "change": one.change,
                "ci_low": one.low,
                "ci_high": one.high,
                "random": {kind: list(several) for kind, several in one.random.items()},
            }
            for one in costs.costs
        ],
        "difference": [
            {
                "of": list(DISPUTED),
                "replace": one.replace,
                "change": one.change,
                "ci_low": one.low,
                "ci_high": one.high,
                "same_size": one.equal,
                "right": names[right(one)],
            }
            for one in costs.contests
        ],
    }


def _set(plan: Plan, geometry: Geometry) -> HeadSet:
    return HeadSet(heads=plan.heads or (), geometry=geometry)
