"""Controls of the bands page: order of the heads, thresholds, the band, other models."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis.bands import PRESETS, Thresholds
from headviz.models import catalog
from headviz.models.architectures import geometry
from headviz.settings import settings
from headviz.ui.compare.others import several
from headviz.ui.one_head import head_typed

MOST = 4
NAMES = {"paper": "Paper", "summary": "Summary"}


def thresholds() -> Thresholds:
    """Those of the view. Raises BadInput."""
    return Thresholds(
        dead=ui.value("dead_above"), sink=ui.value("sink_above"), low_entropy=ui.value("nats_below")
    )


def preset_now() -> str | None:
    """The preset that the view stands for, None for thresholds of one's own."""
    mine = (ui.value("dead_above"), ui.value("sink_above"), ui.value("nats_below"))
    return next(
        (name for name, row in PRESETS.items() if (row.dead, row.sink, row.low_entropy) == mine), None
    )


def _take_preset() -> None:
    if (name := st.session_state.bands_preset) is not None:
        row = PRESETS[name]
        ui.put("dead_above", row.dead)
        ui.put("sink_above", row.sink)
        ui.put("nats_below", row.low_entropy)


def controls() -> None:
    order, rows, preset, head, more = st.columns([1.8, 2.2, 2.4, 1.8, 1.3], vertical_alignment="bottom")
    order.segmented_control(
        "Heads in order of",
        ["index", "slope"],
        required=True,
        help="Index: as the model numbers them. Slope: from the steepest ALiBi slope, which sees a few tokens back, to the shallowest, "
        "which hardly notices distance. The scatter follows: models with different numbers of heads align on the slope, not on the index.",
        **ui.keyed("order"),
    )
    rows.segmented_control(
        "Query rows",
        ["all", "later"],
        format_func={"all": "All", "later": "Without first"}.get,
        required=True,
        help="The first token can only attend to itself, so its row counts as 1 and adds 1/T to every head. The paper averages over "
        "all rows; without the first one, only rows that have a choice count.",
        **ui.keyed("rows"),
    )
    ui.put("bands_preset", preset_now())
    preset.segmented_control(
        "Thresholds",
        list(PRESETS),
        format_func=NAMES.get,
        key="bands_preset",
        on_change=_take_preset,
        help="Paper: dead above 0.95, sink above 0.5, low entropy below 0.5 nats. Summary: a summary of the paper that goes around "
        "calls a head collapsed above 0.8. None is marked for numbers of your own, which you set under More.",
    )
    st.session_state.setdefault("head_box", ui.value("head"))
    head.text_input(
        "Head",
        key="head_box",
        persist_state="session",
        placeholder="click one, or L03.H07",
        on_change=head_typed,
        help="Layer and head, both counted from zero. Clicking a cell or a dot does the same, for every page.",
    )
    with more.popover("More", width="stretch"):
        _numbers()
    if problem := st.session_state.get("head_problem"):
        st.warning(problem)


def _numbers() -> None:
    st.number_input(
        "Dead above",
        min_value=0.0,
        max_value=1.0,
        step=0.05,
        help="A head with more of its attention on the first token is called dead: it does nothing else. 0 to 1.",
        **ui.keyed("dead_above"),
    )
    st.number_input(
        "Sink above",
        min_value=0.0,
        max_value=1.0,
        step=0.05,
        help="Else a head with more than this is a sink. Sinks and dead heads together are collapsed. 0 to 1, at most “dead above”.",
        **ui.keyed("sink_above"),
    )
    st.number_input(
        "Low entropy below (nats)",
        min_value=0.0,
        max_value=20.0,
        step=0.1,
        help="Else a head whose attention is spread less than this looks at very few tokens: 0 nats is a single one, 0.69 two alike.",
        **ui.keyed("nats_below"),
    )
    st.number_input(
        "Band: collapsed in more than (% of layers)",
        min_value=0.0,
        max_value=99.0,
        step=5.0,
        help="A head index belongs to the band when it is collapsed in more than this share of the layers. 0 takes every index with a "
        "collapsed head; 30 is the paper's. At most 99.",
        **ui.keyed("band_over"),
    )


def overlaid() -> None:
    """Other models in the same scatter: those with slopes on offer, and any that is typed."""
    entries = {
        entry.name: entry.label
        for entry in catalog.list_models(settings())
        if entry.config and geometry(entry.config).slopes is not None and entry.name != ui.value("model")
    }
    typed = [name for name in ui.value("overlaid").split(",") if name and name not in entries]
    several(
        st,
        "overlaid",
        "Other models in the scatter",
        [*entries, *typed],
        names=entries,
        placeholder="none",
        accept_new_options=True,
        max_selections=MOST,
        help="Up to four other models on the same text, bundled, in HEADVIZ_MODELS or a hub id, such as `bigscience/bloom-560m`. "
        "Offered are those with ALiBi slopes. On the slope axis their bands should lie over each other; on the index axis they do not.",
    )
