"""The one place through which the surgery page asks the rest of headviz: which repairs there are, and what is there of one."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from headviz import ui
from headviz.errors import BadInput
from headviz.jobs import local
from headviz.jobs.folder import ENDED
from headviz.jobs.view import JobView
from headviz.settings import settings
from headviz.surgery import kept, plan, progress
from headviz.surgery.plan import Facts
from headviz.types import Bands, ModelRef, RepairReport, RepairRequest, build
from headviz.ui.surgery.case import Case


def repairs() -> list[JobView]:
    """Every repair that is a job on this machine, newest first."""
    return [
        job for job in local.list_jobs() if job.kind == "repair" and isinstance(job.request, RepairRequest)
    ]


def is_running(job: JobView | None) -> bool:
    return job is not None and job.state not in ENDED


def case_of(digest: str) -> Case:
    """The repair of this job, from its report or from what it has written so far. Raises BadInput where there is none."""
    job = local.view(digest)
    if job is None or not isinstance(job.request, RepairRequest):
        report = local.store().get(digest)  # its folder was removed, its report is kept
        if not isinstance(report, RepairReport):
            raise BadInput(
                f"There is no repair {digest[:12]} on this machine. The list shows those that there are."
            )
        return _finished(digest, request_of(report), None, report)
    report = ui.cached(job.request) if job.state == "done" else None
    if isinstance(report, RepairReport):
        return _finished(digest, job.request, job, report)
    found = so_far(digest, job.request)
    return Case(
        digest=digest,
        request=job.request,
        job=job,
        stock=found.stock,
        runs=found.runs,
        running=found.running if is_running(job) else (),
        tests=found.tests,
    )


def _finished(digest: str, request: RepairRequest, job: JobView | None, report: RepairReport) -> Case:
    return Case(
        digest=digest,
        request=request,
        job=job,
        report=report,
        stock=report.stock,
        runs=report.runs,
        tests=report.tests,
    )


def request_of(report: RepairReport) -> RepairRequest:
    """The plan that a report answers. Raises BadInput where another version wrote it."""
    tree = {name: value for name, value in report.provenance.request.items() if name != "kind"}
    return build(RepairRequest, tree)


def so_far(digest: str, request: RepairRequest) -> progress.SoFar:
    """What a repair has written. Read again only when a file of it has grown: pages ask every second."""
    return _so_far(digest, signature(digest), request)


@st.cache_resource(max_entries=16, show_spinner=False)
def _so_far(digest: str, seen: tuple, _request: RepairRequest) -> progress.SoFar:
    return progress.so_far(settings(), digest, _request)


def signature(digest: str) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of the files that a repair has written: what tells that there is something new."""
    folder = Path(progress.folder(settings(), digest))
    if not folder.is_dir():
        return ()
    found = []
    for path in sorted(folder.rglob("*")):
        try:
            status = path.stat()
        except FileNotFoundError:  # replaced at this very moment
            continue
        found.append((path.relative_to(folder).as_posix(), status.st_size, status.st_mtime_ns))
    return tuple(found)


# ------------------------------------------------------------------------------------------------ plans


@st.cache_resource(ttl=60, max_entries=16, show_spinner=False)
def facts(model: ModelRef) -> Facts:
    """What is known of a model without loading it. Raises BadInput where it is not on this machine."""
    return plan.facts(model, settings())


def speed(request: RepairRequest, bands: Bands | None, about: Facts) -> tuple[float | None, bool]:
    """(trained tokens a second, whether that was measured): of the newest repair of this model with as many threads, or a guess."""
    reports = (
        ui.cached(job.request)
        for job in repairs()
        if job.state == "done"
        and (job.request.model, job.request.threads) == (request.model, request.threads)
    )
    return plan.speed_here(request, about, (one for one in reports if isinstance(one, RepairReport)), bands)


def command(file: str = "headviz-plan.json") -> str:
    return f"python -m headviz repair {file} --out report.json"


def export_command(digest: str) -> str:
    return f"python -m headviz export {digest[:12]} DIR"


def slice_files(case: Case, arm: str, seed: int, point: str) -> list[Path]:
    """The files with the trained slices of a run, a pass each, first pass first: each says which heads of which model, and the
    plan. Empty where the repair's folder is gone, or the run wrote none."""
    return kept.slice_files(progress.folder(settings(), case.digest), arm, seed, point)
