"""What the verdict on a repair says in words: its four sentences, the notes beside them, and numbers as they stand in them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headviz.surgery import outcomes
from headviz.surgery.arms import ARMS
from headviz.surgery.awake import Awake
from headviz.surgery.healthy import without_match
from headviz.surgery.outcomes import ArmLoss, Found, Point, SeedChange
from headviz.types import HeadTest, RepairRequest, head_name

if TYPE_CHECKING:
    from headviz.analysis.paired import MeanChange
    from headviz.types import Geometry

NOISE = 0.05  # a single head counts where its Holm-corrected p is below


def of_awake(request: RepairRequest, awake: Awake | None) -> str:
    if awake is None:
        return "How many treated heads look away from the first token is known once the repair arm has ended."
    if awake.untrained is not None:
        beside = f"random heads in their place, without training: {count(awake.untrained)}"
    else:
        why = "that arm has not ended yet" if "untrained" in request.arms else "the plan has no such arm"
        beside = f"how many random heads without training would be is not known, for {why}"
    plain = f"; old weights, trained alike: {count(awake.plain)}" if awake.plain is not None else ""
    return (
        f"{count(awake.after)} of {awake.treated} treated heads have at most {request.sink:g} of their attention on the first "
        f"token, {count(awake.before)} before surgery; {beside}{plain}."
    )


def of_loss(request: RepairRequest, loss: ArmLoss | None) -> str:
    if loss is None:
        return "The loss on the report part is known once the repair arm has ended."
    said = (
        f"Loss on the report part, {plural(len(loss.seeds), 'seed')}, {plural(loss.report.documents, 'document')}: "
        f"{of_change(loss.against_stock)} against stock"
    )
    over = "Intervals are over documents, after averaging over the seeds."
    if loss.against_no_reinit is None:
        why = "that arm has not ended yet" if "no-reinit" in request.arms else "the plan has no such arm"
        return f"{said}; against the same training without new weights it is not known, for {why}. {over}"
    return (
        f"{said}, {of_change(loss.against_no_reinit)} against the same training without new weights. {over}"
    )


def of_other(request: RepairRequest, loss: ArmLoss | None) -> str:
    if request.other is None:
        return (
            "The plan has no text of another domain, so whether the model got worse elsewhere is not known."
        )
    if loss is None or loss.other_against_stock is None:
        return "The loss on the other domain is known once the repair arm has ended."
    change = loss.other_against_stock
    said = f"Loss on the other domain: {of_change(change)} against stock"
    if loss.other_against_no_reinit is not None:
        said += f", {of_change(loss.other_against_no_reinit)} against the same training without new weights"
    return f"{said}; the model got worse there." if change.low > 0 else f"{said}."


def of_tests(tests: tuple[HeadTest, ...], telling: tuple[HeadTest, ...]) -> str:
    if not tests:
        return "Whether single treated heads do anything is measured at the end, one head zeroed at a time."
    named = ", ".join(
        head_name(test.layer, test.head) for test in sorted(telling, key=lambda test: -test.change)[:3]
    )
    which = f" ({named}{', …' if len(telling) > 3 else ''})" if telling else ""
    return (
        f"{len(telling)} of {len(tests)} treated heads{which} make the report loss higher when each is zeroed alone, by more "
        f"than noise (p below {NOISE:g} after Holm's correction)."
    )


def notes(request: RepairRequest, found: Found, loss: ArmLoss | None, point: Point) -> tuple[str, ...]:
    notes = []
    if loss is not None:
        for each, other in (
            (loss.each_against_stock, "stock"),
            (loss.each_against_no_reinit, "training without new weights"),
        ):
            if len({one.side for one in each}) > 1 or len({one.change > 0 for one in each}) > 1:
                said = "; ".join(f"seed {one.seed} {of_change(one)}" for one in each)
                notes.append(
                    f"Against {other} the seeds do not agree: {said}. The interval over documents is below 0 in "
                    f"{len(lower(each))} of {len(each)}."
                )
        if loss.against_healthy is not None:
            notes += _said_healthy(request, found, loss.against_healthy)
    if found.stock is not None:
        before = outcomes.off_first_token(found.stock, request, request.heads)[0]
        if before:
            notes.append(
                f"{before} of {len(request.heads)} treated heads were off the first token before surgery, on the diagnostic "
                "text of this plan."
            )
    notes += [
        f"{ARMS[run.arm].title}, seed {run.seed}: {run.ended}"
        for run in found.runs
        if run.ended not in ("", "steps", "patience")
    ]
    seen = {seed: outcomes.index(run, point) for seed, run in outcomes.finished(found.runs, "repair").items()}
    if point == "best" and seen and all(at == 0 for at in seen.values()):
        notes.append(
            "With every seed the best step by the select part is step 0, right after surgery: training did not lower the loss."
        )
    return tuple(notes)


def _said_healthy(request: RepairRequest, found: Found, seen: MeanChange) -> list[str]:
    """How the repair compares with healthy heads treated alike, and in what these were not alike."""
    side = "lower" if seen.change < 0 else "higher"
    edges = f" [{seen.low:+.4f}, {seen.high:+.4f}]" if math.isfinite(seen.low) else ""
    clear = "" if seen.low > 0 or seen.high < 0 else ", not clear of 0"
    passes = f" They had one pass, and the repair up to {request.passes}." if request.passes > 1 else ""
    notes = [
        f"As many healthy heads treated alike: repair is {abs(seen.change):.4f} nats {side} on the report part; as a change, "
        f"{seen.change:+z.4f}{edges}{clear}.{passes}"
    ]
    geometry = getattr(
        found, "geometry", None
    )  # a finished repair has it; before, the plan's warnings say the same
    return notes if geometry is None else [*notes, *other_slopes(request, geometry)]


def other_slopes(request: RepairRequest, geometry: Geometry) -> list[str]:
    """A sentence where healthy heads could not be matched by slope; none where all are, or without slopes."""
    others = without_match(request.heads, request.healthy, geometry.slopes)
    if not others:
        return []
    have = "has" if others == 1 else "have"
    return [
        f"{others} of {plural(len(request.healthy), 'healthy head')} {have} another slope than the treated heads: where no healthy "
        "head of the same slope is left, headviz takes the one with the nearest."
    ]


# --------------------------------------------------------------------------------------------------------- words


def of_change(change: MeanChange | SeedChange) -> str:
    if math.isnan(change.low):
        return f"{change.change:+z.4f} nats"
    return f"{change.change:+z.4f} [{change.low:+.4f}, {change.high:+.4f}] nats"


def count(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() else f"{number:.1f}"


def plural(number: int, word: str) -> str:
    return f"{number} {word}" + "s" * (number != 1)


def lower(each: tuple[SeedChange, ...]) -> set[int]:
    """The seeds with which alone the loss is lower, clear of 0."""
    return {one.seed for one in each if one.side < 0}
