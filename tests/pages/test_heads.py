"""The heads page over a stored answer: what it says is what the numbers are."""

import dataclasses

import numpy as np
import pytest

from headviz.analysis import ablation
from headviz.analysis.metrics import METRICS, inactive, threshold_at
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.view import PANELS
from tests.fakes import fake_table
from tests.pages import conftest
from tests.pages.conftest import default_request, figure, open_app, put, said

built_train, plan = conftest.built_train, conftest.plan


def expected(table, metric, share):
    threshold = threshold_at(table.per_input(metric), metric, share)
    return inactive(table.mean(metric), metric, threshold), threshold


def test_the_first_visit_shows_a_map_without_a_click(open_heads, scored, table):
    app = open_heads()
    assert not app.exception
    off, threshold = expected(table, "ahon_ln", 0.2)
    assert f"**{off.sum()} of 270 (" in said(app)
    pairs = inactive(table.per_input("ahon_ln"), "ahon_ln", threshold).sum()
    assert f"{pairs} of 4,320 (20.0%) input × head pairs" in said(app)
    drawn = figure(app, "map")
    click = next(trace for trace in drawn["data"] if trace.get("customdata") is not None)
    assert len(click["x"]) == 270


def test_the_threshold_moves_the_counts(open_heads, scored, table):
    app = open_heads()
    app.slider(key="share").set_value(40.0).run()
    assert not app.exception
    off, _ = expected(table, "ahon_ln", 0.4)
    assert f"**{off.sum()} of 270 (" in said(app)


def test_another_score_has_its_own_direction(open_heads, scored, table):
    app = open_heads()
    app.selectbox(key="metric").set_value("awft").run()
    assert not app.exception
    off, _ = expected(table, "awft", 0.2)
    assert "With AWFT above" in said(app)
    assert f"**{off.sum()} of 270 (" in said(app)


def test_by_value_starts_from_the_share_in_force(open_heads, scored, table):
    app = open_heads()
    before = said(app).split("heads are inactive")[0]
    app.session_state["rule"] = "value"
    app.session_state["threshold"] = expected(table, "ahon_ln", 0.2)[1]
    app.run()
    assert not app.exception
    assert app.slider(key="threshold").value > 0
    assert before.split("**")[1].split(" of ")[0] in said(app)


def test_every_score_and_panel_draws(open_heads, scored, table):
    app = open_heads()
    for metric in table.metrics:
        app.selectbox(key="metric").set_value(metric).run()
        assert not app.exception, metric
        assert METRICS[metric].symbol in said(app)
    for panel in ("scores", "layers", "ranking", "inputs", "take", "distribution"):
        app.session_state["panel"] = panel
        app.run()
        assert not app.exception, panel


def test_looking_inside_goes_with_every_panel(open_heads, scored, table, no_worker):
    app = open_heads(inside=True, input=15, head="L12.H04")
    for panel in PANELS:
        app.session_state["panel"] = panel
        app.run()
        assert not app.exception, panel


def test_an_input_beyond_the_table_becomes_the_last(open_heads, scored, table):
    app = open_heads(input=900, panel="inputs")
    assert not app.exception
    assert app.selectbox(key="input").value == len(table.lengths) - 1


def test_a_threshold_outside_the_values_is_clamped_aloud(open_heads, scored, table):
    app = open_heads(metric="awft", rule="value", threshold=5.0)
    assert not app.exception
    assert "The threshold 5.00 lies outside the values of AWFT" in said(app)
    top = float(table.per_input("awft").max())
    assert app.slider(key="threshold").value == top
    assert f"With AWFT above {top:.3f}"[:20] in said(app)


def test_the_fullest_layers_are_named_as_they_are(open_heads, scored, table):
    app = open_heads()
    off, _ = expected(table, "ahon_ln", 0.2)
    most = int(off.sum(1).max())
    assert f"{most} of 9 heads" in said(app)
    assert "Most are in layer" not in said(app)


