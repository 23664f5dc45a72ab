"""The ablation page over stored measurements: the sentence, the table and the curve are what was measured."""

import dataclasses

from headviz.analysis import ablation
from headviz.analysis.choose import random_sets
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from tests.pages import conftest
from tests.pages.conftest import figure, losses, open_page, put, said

built_train, plan, losses = conftest.built_train, conftest.plan, losses  # other tests take them from here


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
    asked = [job for job in local.list_jobs() if job.kind == "measure"]
    assert asked == [], "everything was there: nothing was asked for"


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
