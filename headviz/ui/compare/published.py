"""Thresholds that were published, from the first paper's own file: how much they move between tasks."""

from __future__ import annotations

import streamlit as st

from headviz.analysis import thresholdfile
from headviz.analysis.metrics import METRICS
from headviz.analysis.stability import threshold_ratio
from headviz.analysis.thresholdfile import SHARES, PublishedThresholds
from headviz.charts import fmt
from headviz.errors import BadData

EXAMPLE = "OLMo-2-1124-7B-Instruct"  # of the first paper
AT = 0.15


def published() -> None:
    st.markdown("**Published thresholds**")
    st.caption(
        "The first paper (arXiv 2504.03889) published its thresholds for fourteen models on MMLU, PIQA and WinoGrande as "
        "`thresholds.json`. They say how far a threshold moves, and nothing about whether the same heads are selected."
    )
    given = st.file_uploader(
        "thresholds.json",
        type=["json"],
        help="Task → model → head type → seven thresholds, for 0, 5 … 30% of all heads: the layout of the paper's file.",
    )
    st.caption(
        "Your file is read for this visit only: it is not kept, and no link holds it. Who opens a link to this page gives the file "
        "again."
    )
    if given is None:
        return
    try:
        rows = thresholdfile.read_thresholds(given.getvalue())
        if not rows:
            raise BadData("The file holds no score that headviz knows.")
    except BadData as error:
        st.error(str(error), icon=":material/error:")
        return
    shown(rows)


def shown(rows: tuple[PublishedThresholds, ...]) -> None:
    models = list(dict.fromkeys(row.model for row in rows))
    left, right = st.columns([3, 1.4])
    model = left.selectbox(
        "Model",
        models,
        index=next((i for i, name in enumerate(models) if name.endswith(EXAMPLE)), 0),
        key="thresholds_model",
        help="As it is named in the file.",
    )
    share = right.selectbox(
        "Share",
        SHARES[1:],
        index=SHARES[1:].index(AT),
        format_func=fmt.percent,
        key="thresholds_share",
        help="Share of all heads on all inputs that the thresholds call inactive.",
    )
    table = [_row(rows, model, metric, share) for metric in _scores(rows, model)]
    st.markdown(sentence(table, model, share))
    tasks = list(dict.fromkeys(row.task for row in rows if row.model == model))
    number = {"format": "%.3g"}
    st.dataframe(
        [{name: row.get(name) for name in ("score", "ratio", *tasks)} for row in table],
        hide_index=True,
        height="content",
        column_config={
            "ratio": st.column_config.NumberColumn(
                "max/min", help="Largest over smallest threshold.", **number
            ),
            **{task: st.column_config.NumberColumn(task, **number) for task in tasks},
        },
    )


def _scores(rows: tuple[PublishedThresholds, ...], model: str) -> list[str]:
    there = {row.metric for row in rows if row.model == model}
    return [metric for metric in METRICS if metric in there]


def _row(rows: tuple[PublishedThresholds, ...], model: str, metric: str, share: float) -> dict:
    found = thresholdfile.of_model(rows, model, metric, share)
    return {"metric": metric, "score": METRICS[metric].symbol, "ratio": threshold_ratio(found)[0], **found}


def sentence(table: list[dict], model: str, share: float) -> str:
    """AWFT beside AHON (LN), as the paper tells it; else the first two scores of the file."""
    by = {row["metric"]: row for row in table}
    two = [by[name] for name in ("awft", "ahon_ln") if name in by] or table[:2]
    told = []
    for row in two:
        numbers = ", ".join(
            fmt.number(x) for name, x in row.items() if name not in ("metric", "score", "ratio")
        )
        told.append(f"**{row['score']}** {numbers}, × {fmt.number(row['ratio'])}")
    return f"{model} at {fmt.percent(share)}: {'; '.join(told)}."
