"""Panel: the recovery film of one run, with the drift of untouched heads beside it; and as a GIF."""

from __future__ import annotations

import numpy as np
import streamlit as st

from headviz import ui
from headviz.charts import film as drawing
from headviz.charts import fmt
from headviz.charts.repaired import film_of, run_name
from headviz.types import RepairRun
from headviz.ui.surgery import moved, panels, words
from headviz.ui.surgery.case import Case


def panel(case: Case) -> None:
    run = shown_run(case)
    if run is None:
        panels.waiting(
            "The film begins with the first evaluation. "
            + ("The model before surgery is being measured." if case.stock is None else "")
        )
        return
    figure = drawing.film(
        **film_of(case.request, case, run),
        theme=ui.theme(),
        width=panels.WIDE,
        provenance=f"{words.note(case)} · {run_name(run)}",
    )
    ui.chart(
        figure,
        key="film",
        name=f"headviz-film-{case.digest[:8]}",
        alt="Attention on the first token of every head over the steps, and the drift of untouched heads",
    )
    st.caption(caption(case, run))


def caption(case: Case, run: RepairRun) -> str:
    first = min(layer for layer, _ in case.touched(run))
    still = "the first layers" if first else "layer 0"
    floor = moved.floor(case, ~case.mask(case.touched(run)))
    return (
        f"Play, or drag the slider; evaluated every {case.request.every:,} steps. Outlined: treated heads, hollow in the map of "
        f"drift. Drift is the change of an untouched head's attention on the first token against the model before surgery; up to "
        f"layer {first}, the first with a treated head, it is exactly 0, for nothing reaches {still}."
        + (
            f" The colours leave out the floor: before surgery, two halves of the text already differ by up to {fmt.number(floor)} in "
            "95% of the untouched heads, so a weaker colour tells nothing. Drift has the floor of every head."
            if np.isfinite(floor)
            else ""
        )
    )


def shown_run(case: Case) -> RepairRun | None:
    """The run of the view's arm, seed and pass; the nearest that is there where it is not."""
    runs = [run for run in case.runs if len(run.step)]
    if not runs or case.stock is None:
        return None
    asked = [
        run
        for run in runs
        if run.arm == ui.value("arm_shown")
        and run.seed == ui.value("seed_shown")
        and run.number == ui.value("pass_shown")
    ]
    alike = asked or [run for run in runs if run.arm == ui.value("arm_shown")] or runs
    return alike[0]


@st.cache_resource(max_entries=8, show_spinner="Drawing the film …")
def gif_of(digest: str, seen: tuple[str, int, int, int], _case: Case, _run: RepairRun) -> bytes:
    """The run's film as a GIF; `seen`: arm, seed, pass and how many evaluations."""
    from headviz.charts.film_gif import film_gif  # matplotlib takes a second to import

    return film_gif(
        **film_of(_case.request, _case, _run), provenance=f"{words.note(_case)} · {run_name(_run)}"
    )


def save_gif(case: Case, where) -> None:
    run = shown_run(case)
    where.download_button(
        "Film (GIF)",
        (lambda: gif_of(case.digest, (run.arm, run.seed, run.number, len(run.step)), case, run))
        if run
        else b"",
        file_name=f"headviz-film-{case.digest[:8]}.gif",
        mime="image/gif",
        on_click="ignore",
        width="stretch",
        disabled=run is None,
        help="The two maps, a frame an evaluation, light; drawn when you press. "
        + (
            f"Of {run_name(run)}, {fmt.tick(len(run.step))} evaluations."
            if run
            else "There is no evaluation yet."
        ),
    )
