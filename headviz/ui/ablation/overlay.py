"""A published curve beside the measured one: a CSV with model, score, share and accuracy."""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import tolerance
from headviz.analysis.metrics import METRICS
from headviz.analysis.points import RANDOM, apart, read_points
from headviz.analysis.published import published_row
from headviz.charts import curve
from headviz.errors import BadData, HeadvizError
from headviz.ui.ablation.traces import Traces

MOST = 5_000_000  # bytes of a CSV


@st.cache_resource(max_entries=8, show_spinner=False)
def _curves(data: bytes) -> tuple[tolerance.Curve, ...]:
    return tuple(tolerance.curves(read_points(data)))


def _loaded() -> tuple[tolerance.Curve, ...]:
    """The curves of the uploaded file; none where it cannot be used, which `panel` says."""
    data = st.session_state.get("published_csv")
    if not data or len(data) > MOST:
        return ()
    try:
        return _curves(data)
    except HeadvizError:
        return ()


def symbol(score: str) -> str:
    name, replace = apart(score)
    said = METRICS[name].symbol if name in METRICS else "Random" if name == RANDOM else name
    return said + (", mean" if replace == "mean" else "")


def chosen() -> tuple[curve.Line, ...]:
    """The chosen curves as changes from their baselines, in points."""
    model, scores = st.session_state.get("published_model"), st.session_state.get("published_scores") or ()
    return tuple(
        curve.Line(
            name=f"{symbol(one.score)}, {one.model} (published)",
            score=apart(one.score)[0],
            replace=apart(one.score)[1],
            shares=one.shares,
            changes=tuple(100 * (x - one.baseline) for x in one.accuracies),
            dashed=True,
        )
        for one in _loaded()
        if one.model == model and one.score in scores
    )


def fits(traces: Traces) -> bool:
    """Whether published curves may share the axes: accuracy, and heads chosen input by input as the paper does."""
    return traces.yard.id == "accuracy" and traces.plan.mode == "per-input"


def _take() -> None:
    """Callback of the upload: keep the bytes, which outlive the widget."""
    file = st.session_state.published_file
    st.session_state.published_csv = file.getvalue() if file is not None else None
    for name in ("published_model", "published_scores"):
        st.session_state.pop(name, None)
    if there := _loaded():
        row = published_row(ui.value("model"))
        models = [one.model for one in there]
        name = row.model if row is not None and row.model in models else models[0]
        known = [one.score for one in there if one.model == name]
        st.session_state.published_model = name
        st.session_state.published_scores = [ui.value("metric") if ui.value("metric") in known else known[0]]


def panel(lines: tuple[curve.Line, ...], *, apart: bool) -> None:
    """The upload, what to show of it, and with `apart` a chart of its own."""
    data = st.session_state.get("published_csv")
    with st.expander(
        "Overlay a published curve", expanded=bool(data)
    ):  # open for a sentence of what is wrong, too
        st.file_uploader(
            "CSV with model, score (or head_type), share or pct_zeroed, acc",
            type=["csv"],
            key="published_file",
            on_change=_take,
            help="Such as the results that papers publish. Curves are drawn dashed, as change from their own baseline. A column "
            "replace (zero or mean: what stood in for the heads) keeps the two curves of a score apart.",
        )
        if not data:
            return
        try:
            there = _checked(data)
        except HeadvizError as error:
            st.error(str(error), icon=":material/error:")
            return
        _choose(there)
        if apart and lines:
            _own_chart(lines)


def _checked(data: bytes) -> tuple[tolerance.Curve, ...]:
    if len(data) > MOST:
        raise BadData(f"The CSV has {len(data) / 1e6:.0f} MB; at most {MOST / 1e6:.0f} MB are read.")
    return _curves(data)


def _choose(there: tuple[tolerance.Curve, ...]) -> None:
    model, scores = st.columns([2, 3])
    models = list(dict.fromkeys(one.model for one in there))
    name = model.selectbox("Model in the file", models, key="published_model", help="Whose curves are drawn.")
    known = [one.score for one in there if one.model == name]
    chosen_now = st.session_state.get("published_scores") or []
    st.session_state.published_scores = [one for one in chosen_now if one in known]
    scores.multiselect(
        "Scores in the file",
        known,
        format_func=symbol,
        key="published_scores",
        help="Each is a dashed line in the colour of the score.",
    )


def _own_chart(lines: tuple[curve.Line, ...]) -> None:
    st.caption(
        "The paper chooses heads input by input and counts accuracy. Such curves never share an axis with a static set or "
        "with loss, so this one has axes of its own."
    )
    figure = curve.score_curves(
        lines,
        unit="points",
        what="change in accuracy",
        tolerance=-ui.value("points"),
        across="share of heads off, each input its own (mean)",
        theme=ui.theme(),
    )
    ui.chart(figure, key="published", name="headviz-published")
