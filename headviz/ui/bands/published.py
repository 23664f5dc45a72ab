"""Panel: what the paper reports of BLOOM, beside what is measured here; and why its explanation is backwards."""

from __future__ import annotations

import dataclasses

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis.published_bands import BLOOM, SOURCE
from headviz.charts import fmt
from headviz.charts.references import Reference
from headviz.ui.bands import others, words
from headviz.ui.bands.work import Work, name_of


def panel(work: Work) -> None:
    st.markdown(f"**The explanation is backwards.** {words.WHY}")
    st.dataframe(
        rows(work),
        hide_index=True,
        column_config={
            "model": st.column_config.TextColumn(help="Above: measured here. Below: as published."),
            "collapsed": st.column_config.TextColumn(help="Sinks and dead heads of all heads."),
            "band": st.column_config.TextColumn("band, by index"),
            "slopes": st.column_config.TextColumn("band, by slope", help="Nats a token, steepest first."),
            "edge": st.column_config.NumberColumn("log2 of steepest", format="%.2f", help="Where the band begins. Sizes with 16 and with 32 heads begin at about the same slope, not at the same index."),
            "where": st.column_config.TextColumn("from", help="Texts × tokens."),
        },
    )  # fmt: skip
    st.caption(f"Published: {SOURCE}. headviz has not measured those rows.")


def references() -> tuple[Reference, ...]:
    """The published bands and shares as lines for the figures; none where they are switched off."""
    if not ui.value("reported"):
        return ()
    return tuple(
        Reference(
            name=row.model,
            steepest=row.slope(row.first),
            shallowest=row.slope(row.last),
            share=row.share,
            told=f"{row.model}, as published: band H{row.first:02d} to H{row.last:02d}, {fmt.percent(row.share)} of its heads collapsed",
        )
        for row in BLOOM.values()
    )


def switch() -> None:
    """Whether the published numbers are drawn beside the measured ones."""
    st.checkbox(
        "BLOOM as published",
        help="Lines for what the paper reports of four sizes of BLOOM: over which slopes the band of collapsed heads goes, and "
        "which share of the heads is collapsed. Its numbers, not measured here.",
        **ui.keyed("reported"),
    )


def rows(work: Work) -> list[dict]:
    """What is measured, with this page's thresholds, then what is published."""
    found = []
    for name, one in {name_of(work.request): work, **_overlaid(work)}.items():
        band = one.band
        found.append(
            {
                "model": name,
                "heads": f"{one.geometry.layers} × {one.geometry.heads}",
                "collapsed": fmt.count(int(one.sick.sum()), one.sick.size),
                "band": f"H{band.first:02d} to H{band.last:02d}" if band.heads else "none",
                "slopes": "no slopes"
                if one.slopes is None
                else _slopes(band.steepest, band.shallowest)
                if band.heads
                else "none",
                "edge": None if band.steepest is None else float(np.log2(band.steepest)),
                "where": f"here, {len(one.bands.lengths):,} × {one.tokens:,} tokens",
            }
        )
    for row in BLOOM.values():
        found.append(
            {
                "model": row.model,
                "heads": f"{row.layers} × {row.heads}",
                "collapsed": fmt.count(row.collapsed, row.layers * row.heads),
                "band": f"H{row.first:02d} to H{row.last:02d}",
                "slopes": _slopes(row.slope(row.first), row.slope(row.last)),
                "edge": float(np.log2(row.slope(row.first))),
                "where": "paper, 1 × about 55",
            }
        )
    return found


def _overlaid(work: Work) -> dict[str, Work]:
    """Those others whose measurement is there already; the scatter starts and shows the rest."""
    there = {}
    for name, request in others.pinned(work).items():
        found = ui.cached(request)
        if found is not None:
            there[name] = dataclasses.replace(work, request=request, bands=found)
    return there


def _slopes(steep: float, shallow: float) -> str:
    return f"{fmt.number(steep)} to {fmt.number(shallow)}"
