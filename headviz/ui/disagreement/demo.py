"""The guided demo: four steps, one figure each, that end in which disputed heads cost more. Measuring begins at step 1."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.charts import fmt, heatmap, tables
from headviz.charts.contest import contest_sentence
from headviz.ui.disagreement import agree, brush, costs
from headviz.ui.disagreement.words import agreement_words
from headviz.ui.disagreement.work import Work

STEPS = ("One score", "Another", "Chance?", "Who is right")

# What the demo shows: the bundled model, little enough text for two cores, the usual share.
START = {
    "model": "smollm2",
    "revision": "",
    "dtype": "auto",
    "quantization": "none",
    "corpus": "docstrings",
    "part": "held-out",
    "inputs": 16,
    "tokens": 128,
    "seed": 0,
    "bos": "tokenizer",
    "chat": False,
    "first": "awft",
    "second": "ahon_ln",
    "follow": "first",
    "budget_by": "share",
    "budget": 20.0,
    "target": "loss",
    "chosen": "auto",
    "draws": 3,
    "agreed": False,
    "marked": "",
    "step": 1,
}


def begin() -> None:
    """A callback: the view of the first step."""
    for name, new in START.items():
        ui.put(name, new)


def step_to(number: int) -> None:
    """A callback; 0 leaves the demo for the whole page, with the view as it is."""
    ui.put("step", number)


def stepper() -> None:
    """Which step, and the way on, back and out. Above everything else on the page."""
    now = ui.value("step")
    with st.container(border=True, key="stepper"):
        text, back, forth, out = st.columns([5, 1, 1, 1.2], vertical_alignment="center")
        text.markdown(
            " → ".join(
                f"**{i}. {title}**" if i == now else f":gray[{i}. {title}]"
                for i, title in enumerate(STEPS, 1)
            )
        )
        back.button(
            "Back", key="step_back", on_click=step_to, args=(max(1, now - 1),), disabled=now == 1, width="stretch",
            help="The step before.",
        )  # fmt: skip
        forth.button(
            "Next", key="step_next", on_click=step_to, args=(min(len(STEPS), now + 1),), disabled=now == len(STEPS),
            type="primary", width="stretch", help="The next step.",
        )  # fmt: skip
        out.button(
            "Whole page", key="step_out", on_click=step_to, args=(0,), width="stretch",
            help="Leaves the demo: all figures and controls, with what is shown now.",
        )  # fmt: skip


def show(work: Work) -> None:
    """The step of the view: its words, its figure, and how far the costs are."""
    (_stares, _speaks, _chance, _right)[ui.value("step") - 1](work)
    if work.plans:
        if costs.missing(work) and ui.value("step") < len(STEPS):
            st.caption("Meanwhile, what the disputed heads cost is being measured for the last step.")
        costs.progress(work, wanted=True)


def _stares(work: Work) -> None:
    row, count = work.a.row, int(work.a.beyond(work.quadrants.thresholds[0]).sum())
    st.markdown(
        f"**{row.symbol}**, {row.name}. {row.help} Here it calls the {count} hatched heads inactive, "
        f"{fmt.percent(count / work.a.values.size)} of all. **But do these heads do nothing?**"
    )
    figure = heatmap.head_map(
        work.a.values,
        row,
        geometry=work.table.geometry,
        theme=ui.theme(),
        inactive=work.a.beyond(work.quadrants.thresholds[0]),
        provenance=tables.caption(work.table.provenance, work.table),
    )
    ui.chart(
        figure, key="demo_map", name=f"headviz-{row.id}", alt=f"Map of {row.name}, inactive heads hatched"
    )


def _speaks(work: Work) -> None:
    row, names, counts = work.b.row, work.quadrants.names, work.quadrants.counts()
    st.markdown(
        f"**{row.symbol}**, {row.name}. {row.help} Each point is a head: **{counts['only_a']} are {names['only_a']}**, and "
        f"{counts['only_b']} {names['only_b']}. Both scores take the same number of heads, so neither looks better for being "
        "bolder."
    )
    brush.scatter(work, tables.caption(work.table.provenance, work.table))


def _chance(work: Work) -> None:
    st.markdown(
        f"{agree.curve_words(work)} So the two mean different things by “inactive”, and **only a test can say who is right**: "
        "switch the disputed heads off."
    )
    agree.curve_chart(work)


def _right(work: Work) -> None:
    said = contest_sentence(work.costs, work.quadrants, work.a, work.b)
    ui.say(said or f"{agreement_words(work)} What the disputed heads cost is being measured.")
    costs.where(work)
    costs.figure(work)