def test_the_box_follows_the_head(open_heads, scored, table):
    app = open_heads()
    app.text_input(key="head_box").set_value("foo").run()
    assert "is no head" in said(app)
    app.text_input(key="head_box").set_value("5.2").run()
    assert "is no head" not in said(app)
    assert app.text_input(key="head_box").value == "L05.H02"


def test_a_typed_head_is_shown_in_depth(open_heads, scored, table):
    app = open_heads()
    app.text_input(key="head_box").set_value("3.7").run()
    assert not app.exception
    value = table.mean("ahon_ln")[3, 7]
    assert "**L03.H07**" in said(app)
    assert f"{value:.3f}"[:4] in said(app)


def test_a_head_that_is_not_there_gets_a_sentence(open_heads, scored):
    app = open_heads()
    app.text_input(key="head_box").set_value("L99.H00").run()
    assert not app.exception
    assert "L99.H00 is not in this model" in said(app)
    app.text_input(key="head_box").set_value("banana").run()
    assert "Write it like L03.H07" in said(app)


def test_nan_is_said_and_hollow(open_heads, home):
    table = fake_table(nan=True)
    local.store().put(job_digest(default_request()), table)
    app = open_heads()
    app.selectbox(key="metric").set_value("aeqd_ln").run()
    assert not app.exception
    assert "values are not defined: the layer's mean entropy is 0" in said(app)
    assert np.isnan(table.mean("aeqd_ln")[0]).all()


def test_a_score_without_any_value_says_why_and_can_be_left(open_heads, home):
    whole = fake_table(N=3, T=1)
    values = whole.values.copy()
    values[whole.metrics.index("aeqd_ln")] = np.nan
    table = dataclasses.replace(whole, values=values, reasons={"aeqd_ln": "one token has no entropy"})
    local.store().put(job_digest(default_request()), table)
    app = open_heads(metric="aeqd_ln")
    assert not app.exception
    assert "AEQD (LN) is not defined on this data: one token has no entropy" in said(app)
    assert "has no AEQD (LN) here: one token has no entropy" in said(app)
    for panel in PANELS:
        for shows in ("score", "inactive"):
            app.session_state["panel"], app.session_state["shows"] = panel, shows
            app.run()
            assert not app.exception, (panel, shows)
    app.selectbox(key="metric").set_value("awft").run()
    assert "With AWFT above" in said(app)


def test_without_an_answer_the_page_asks_and_waits(open_heads, home, no_worker):
    app = open_heads()
    assert not app.exception
    assert app.button(key=next(b.key for b in app.button if b.key.startswith("cancel_"))).label == "Cancel"


def test_the_share_is_the_largest_within_tolerance_where_the_ablation_page_has_measured_it(
    scored, plan, table
):
    app = open_app()
    app.switch_page("pages/heads.py").run()
    assert "20.0% is the usual share" in said(app)
    assert app.slider(key="share").value == 20.0
    put(plan, None, 0.0)
    for share, cost in ((0.05, 0.01), (0.10, 0.09)):
        here = ablation.with_share(plan, share)
        put(here, ablation.chosen(here, table), cost)
    app.run()
    assert not app.exception
    assert "7.59% is the largest share that AHON (LN) keeps within 0.05 nats" in said(app)
    assert app.slider(key="share").value == pytest.approx(7.59, abs=0.01)
    app.slider(key="share").set_value(30.0).run()
    assert app.session_state.rule == "share"
    assert "largest share" not in said(app)
    assert local.list_jobs() == [], "nothing begins by itself"


def test_without_a_baseline_nothing_is_looked_up(scored, monkeypatch):
    def heavy(*_, **__):
        raise AssertionError("building a corpus takes seconds")

    monkeypatch.setattr("headviz.ui.within.base_plan", heavy)
    app = open_app()
    app.switch_page("pages/heads.py").run()
    assert not app.exception
    assert "20.0% is the usual share" in said(app)
