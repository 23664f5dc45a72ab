"""Whether a repair repaired anything: a word, and the four things that it follows from. numpy only.

    found = judge(request, report)        # or what a running repair has so far
    found.word, found.reason, found.sentences

1. treated heads off the first token, beside the same count for random heads that were not trained, and for old weights trained
2. loss on the report part against stock, and against the same training without reinitialising
3. loss on a text of another domain
4. single treated heads whose removal costs more than noise
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from headviz.surgery import outcomes, said
from headviz.surgery.arms import ARMS
from headviz.surgery.awake import Awake, awake_of
from headviz.surgery.outcomes import ArmLoss, Found, Point
from headviz.types import HeadTest, RepairReport, RepairRequest

Word = Literal[
    "repaired", "awake, no gain from reinitialising", "no change shown", "worse", "cannot be judged"
]
WORDS: dict[Word, str] = {
    "repaired": "The loss on text that was not trained on and chose no step is lower than before surgery, and lower than after the same "
    "training without new weights: over all seeds together, and in at least three seeds each by itself. And at least half of the "
    "treated heads are off the first token.",
    "awake, no gain from reinitialising": "At least half of the treated heads are off the first token, but a gain from new weights "
    "is not shown: for that, the loss must be lower than after the same training without them over all seeds together, and in at "
    "least three seeds each by itself.",
    "no change shown": "Nothing that would count as a repair was shown: the loss may be as before surgery, or the heads may "
    "still look at the first token.",
    "worse": "The loss on text that was not trained on and chose no step is higher than before surgery, over all seeds together.",
    "cannot be judged": "Something that the judgement rests on is missing.",
}
SEEDS = 3


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
    0" means that the 95% interval holds no 0. That interval knows nothing of how seeds differ, so each seed has its own too,
    over the same documents. The first line that fits decides:

    cannot be judged   there is no repair arm or no `no-reinit` arm in the plan; or fewer than 3 seeds of both have ended; or
                       the documents are too few for an interval; or the frozen part of the model changed
    worse              *a* is above 0, clear of it
    repaired           *a* and *b* are both below 0, clear of it, there are 3 seeds or more in each of which both are, and at
                       least half of the treated heads are off the first token
    awake, no gain from reinitialising
                       at least half of the treated heads are off the first token, and *b* is not below 0, clear of it, or it
                       is so by itself in fewer than 3 seeds
    no change shown    everything else: more than half of the heads still look at the first token, whatever was gained, or
                       their loss is lower than without reinitialising but not lower than stock, over the seeds or in 3 of
                       them

    Of (1), the word asks only for that half. (1), (3) and (4) stand beside it as sentences. A worse other domain does not
    change the word, and is said.
    """
    rows = {row.arm: row for row in outcomes.arm_losses(found, point)}
    awake = awake_of(request, found, point)
    loss = rows.get("repair")
    tests = tuple(getattr(found, "tests", ()))
    telling = tuple(test for test in tests if test.p_holm < said.NOISE and test.change > 0)
    word, reason = _word(request, found, loss, awake)
    return Verdict(
        word=word,
        reason=reason,
        sentences=(
            said.of_awake(request, awake),
            said.of_loss(request, loss),
            said.of_other(request, loss),
            said.of_tests(tests, telling),
        ),
        notes=said.notes(request, found, loss, point),
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
    against = (
        f"{said.of_change(a)} against stock and {said.of_change(b)} against training without new weights"
    )
    if a.low > 0:
        return "worse", f"The report loss changed by {said.of_change(a)} against stock: higher, clear of 0."
    lower, plain = said.lower(loss.each_against_stock), said.lower(loss.each_against_no_reinit)
    many = len(loss.each_against_no_reinit)
    seen = f"{said.count(awake.after)} of {awake.treated} treated heads are off the first token; the report loss changed by {against}"
    if a.high < 0 and b.high < 0 and len(lower & plain) >= SEEDS:
        both = (
            f"lower than both, clear of 0, over the seeds together and by itself in {len(lower & plain)} of {many} "
            "seeds"
        )
        if awake.awake:
            return "repaired", f"The report loss changed by {against}: {both}."
        return "no change shown", (
            f"{seen}: {both}. But fewer than half of the heads look away from the first token, so they were not repaired."
        )
    if awake.awake and not (b.high < 0 and len(plain) >= SEEDS):
        short = "" if b.high < 0 else "the second is not below 0, clear of it; "
        return "awake, no gain from reinitialising", (
            f"{seen}; {short}seed by seed, against training without new weights the interval is below 0, clear of it, in "
            f"{len(plain)} of {said.plural(many, 'seed')}, and at least {SEEDS} are needed."
        )
    return "no change shown", (
        f"{seen}; seed by seed, the interval is below 0 in {len(lower)} of {len(loss.each_against_stock)} seeds against stock, in "
        f"{len(plain)} of {many} against training without new weights, and in {len(lower & plain)} in both."
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
