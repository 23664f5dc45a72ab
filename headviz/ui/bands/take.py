"""Panel: take it away: as the command line writes it, as a table, and the heads to repair as a file."""

from __future__ import annotations

import csv
import io
import json

import streamlit as st

from headviz import recipes, ui
from headviz.analysis import headfile
from headviz.analysis.choose import HeadSet
from headviz.charts import tables
from headviz.jobs.kinds import spec
from headviz.readers import write_heads
from headviz.ui.bands.work import Work

WHICH = {"collapsed": "All collapsed", "band": "Collapsed, in the band", "dead": "Dead"}


def panel(work: Work) -> None:
    left, middle, right = st.columns(3)
    left.download_button(
        "Heads and band (JSON)",
        lambda: as_json(work),
        file_name="headviz-bands.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        help="As `python -m headviz bands` writes it: every head with slope, masses, entropy, null and class; the band; counts. Classes "
        "there are by the mean over all query rows.",
    )
    middle.download_button(
        "Heads (CSV)",
        lambda: as_csv(work),
        file_name="headviz-bands.csv",
        mime="text/csv",
        on_click="ignore",
        width="stretch",
        help="The same rows, one a head; the first line says of what.",
    )
    ui.camera(right)
    repair(work)
    st.markdown("**On the command line**")
    st.code(recipes.bands_command(work.request, work.at, work.share), language="bash", wrap_lines=True)


def repair(work: Work) -> None:
    """The heads that are to be repaired: on to the surgery page, or as a file that says how they were chosen."""
    st.markdown("**Repair these heads**")
    which, go, button = st.columns([2.4, 1, 1], vertical_alignment="bottom")
    which.segmented_control(
        "Which heads",
        list(WHICH),
        format_func=lambda name: f"{WHICH[name]} ({len(work.heads(name)):,})",
        required=True,
        help="Collapsed: sinks and dead heads at the thresholds of this page. In the band: those of them whose index is in it.",
        **ui.keyed("repair"),
    )
    chosen = work.heads(ui.value("repair"))
    if go.button(
        "Plan a repair",
        type="primary",
        icon=":material/healing:",
        on_click=carry,
        args=(chosen, WHICH[ui.value("repair")]),
        width="stretch",
        disabled=not chosen,
        help="Opens the Surgery page with these heads chosen, of this model, at the thresholds of this page.",
    ):
        st.switch_page("pages/surgery.py")
    button.download_button(
        "Head set (JSON)",
        lambda: as_heads(work, ui.value("repair")),
        file_name="headviz-repair.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        disabled=not chosen,
        help="A head set: Ablation opens it, and a repair can be planned from it.",
    )


def carry(heads: tuple[tuple[int, int], ...], which: str) -> None:
    """A callback: these heads into the plan of the surgery page."""
    ui.put("stage", "design")
    ui.put("treat_by", "hand")
    ui.put("treated", write_heads(heads))
    ui.put("treated_from", f"on the Bands page: {which[:1].lower()}{which[1:]}")


def as_json(work: Work) -> str:
    from headviz.commands.bands import report

    tree = report(work.bands, work.at, work.share)
    return json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(work: Work) -> str:
    """A row a head; empty where a number does not exist. The first line is the provenance."""
    from headviz.commands.bands import report

    rows, out = report(work.bands, work.at, work.share)["heads"], io.StringIO()
    out.write(f"# {tables.caption(work.bands.provenance)}\n")
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_heads(work: Work, which: str) -> str:
    chosen = HeadSet(heads=work.heads(which), geometry=work.geometry)
    how = {
        "chosen": which,
        "rows": "from the second on" if work.later else "all",
        "thresholds": {"dead": work.at.dead, "sink": work.at.sink, "low_entropy": work.at.low_entropy},
        "band_share_of_layers": work.share,
        "request": spec(work.request),
    }
    model = work.request.model
    return headfile.write_heads(chosen, model=model.name, revision=model.revision, how=how)
