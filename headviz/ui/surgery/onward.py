"""Panel: go on with the repaired model. It becomes an ordinary checkpoint in the list of models; links to the other pages."""

from __future__ import annotations

from urllib.parse import urlencode

import streamlit as st

from headviz import ui, view
from headviz.charts import fmt
from headviz.readers import write_heads
from headviz.reopen import of_data
from headviz.surgery.arms import ARMS
from headviz.types import RepairedCheckpoint, RepairedRequest
from headviz.ui.surgery import panels, take, work
from headviz.ui.surgery.case import Case

PAGES = {
    "disagreement": ("Disagreement", "Do the scores still dispute these heads?"),
    "ablation": ("Ablation", "What does switching the treated heads off cost now?"),
    "compare": ("Compare", "What changed against the model before surgery?"),
    "bands": ("Bands", "Where do heads collapse now?"),
}


def panel(case: Case) -> None:
    if case.report is None:
        panels.waiting("A repair becomes a checkpoint when it has ended.")
        return
    if case.request.model.quantization != "none":
        st.caption(
            "The slices go onto the unquantised checkpoint; the report of the checkpoint gives both losses."
        )
    left, middle, right, _ = st.columns([2.2, 1, 1.6, 2], vertical_alignment="bottom")
    arm = left.selectbox(
        "Arm",
        list(case.arms),
        format_func=lambda name: ARMS[name].title,
        key="onward_arm",
        help="Whose weights become the checkpoint.",
    )
    seed = middle.selectbox("Seed", list(case.request.seeds), key="onward_seed", help="Which run of the arm.")
    point = right.segmented_control(
        "Weights of",
        ["best", "last"],
        format_func={"best": "Best step", "last": "Last step"}.get,
        default="best",
        required=True,
        key="onward_point",
        help="Best: the lowest loss on the select part, however early. Last: after all steps.",
    )
    request = RepairedRequest(repair=case.digest, arm=arm, seed=int(seed), point=point)
    report = ui.answer(
        request,
        start=False,
        button="Make it a checkpoint",
        empty="Merges the slices into the model's own weights, writes an ordinary checkpoint on this machine, loads it again with plain "
        "transformers, and compares the two.",
        key="repaired",
    )
    if isinstance(report, RepairedCheckpoint):
        _written(case, report)
    take.slices(case, arm, int(seed), point)
    st.code(work.export_command(case.digest), language="bash", wrap_lines=True)


def _written(case: Case, report: RepairedCheckpoint) -> None:
    st.markdown(
        f"**{report.name}** is in the list of models. {len(report.heads):,} treated heads, step {report.step:,}. In plain transformers "
        f"its logits differ by at most {fmt.number(report.difference)} from the repair's over {report.compared:,} tokens (stock against "
        f"headviz, which is rounding: {fmt.number(report.rounding)}). Loss on the report part: {fmt.number(report.loss_stock, 4)} before "
        f"surgery, {fmt.number(report.loss_job, 4)} in the repair, {fmt.number(report.loss_after, 4)} in the checkpoint, nats a token."
    )
    for place, (page, (title, question)) in zip(st.columns(len(PAGES)), PAGES.items(), strict=True):
        place.link_button(
            title,
            link(case, report, page),
            width="stretch",
            help=f"{question} Opens in a new tab, the repaired model chosen.",
        )
    with st.expander(f"{len(report.files)} files, with their sha256"):
        st.dataframe(
            [
                {"file": file.name, "size": fmt.size(file.bytes), "sha256": file.sha256}
                for file in report.files
            ],
            hide_index=True,
        )


def link(case: Case, report: RepairedCheckpoint, page: str) -> str:
    """The page with the repaired model on the text on which the repair counted its heads; compare has the model before surgery
    at the left."""
    dtype = case.request.model.dtype
    if page == "compare":
        stock = case.request.model
        chosen = {"model": stock.name, "dtype": dtype, "against": report.name}
        if stock.source == "hub":
            chosen["revision"] = stock.revision
    else:
        chosen = {"model": report.name, "dtype": dtype}
    if page == "ablation":
        chosen |= {"pick": "hand", "picked": write_heads(report.heads)}
    text = view.written(of_data(case.request.diagnose), page, defaults=False)
    return f"{page}?{urlencode(chosen | text)}"
