"""Panel: what came of it. The verdict by its four criteria, and the figure remove / leave / repair with intervals."""

from __future__ import annotations

import math
import re
from typing import Any

import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.charts.forest import forest
from headviz.charts.repaired import ORDER, forest_rows, name_of
from headviz.surgery import outcomes, verdict
from headviz.surgery.arms import ARMS
from headviz.surgery.outcomes import ArmLoss
from headviz.ui.surgery import panels, words
from headviz.ui.surgery.case import Case


def headline(case: Case) -> str:
    """The verdict's word and why it is that one; before there is one, how far the repair is."""
    judged = verdict.judge(case.request, case.report or case, ui.value("point"))
    if judged.word == "cannot be judged" and case.report is None:
        return words.so_far(case)
    return f"**{_word(case, judged)}.** {minus(judged.reason)}"


def _word(case: Case, judged: verdict.Verdict) -> str:
    """The verdict's word, which is not the last one while the repair goes on."""
    if case.report is None:
        return f"So far: {judged.word}"
    return f"{judged.word[:1].upper()}{judged.word[1:]}"


def criteria(case: Case) -> None:
    """The four things that the verdict follows from, in words."""
    judged = verdict.judge(case.request, case.report or case, ui.value("point"))
    st.markdown(
        f"**{_word(case, judged)}**"
        + (f": {verdict.WORDS[judged.word]}" if judged.word != "cannot be judged" else f": {judged.reason}"),
        help="From four things only. “Repaired” needs a lower loss on the report part than stock and than the same training without "
        "new weights, both intervals over documents clear of 0: over all seeds together, and in at least three seeds each by itself; "
        "and at least half of the treated heads off the first token.",
    )
    st.markdown(
        "\n".join(f"{number}. {sentence}" for number, sentence in enumerate(map(minus, judged.sentences), 1))
    )
    for note in judged.notes:
        st.caption(minus(note))


def minus(text: str) -> str:
    """Numbers below zero as the rest of the page writes them."""
    return re.sub(r"(?<![\w.])-(?=\d)", "−", text)


def panel(case: Case) -> None:
    criteria(case)
    found = outcomes.arm_losses(case, ui.value("point"))
    if len(found) < 2:
        panels.waiting(
            "The report part is judged when a run ends, and none has ended yet. Losses, classes and the film are there before."
        )
        return
    figure_of(case, found)
    st.markdown(table(rows(found)))
    st.caption(
        "Report part: held-out documents that decide nothing, nats a token with the 95% interval over documents; perplexity is e to that. "
        "Then changes, below 0 is better: against the model before surgery; against the same training without new weights, seed by seed; "
        "and of another domain against the model before surgery. Step: the one that is read, of each seed."
    )
    missing = [ARMS[arm].title for arm in case.request.arms if arm not in {one.arm for one in found}]
    if missing:
        panels.waiting(f"Not shown yet: {', '.join(missing)}.")
    frozen(case)


def figure_of(case: Case, found: tuple[ArmLoss, ...]) -> None:
    made, titles = forest_rows(found)
    figure = forest(
        made,
        titles,
        theme=ui.theme(),
        width=panels.WIDE,
        provenance=words.note(case),
    )
    ui.chart(
        figure,
        key="remedies",
        name=f"headviz-remove-leave-repair-{case.digest[:8]}",
        alt="Change of loss when the heads are removed, left and repaired, with intervals",
    )
    st.caption(
        f"At each run's {ui.value('point')} step; left of 0 is better than the model before surgery. Whiskers: 95% over documents, after "
        "averaging over the seeds; rings below: each seed alone. Documents were not read in training; shared 13-grams with the "
        "training text are "
        + (
            f"{fmt.percent(case.report.shared_text)} of the held-out ones."
            if case.report
            else "counted at the end."
        )
    )


def rows(found: tuple[ArmLoss, ...]) -> list[dict[str, Any]]:
    """A row an arm: losses with intervals, and the change against stock and against training without reinitialising."""
    made = []
    for one in sorted(found, key=lambda one: ORDER.index(one.arm)):
        row: dict[str, Any] = {
            "arm": name_of(one.arm),
            "report": _loss(one.report),
            "perplexity": f"{one.report.perplexity:,.2f}",
            "stock": _change(one.against_stock),
            "plain": _change(one.against_no_reinit),
            "other": _change(one.other_against_stock),
            "steps": ", ".join(map(str, one.steps)),
        }
        made.append(row)
    return made


def _change(change) -> str:
    if change is None:
        return ""
    said = minus(f"{change.change:+z.4f}")
    if not math.isfinite(change.low):
        return f"{said} (one document: no interval)"
    return f"{said} {_edges(change.low, change.high, 4)}"


def _loss(mean) -> str:
    """Digits alike in every row, and no line break inside the interval."""
    said = f"{mean.loss:.3f}"
    return f"{said} {_edges(mean.low, mean.high, 3)}" if math.isfinite(mean.low) else said


def _edges(low: float, high: float, digits: int) -> str:
    return minus(f"[{low:.{digits}f},\u00a0{high:.{digits}f}]")


# Key of a row → heading.
HEADINGS = {
    "arm": "arm",
    "report": "report part, nats",
    "perplexity": "perplexity",
    "stock": "against stock",
    "plain": "against old weights",
    "other": "other domain",
    "steps": "step",
}


def table(found: list[dict[str, Any]]) -> str:
    """Markdown: its cells break into lines, so that every column is there on a narrow page too. Columns without a value are left out."""
    shown = [name for name in HEADINGS if any(row[name] for row in found)]
    lines = [[HEADINGS[name] for name in shown], ["---"] * len(shown)]
    lines += [[row[name] or " " for name in shown] for row in found]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def frozen(case: Case) -> None:
    """Whether what was not trained is the same to the last bit, by hash; and what else the report notes."""
    if case.report is None:
        return
    report = case.report
    if report.frozen_identical:
        st.caption(
            f"The frozen model is bit-identical before and after (sha256 {report.frozen_before[:12]}…), in every process that ended "
            f"an arm with a seed and kept its hash. Trained numbers: {report.trained:,}; the matrices they are part of hold "
            f"{report.whole:,}."
        )
    else:
        st.error(
            f"The frozen model changed: sha256 {report.frozen_before[:12]} before, {report.frozen_after[:12]} after. Do not trust this "
            "repair.",
            icon=":material/error:",
        )
    for note in report.provenance.notes:
        st.caption(f"{note[:1].upper()}{note[1:].rstrip('.')}.")
