"""The ablation page: the order by gradient, and each head off alone, over stored results."""

import dataclasses
import re

import numpy as np
import pytest

from headviz.analysis import ablation, order
from headviz.analysis.ablation import Plan
from headviz.analysis.order import Place
from headviz.data import corpora, docstrings, reading
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import HeadGradients, HeadLosses
from headviz.ui.ablation.order import Stop, strip_html
from tests.fakes import fake_geometry, fake_provenance
from tests.pages.conftest import figure, open_app, said
from tests.pages.test_curves import put


def alone(table) -> HeadLosses:
    """Costs that follow AHON, so that it must come out on top; one head costs a lot."""
    rng = np.random.default_rng(1)
    cost = 0.01 * table.mean("ahon") + rng.normal(0, 0.001, (30, 9))
    cost[3, 7] = 0.4
    predicted = np.full(8, 127, np.int32)
    per = cost + rng.normal(0, 0.003, (8, 30, 9))
    return HeadLosses(
        loss=predicted[:, None, None] * (3.5 + per),
        baseline=predicted * 3.5,
        predicted=predicted,
        cluster=np.arange(8, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(8)),
        geometry=fake_geometry(),
        provenance=dataclasses.replace(fake_provenance(), digest="a" * 64),
    )


@pytest.fixture
def plan(home, table, monkeypatch) -> Plan:
    """The default plan with scores, three measured shares and gradients in the store."""
    real = docstrings.load
    monkeypatch.setitem(reading.INSTALLED, "docstrings", lambda part, folder: real("held-out", folder))
    made = Plan(
        model=catalog.resolve("smollm2", settings=settings()),
        chosen_on=corpora.resolve("docstrings", part="train", settings=settings()),
        metric="ahon_ln",
        share=0.2,
        text=corpora.resolve("docstrings", part="held-out", settings=settings()),
        draws=3,
    )
    store = local.store()
    store.put(job_digest(ablation.scoring(made)), table)
    put(ablation.measuring(made, None), 0.0)
    for share, shift in ((0.1, 0.05), (0.2, 0.2), (0.3, 0.6)):
        off = ablation.chosen(dataclasses.replace(made, share=share), table)
        for replace in ("zero", "mean"):
            request = ablation.measuring(dataclasses.replace(made, replace=replace), off)
            put(request, shift)
    return made


@pytest.fixture
def ordered(plan, table) -> Plan:
    found = HeadGradients(
        values=1 + table.mean("ahon_ln"), geometry=fake_geometry(), provenance=fake_provenance("gradient")
    )
    local.store().put(job_digest(order.gradient_request(plan.model, plan.chosen_on)), found)
    return plan


@pytest.fixture
def mapped(ordered, table) -> Plan:
    text = order.shorter(ordered.text, order.MAP_AT_MOST)
    local.store().put(job_digest(order.map_request(ordered.model, text)), alone(table))
    return ordered


def open_page(**parameters):
    app = open_app(**parameters)
    app.switch_page("pages/ablation.py")
    return app.run()


def strip(app) -> str:
    """The HTML of the strip."""
    return next(part.proto.body for part in app.get("html") if "By gradient" in part.proto.body)


def test_the_gradients_are_computed_once_nothing_else_waits(plan, no_worker):
    app = open_page()
    assert not app.exception
    assert [job.kind for job in local.list_jobs()] == ["gradient"]
    app.slider(key="off").set_value(12.0).run()
    assert not app.exception
    assert sorted(job.kind for job in local.list_jobs()) == ["gradient", "measure", "measure"]


def test_the_strip_puts_the_position_between_measured_ones(ordered, no_worker):
    app = open_page()
    assert not app.exception
    words = strip(app)
    assert "place 2 of 3" in words
    assert "an order, not a prediction" in words
    assert "AHON (LN) 10.0%, +0.0500 nats" in words
    assert "AHON (LN) 30.0%, +0.600 nats" in words
    assert "Michel" in said(app)
    assert "gradient" not in app.markdown[0].value, "the sentence never quotes it"
    assert local.list_jobs() == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_position_is_a_hatched_bar_between_its_neighbours(theme):
    stops = [Stop(name="<b>20%", cost="+0.21 nats"), Stop(name="10%", cost="+0.05 nats")]
    drawn = strip_html(Place(rank=2, of=3, below=1, above=0, order=(1, 0)), stops, theme)
    first, mine, last = re.findall("<span title='(.*?)' style='(.*?)'", drawn)
    assert first[0] == "10%&#10;measured +0.05 nats&#10;place 1 of 3"
    assert mine[0] == "this position: place 2 of 3&#10;an order, not a prediction"
    assert last[0] == "&lt;b&gt;20%&#10;measured +0.21 nats&#10;place 3 of 3"
    assert ["repeating-linear-gradient" in style for _, style in (first, mine, last)] == [False, True, False]
    assert "after 10%, +0.05 nats" in drawn
    assert "before &lt;b&gt;20%, +0.21 nats" in drawn


