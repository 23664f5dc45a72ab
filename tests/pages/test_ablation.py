"""The ablation page over stored measurements: the sentence, the table and the curve are what was measured."""

import dataclasses
import shlex

import numpy as np
import pytest

from headviz import recipes
from headviz.analysis import ablation
from headviz.analysis.choose import random_sets
from headviz.cli import parser
from headviz.commands.plan import plan_of
from headviz.data import corpora, questions
from headviz.errors import BadInput
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.settings import settings
from headviz.types import DataRef
from headviz.ui.ablation.subjects import shown
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


def test_the_last_result_stays_grey_under_its_own_share_until_the_new_one_is_there(plan, table, no_worker):
    off = ablation.chosen(plan, table)
    put(plan, None, 0.0)
    put(plan, off, 0.2)
    app = open_page()
    assert "last: 20.0%" not in said(app)
    assert "| change [95%], nats | +0.200" in said(app)
    assert "| … |" in said(app), "with the mean in their place nothing was measured before"
    app.slider(key="off").set_value(10.0).run()
    text = said(app)
    assert "| :gray[zero, last: 20.0% by AHON (LN)] | mean |" in text
    assert "| change [95%], nats | :gray[+0.200" in text
    assert "| heads off | 27 of 270 (10.0%) |" in text, "what is off now"
    assert "Grey: the last result here" in text
    fewer = ablation.with_share(plan, 0.1)
    put(fewer, ablation.chosen(fewer, table), 0.05)
    app.run()
    assert ":gray[zero" not in said(app)
    assert "| change [95%], nats | +0.0500" in said(app)
    app.selectbox(key="target").set_value("quiz").run()
    assert ":gray[zero" not in said(app), "another target has no last result"


def test_random_heads_stand_beside(plan, table, no_worker):
    off = ablation.chosen(plan, table)
    put(plan, None, 0.0)
    put(plan, off, 0.2)
    put(dataclasses.replace(plan, replace="mean"), off, 0.1)
    for drawn in random_sets(off.count, off.geometry, 3, 0):
        put(plan, drawn, 0.9)
        put(dataclasses.replace(plan, replace="mean"), drawn, 0.7)
    app = open_page()
    assert not app.exception
    assert "as many random heads: +0.900 (3 draws), with their mean +0.700 (3 draws)" in said(app)
    assert "| as many random heads, mean of 3 | +0.900 | +0.700 |" in said(app)
    assert "With their mean in their place, it costs less than 3 of 3 random sets" in said(app)


def test_nothing_off_costs_nothing(plan, table, no_worker):
    app = open_page(off="0.0")
    assert not app.exception
    assert "nothing off costs nothing" in said(app)
    put(plan, None, 0.0)
    app.run()
    assert "The loss is 3.4" in said(app), "what the model does as it is"


def test_a_share_that_holds_no_whole_group_says_which_one_does(plan, table, no_worker):
    app = open_page(by="group", even="true")
    assert not app.exception
    assert "20% of 9 heads a layer is fewer than one KV group of 3; the next step is 28%" in said(app)


def test_of_one_document_there_is_no_interval_and_that_is_said(plan, table, no_worker):
    one = dataclasses.replace(losses(0.0), cluster=np.zeros(24, np.int32))
    off = ablation.chosen(plan, table)
    for request, result in (
        (ablation.measuring(plan, None), one),
        (ablation.measuring(plan, off), dataclasses.replace(losses(0.2), cluster=one.cluster)),
    ):
        local.store().put(job_digest(request), result)
    app = open_page(look="subjects")
    assert not app.exception
    assert "nats (all inputs come from one document, so there is no interval)" in said(app)
    assert "not defined" not in said(app)


def test_the_quiz_is_a_target(plan, table, no_worker):
    app = open_page(target="quiz")
    assert not app.exception
    assert len(local.list_jobs()) == 3


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({}, "looks back at 512 (as long as an input here may be)"),
        ({"tokens": 128}, "looks back at 128 (as long as an input here may be)"),
        ({"target": "quiz"}, "looks back at 512 (an example: prompts differ in length)"),
        ({"target": "quiz", "chosen": "measured"}, "(the median prompt that chose)"),
    ],
)
def test_what_could_be_saved_says_at_which_context(plan, table, no_worker, parameters, says):
    part = corpora.resolve("docstrings", part="train", tokens=128, settings=settings())
    asked = questions.resolve_questions("quiz", shots=0, scoring="text", settings=settings())
    for place in (part, asked):
        request = ablation.scoring(dataclasses.replace(plan, chosen_on=place))
        local.store().put(job_digest(request), table)
    app = open_page(by="group", **parameters)
    assert not app.exception
    assert says in said(app)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"mode": "per-input", "threshold": -0.25},
        {"turned": True, "by": "group", "per_layer": True, "share": 0.125},
        {"chosen": "measured"},
        {"target": "quiz"},
        {"target": "quiz", "half": "second"},
        {"seed": 3, "chat": True, "bos": "always"},
        {"heads": ((3, 7),)},
    ],
)
def test_the_command_line_stands_for_the_same_plan(plan, change):
    changes = dict(change)
    if changes.pop("chosen", ""):
        changes["chosen_on"] = plan.text
    if changes.pop("target", ""):
        found = questions.resolve_questions("quiz", per_subject=2, scoring="text", settings=settings())
        changes |= {"questions": found, "text": None}
    if half := changes.pop("half", ""):
        asked = dataclasses.replace(found, half=half)
        changes |= {"questions": asked, "chosen_on": questions.other_half(asked)}
    cut = {name: changes.pop(name) for name in ("seed", "chat", "bos") if name in changes}
    if cut:
        changes["chosen_on"] = dataclasses.replace(plan.chosen_on, **cut)
        changes["text"] = dataclasses.replace(plan.text, **cut)
    wanted = dataclasses.replace(plan, **changes)
    words = shlex.split(recipes.ablate_command(wanted))
    args = parser().parse_args(words[3:])
    assert args.heads == ("headviz-heads.json" if wanted.heads else None)
    read = dataclasses.replace(plan_of(args, args.share), heads=wanted.heads)
    if not (wanted.by_score and wanted.threshold is None):
        read = dataclasses.replace(read, share=wanted.share)
    assert read == wanted


def test_what_the_command_line_cannot_choose_on_gets_a_sentence(plan):
    own = DataRef(corpus="own", revision="0" * 64, part="all")
    with pytest.raises(BadInput, match="there is no command for it"):
        recipes.ablate_command(dataclasses.replace(plan, chosen_on=own))


def test_subjects_stand_in_percent_with_intervals(plan, table, no_worker):
    app = open_page(look="subjects")
    assert not app.exception
    assert "Choose the quiz, MMLU or your own questions" in said(app)
    row = {
        "subject": "high_school",
        "n": 40,
        "baseline": 0.75,
        "ablated": 0.5,
        "change": -0.25,
        "low": -0.4,
        "high": -0.1,
    }
    told = shown(row | {"lost": 12, "gained": 2, "p": 0.01, "p_holm": 0.02})
    assert (told["Subject"], told["Before"], told["Change, points"]) == ("high school", "75.0%", -25)
    assert told["95% interval"] == "[−40.0, −10.0]"


def test_mmlu_that_is_not_here_gets_a_sentence(plan, table, no_worker):
    app = open_page(target="mmlu")
    assert not app.exception
    assert app.error
