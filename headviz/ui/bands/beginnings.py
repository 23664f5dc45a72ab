"""Panel: is it the BOS token, or the first place? The same texts with five beginnings."""

from __future__ import annotations

import dataclasses

import numpy as np
import streamlit as st

from headviz import ui
from headviz.analysis import bands as of
from headviz.charts import fmt
from headviz.jobs.kinds import job_digest
from headviz.types import Bands
from headviz.ui.bands.longer import run
from headviz.ui.bands.work import Work


def panel(work: Work) -> None:
    st.text_input(
        "Another token in BOS' place",
        help="The first token of this text stands in for BOS in the last row. Try an ordinary word, a full stop or a line end.",
        **ui.keyed("instead_of_bos"),
    )
    data = dataclasses.replace(work.request.data, chat=False)
    if work.request.data.chat:
        st.caption("Beginnings are made of plain text: the chat template is left out here.")
    asked = of.lab(work.request.model, data, ui.value("instead_of_bos").strip("\r") or "The")
    there = run(
        work,
        list(asked.values()),
        "beginnings",
        "Measure the beginnings",
        "Runs the model on the same texts as the tokenizer makes them, with BOS first, without it, with two, and with another token "
        "in its place. Needs a tokenizer that has a BOS token.",
    )
    found = {name: there.get(job_digest(request)) for name, request in asked.items()}
    if not any(one is not None for one in found.values()):
        return
    st.markdown(sentence({name: one for name, one in found.items() if one is not None}))
    number = {"format": "%.3g", "width": "small"}
    column = st.column_config.NumberColumn
    st.dataframe(
        [_row(work, name, one) for name, one in found.items()],
        hide_index=True,
        column_config={
            "texts": st.column_config.TextColumn(width="medium"),
            "first": st.column_config.TextColumn("first token", help="The most frequent one; spaces and line ends as signs."),
            "zero": column("at position 0", help="Mass: attention on whatever stands first, mean over heads, texts and query rows.", **number),
            "bos": column("at BOS", help="Mass: attention on all tokens that are BOS, wherever they stand. None where no text has one.", **number),
            "most": column("strongest", help="Mass of the strongest column: the largest mean weight that any one token has, head by head and text by text, then the mean.", **number),
            "same": column("is position 0, %", help="Share of head × text pairs whose strongest token is the first one.", **number),
            "sick": st.column_config.TextColumn("collapsed", help="Heads with a mass at position 0 above the thresholds of the page."),
        },
    )  # fmt: skip
    st.caption(
        "Where the strongest column is position 0 with every beginning, it is the place that draws attention; where mass leaves "
        "when BOS does, it is the token. Two rows are one and the same run where the tokenizer already does what the row says."
    )


def _row(work: Work, name: str, bands: Bands | None) -> dict:
    row: dict = {"texts": of.LAB[name]}
    if bands is None:
        return row | {"first": "not measured"}
    at_bos = np.asarray(bands.at_bos, np.float64)
    one = dataclasses.replace(work, bands=bands)
    return row | {
        "first": _first(bands),
        "zero": float(bands.mass.mean(dtype=np.float64)),
        "bos": None if np.isnan(at_bos).all() else float(np.nanmean(at_bos)),
        "most": float(np.mean(bands.strongest, dtype=np.float64)),
        "same": 100 * float((bands.strongest_at == 0).mean()),
        "sick": fmt.count(int(one.sick.sum()), one.sick.size),
    }


def _first(bands: Bands) -> str:
    texts, often = np.unique(np.array(bands.first), return_counts=True)
    text = str(texts[int(np.argmax(often))]).translate(str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"}))
    return text if len(texts) == 1 else f"{text} and {len(texts) - 1} others"


def sentence(found: dict[str, Bands]) -> str:
    """Mean mass at position 0 with and without BOS."""
    told = [
        f"{of.LAB[name]} {fmt.number(float(bands.mass.mean(dtype=np.float64)))}"
        for name, bands in found.items()
        if name in ("always", "never", "other")
    ]
    return f"**Mean mass at position 0: {'; '.join(told)}.**" if told else ""
