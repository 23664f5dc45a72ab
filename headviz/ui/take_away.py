"""Take it away: tables, print figures, the script that redraws them, the request, and the code that repeats it."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from headviz import recipes
from headviz.analysis.metrics import METRICS, Metric
from headviz.charts import files
from headviz.jobs.kinds import spec
from headviz.types import ScoreRequest, ScoreTable
from headviz.ui.state import keyed

LAYOUTS = {"column": "Column, 3.25 in", "page": "Page, 6.75 in", "slide": "Slide, 16:9"}
MIME = {"pdf": "application/pdf", "svg": "image/svg+xml"}


def take_away(request: ScoreRequest, table: ScoreTable, row: Metric, threshold: float | None) -> None:
    """Downloads and code for what is shown. Files are made when their button is pressed."""
    from headviz.charts import export  # matplotlib takes a second to import: only when somebody comes here

    left, middle, right = st.columns(3, border=True)
    with left:
        _tables(table)
    with middle:
        _figures(export, table, row, threshold)
    with right:
        _repeat(export, request, table, row, threshold)
    st.markdown("**Show the code**")
    st.code(recipes.python_code(request, row.id), language="python")
    st.code(recipes.command_line(request), language="bash", wrap_lines=True)


def camera(where: Any = st) -> None:
    """Which kind of file the camera over every chart saves."""
    where.segmented_control(
        "Every chart's camera saves",
        ["svg", "png"],
        format_func=str.upper,
        required=True,
        help="The camera appears when the pointer is over a chart and saves it as it is on the screen: SVG stays sharp at "
        "any size, PNG goes into any document.",
        **keyed("picture"),
    )


def _save(label: str, data, name: str, mime: str, help: str) -> None:
    st.download_button(
        label,
        data,
        file_name=name,
        mime=mime,
        help=help,
        on_click="ignore",
        key=f"save_{name}",
        width="stretch",
    )


def _tables(table: ScoreTable) -> None:
    st.markdown("**The table**")
    help = "One row a head and score: mean, std, p05, p50, p95 over the inputs. Carries its provenance."
    _save(
        "CSV (zip, with its provenance)",
        lambda: files.csv_bundle(table),
        "headviz-scores.zip",
        "application/zip",
        help,
    )
    for ending, mime in (
        ("parquet", "application/vnd.apache.parquet"),
        ("json", "application/json"),
    ):
        _save(
            ending.upper(),
            lambda e=ending: files.encode(table, f".{e}"),
            f"headviz-scores.{ending}",
            mime,
            help,
        )


def _figures(export, table: ScoreTable, row: Metric, threshold: float | None) -> None:
    st.markdown("**The figure, for print**")
    layout = st.selectbox(
        "Size", list(LAYOUTS), format_func=LAYOUTS.get, key="print_layout",
        help="Light, 8 pt, fonts embedded: a column or a full page of a paper, or a slide.",
    )  # fmt: skip
    everything = st.toggle("All twelve scores", key="print_all", help="One figure with a map for each score.")
    name = "all-scores" if everything else row.id
    chosen = [m for m in table.metrics if not METRICS[m].extra] if everything else row.id
    for ending in ("pdf", "svg"):
        _save(
            ending.upper(),
            lambda e=ending: export.print_figure(
                table,
                chosen,
                METRICS,
                layout=layout,
                format=e,
                thresholds={} if threshold is None else {row.id: threshold},
            ),
            f"headviz-{name}-{layout}.{ending}",
            MIME[ending],
            "One file with its caption and provenance inside.",
        )
    camera()


def _repeat(export, request: ScoreRequest, table: ScoreTable, row: Metric, threshold: float | None) -> None:
    st.markdown("**To repeat it**")
    _save(
        "Request (JSON)",
        lambda: json.dumps(spec(request), indent=2),
        "headviz-request.json",
        "application/json",
        "Everything that the answer depends on: `python -m headviz score --request headviz-request.json --out F`.",
    )
    _save(
        "Script and CSV that redraw it (zip)",
        lambda: files.redraw_bundle(table, row, threshold),
        f"headviz-{row.id}-redraw.zip",
        "application/zip",
        "A short script that needs only pandas and matplotlib, with its data.",
    )
    st.caption("Caption for the figure")
    marks = {} if threshold is None else {row.id: threshold}
    st.code(export.print_caption(table, row.id, METRICS, thresholds=marks), language=None, wrap_lines=True)
