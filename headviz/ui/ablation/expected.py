"""What a plan will take, before it is begun: how many questions or inputs, in how many runs, and how long."""

from __future__ import annotations

import streamlit as st

from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.data import corpora
from headviz.data.questions import MMLU_SUBJECTS, read_questions
from headviz.settings import settings
from headviz.types import MeasureRequest, QuestionScores, QuestionsRef, ScoreTable, Silent
from headviz.ui.ablation.traces import measured
from headviz.ui.answers import cached

MMLU = 14_042  # questions of its test split, all subjects; tested
OF_SUBJECT = 250  # roughly: the hub is not asked to count them
UNKNOWN = "how long that takes is not known before the first batch"


@st.cache_resource(max_entries=64, show_spinner=False)
def questions_of(asked: QuestionsRef) -> tuple[int, bool]:
    """(how many, whether that is exact)."""
    if len(asked.revision) != 40:
        return len(read_questions(asked, settings(), Silent()).items), True
    if asked.subjects == MMLU_SUBJECTS and not asked.per_subject and asked.half == "all":
        return MMLU, True
    half = 1 if asked.half == "all" else 2
    return len(asked.subjects) * min(asked.per_subject or OF_SUBJECT, OF_SUBJECT) // half, False


def runs(plan: Plan) -> int:
    """Measurements: nothing off, and each replacement."""
    return 2 if plan.mode == "per-input" else 3


def what(plan: Plan) -> str:
    """`14,042 questions of 57 subjects`, `16 inputs`."""
    if plan.questions is None:
        return f"{plan.text.inputs:,} inputs of at most {plan.text.tokens:,} tokens"
    count, exact = questions_of(plan.questions)
    subjects = len(plan.questions.subjects)
    return (
        f"{'' if exact else 'about '}{count:,} questions of {subjects} subject{'' if subjects == 1 else 's'}"
    )


def seconds_a_run(plan: Plan, table: ScoreTable | None) -> float | None:
    """From runs of this model that were like it, or from the scores' own pass; None where nothing is known."""
    if plan.questions is None:
        if table is None or not table.provenance.seconds:
            return None
        tokens = plan.text.inputs * plan.text.tokens
        return table.provenance.seconds / int(table.lengths.sum()) * tokens
    count = questions_of(plan.questions)[0]
    if table is not None and table.provenance.seconds and plan.chosen_on == plan.questions:
        return table.provenance.seconds  # the same prompts, through the same model
    alike = [one for one in measured().values() if _alike(one, plan)]
    # who decides input by input runs prompts whole: the other way is no guide
    same = [one for one in alike if one.ablation.mode in _modes(plan)]
    for request in reversed(same):
        found = cached(request)
        if isinstance(found, QuestionScores) and found.provenance.seconds and len(found.answer):
            return count * found.provenance.seconds / len(found.answer)
    return None


def _alike(request: MeasureRequest, plan: Plan) -> bool:
    asked = request.questions
    if asked is None or request.model != plan.model:
        return False
    names = ("source", "shots", "scoring", "chat")
    return all(getattr(asked, name) == getattr(plan.questions, name) for name in names)


def _modes(plan: Plan) -> tuple[str, ...]:
    return ("per-input", "random-per-input") if plan.mode == "per-input" else ("none", "static")


def time_words(plan: Plan, table: ScoreTable | None, count: int) -> str:
    """`about 2 min 5 s`, or that nobody knows."""
    each = seconds_a_run(plan, table)
    return UNKNOWN if each is None else f"about {fmt.duration(count * each)} on this machine"


def sentence(plan: Plan) -> str:
    """What stands under the title until the scores are there that choose."""
    if plan.by_score:
        how = "chosen anew for each input" if plan.mode == "per-input" else "one set for all inputs"
        share = "" if plan.threshold is not None else f"{fmt.percent(plan.share)} of the "
        text = f"**{share or 'Some '}heads will be off, {how}, by {METRICS[plan.metric].symbol}.** "
    else:
        count = len(plan.heads)
        text = f"**{count} head{'' if count == 1 else 's'} will be off, {plan.origin}.** "
    return (
        f"{text}Nothing is measured yet: {runs(plan)} runs over {what(plan)}, after one that scores "
        f"{corpora.describe(plan.chosen_on)}; {time_words(plan, None, runs(plan) + 1)}."
    )
