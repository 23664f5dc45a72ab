"""The ablation page over stored measurements: the sentence, the table and the curve are what was measured."""

import dataclasses

import numpy as np
import pytest

from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import random_sets
from headviz.data import corpora, docstrings, reading
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import TextLosses
from tests.fakes import fake_provenance
from tests.pages.conftest import figure, open_app, said


def losses(shift: float) -> TextLosses:
    rng = np.random.default_rng(0)
    predicted = np.full(24, 63, np.int32)
    return TextLosses(
        loss=predicted * (3.5 + rng.normal(0, 0.3, 24) + shift),
        predicted=predicted,
        by_position=np.full(63, 3.5),
        cluster=np.arange(24, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(24)),
        off_share=np.full(24, 0.2, np.float32),
        off_sets={},
        provenance=fake_provenance(),
    )


@pytest.fixture
def plan(home, table, built_train) -> Plan:
    """The default plan; its scores are in the store."""
    made = Plan(
        model=catalog.resolve("smollm2", settings=settings()),
        chosen_on=corpora.resolve("docstrings", part="train", settings=settings()),
        metric="ahon_ln",
        share=0.2,
        text=corpora.resolve("docstrings", part="held-out", settings=settings()),
        draws=3,
    )
    local.store().put(job_digest(ablation.scoring(made)), table)
    return made


@pytest.fixture
def built_train(home, monkeypatch):
    """Both parts of the docstrings are the held-out one: the training part takes ten seconds to build."""
    real = docstrings.load
    monkeypatch.setitem(reading.INSTALLED, "docstrings", lambda part, folder: real("held-out", folder))


def put(plan: Plan, off, shift: float) -> None:
    local.store().put(job_digest(ablation.measuring(plan, off)), losses(shift))


def open_page(**parameters):
    app = open_app(**parameters)
    app.switch_page("pages/ablation.py")
    return app.run()


def test_what_is_measured_is_said(plan, table, no_worker):
    off = ablation.chosen(plan, table)
    put(plan, None, 0.0)
    put(plan, off, 0.2)
    put(dataclasses.replace(plan, replace="mean"), off, 0.1)
    app = open_page()
    assert not app.exception
    assert "**54 of 270 (20.0%) heads are off.** Loss +0.200 nats" in said(app)
    assert "+0.100 nats" in said(app)
    line = next(t for t in figure(app, "curve")["data"] if t["name"] == "replaced by zero")
    assert len(line["x"]) == 2
    assert local.list_jobs() == [], "everything was there: nothing was asked for"


def test_what_is_missing_is_asked_for(plan, table, no_worker):
    app = open_page()
    assert not app.exception
    assert "being measured" in said(app)
    assert len(local.list_jobs()) == 3, "the baseline, zero and mean"


def test_the_newest_slider_position_replaces_the_one_not_started(plan, table, no_worker):
    app = open_page()
    first = {job.digest for job in local.list_jobs()}
    app.slider(key="off").set_value(10.0).run()
    assert not app.exception
    waiting = {job.digest for job in local.list_jobs() if job.state == "queued"}
    base = job_digest(ablation.measuring(plan, None))
    assert waiting & first == {base}
    assert len(waiting) == 3


def test_random_heads_stand_beside(plan, table, no_worker):
    off = ablation.chosen(plan, table)
    put(plan, None, 0.0)
    put(plan, off, 0.2)
    put(dataclasses.replace(plan, replace="mean"), off, 0.1)
    for drawn in random_sets(off.count, off.geometry, 3, 0):
        put(plan, drawn, 0.9)
    app = open_page()
    assert not app.exception
    assert "as many random heads: +0.900 (3 draws)" in said(app)


def test_nothing_off_costs_nothing(plan, table, no_worker):
    app = open_page(off="0.0")
    assert not app.exception
    assert "nothing off costs nothing" in said(app)


def test_the_quiz_is_a_target(plan, table, no_worker):
    app = open_page(target="quiz")
    assert not app.exception
    assert len(local.list_jobs()) == 3


def test_mmlu_that_is_not_here_gets_a_sentence(plan, table, no_worker):
    app = open_page(target="mmlu")
    assert not app.exception
    assert app.error
