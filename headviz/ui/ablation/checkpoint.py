"""The head set as a checkpoint on this machine: with those columns of W_O zero, and smaller where the family allows it."""

from __future__ import annotations

import dataclasses
from statistics import median
from urllib.parse import urlencode

import streamlit as st

from headviz import ui
from headviz.charts import fmt
from headviz.jobs import local
from headviz.models import catalog, smaller
from headviz.settings import settings
from headviz.types import CheckpointReport, CheckpointRequest
from headviz.ui.ablation.measurements import Measurements

INPUTS, TOKENS = 4, 128  # of the page's text, on which a checkpoint is compared with the model


def checkpoints(work: Measurements) -> None:
    st.markdown(
        "**As a checkpoint** that `from_pretrained` loads anywhere. It is written on this machine, loaded again with plain "
        "transformers, and compared with the model while these heads are off."
    )
    left, right = st.columns(2, border=True)
    with left:
        _one(
            work,
            small=False,
            button="Write checkpoint",
            told="The columns of W_O that belong to these heads are zero: the same numbers, the same size and speed.",
        )
    with right:
        _one(
            work,
            small=True,
            button="Write smaller checkpoint",
            told="These heads are left out, with their keys and values: the same numbers to rounding, with less to keep and to compute.",
        )


def _one(work: Measurements, *, small: bool, button: str, told: str) -> None:
    st.caption(told)
    if why := _why_not(work, small):
        st.button(button, disabled=True, key=f"cannot_{small}", width="stretch")
        st.caption(why)
        return
    request = _request(work, small)
    folder = catalog.checkpoint_folder(request, settings())
    report = ui.cached(request)
    if isinstance(report, CheckpointReport) and not folder.is_dir():
        st.caption("It was written once, and its folder was removed since.")
        if st.button("Write it again", key=f"again_{small}", type="primary", width="stretch"):
            ui.forget(request)
            local.ask(request, ui.holder())
            st.rerun()
        return
    report = ui.answer(
        request,
        start=False,
        button=button,
        empty=f"{_size(work, small)} in `{folder}`",
        key=f"checkpoint_{small}",
    )
    if isinstance(report, CheckpointReport):
        _report(report, str(folder))


def _why_not(work: Measurements, small: bool) -> str:
    if work.plan.model.quantization != "none":
        return "A checkpoint is written from unquantised weights. Choose quantisation none at the left: the set stays the same."
    if not work.off.heads:
        return "No head is off, so the checkpoint would be the model itself."
    return smaller.why_not(work.off.heads, work.off.geometry) if small else ""


def _request(work: Measurements, small: bool) -> CheckpointRequest:
    data = ui.data_ref()
    few = dataclasses.replace(data, inputs=min(data.inputs, INPUTS), tokens=min(data.tokens, TOKENS))
    return CheckpointRequest(model=work.plan.model, heads=work.off.heads, smaller=small, data=few)


def _size(work: Measurements, small: bool) -> str:
    known = catalog.size(work.plan.model, settings())
    if known is None:
        return f"As large as the model in {work.plan.model.dtype},"
    gone = smaller.numbers_gone(work.off.heads, work.off.geometry) if small else 0
    return f"About {fmt.size(known - gone * (4 if work.plan.model.dtype == 'float32' else 2))},"


def _report(report: CheckpointReport, folder: str) -> None:
    st.markdown("Written to")
    st.code(folder, language=None, wrap_lines=True)
    saved = report.parameters_before - report.parameters_after
    fewer = f" ({fmt.percent(saved / report.parameters_before)} fewer)" if saved else ""
    st.markdown(
        f"{fmt.size(report.bytes)}, {report.parameters_after:,} parameters{fewer}. Loaded again, its logits differ by at "
        f"most {fmt.number(report.difference)} from the model's with these heads off ({fmt.number(report.rounding)} with "
        f"nothing off, which is rounding), over {report.compared:,} tokens. Loss {fmt.number(report.loss_before, 4)} → "
        f"{fmt.number(report.loss_after, 4)} nats a token."
    )
    if report.speeds:
        st.dataframe(
            [
                {
                    "": f"{speed.doing} {speed.tokens} tokens",
                    "before": _spread(speed.before),
                    "after": _spread(speed.after),
                }
                for speed in report.speeds
            ],
            hide_index=True,
            column_config={
                "before": st.column_config.TextColumn(
                    "tokens/s, model", help="Median of five turns [slowest, fastest]; both took turns."
                ),
                "after": st.column_config.TextColumn("checkpoint"),
            },
        )
    for note in report.provenance.notes:
        st.caption(f"{note[:1].upper()}{note[1:]}.")
    st.link_button(
        "Look at its heads",
        "heads?" + urlencode({"model": report.name, "dtype": report.provenance.request["model"]["dtype"]}),
        width="stretch",
        help="Opens the Heads page with it as the model, in a new tab; it stays on offer in the list of models.",
    )
    with st.expander(f"{len(report.files)} files, with their sha256"):
        st.dataframe(
            [
                {"file": file.name, "size": fmt.size(file.bytes), "sha256": file.sha256}
                for file in report.files
            ],
            hide_index=True,
        )


def _spread(values: tuple[float, ...]) -> str:
    return f"{fmt.number(median(values))} [{fmt.number(min(values))}, {fmt.number(max(values))}]"
