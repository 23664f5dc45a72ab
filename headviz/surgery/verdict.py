"""Whether a repair repaired anything: a word, and the four things that it follows from. numpy only.

    found = judge(request, report)        # or what a running repair has so far
    found.word, found.reason, found.sentences

1. treated heads off the first token, beside the same count for random heads that were not trained
2. loss on the report part against stock, and against the same training without reinitialising
3. loss on a text of another domain
4. single healed heads whose removal costs more than noise
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headviz.surgery import outcomes
from headviz.surgery.arms import ARMS
from headviz.surgery.outcomes import ArmLoss, Found, Point
from headviz.types import HeadTest, RepairReport, RepairRequest, head_name

if TYPE_CHECKING:
    from headviz.analysis.paired import MeanChange

Word = Literal[
    "repaired", "awake, no gain from reinitialising", "no change shown", "worse", "cannot be judged"
]
WORDS: dict[Word, str] = {
    "repaired": "The loss on text that nobody trained or chose on is lower than before surgery, and lower than after the same "
    "training without new weights.",
    "awake, no gain from reinitialising": "The heads look at other tokens than the first, but the same training without new "
    "weights gives a loss that is not shown to be higher.",
    "no change shown": "Nothing that would count as a repair was shown: the loss may be as before surgery, or the heads may "
    "still look at the first token.",
    "worse": "The loss on text that nobody trained or chose on is higher than before surgery.",
    "cannot be judged": "Something that the judgement rests on is missing.",
}
SEEDS = 3
AWAKE = 0.5  # of the treated heads, at least so many off the first token
NOISE = 0.05  # a single head counts where its Holm-corrected p is below


@dataclass(frozen=True, kw_only=True)
class Awake:
    """Treated heads off the first token: attention on it at most the plan's `sink`. Counts are means over seeds.

    treated: how many heads are treated; before: in the stock model; after: in the repair arm; untrained: in the arm with new
             weights and no training, None without it; still: mean BOS mass of the treated heads, before and after
    """

    treated: int
    before: float
    after: float
    untrained: float | None
    mass_before: float
    mass_after: float

    @property
    def awake(self) -> bool:
        """Whether at least half of the treated heads are off the first token."""
        return self.treated > 0 and self.after >= AWAKE * self.treated


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What may be said of a repair.

    word:      one of WORDS; reason: why it is that one, or why it cannot be judged
    sentences: the four things in order, as sentences; one that is missing says so
    notes:     what else a reader must know
    awake, loss, tests: the numbers behind (1), behind (2) and (3), and behind (4); None or empty where missing
    telling:   the tests whose removal costs more than noise
    """

    word: Word
    reason: str
    sentences: tuple[str, str, str, str]
    notes: tuple[str, ...]
    awake: Awake | None
    loss: ArmLoss | None
    tests: tuple[HeadTest, ...]
    telling: tuple[HeadTest, ...]


def judge(request: RepairRequest, found: Found, point: Point = "best") -> Verdict:
    """The verdict on a finished repair, or on what a running one has so far.

    Let *a* be the change of the report loss of the repair arm against stock, and *b* against the arm without
    reinitialising (`no-reinit`), seed by seed. Both are taken per input over the seeds first, then over documents; "clear of
    0" means that the 95% interval holds no 0. The first line that fits decides:

    cannot be judged   there is no repair arm or no `no-reinit` arm in the plan; or fewer than 3 seeds of both have ended; or
                       the documents are too few for an interval; or the frozen part of the model changed
    worse              *a* is above 0, clear of it
    repaired           *a* and *b* are both below 0, clear of it
    awake, no gain from reinitialising
                       at least half of the treated heads are off the first token, and *b* is not below 0 clear of it
    no change shown    everything else: the heads still look at the first token, or their loss is lower than without
                       reinitialising but not lower than stock

    (1), (3) and (4) stand beside the word as sentences. A worse other domain does not change the word, and is said.
    """
    rows = {row.arm: row for row in outcomes.arm_losses(found, point)}
    awake = _awake(request, found, point)
    loss = rows.get("repair")
    tests = tuple(getattr(found, "tests", ()))
    telling = tuple(test for test in tests if test.p_holm < NOISE and test.change > 0)
    word, reason = _word(request, found, loss, awake)
    return Verdict(
        word=word,
        reason=reason,
        sentences=(
            _said_awake(request, awake),
            _said_loss(loss),
            _said_other(request, loss),
            _said_tests(tests, telling),
        ),
        notes=_notes(request, found, loss, point),
        awake=awake,
        loss=loss,
        tests=tests,
        telling=telling,
    )


def _word(
    request: RepairRequest, found: Found, loss: ArmLoss | None, awake: Awake | None
) -> tuple[Word, str]:
    if why := _missing(request, found, loss):
        return "cannot be judged", why
    a, b = loss.against_stock, loss.against_no_reinit
    against = f"{_change(a)} against stock and {_change(b)} against training without new weights"
    if a.low > 0:
        return "worse", f"The report loss changed by {_change(a)} against stock: higher, clear of 0."
    if a.high < 0 and b.high < 0:
        return "repaired", f"The report loss changed by {against}: lower than both, clear of 0."
    if awake.awake and not b.high < 0:
        return "awake, no gain from reinitialising", (
            f"{_count(awake.after)} of {awake.treated} treated heads are off the first token; the report loss changed by "
            f"{against}, and the second is not below 0, clear of it."
        )
    return "no change shown", (
        f"{_count(awake.after)} of {awake.treated} treated heads are off the first token, and the report loss changed by "
        f"{against}."
    )


