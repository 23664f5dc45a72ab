"""Texts side by side and loss by position, over stored answers: what is shown is what was written and measured."""

import dataclasses
import html

import numpy as np
import pytest

from headviz.analysis import ablation
from headviz.analysis.side_by_side import sides, with_ablation
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.types import Ablation, GenerateRequest, Generation
from headviz.view import VIEW
from tests.fakes import fake_geometry, fake_provenance
from tests.pages.conftest import figure, said
from tests.pages.test_ablation import built_train, losses, open_page, plan, put  # noqa: F401


def text(words: str, stop="length") -> Generation:
    pieces = tuple(f" {word}" for word in words.split(" "))
    n = len(pieces)
    return Generation(
        prompt=np.arange(3, dtype=np.int32),
        prompt_pieces=("Once", " upon", " a"),
        tokens=np.array([hash(piece) % 1000 for piece in pieces], np.int32),
        pieces=pieces,
        text="".join(pieces),
        logprob=np.full(n, -0.5),
        entropy=np.full(n, 1.25),
        stop=stop,
        geometry=fake_geometry(),
        provenance=fake_provenance(ablation={}),
    )


def asking(plan, **changes) -> GenerateRequest:  # noqa: F811
    base = {"prompt": VIEW["prompt"].default, "new_tokens": 40, "ablation": Ablation()}
    return GenerateRequest(model=plan.model, **(base | changes))


@pytest.fixture
def written(plan, table):  # noqa: F811
    """Stock, off and random texts of the default prompt are there, and so are the measurements."""
    off = ablation.chosen(plan, table)
    put(plan, None, 0.0)
    put(plan, off, 0.2)
    put(dataclasses.replace(plan, replace="mean"), off, 0.1)
    texts = {
        "stock": "had a <b> dog\n",
        "off": "had the <b> dog\n",
        "uniform": "had a <b> cat",
        "layer_matched": "x",
    }
    for kind, several in sides(plan, off).items():
        request = with_ablation(asking(plan), several[0])
        local.store().put(job_digest(request), text(texts[kind], "end" if kind == "uniform" else "length"))
    return off


def asked_for() -> list:
    """Jobs that write; the rest of the page may want measurements of its own."""
    return [job for job in local.list_jobs() if job.kind == "generate"]


def markup(app) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def test_the_first_difference_is_marked_and_named(written, no_worker):
    app = open_page(look="text")
    assert not app.exception
    shown = markup(app)
    assert html.escape("54 heads off: the first difference is token 2: ' a' became ' the'.") in shown
    assert (
        html.escape("54 random heads off, anywhere: the first difference is token 4: ' dog⏎' became ' cat'.")
        in shown
    )
    assert shown.count("hv-marked'") == 2
    assert (
        "hv-token hv-marked' title='token 2: log-probability −0.500 nats (60.7%), entropy 1.25 nats'>·the<"
        in shown
    )
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "the model ended the text" in said(app)
    assert asked_for() == []


def test_random_heads_layer_by_layer(written, no_worker):
    app = open_page(look="text", others="layer_matched")
    assert not app.exception
    assert "54 random heads off, as many in each layer" in said(app)
    assert asked_for() == []


def test_the_default_prompt_of_the_bundled_model_is_written_at_once(plan, table, no_worker):  # noqa: F811
    app = open_page(look="text")
    assert not app.exception
    assert len(asked_for()) == 3
    everything = {job.digest for job in local.list_jobs()}
    assert len([job for job in local.list_jobs() if job.kind == "measure"]) == 3, "these stay asked for"
    app.run()
    assert {job.digest for job in local.list_jobs()} == everything


def test_another_prompt_waits_for_the_button(written, no_worker):
    app = open_page(look="text", prompt="The moon")
    assert not app.exception
    assert asked_for() == []
    assert "lets the model go on from this prompt 3 times" in said(app)
    next(b for b in app.button if b.label == "Generate").click().run()
    assert not app.exception
    jobs = asked_for()
    assert {job.request.prompt for job in jobs} == {"The moon"}
    assert len(jobs) == 3
    app.slider(key="off").set_value(10.0).run()
    assert not app.exception
    waiting = [job.request for job in asked_for() if job.state == "queued"]
    assert len(waiting) == 3, "the newest set replaces what was not started"
    assert sorted(len(request.ablation.heads) for request in waiting) == [0, 27, 27]


def test_what_is_asked_for_is_in_the_request(written, no_worker):
    app = open_page(look="text", prompt="The\nmoon", length="7", turn="true", instead="mean")
    next(b for b in app.button if b.label == "Generate").click().run()
    assert not app.exception
    requests = [job.request for job in asked_for()]
    assert len(requests) == 3
    assert {(r.prompt, r.new_tokens, r.chat) for r in requests} == {("The\nmoon", 7, True)}
    assert sorted(r.ablation.replace for r in requests if r.ablation.heads) == ["mean", "mean"]


def test_an_empty_prompt_gets_a_sentence(written, no_worker):
    app = open_page(look="text", prompt=" ")
    assert not app.exception
    assert "The prompt is empty" in app.error[0].value
    assert figure(app, "positions"), "the rest of the panel stays"


def test_nothing_off_shows_the_model_as_it_is(written, no_worker):
    app = open_page(look="text", off="0.0")
    assert not app.exception
    assert "**As it is**" in said(app)
    assert "hv-marked'" not in markup(app)


def test_loss_by_position_is_what_was_measured(written, no_worker):
    app = open_page(look="text")
    traces = {t["name"]: t for t in figure(app, "positions")["data"] if t.get("name") and t["yaxis"] == "y"}
    assert set(traces) == {"as it is", "replaced by zero", "replaced by the mean"}
    assert set(traces["as it is"]["y"]) == {3.5}


def test_random_draws_that_are_measured_are_in_the_chart(plan, written, no_worker):  # noqa: F811
    for request in ablation.controls(plan, written)["uniform"]:
        local.store().put(job_digest(request), losses(0.5))
    app = open_page(look="text")
    assert "random heads (3 draws)" in {t.get("name") for t in figure(app, "positions")["data"]}


def test_questions_have_no_positions(plan, table, no_worker):  # noqa: F811
    app = open_page(look="text", target="quiz")
    assert not app.exception
    assert "Questions have no loss by position" in said(app)
