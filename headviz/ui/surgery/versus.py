"""Two repairs side by side: curves on the same axes, verdicts, losses."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.charts.forest import Row, forest
from headviz.charts.repaired import ORDER, name_of
from headviz.surgery import outcomes
from headviz.surgery.arms import ARMS
from headviz.types import plain
from headviz.ui.surgery import cautions, outcome, panels, words, work
from headviz.ui.surgery.case import Case


def choose() -> tuple[Case | None, Case | None]:
    """The two repairs of the view, chosen from all; None where one is not chosen."""
    jobs = {job.digest: job for job in work.repairs()}
    for name in ("operation", "versus"):
        if ui.value(name) and ui.value(name) not in jobs:
            jobs[ui.value(name)] = None  # its folder was removed; its report may be kept

    def label(digest: str) -> str:
        job = jobs[digest]
        return digest[:12] if job is None else f"{digest[:8]} · {words.summary(job.request)} · {job.state}"

    for place, name, title in zip(
        st.columns(2), ("operation", "versus"), ("First repair", "Second repair"), strict=True
    ):
        place.selectbox(
            title,
            ["", *jobs],
            format_func=lambda digest: label(digest) if digest else "choose one",
            help="Any two repairs of this machine, finished or running: clean against noisy text, two recipes, two sets of heads.",
            **ui.keyed(name),
        )
    found = [work.case_of(ui.value(name)) if ui.value(name) else None for name in ("operation", "versus")]
    return found[0], found[1]


def panel(said) -> None:
    """The stage Compare two. said: where on the page stands what must be known of the models."""
    first, second = choose()
    with said:
        cautions.of_cases(first, second)
    if first is None or second is None:
        st.info(
            "Choose two repairs above: their curves and verdicts come side by side.",
            icon=":material/compare_arrows:",
        )
        return
    if first.digest == second.digest:
        st.info("This is one repair twice. Choose another one on the right.", icon=":material/info:")
        return
    differences(first, second)
    for place, case in zip(st.columns(2, gap="medium"), (first, second), strict=True):
        with place:
            st.markdown(f"**{case.name}** · {'done' if case.done else 'as far as it is'}")
            st.markdown(outcome.headline(case))
    curves(first, second)
    remedies(first, second)


def differences(first: Case, second: Case) -> None:
    """What the two plans differ in."""
    found = plan_differences(first, second)
    if not found:
        st.caption("The two plans differ in nothing: one was computed by another version of headviz.")
        return
    st.dataframe(found, hide_index=True)


def plan_differences(first: Case, second: Case) -> list[dict[str, str]]:
    """A row a field of the plans that differs."""

    def flat(tree: dict, before: str = "") -> dict[str, str]:
        made: dict[str, str] = {}
        for name, value in tree.items():
            if isinstance(value, dict):
                made |= flat(value, f"{before}{name}.")
            elif name in ("heads", "healthy"):
                made[before + name] = fmt.plural(len(value), "head")
            else:
                made[before + name] = _written(value)
        return made

    a, b = flat(plain(first.request)), flat(plain(second.request))
    rows = [
        {
            "plan": name.replace("_", " ").replace(".", ": "),
            "first": a.get(name, ""),
            "second": b.get(name, ""),
        }
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    ]
    alike = len(set(first.request.heads) & set(second.request.heads))
    if first.request.heads != second.request.heads:
        rows = [row for row in rows if row["plan"] != "heads"]
        rows.insert(
            0,
            {
                "plan": "heads",
                "first": f"{len(first.request.heads)}, {alike} of them in both",
                "second": str(len(second.request.heads)),
            },
        )
    return rows


def _written(value) -> str:
    """A value of a plan for a table: lists without brackets, yes and no."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def curves(first: Case, second: Case) -> None:
    """Held-out loss of both on the same axes: a panel each, the same range."""
    sides = [(case, case.stock is not None and bool(case.arms)) for case in (first, second)]
    if not any(there for _, there in sides):
        panels.waiting("Neither repair has been evaluated yet.")
        return
    drawn = []
    for number, (case, _) in enumerate(sides):
        courses = tuple(case.course(arm, lambda run: run.select) for arm in case.arms)
        drawn.append(
            panels.Panel(
                title=f"{('First', 'Second')[number]}: {case.digest[:8]}, select part",
                unit="nats a token",
                courses=courses,
                level=None if case.stock is None else float(case.stock.select),
            )
        )
    figure = panels.over_steps(
        drawn,
        steps=max(first.last_step, second.last_step),
        theme=ui.theme(),
        width=panels.WIDE,
        same=first.request.held_out == second.request.held_out,
        provenance=f"repairs {first.digest[:12]} and {second.digest[:12]}",
    )
    ui.chart(figure, key="two_curves", name="headviz-two-repairs", alt="Held-out loss of two repairs")
    if first.request.held_out != second.request.held_out:
        st.caption(
            "The two are judged on different held-out texts, so their levels are not to be compared, only their shapes."
        )


def remedies(first: Case, second: Case) -> None:
    """Change of the report loss of every arm, the two repairs in two panels."""
    found = [
        {one.arm: one for one in outcomes.arm_losses(case, ui.value("point"))} for case in (first, second)
    ]
    arms = [arm for arm in ORDER if arm in ARMS and any(arm in some for some in found)]
    if not arms:
        panels.waiting("No run of either has ended, so the report part is not judged yet.")
        return
    figure = forest(
        [
            Row(name=name_of(arm), arm=arm, values=tuple(_value(some.get(arm)) for some in found))
            for arm in arms
        ],
        [f"First: {first.digest[:8]}", f"Second: {second.digest[:8]}"],
        same=True,
        theme=ui.theme(),
        width=panels.WIDE,
        provenance=f"repairs {first.digest[:12]} and {second.digest[:12]}",
    )
    ui.chart(
        figure,
        key="two_remedies",
        name="headviz-two-repairs-loss",
        alt="Change of the report loss in two repairs",
    )
    st.caption(
        "Change of the report part's loss against each one's own stock model; 95% intervals over documents."
    )


def _value(one) -> tuple[float, float, float] | None:
    return (
        None
        if one is None or one.against_stock is None
        else (one.against_stock.change, one.against_stock.low, one.against_stock.high)
    )