def _missing(request: RepairRequest, found: Found, loss: ArmLoss | None) -> str:
    """Why there is no verdict, a sentence; "" where there can be one."""
    for arm in ("repair", "no-reinit"):
        if arm not in request.arms:
            return f"There is no arm “{ARMS[arm].title}” in this plan, and a repair is judged by it."
    if isinstance(found, RepairReport) and not found.frozen_identical:
        return "The part of the model that must not change did change, so nothing that was measured belongs to the plan."
    both = set(outcomes.finished(found.runs, "repair")) & set(outcomes.finished(found.runs, "no-reinit"))
    if len(both) < SEEDS:
        if len(request.seeds) < SEEDS:
            return (
                f"A repair is judged over at least {SEEDS} seeds, and this plan has {len(request.seeds)}: training again "
                "with other random numbers may come out otherwise."
            )
        return f"{len(both)} of {SEEDS} seeds of the repair and of the arm without new weights have ended so far."
    if math.isnan(loss.against_stock.low):
        return (
            "The report part comes from one document, so there is no interval. Take a longer held-out text."
        )
    return ""


# ----------------------------------------------------------------------------------------------- the four things


def _awake(request: RepairRequest, found: Found, point: Point) -> Awake | None:
    runs = outcomes.finished(found.runs, "repair")
    if found.stock is None or not runs:
        return None

    def off(arm: str) -> float | None:
        ended = outcomes.finished(found.runs, arm)
        counts = [
            outcomes.off_first_token(run, request, request.heads)[outcomes.index(run, point)]
            for run in ended.values()
        ]
        return float(np.mean(counts)) if counts else None

    layers, heads = [list(part) for part in zip(*request.heads)]
    after = np.mean([run.mass[outcomes.index(run, point)][layers, heads] for run in runs.values()])
    return Awake(
        treated=len(request.heads),
        before=float(outcomes.off_first_token(found.stock, request, request.heads)[0]),
        after=off("repair"),
        untrained=off("untrained"),
        mass_before=float(found.stock.mass[layers, heads].mean()),
        mass_after=float(after),
    )


def _said_awake(request: RepairRequest, awake: Awake | None) -> str:
    if awake is None:
        return "How many treated heads look away from the first token is known once the repair arm has ended."
    beside = (
        f"random heads in their place, without training: {_count(awake.untrained)}"
        if awake.untrained is not None
        else "how many random heads without training would be is not known, for the plan has no such arm"
    )
    return (
        f"{_count(awake.after)} of {awake.treated} treated heads have at most {request.sink:g} of their attention on the first "
        f"token, {_count(awake.before)} before surgery; {beside}."
    )


def _said_loss(loss: ArmLoss | None) -> str:
    if loss is None:
        return "The loss on the report part is known once the repair arm has ended."
    said = (
        f"Loss on the report part, {_plural(len(loss.seeds), 'seed')}, {_plural(loss.report.documents, 'document')}: "
        f"{_change(loss.against_stock)} against stock"
    )
    if loss.against_no_reinit is None:
        return f"{said}; against the same training without new weights there is nothing to compare with."
    return f"{said}, {_change(loss.against_no_reinit)} against the same training without new weights."


def _said_other(request: RepairRequest, loss: ArmLoss | None) -> str:
    if request.other is None:
        return (
            "The plan has no text of another domain, so whether the model got worse elsewhere is not known."
        )
    if loss is None or loss.other_against_stock is None:
        return "The loss on the other domain is known once the repair arm has ended."
    change = loss.other_against_stock
    said = f"Loss on the other domain: {_change(change)} against stock"
    if loss.other_against_no_reinit is not None:
        said += f", {_change(loss.other_against_no_reinit)} against the same training without new weights"
    return f"{said}; the model got worse there." if change.low > 0 else f"{said}."


def _said_tests(tests: tuple[HeadTest, ...], telling: tuple[HeadTest, ...]) -> str:
    if not tests:
        return "Whether single healed heads do anything is measured at the end, one head zeroed at a time."
    named = ", ".join(
        head_name(test.layer, test.head) for test in sorted(telling, key=lambda test: -test.change)[:3]
    )
    which = f" ({named}{', …' if len(telling) > 3 else ''})" if telling else ""
    return (
        f"{len(telling)} of {len(tests)} treated heads{which} make the report loss higher when each is zeroed alone, by more "
        f"than noise (p below {NOISE:g} after Holm's correction)."
    )


def _notes(request: RepairRequest, found: Found, loss: ArmLoss | None, point: Point) -> tuple[str, ...]:
    notes = []
    if loss is not None:
        for each, other in (
            (loss.each_against_stock, "stock"),
            (loss.each_against_no_reinit, "training without new weights"),
        ):
            if len({change > 0 for change in each}) > 1:
                said = ", ".join(f"{change:+.4f}" for change in each)
                notes.append(f"Against {other} the seeds do not agree: {said} nats.")
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


# --------------------------------------------------------------------------------------------------------- words


def _change(change: MeanChange) -> str:
    if math.isnan(change.low):
        return f"{change.change:+.4f} nats"
    return f"{change.change:+.4f} [{change.low:+.4f}, {change.high:+.4f}] nats"


def _count(number: float) -> str:
    return f"{number:.0f}" if float(number).is_integer() else f"{number:.1f}"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}" + "s" * (number != 1)
