"""What the surgery page says in words: captions, states, endings, the sentence before there is a verdict. No streamlit."""

from __future__ import annotations

import numpy as np

from headviz.charts import fmt
from headviz.surgery import enclosures
from headviz.surgery.arms import ARMS
from headviz.types import RepairRequest
from headviz.ui.surgery.case import Case

ENDINGS = {"steps": "all steps", "patience": "no gain for long", "": "not over"}


def ending(text: str) -> str:
    """Why a run ended, for a table."""
    return ENDINGS.get(text, text)


def note(case: Case) -> str:
    """One line of provenance: model, texts, recipe, seeds, repair."""
    return enclosures.note(case.request, case.digest, case.report)


def summary(request: RepairRequest) -> str:
    """A plan in one line, for lists: heads, arms, seeds, steps, texts."""
    recipe = request.recipe
    return (
        f"{fmt.plural(len(request.heads), 'head')} · {', '.join(ARMS[arm].short for arm in request.arms)} · "
        f"{fmt.plural(len(request.seeds), 'seed')} · {fmt.plural(request.steps, 'step')} of {recipe.batch * recipe.accumulate} × "
        f"{request.train.tokens} tokens at {fmt.tick(recipe.rate)} · {request.train.corpus}{', shuffled' if request.shuffled else ''}"
        + (f" · {request.passes} passes" if request.passes > 1 else "")
    )


def so_far(case: Case) -> str:
    """What a person would quote of a repair that has no verdict yet."""
    if case.stock is None and case.job is not None and case.job.state in ("failed", "cancelled"):
        return "**Nothing was measured before it stopped.**"
    if case.stock is None:
        return "**Nothing is measured yet.** First the model is measured as it is; every arm is compared with that."
    stock = fmt.number(case.stock.select, 4)
    shown = [run for run in case.of("repair") or list(case.runs) if len(run.step)]
    if not shown:
        return (
            f"**Before surgery: {stock} nats a token** on the held-out text. No arm has been evaluated yet."
        )
    run = shown[-1]
    asleep = int(case.asleep(run)[-1])
    before = len(run.heads) - case.asleep_before(run)
    at = f"{ARMS[run.arm].title}, seed {run.seed}, step {int(run.step[-1]):,} of {case.request.steps:,}"
    if run.arm in ("removed", "untrained"):
        at = f"{ARMS[run.arm].title}, seed {run.seed}"
    return (
        f"**{at}: {fmt.count(len(run.heads) - asleep, len(run.heads))} treated heads are off the first token** "
        f"({before:,} before surgery), and held-out loss "
        f"is {fmt.number(float(run.select[-1]), 4)} nats a token against {stock} before surgery (the lowest so far "
        f"{fmt.number(float(np.min(run.select)), 4)}). A head that has only just been drawn anew looks awake too: the verdict "
        "waits for the other arms."
    )