def test_first_of_all_has_nobody_before():
    stops = [Stop(name="20%", cost="+0.21 nats"), Stop(name="10%", cost="+0.05 nats")]
    drawn = strip_html(Place(rank=1, of=3, below=None, above=1, order=(1, 0)), stops, "light")
    assert "after" not in drawn
    assert drawn.index("this position: place 1 of 3") < drawn.index("10%&#10;measured")


def test_the_order_is_there_before_anything_is_measured(ordered, no_worker):
    app = open_page()
    app.slider(key="off").set_value(24.0).run()
    assert not app.exception
    assert "place 3 of 4" in strip(app)
    assert len(local.list_jobs()) == 2, "zero and mean are being measured"


def test_any_measured_set_has_a_place(ordered, table, no_worker):
    """One by hand, and one at a share that no grid has."""
    hand = ablation.HeadSet(heads=((0, 0), (3, 4)), geometry=fake_geometry())
    put(ablation.measuring(ordered, hand), 0.01)
    odd = ablation.chosen(dataclasses.replace(ordered, share=0.123), table)
    put(ablation.measuring(ordered, odd), 0.07)
    drawn = strip(open_page(scores="ahon_ln,lthon", off=20.0))
    assert "place 4 of 5" in drawn
    assert "another set, 0.741%&#10;measured +0.0100 nats" in drawn
    assert "AHON (LN) 12.2%&#10;measured +0.0700 nats" in drawn


def test_scores_that_a_model_lacks_are_passed_over(ordered, table, no_worker):
    fewer = dataclasses.replace(table, metrics=table.metrics[:-1], values=table.values[:-1])
    assert "ahon_ln" in fewer.metrics
    local.store().put(job_digest(ablation.scoring(ordered)), fewer)
    app = open_page(scores=f"ahon_ln,{table.metrics[-1]}")
    assert not app.exception
    assert "place 2 of 3" in strip(app)


def test_among_few_there_is_no_place(ordered, no_worker, monkeypatch):
    monkeypatch.setattr("headviz.ui.ablation.order.FEW", 4)  # three are measured
    app = open_page()
    assert not app.exception
    assert "once two other sets of heads are measured here" in said(app)


def test_the_rule_per_input_has_no_place(ordered, no_worker):
    app = open_page(mode="per-input")
    assert not app.exception
    assert "only one set of heads for all inputs has a place" in said(app)


def test_each_head_alone_is_offered_with_runs_and_time(ordered, no_worker):
    app = open_page(look="order")
    assert not app.exception
    assert "271 runs, about" in said(app)
    button = next(b for b in app.button if b.label == "Measure each head alone")
    button.click().run()
    assert not app.exception
    (job,) = local.list_jobs()
    assert (job.kind, job.request.text.inputs, job.request.text.tokens) == ("map", 8, 128)
    assert "Waiting" in str(app.get("progress")[0].proto.text)


def test_the_map_and_the_correlations(mapped, no_worker):
    app = open_page(look="order")
    assert not app.exception
    assert "The dearest head is **L03.H07**" in said(app)
    hover = next(t for t in figure(app, "alone_map")["data"] if t["name"] == "heads")["text"]
    assert "95% [" in hover[3 * 9 + 7]
    assert "not by chance" in hover[3 * 9 + 7]
    drawn = figure(app, "agreement")
    labels = drawn["layout"]["yaxis"]["ticktext"]
    assert len(labels) == 16
    assert labels[0] == "AHON"
    assert "Gradient" in labels
    assert local.list_jobs() == []


@pytest.mark.parametrize(
    ("shown", "hover"),
    [("score", "AHON (LN)"), ("gradient", "by gradient"), ("cost", "nats")],
)
def test_the_large_map_shows_any_of_the_three(mapped, no_worker, shown, hover):
    app = open_page(shown=shown)
    assert not app.exception
    texts = next(t for t in figure(app, "map")["data"] if t["name"] == "heads")["text"]
    assert hover in texts[0]


@pytest.mark.parametrize(
    ("shown", "why"), [("gradient", "not computed yet"), ("cost", "not measured yet: see the panel")]
)
def test_what_is_not_there_yet_is_hollow_and_says_so(plan, no_worker, shown, why):
    app = open_page(shown=shown)
    assert not app.exception
    texts = next(t for t in figure(app, "map")["data"] if t["name"] == "heads")["text"]
    assert why in texts[0]


def test_the_mean_in_each_heads_place_is_a_map_of_its_own(mapped, table, no_worker):
    app = open_page(look="order", instead="mean")
    assert not app.exception
    assert "Every head is switched off alone, its mean in its place, on docstrings" in said(app)
    next(b for b in app.button if b.label == "Measure each head alone").click().run()
    (job,) = local.list_jobs()
    assert (job.request.replace, job.request.means_on) == ("mean", mapped.chosen_on)
    local.store().put(job.digest, alone(table))
    app.run()
    assert "alone, its mean in its place. The median head" in said(app)
    assert "off alone, its mean in its place" in str(figure(app, "alone_map")["layout"]["annotations"])


def test_the_map_of_a_question_target_is_on_the_text_at_the_left(mapped, no_worker):
    app = open_page(look="order", target="quiz")
    assert not app.exception
    assert "on the text at the left, not on the questions" in said(app)
    assert figure(app, "alone_map")
