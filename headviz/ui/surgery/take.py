"""Panel: take it away: the film, the report, the curves, the slices, figures for print, and the command that repeats it."""

from __future__ import annotations

import csv
import io
import json
import math

import streamlit as st

from headviz import ui
from headviz.charts.repaired import forest_rows
from headviz.jobs.kinds import spec
from headviz.surgery import outcomes
from headviz.surgery.planfile import write_plan
from headviz.surgery.report_tree import as_text, report_tree
from headviz.ui.surgery import after, film, words, work
from headviz.ui.surgery.case import Case

ALONE = "Slices alone (safetensors)"


def panel(case: Case) -> None:
    left, middle, right = st.columns(3)
    film.save_gif(case, left)
    left.download_button(
        "Report (JSON)",
        lambda: as_text(report_tree(case.request, case.report, ui.value("point"), job=case.digest)),
        file_name=f"headviz-repair-{case.digest[:8]}.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        disabled=case.report is None,
        help="As `python -m headviz repair --out` writes it: heads per class before and after, losses with intervals for every arm and "
        "stock, single-head tests, the verdict, curves."
        + ("" if case.report else " There is none before the repair has ended."),
    )
    middle.download_button(
        "Curves (CSV)",
        lambda: curves_csv(case),
        file_name=f"headviz-repair-curves-{case.digest[:8]}.csv",
        mime="text/csv",
        on_click="ignore",
        width="stretch",
        disabled=not case.runs,
        help="A row an evaluated step of every run: losses, rate, gradient norm, heads in each class among the treated ones, total mass.",
    )
    changes, told = after.changes_of(case)
    middle.download_button(
        "Heads before and after (CSV)",
        lambda: heads_csv(case, changes, told),
        file_name=f"headviz-repair-heads-{case.digest[:8]}.csv",
        mime="text/csv",
        on_click="ignore",
        width="stretch",
        disabled=not changes,
        help="A row a treated head: class, attention on the first token, entropy, norms before and after W_O, and what it is worth alone.",
    )
    middle.download_button(
        "Plan (JSON)",
        lambda: write_plan(case.request, note=words.summary(case.request)),
        file_name=f"headviz-plan-{case.digest[:8]}.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        help="The whole plan: `python -m headviz repair FILE` runs it again, and Design opens it.",
    )
    ui.camera(right)
    _print(case, right)
    st.markdown("**On the command line**")
    st.code(work.command(f"headviz-plan-{case.digest[:8]}.json"), language="bash", wrap_lines=True)
    with st.expander("The request, as it is stored"):
        st.code(json.dumps(spec(case.request), indent=1), language="json", height=320)


def _print(case: Case, where) -> None:
    """The figure remove / leave / repair as a PDF."""
    where.download_button(
        "Remove, leave, repair (PDF)",
        lambda: _forest_pdf(case),
        file_name=f"headviz-repair-{case.digest[:8]}.pdf",
        mime="application/pdf",
        on_click="ignore",
        width="stretch",
        disabled=not outcomes.arm_losses(case)[1:],
        help="For print: light, 8 pt, fonts embedded, one column wide, its provenance inside.",
    )


def _forest_pdf(case: Case) -> bytes:
    from headviz.charts.forest_print import print_forest  # matplotlib takes a second to import

    rows, titles = forest_rows(outcomes.arm_losses(case, ui.value("point")))
    return print_forest(rows, titles, provenance=words.note(case))


def curves_csv(case: Case) -> str:
    """A row a run and evaluated step; empty where a number does not exist. The first line is the provenance."""
    out = io.StringIO()
    out.write(f"# {words.note(case)}\n")
    writer = csv.writer(out, lineterminator="\n")
    names = ("train_loss", "select", "rate", "gradient_norm", "tokens_per_second")
    classes = ("healthy", "low_entropy", "sink", "dead")
    writer.writerow(["arm", "seed", "pass", "step", *names, *classes, "total_mass", "best"])
    for run in case.runs:
        counts = outcomes.class_counts(run, case.request, run.heads)
        total = outcomes.total_mass(run)
        for i, step in enumerate(run.step):
            numbers = [float(getattr(run, name)[i]) for name in names]
            writer.writerow(
                [
                    run.arm,
                    run.seed,
                    run.number,
                    int(step),
                    *("" if math.isnan(x) else x for x in numbers),
                    *(int(counts[name.replace("_", " ")][i]) for name in classes),
                    float(total[i]),
                    int(step == run.best),
                ]
            )
    return out.getvalue()


def heads_csv(case: Case, changes, told: str) -> str:
    """The rows of the table of heads; the first line is the provenance."""
    rows, out = after.rows(case, changes), io.StringIO()
    out.write(f"# {told} · {words.note(case)}\n")
    writer = csv.DictWriter(
        out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def slices(case: Case, arm: str, seed: int, point: str) -> None:
    """The trained slices alone, as small files that headviz puts onto the model again, a pass each."""
    paths = work.slice_files(case, arm, seed, point)
    several = len(paths) > 1
    with st.container(horizontal=True):
        for number, path in enumerate(paths, 1):
            st.download_button(
                f"Slices of pass {number} (safetensors)" if several else ALONE,
                path.read_bytes,
                file_name=f"headviz-slices-{case.digest[:8]}-{arm}-{seed}{f'-pass-{number}' * several}.safetensors",
                mime="application/octet-stream",
                on_click="ignore",
                help="Only what was trained, with the plan inside: a small file that headviz puts onto the same model."
                + (
                    f" The repaired model needs all {len(paths)} passes: keep their files in one folder, and "
                    "`python -m headviz export FOLDER DIR` makes the checkpoint of them."
                    if several
                    else ""
                ),
            )
    if not paths:
        st.download_button(
            ALONE,
            b"",
            disabled=True,
            help="This arm has none here: it trained nothing, or the repair's folder was removed.",
        )
