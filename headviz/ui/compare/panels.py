"""Panels of the compare page: each answers one question about the two models."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis.metrics import METRICS
from headviz.charts import distances, fmt, overlay
from headviz.charts.scales import value_unit
from headviz.types import head_name
from headviz.ui.compare.work import Work, changed


def distribution(work: Work) -> None:
    row = METRICS[ui.value("metric")]
    one = work.comparison(row.id)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        ui.chart(
            overlay.distributions(
                {name: table.per_input(row.id) for name, table in work.tables.items()},
                row,
                theme=ui.theme(),
                width=540,
            ),
            key="distributions",
            name=f"headviz-distributions-{row.id}",
        )
    with right:
        st.markdown("**The distance, beside no change**")
        ui.chart(
            distances.against_yardstick(one.pooled, one.yardstick, theme=ui.theme(), width=360),
            key="yardstick",
            name=f"headviz-yardstick-{row.id}",
        )
        spread = fmt.with_unit(one.pooled.spread, value_unit(row))
        st.caption(
            f"W1 is how far values have to be moved, on average, to turn one distribution into the other; one spread is the "
            f"standard deviation within a model, {spread}. Documents are resampled for the bar; that adds noise, and noise only adds to "
            "W1, so the bar may lie above the dot. "
            + (
                one.yardstick.note
                or f"Noise alone gives a distance above 0, so it is read against the grey band: 95% of {2 * one.yardstick.splits} "
                f"distances between halves of one model, {one.yardstick.inputs} inputs each. The diamond is a half of one model "
                "against the other half of the other, at the same number of inputs."
            )
        )


def layers(work: Work) -> None:
    row = METRICS[ui.value("metric")]
    one = work.comparison(row.id)
    if one.layers:
        ui.chart(
            distances.layer_distances(one.layers, row, theme=ui.theme(), width=700),
            key="layers",
            name=f"headviz-layers-{row.id}",
        )
        st.caption(
            "Each layer's distance in spreads of the whole model. The yardstick of no change is that of all layers together, "
            "so a single layer has none: fewer values are noisier."
        )
    else:
        st.caption(
            "Layers of models of different shape have no partners: the profiles above follow the depth."
        )
        return
    profiles(work)


def profiles(work: Work) -> None:
    """The score along relative depth: also for models of different shape."""
    row = METRICS[ui.value("metric")]
    found = {work.first: work.comparison(row.id).profiles[0], work.other: work.comparison(row.id).profiles[1]}
    ui.chart(
        overlay.depth_profiles(found, row, theme=ui.theme(), width=540),
        key="profiles",
        name=f"headviz-profiles-{row.id}",
    )


def scores(work: Work) -> None:
    """Every score of the paper: distance, yardstick, verdict, and who moved most."""
    rows = []
    for metric in work.metrics():
        if METRICS[metric].extra and metric != ui.value("metric"):
            continue
        one = work.comparison(metric)
        found = {
            "score": METRICS[metric].symbol,
            "w1": one.pooled.value,
            "spreads": one.pooled.scaled,
            "interval": f"[{fmt.number(one.pooled.scaled_low)}, {fmt.number(one.pooled.scaled_high)}]",
            "halves": one.yardstick.scaled_between,
            "same": one.yardstick.scaled_same_high,
            "verdict": "no yardstick"
            if one.yardstick.note
            else "changed"
            if changed(one)
            else "no change shown",
        }
        if one.changes is not None:
            at = one.changes.movers(1)
            found["mover"] = head_name(*at[0]) if at else ""
            found["change"] = float(one.changes.change[at[0]]) if at else np.nan
        rows.append(found)
    number = {"format": "%.3g", "width": "small"}
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        column_config={
            "w1": st.column_config.NumberColumn("W1", help="In the score's own unit.", **number),
            "spreads": st.column_config.NumberColumn(
                "in spreads", help="W1 divided by the standard deviation within a model: comparable between scores.", **number
            ),
            "interval": st.column_config.TextColumn("95%", help="Documents resampled 200 times."),
            "halves": st.column_config.NumberColumn(
                "halves", help="Half of one model's inputs against the other half of the other's.", **number
            ),
            "same": st.column_config.NumberColumn(
                "no change", help="Two halves of one model: 95% of their distances stay below this.", **number
            ),
            "verdict": st.column_config.TextColumn(
                help="Changed: halves of the two models lie further apart than halves of one."
            ),
            "mover": st.column_config.TextColumn("most moved"),
            "change": st.column_config.NumberColumn("its change", help="In the score's own unit.", **number),
        },
    )  # fmt: skip
    st.caption(
        "The verdict is about the distribution of all values: heads can trade places without moving it. The change of single heads "
        "is under Movers."
    )


def movers(work: Work) -> None:
    """Every head, the most moved first."""
    row = METRICS[ui.value("metric")]
    one = work.comparison(row.id)
    if one.changes is None:
        st.info(one.reason, icon=":material/info:")
        return
    number = {"format": "%.4g"}
    rows, no_p = mover_rows(work, row.id), bool(np.isnan(one.changes.p_holm).all())
    if no_p:  # p is of paired inputs; a column of nothing tells nobody why
        rows = [{name: x for name, x in found.items() if name != "p_holm"} for found in rows]
    st.dataframe(
        rows,
        hide_index=True,
        height=420,
        column_config={
            "head": st.column_config.TextColumn(help="Layer and head, both from zero."),
            "before": st.column_config.NumberColumn(work.first, **number),
            "after": st.column_config.NumberColumn(work.other, **number),
            "change": st.column_config.NumberColumn(
                help=f"{row.symbol} of {work.other} less that of {work.first}, mean over inputs.", **number
            ),
            "low": st.column_config.NumberColumn("95% from", **number),
            "high": st.column_config.NumberColumn("95% to", **number),
            "p_holm": st.column_config.NumberColumn(
                "p, all heads", help="Corrected by Holm: below 0.05 holds for all heads at once.", **number
            ),
        },
    )
    note = f" {one.changes.note}" if one.changes.note else ""
    without = " There is no p over all heads: it needs paired inputs from several documents." if no_p else ""
    st.caption(f"Intervals: {one.changes.method}.{note}{without}")


def mover_rows(work: Work, metric: str) -> list[dict]:
    """A row a head by the size of its change; numbers unrounded."""
    changes = work.comparison(metric).changes
    before, after = (table.mean(metric) for table in work.pair)
    return [
        {
            "head": head_name(*at),
            "before": float(before[at]),
            "after": float(after[at]),
            "change": float(changes.change[at]),
            "low": float(changes.low[at]),
            "high": float(changes.high[at]),
            "p_holm": float(changes.p_holm[at]),
        }
        for at in changes.movers()
    ]
