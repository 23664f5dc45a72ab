"""Panel: take the comparison away, as the command line writes it, and the heads that moved as a table."""

from __future__ import annotations

import csv
import io
from types import SimpleNamespace
from typing import Any

import streamlit as st

from headviz import recipes, ui
from headviz.types import Silent, plain
from headviz.ui.compare.panels import mover_rows
from headviz.ui.compare.work import Work

MOVERS, DRAWS, SPLITS = 20, 200, 100  # the defaults of `headviz compare`


def panel(work: Work) -> None:
    left, middle, right = st.columns(3)
    left.download_button(
        "Comparison (JSON)",
        lambda: as_json(work),
        file_name="headviz-compare.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        help="Distances, yardsticks, layers and movers by the paper's twelve scores, as `python -m headviz compare` writes them.",
    )
    metric = ui.value("metric")
    there = work.comparison(metric).changes is not None
    middle.download_button(
        "Movers (CSV)",
        lambda: as_csv(work, metric),
        file_name=f"headviz-movers-{metric}.csv",
        mime="text/csv",
        on_click="ignore",
        width="stretch",
        disabled=not there,
        help="Every head: its score in both models, the change, its 95% interval, and p over all heads.",
    )
    ui.camera(right)
    st.markdown("**On the command line**")
    st.code(
        recipes.compare_command([work.requests[name] for name in work.tables]),
        language="bash",
        wrap_lines=True,
    )
    if not _one_text(work) or len({request.model.quantization for request in work.requests.values()}) > 1:
        st.caption(
            "The command line reads all models on one text and in one quantisation, so this is not quite what is shown: the JSON "
            "above is."
        )


def _one_text(work: Work) -> bool:
    return len({request.data for request in work.requests.values()}) == 1


def as_json(work: Work) -> str:
    """What the command line writes of these scores: every other model against the first. NaN is null."""
    from headviz.analysis.agreement import TWELVE
    from headviz.commands.ablate import written
    from headviz.commands.compare import report_of

    args = SimpleNamespace(movers=MOVERS, draws=DRAWS, splits=SPLITS)
    metrics = tuple(one for one in TWELVE if one in work.metrics())
    tree: dict[str, Any] = {
        "models": {name: plain(work.requests[name].model) for name in work.tables},
        "data": plain(work.requests[work.first].data),
    }
    if not _one_text(work):
        tree["data_of"] = {name: plain(work.requests[name].data) for name in work.tables}
    tree |= report_of(work.tables, metrics, args, Silent())
    return written(tree)


def as_csv(work: Work, metric: str) -> str:
    """A row a head, the most moved first; the first line says of what."""
    rows, out = mover_rows(work, metric), io.StringIO()
    out.write(f"# {metric} of {work.other} less that of {work.first}; {_note(work)}\n")
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["head"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _note(work: Work) -> str:
    digests = " and ".join(table.provenance.digest[:12] for table in work.pair)
    return f"requests {digests}"
