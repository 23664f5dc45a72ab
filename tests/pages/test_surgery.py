"""The surgery page over made-up repairs: design, list, one repair finished and running, two side by side; alone and in the app."""

import dataclasses
import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headviz.analysis import headfile
from headviz.analysis.choose import HeadSet
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.settings import settings
from headviz.surgery import progress
from headviz.surgery.meter import Meter
from headviz.types import BandsRequest, RepairReport, RepairRequest, Silent, plain
from headviz.ui.surgery import presets, scheme, take, work
from headviz.view import VIEW
from tests.pages.conftest import ROOT, default_request, figure, open_app, said
from tests.pages.test_bands import SICK, answer, fake_bands
from tests.repairs import repair_report, repair_request, repair_run, repair_stock


def asked(**changed) -> RepairRequest:
    """A plan for the bundled model, as the list has it."""
    left = default_request()
    return repair_request(model=left.model, diagnose=left.data, **changed)


def finished(request: RepairRequest, **shifts) -> tuple[str, RepairReport]:
    """The repair is a job of this machine, and its report is in the store."""
    digest = local.ask(request, "test").digest
    report = repair_report(request, **shifts)
    made = dataclasses.replace(
        report.provenance, request={"kind": request.kind, **plain(request)}, digest=digest
    )
    report = dataclasses.replace(report, provenance=made)
    local.store().put(digest, report)
    return digest, report


def begun(request: RepairRequest, runs=(), stock: bool = True) -> str:
    """The repair waits or runs, and this is what it has written so far."""
    digest = local.ask(request, "test").digest
    place, meter = progress.folder(settings(), digest), Meter(Silent(), 100)
    if stock:
        progress.write_stock(place, repair_stock(), meter)
    for run in runs:
        folder = progress.run_folder(place, run.arm, run.seed, run.number)
        progress.begin_run(folder, run.arm, run.seed, run.number, run.heads, meter)
        for i, step in enumerate(run.step):
            names = ("train_loss", "select", "rate", "gradient_norm", "tokens_per_second")
            point = progress.Point(step=int(step), **{name: float(getattr(run, name)[i]) for name in names})
            progress.add_point(folder, point, {name: getattr(run, name)[i] for name in progress.MAPS}, meter)
        if run.ended:
            progress.end_run(folder, run.ended, {name: getattr(run, name) for name in progress.LOSSES}, meter)
    return digest


@pytest.fixture(params=["alone", "through app.py"])
def open_page(request):
    """Opens the page with URL parameters: its file by itself, or in the whole app."""

    def opened(**parameters) -> AppTest:
        if request.param == "alone":
            app = AppTest.from_file(str(ROOT / "pages/surgery.py"), default_timeout=60)
            for name, value in parameters.items():
                app.session_state[name] = value
        else:
            app = open_app(**parameters)
            app.switch_page("pages/surgery.py")
        return app.run()

    return opened


def in_app(**parameters) -> AppTest:
    app = open_app(**parameters)
    app.switch_page("pages/surgery.py")
    return app.run()


@pytest.fixture
def measured(home, no_worker, built_train):
    """What the design needs is in the store: 28 collapsed heads, one of them dead."""
    left = default_request()
    answer(BandsRequest(model=left.model, data=left.data), fake_bands(SICK, dead=[(2, 15)]))
    return left


def test_the_design_opens(open_page, measured):
    app = open_page()
    assert not app.exception
    assert "28 of 96 (29.2%) heads are to be treated" in said(app)


@pytest.mark.parametrize("panel", list(VIEW["recovery"].read.__closure__[0].cell_contents))
def test_every_panel_of_a_finished_repair_opens(home, no_worker, panel):
    digest, _ = finished(asked())
    app = in_app(stage="watch", operation=digest, recovery=panel)
    assert not app.exception
    assert not app.error
    assert "Repaired" in said(app)
