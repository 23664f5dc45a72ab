"""The jobs page: what ended stands still, and Open leads to the page that shows it."""

import dataclasses
from datetime import UTC, datetime

from headviz.analysis import ablation
from headviz.analysis.choose import HeadSet
from headviz.jobs import local
from headviz.jobs.kinds import KINDS, job_digest
from headviz.jobs.view import JobView
from headviz.readers import write_heads
from headviz.types import Ablation, MeasureRequest
from tests.pages import conftest
from tests.pages.conftest import default_request, open_app, said
from tests.pages.conftest import open_page as ablation_page

built_train, plan = conftest.built_train, conftest.plan


def job(request, state: str = "done") -> JobView:
    title = KINDS[request.kind].title
    now = datetime.now(UTC)
    return JobView(
        digest=job_digest(request), kind=request.kind, title=title, request=request, state=state, created=now
    )


def jobs_page(monkeypatch, *jobs: JobView):
    monkeypatch.setattr(local, "list_jobs", lambda: list(jobs))
    app = open_app()
    app.switch_page("pages/jobs.py").run()
    assert not app.exception
    return app


def test_no_job_yet_says_what_to_do(home):
    app = open_app()
    app.switch_page("pages/jobs.py").run()
    assert not app.exception
    assert "No job yet" in said(app)


def test_open_puts_the_request_into_the_view(scored, monkeypatch):
    request = default_request()
    app = jobs_page(
        monkeypatch,
        job(request),
        job(dataclasses.replace(request, data=dataclasses.replace(request.data, seed=1)), "failed"),
    )
    assert "0 running or waiting, 2 ended, 1 of them failed." in said(app)
    app.button(key=f"open_{job_digest(request)}").click().run()
    assert not app.exception
    assert app.title[0].value == "Heads"


def test_a_draw_of_random_heads_opens_nothing(home, monkeypatch):
    first = default_request()
    draw = Ablation(mode="random-per-input", rate=0.2)
    app = jobs_page(monkeypatch, job(MeasureRequest(model=first.model, text=first.data, ablation=draw)))
    assert [button.label for button in app.button if button.label == "Open"] == []


def test_a_set_that_is_opened_again_says_where_it_was_chosen(plan, table, no_worker, monkeypatch):
    off = ablation.chosen(plan, table)
    request = ablation.measuring(plan, off)
    app = ablation_page()
    assert "Heads are chosen on docstrings" in said(app)
    app = jobs_page(monkeypatch, job(request))  # of another visit
    app.button(key=f"open_{job_digest(request)}").click().run()
    assert not app.exception
    assert app.session_state.picked == write_heads(off.heads)
    app.switch_page("pages/ablation.py").run()
    assert "The set was chosen by hand, from the set of AHON (LN), on docstrings" in said(app)
    assert "not known" not in said(app)


def test_of_a_set_that_nobody_remembers_it_is_not_known(plan, table, no_worker, monkeypatch):
    request = ablation.measuring(plan, HeadSet(heads=((1, 2),), geometry=table.geometry))
    app = jobs_page(monkeypatch, job(request))
    app.button(key=f"open_{job_digest(request)}").click().run()
    app.switch_page("pages/ablation.py").run()
    assert "Where this set was chosen is not known" in said(app)
