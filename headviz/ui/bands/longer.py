"""Panel: the same texts at lengths from 64 to 2048 tokens. The band should move to shallower slopes as they grow."""

from __future__ import annotations

import dataclasses

import streamlit as st

from headviz import ui
from headviz.analysis import bands as of
from headviz.charts import fmt
from headviz.charts.lengths import At, by_length
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import BandsRequest
from headviz.ui.bands.work import Work


def panel(work: Work) -> None:
    longest = catalog.context_length(work.request.model, settings())
    asked = of.sweep(work.request.model, work.request.data, longest)
    there = run(
        work,
        asked,
        "lengths",
        "Measure all lengths",
        "The same number of texts at each length that fits the model's context, up to 2,048 tokens. Each result is kept.",
    )
    points, seconds = [], [one.provenance.seconds for one in there.values()]
    for request in asked:
        found = there.get(job_digest(request))
        if found is not None:
            points.append(_point(dataclasses.replace(work, request=request, bands=found)))
    if not points:
        return
    left, right = st.columns([5, 3], gap="medium")
    with left:
        ui.chart(
            by_length(points, theme=ui.theme(), width=440, provenance=_note(work)),
            key="by_length",
            name="headviz-collapse-by-length",
            alt="Collapsed heads and the edge of the band against the length of the texts",
        )
    with right:
        st.markdown(sentence(points))
        st.dataframe(
            [
                {"tokens": one.tokens, "collapsed": fmt.count(one.collapsed, one.heads), "band": one.band}
                for one in points
            ],
            hide_index=True,
            column_config={
                "tokens": st.column_config.NumberColumn(format="%d", help="Median length of the inputs: a corpus may have no longer texts."),
            },
        )  # fmt: skip
        st.caption(
            f"{len(points)} of {len(asked)} lengths, {fmt.duration(sum(seconds))} in all. Longer inputs are other cuts of the corpus, so "
            "a small change is text too; lengths without enough text hold fewer inputs."
        )


def _note(work: Work) -> str:
    model, data = work.request.model, work.request.data
    return (
        f"{model.name}@{model.revision[:7]} · {model.dtype} · {data.corpus}@{data.revision[:7]}, {data.inputs:,} texts a length · "
        f"seed {data.seed} · headviz {work.bands.provenance.versions.get('headviz', '')}"
    )


def _point(work: Work) -> At:
    band = work.band
    heads = (
        "none"
        if not band.heads
        else f"H{band.first:02d} to H{band.last:02d}"
        if band.first != band.last
        else f"H{band.first:02d}"
    )
    return At(
        tokens=work.tokens,
        collapsed=int(work.sick.sum()),
        heads=work.sick.size,
        edge=band.steepest,
        band=heads,
    )


def sentence(points: list[At]) -> str:
    first, last = points[0], points[-1]
    if len(points) < 2 or first.tokens == last.tokens:
        return f"**At {first.tokens:,} tokens {fmt.count(first.collapsed, first.heads)} heads are collapsed.** More lengths show how that moves."
    said = (
        f"**From {first.tokens:,} to {last.tokens:,} tokens, collapsed heads go from {fmt.count(first.collapsed, first.heads)} to "
        f"{fmt.count(last.collapsed, last.heads)}.**"
    )
    if first.edge is not None and last.edge is not None:
        said += (
            f" The band's steepest slope goes from {fmt.number(first.edge)} to {fmt.number(last.edge)} nats a token."
            + (
                " That is the shallower side, as the price of distance has it."
                if last.edge < first.edge
                else ""
            )
        )
    return said


def run(work: Work, asked: list[BandsRequest], group: str, button: str, help: str) -> dict:
    """The answers to several requests, by digest; a button with the number of runs and their time for what is missing."""
    digests = tuple(dict.fromkeys(job_digest(one) for one in asked))
    key = f"headviz_{group}"
    started = st.session_state.get(key) == digests
    there = ui.gather(asked, start=started, group=group)
    missing = tuple(digest for digest in digests if digest not in there)
    if missing and started:
        ui.working_on(missing, group)
    elif missing:
        left = [one for one in asked if job_digest(one) in missing]
        # the first run of a worker loads the model too, so the quickest one tells most of a token's time
        took = min(
            one.provenance.seconds / max(int(one.lengths.sum()), 1) for one in (work.bands, *there.values())
        )
        seconds = took * sum(one.data.inputs * one.data.tokens for one in left)
        runs = "1 run" if len(left) == 1 else f"{len(left)} runs"
        st.button(
            f"{button}: {runs}, about {fmt.duration(seconds)}",
            type="primary",
            on_click=lambda: st.session_state.update({key: digests}),
            help=help,
        )
    return there
