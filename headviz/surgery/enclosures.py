"""What lies in an exported repair beside weights, plan and card: the report as a file, and two pictures. No torch.

Of all in `headviz.surgery` this module alone draws, through `headviz.charts`, which knows the tables of this package.
"""

from __future__ import annotations

from headviz.charts import fmt
from headviz.data import corpora
from headviz.surgery import outcomes
from headviz.surgery.outcomes import Found
from headviz.surgery.report_tree import as_text, report_tree
from headviz.types import RepairReport, RepairRequest

REPORT, FILM, LOSSES = "report.json", "recovery.gif", "losses.png"


def enclosures(request: RepairRequest, digest: str, found: Found, arm: str, seed: int) -> dict[str, bytes]:
    """File name → content. found: the report, or what is known without it; arm, seed: the run that is exported.

    REPORT only where the repair has ended and its report is on this machine; FILM of the run's last pass and LOSSES (of all
    arms, at their best steps) only where its numbers are. Without any record: nothing.
    """
    made: dict[str, bytes] = {}
    report = found if isinstance(found, RepairReport) else None
    if report is not None:
        made[REPORT] = as_text(report_tree(request, report, job=digest)).encode()
    if found.stock is None:
        return made
    from headviz.charts.film_gif import film_gif  # matplotlib takes a second to import
    from headviz.charts.forest_print import print_forest
    from headviz.charts.repaired import film_of, forest_rows, run_name

    line = note(request, digest, report)
    if passes := outcomes.passes(found.runs, arm, seed):
        run = passes[-1]
        made[FILM] = film_gif(**film_of(request, found, run), provenance=f"{line} · {run_name(run)}")
    losses = outcomes.arm_losses(found)
    if losses[1:]:
        rows, titles = forest_rows(losses)
        made[LOSSES] = print_forest(rows, titles, provenance=line, format="png")
    return made


def note(request: RepairRequest, digest: str, report: RepairReport | None) -> str:
    """One line of provenance: model, texts, recipe, seeds, repair; how long and by what version where there is a report."""
    parts = [
        f"{request.model.name}@{request.model.revision[:7]}",
        request.model.dtype,
        f"{fmt.plural(len(request.heads), 'head')} treated",
        f"trained on {corpora.describe(request.train)}" + (", words shuffled" if request.shuffled else ""),
        f"held out {corpora.describe(request.held_out)}",
        f"seeds {', '.join(map(str, request.seeds))}",
    ]
    if report is not None:
        made = report.provenance
        parts += [fmt.duration(made.seconds), f"headviz {made.versions.get('headviz', '')}".strip()]
    return " · ".join([*parts, f"repair {digest[:12]}"])
