"""Which group of disputed heads costs more to lose, and who is right about them, in words that claim no more than measured."""

from __future__ import annotations

from headviz.analysis.agreement import Group, Quadrants, Scored
from headviz.analysis.groupcosts import DISPUTED, Contest, GroupCost, GroupCosts, right
from headviz.charts import fmt
from headviz.charts.curve import PLACES

ANYWHERE = {"uniform": "as many random heads anywhere", "layer_matched": "random with as many in each layer"}


def heads_of(group: Group, quadrants: Quadrants, count: int) -> str:
    """`32 sink-but-loud heads`, or `32 heads inactive by AWFT alone`."""
    name, noun = quadrants.names[group], "head" if count == 1 else "heads"
    return (
        f"{count} {name.replace(' ', '-')} {noun}"
        if not name.startswith("inactive by")
        else f"{count} {noun} {name}"
    )


def contest_sentence(costs: GroupCosts | None, quadrants: Quadrants, a: Scored, b: Scored) -> str:
    """`32 sink-but-loud heads cost +0.820 nats [0.700, 0.940], 32 silent-but-not-a-sink heads +0.180 [0.150, 0.210]: …`

    Empty where neither group is measured with zero in its place.
    """
    told = [one for group in DISPUTED if costs is not None and (one := costs.of(group, "zero")) is not None]
    if not told:
        return ""
    said = ", ".join(
        f"{heads_of(one.group, quadrants, one.heads)} {'cost ' if not i else ''}{change_words(one, costs)}"
        for i, one in enumerate(told)
    )
    text = f"**{said}**, with {PLACES['zero']}"
    if contest := costs.contest("zero"):
        text += f": {_verdict(contest, costs, a, b)}."
    else:
        text += "."
    return text + _mean(costs) + _random(costs, told)


def change_words(one: GroupCost, costs: GroupCosts) -> str:
    """`+0.820 nats [0.700, 0.940]`."""
    scale = costs.yard.scale
    low, high = fmt.number(one.low * scale), fmt.number(one.high * scale)
    return f"{fmt.signed(one.change * scale)} {costs.yard.unit} [{low}, {high}]"


def _verdict(contest: Contest, costs: GroupCosts, a: Scored, b: Scored) -> str:
    scale = costs.yard.scale
    size = f"{fmt.signed(contest.change * scale)} {costs.yard.unit} [{fmt.number(contest.low * scale)}, "
    size += f"{fmt.number(contest.high * scale)}]"
    if contest.low != contest.low:
        return "all inputs are of one document, so the difference has no interval, and nobody is shown to be right"
    if not contest.equal:
        return (
            f"the difference is {size}, but the groups are not of the same size; at an equal share for both scores their "
            "costs could say who is right"
        )
    winner = right(contest)
    if winner is None:
        return (
            f"on the same inputs they differ by {size}, which may be chance, so nobody is shown to be right"
        )
    row = (a if winner == "a" else b).row
    return (
        f"on the same inputs they differ by {size}, so **{row.symbol} is right** about the heads in dispute: those that it "
        "alone calls inactive are missed less"
    )


def _mean(costs: GroupCosts) -> str:
    told = [one for group in DISPUTED if (one := costs.of(group, "mean")) is not None]
    if len(told) < len(DISPUTED):
        return ""
    text = f" With {PLACES['mean']}: {' and '.join(change_words(one, costs) for one in told)}"
    first, second = costs.contest("zero"), costs.contest("mean")
    if not (first and second and first.equal):
        return text + "."
    if second.costlier is None:
        return text + ", a difference that may be chance."
    if first.costlier is None:
        return text + ", which differ beyond chance."
    return text + (", the same way round." if first.costlier == second.costlier else ", the other way round.")


def _random(costs: GroupCosts, told: list[GroupCost]) -> str:
    """Means over draws beside the groups, with zero in their place; one number where the groups share their draws."""
    parts = []
    for kind, words in ANYWHERE.items():
        drawn = [one.random.get(kind, ()) for one in told]
        if not all(drawn) or len({len(some) for some in drawn}) > 1:  # still being measured
            continue
        means = list(dict.fromkeys(fmt.signed(sum(some) / len(some) * costs.yard.scale) for some in drawn))
        parts.append(
            f"{words} {' and '.join(means)} ({len(drawn[0])} draw{'' if len(drawn[0]) == 1 else 's'})"
        )
    return f" For comparison, {'; '.join(parts)}." if parts else ""
