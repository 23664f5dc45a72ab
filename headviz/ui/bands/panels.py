"""Panels of the bands page on the measurement that is there: distribution, slopes, one head by distance."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis import bands as of
from headviz.analysis.nulls import advantage, null_by_distance
from headviz.charts import fmt, tables
from headviz.charts.band_spread import mass_spread
from headviz.charts.kernel import by_distance
from headviz.types import DistanceRequest, head_name
from headviz.ui.bands import published, words
from headviz.ui.bands.work import Work


def distribution(work: Work) -> None:
    left, right = st.columns([5, 3], gap="medium")
    with left:
        ui.chart(
            mass_spread(
                work.mass,
                work.named,
                sink=work.at.sink,
                dead=work.at.dead,
                theme=ui.theme(),
                width=440,
                provenance=tables.caption(work.bands.provenance),
                published=() if work.slopes is None else published.references(),
            ),
            key="mass_spread",
            name="headviz-mass-distribution",
            alt="Heads by their attention on the first token, and how many lie above each threshold",
        )
    with right:
        tried = (0.3, 0.4, 0.5, 0.6, 0.8, 0.95)
        above = of.count_above(work.mass, np.array(tried))
        st.markdown(f"**{words.between(work)}**")
        st.dataframe(
            [
                {"threshold": at, "heads above": int(count), "share": 100 * count / work.mass.size}
                for at, count in zip(tried, above, strict=True)
            ],
            hide_index=True,
            column_config={
                "threshold": st.column_config.NumberColumn(format="%.2f", help="Attention on the first token."),
                "share": st.column_config.NumberColumn(format="%.3g%%", help="Of all heads."),
            },
        )  # fmt: skip
        st.caption(
            "The paper calls the distribution bimodal and its count insensitive to the threshold. By its own histogram of BLOOM-1b7, "
            "about 90 of 384 heads lie between 0.4 and 0.6: read the count with its threshold."
        )


def slopes(work: Work) -> None:
    """The band, index by index."""
    T, mass, band = work.tokens, work.at.sink, work.band
    st.markdown(words.band_words(band))
    reachable = 1 / T < mass < 1
    nulls = of.nulls(work.bands)
    rows = []
    for head in work.order():
        slope = 0.0 if work.slopes is None else work.slopes[head]
        rows.append(
            {
                "head": head,
                "slope": None if work.slopes is None else slope,
                "log2": None if work.slopes is None else float(np.log2(slope)),
                "window": None if work.slopes is None else 1 / slope,
                "mass": float(work.mass[:, head].mean()),
                "most": float(work.mass[:, head].max()),
                "null": float(work.null[head]),
                "entropy": float(nulls.entropy[head]),
                "needed": advantage(slope, T, mass) if reachable else None,
                "layers": 100 * band.by_index[head],
                "in": "●" if head in band.heads else "",
            }
        )
    number = {"format": "%.3g", "width": "small"}
    column = st.column_config.NumberColumn
    st.dataframe(
        rows,
        hide_index=True,
        height=min(38 + 35 * len(rows), 460),
        column_config={
            "head": column(help="Index, from zero.", width="small"),
            "slope": column("slope", help="Nats taken off the logit for each token of distance.", **number),
            "log2": column("log2 slope", **number),
            "window": column("window", help="1/slope: tokens back over which the weight falls by a factor e.", **number),
            "mass": column("mass", help="Attention on the first token, mean over the layers: in the middle where some layers are collapsed and others are not.", **number),
            "most": column("most", help="The same in the layer where it is largest.", **number),
            "null": column("slope alone", help="Mass of a head that looks at no content, over the same rows.", **number),
            "entropy": column("its entropy", help="Nats, of the same head over all rows.", **number),
            "needed": column("lead needed", help=f"By how many nats the first token's logit must lead the others for a mean mass of {mass:g} at {T:,} tokens.", **number),
            "layers": column("layers, %", help="Share of the layers in which this index is collapsed. The band takes indices above its share.", **number),
            "in": st.column_config.TextColumn("band", width="small"),
        },
    )  # fmt: skip
    st.caption(
        f"Lead: what the first token's logit needs over the others, in nats, at {T:,} tokens. It grows with slope × distance, so "
        "a longer text moves the band to shallower slopes; Longer texts measures that."
    )


def kernel(work: Work) -> None:
    """One head's attention by distance beside the kernel of its slope."""
    layer, head = work.picked()
    name = head_name(layer, head)
    asked = DistanceRequest(model=work.request.model, data=work.request.data, layer=layer, head=head)
    found = ui.answer(
        asked,
        start=ui.starts_by_itself(asked),
        button=f"Measure {name} by distance",
        empty=f"One run over the texts adds up what {name} gives to each distance, in blocks, without keeping T × T weights.",
        key="distance",
    )
    if found is None:
        return
    slope = 0.0 if work.slopes is None else work.slopes[head]
    T = len(found.mean)
    what = "even attention" if work.slopes is None else f"slope {fmt.number(slope)} alone"
    left, right = st.columns([5, 3], gap="medium")
    with left:
        ui.chart(
            by_distance(
                found,
                null_by_distance(slope, T),
                what=what,
                theme=ui.theme(),
                width=440,
                provenance=tables.caption(found.provenance),
            ),
            key="kernel",
            name=f"headviz-distance-{name}",
            alt=f"Attention of {name} by distance",
        )
    with right:
        st.markdown(_told(work, layer, head))
        st.caption(
            "Each distance is a mean over the queries that reach so far back; few reach the longest. The first token stands at another "
            "distance for every query, so a sink lifts the whole line: the dotted one leaves the first token out."
        )


def _told(work: Work, layer: int, head: int) -> str:
    at, T, mass = (layer, head), work.tokens, work.at.sink
    said = (
        f"**{head_name(layer, head)}** is **{work.named[at]}**: mass {fmt.number(work.mass[at])}, "
        f"entropy {fmt.number(work.bands.mean_entropy()[at])} nats."
    )
    if work.slopes is not None:
        slope = work.slopes[head]
        said += f" Its slope is {fmt.number(slope)} nats a token, a window of {fmt.number(1 / slope)} tokens, which alone gives a mass of {fmt.number(work.null[head])}."
    else:
        slope = 0.0
        said += f" Even attention would give it a mass of {fmt.number(work.null[head])}."
    if 1 / T < mass < 1:
        said += f" For a mass of {fmt.tick(mass)} at {T:,} tokens the first token's logit must lead by {fmt.number(advantage(slope, T, mass))} nats."
    return said
