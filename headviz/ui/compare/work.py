"""What the compare page holds: the scores that are there, the comparison of two of them, and the sentence that says it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis import distance
from headviz.analysis.distance import Comparison, Distances
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.charts.movers import SURE
from headviz.charts.scales import value_unit
from headviz.jobs.kinds import job_digest
from headviz.types import ScoreRequest, ScoreTable, head_name

ANCESTRY = (
    "Models of the same shape need not be related: heads carry no names, so head by head compares a model with its own "
    "fine-tuned, quantised or treated copy. Between models trained apart, read the distributions only."
)


@dataclass(frozen=True)
class Work:
    """Name → request and name → scores of what is there, the model at the left first; and which other is looked at."""

    requests: dict[str, ScoreRequest]
    tables: dict[str, ScoreTable]
    first: str
    other: str

    @property
    def pair(self) -> tuple[ScoreTable, ScoreTable]:
        return self.tables[self.first], self.tables[self.other]

    def metrics(self) -> list[str]:
        """Scores that all of them have, in the table's order."""
        return [one for one in METRICS if all(one in table.metrics for table in self.tables.values())]

    def comparison(self, metric: str) -> Comparison:
        a, b = self.requests[self.first], self.requests[self.other]
        return _comparison(job_digest(a), job_digest(b), metric, (self.first, self.other), *self.pair)

    def distances(self, metric: str) -> Distances:
        there = {name: job_digest(self.requests[name]) for name in self.tables}
        return _distances(tuple(there.items()), metric, self.tables)

    @property
    def itself(self) -> bool:
        """Whether the two are one and the same request."""
        return job_digest(self.requests[self.first]) == job_digest(self.requests[self.other])


@st.cache_resource(max_entries=128, show_spinner="Comparing …")
def _comparison(a: str, b: str, metric: str, labels: tuple[str, str], _a: ScoreTable, _b: ScoreTable):
    return distance.compare(_a, _b, metric, labels=labels)


@st.cache_resource(max_entries=64, show_spinner="Comparing …")
def _distances(there: tuple[tuple[str, str], ...], metric: str, _tables) -> Distances:
    return distance.distances(_tables, metric)


def gathered(requests: dict[str, ScoreRequest]) -> dict[str, ScoreTable]:
    """The scores that are there. What is missing is begun where that is cheap, or offered; shows how far it is."""
    every = tuple(requests.values())
    digests = {name: job_digest(request) for name, request in requests.items()}
    key = tuple(digests.values())
    started = st.session_state.get("headviz_compare") == key
    started = started or all(ui.starts_by_itself(request) for request in every)
    there = ui.gather(every, start=started, group="compare")
    missing = tuple(dict.fromkeys(digest for digest in key if digest not in there))
    if missing and started:
        ui.working_on(missing, "compare")
    elif missing:
        models = "model is" if len(missing) == 1 else "models are"
        st.info(
            f"{len(missing)} {models} not scored on this text yet. Scoring loads each in the background, downloads it if it is not "
            "on this machine, and runs it over the text; you can leave the page meanwhile.",
            icon=":material/play_circle:",
        )
        st.button(
            "Score and compare",
            type="primary",
            on_click=lambda: st.session_state.update(headviz_compare=key),
            help="Results are kept: the same comparison opens at once later.",
        )
    return {name: there[digest] for name, digest in digests.items() if digest in there}


# ---------------------------------------------------------------------------------------------------- sentences


def sentence(work: Work, metric: str) -> str:
    """What a person would quote of this comparison."""
    one, row = work.comparison(metric), METRICS[metric]
    said = f"**{row.symbol}: {_distance_words(one)}.** "
    if one.pooled.value == 0 and (one.changes is None or not np.nan_to_num(one.changes.change).any()):
        heads = work.pair[0].geometry.layers * work.pair[0].geometry.heads
        alone = "This is one model compared with itself" if work.itself else "No score differs at all"
        return f"{said}{alone}: distance 0, and all {heads:,} heads have a change of 0."
    said += f"{yardstick_words(one)} "
    if one.changes is None:
        return said + "The models differ in shape, so heads cannot be matched."
    return said + _mover_words(one, row)


def _distance_words(one: Comparison) -> str:
    pooled = one.pooled
    spreads = f"{fmt.number(pooled.scaled)} spreads"
    if not np.isnan(pooled.scaled_low):
        # resampling adds noise, and noise only adds to W1: the interval may lie above the distance, and so is named
        spreads += f", resampled [{fmt.number(pooled.scaled_low)}, {fmt.number(pooled.scaled_high)}],"
    return f"{one.b} is {spreads} from {one.a} (W1)"


def yardstick_words(one: Comparison) -> str:
    """The distance beside what no change gives: equal numbers of inputs on both sides."""
    yard = one.yardstick
    if yard.note:
        return f"There is no yardstick of “no change”: {yard.note[0].lower()}{yard.note[1:]}"
    verdict = "shows a change" if changed(one) else "shows **no change**"
    return (
        f"Halves of the two differ by {fmt.number(yard.scaled_between)}, two halves of one model by up to "
        f"{fmt.number(yard.scaled_same_high)}: the distribution {verdict}."
    )


def changed(one: Comparison) -> bool:
    """Whether the distance is above what two halves of one model give."""
    return bool(one.yardstick.scaled_between > one.yardstick.scaled_same_high)


def _mover_words(one: Comparison, row) -> str:
    changes = one.changes
    at = changes.movers(1)
    if not at:
        return "No head has a change."
    value, low, high = (x[at[0]] for x in (changes.change, changes.low, changes.high))
    unit = value_unit(row)
    said = f"Most moved: {head_name(*at[0])} {fmt.signed(value)} {unit}".rstrip()
    if not np.isnan(low):
        said += f" [{fmt.number(low)}, {fmt.number(high)}]"
    if changes.how == "paired" and not np.isnan(changes.p_holm).all():
        known = int((~np.isnan(changes.change)).sum())
        sure = int((changes.p_holm < SURE).sum())
        said += f"; head by head, {fmt.count(sure, known)} changed beyond chance"
    return said + "."
