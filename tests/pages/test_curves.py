"""Curve, scores and models on the ablation page: what stands there is what the stored measurements say."""
# ruff: noqa: F811 (fixtures that are imported have the names of arguments)

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from headviz.analysis import ablation, sweeps
from headviz.analysis.ablation import Plan
from headviz.analysis.published import SOURCE, TABLE2
from headviz.analysis.tolerance import change_within
from headviz.data import questions
from headviz.jobs import local, many
from headviz.jobs.kinds import job_digest
from headviz.settings import settings
from headviz.types import MeasureRequest, QuestionScores, Silent, TextLosses, plain
from tests.fakes import fake_provenance
from tests.pages.conftest import figure, open_app, said
from tests.pages.test_ablation import built_train, plan  # noqa: F401

RESULTS = Path(__file__).parents[3] / "shared" / "data" / "inactive_heads" / "results.csv"
published = pytest.mark.skipif(not RESULTS.exists(), reason="the paper's results.csv is not on this machine")
TOTAL = 270


def losses(request: MeasureRequest, shift: float, off: float = 0.0, tilt: float = 0.0) -> TextLosses:
    """24 documents that lose `shift` nats a token, those of the second half `tilt` more."""
    rng = np.random.default_rng(0)
    predicted = np.full(24, 63, np.int32)
    return TextLosses(
        loss=predicted * (3.5 + rng.normal(0, 0.3, 24) + shift + tilt * (np.arange(24) % 2)),
        predicted=predicted,
        by_position=np.full(63, 3.5),
        cluster=np.arange(24, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(24)),
        off_share=np.full(24, off, np.float32),
        off_sets={"distinct": 3.0, "overlap_within": 0.5, "overlap_between": 0.4},
        provenance=dataclasses.replace(fake_provenance(), request=plain(request), seconds=2.0),
    )


def put(request: MeasureRequest, shift: float, **more) -> None:
    local.store().put(job_digest(request), losses(request, shift, **more))


def measure(
    plan: Plan,
    table,
    cost,
    metric="ahon_ln",
    shares=(0.05, 0.1, 0.2, 0.3),
    kinds=("zero", "mean"),
    tilt=0.0,
):
    """Store a whole curve: `cost` of the achieved share; returns [(share, cost)] of it."""
    put(ablation.measuring(plan, None), 0.0)
    there = []
    for share in shares:
        for kind in kinds:
            here = dataclasses.replace(plan, metric=metric, share=share, replace=kind)
            off = ablation.chosen(here, table)
            put(ablation.measuring(here, off), cost(off.share), tilt=tilt)
        there.append((off.share, cost(off.share)))
    return there


def open_page(**parameters):
    app = open_app(**parameters)
    app.switch_page("pages/ablation.py")
    app.run()
    assert not app.exception
    return app


def rows(app, column):
    """The table that has this column."""
    return next(frame.value for frame in app.dataframe if column in frame.value.columns)


def queued() -> list[MeasureRequest]:
    return [job.request for job in local.list_jobs() if job.kind == "measure" and job.state == "queued"]


# -------------------------------------------------------------------------------------------------------- curve


def test_every_measured_point_is_on_the_curve_and_the_share_is_in_words(plan, table, no_worker):
    there = measure(plan, table, lambda share: share * share, shares=(0.05, 0.123, 0.2, 0.25, 0.3))
    app = open_page()
    line = next(t for t in figure(app, "curve")["data"] if t["name"] == "replaced by zero")
    np.testing.assert_allclose(line["x"], [0, *(share for share, _ in there)])
    np.testing.assert_allclose(line["y"], [0, *(cost for _, cost in there)], atol=1e-9)
    edge = change_within(*zip(*there, strict=True), 0.05, worse="higher")
    words = f"largest share within 0.05 nats: **{100 * edge.share:.1f}%** (last measured inside 20.0%, first outside 25.2%)"
    assert words in said(app)
    assert words in said(open_page(nats="0.05"))
    assert "**at least 30.0%**" in said(open_page(nats="0.5")), "never outside"
    wide = "**between 5.19% and 12.2%** (nothing is measured there; a straight line says 10."
    assert wide in said(open_page(nats="0.012")), "a bracket that is wide is told instead of a number in it"


def test_a_curve_that_comes_back_is_not_settled(plan, table, no_worker):
    costs = {14: 0.0, 27: 0.2, 54: 0.2, 81: 0.0}
    measure(plan, table, lambda share: costs[round(share * TOTAL)])
    assert "**not settled**" in said(open_page())


def test_random_heads_stand_at_every_share_where_they_were_measured(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    for share in (0.1, 0.3):
        here = dataclasses.replace(plan, share=share, draws=3)
        for kind, several in ablation.controls(here, ablation.chosen(here, table)).items():
            for number, one in enumerate(several):
                put(one, (2 if kind == "uniform" else 1) * share + 0.01 * number)
    drawn = {t["name"]: t for t in figure(open_page(), "curve")["data"] if t["name"].startswith("random")}
    assert drawn["random heads"]["x"] == pytest.approx([0, None, 0.1, None, 0.3]), (
        "no line across what is not measured"
    )
    assert drawn["random heads"]["y"] == pytest.approx([0, None, 0.21, None, 0.61])
    assert drawn["random, layer by layer"]["y"] == pytest.approx([0, None, 0.11, None, 0.31])


def test_a_set_by_hand_stands_apart_from_the_curve_of_the_score(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    heads = ((0, 1), (2, 3), (4, 5))
    for kind in ("zero", "mean"):
        here = dataclasses.replace(plan, replace=kind, heads=heads)
        put(ablation.measuring(here, ablation.chosen(here, table)), 0.7)
    app = open_page(pick="hand", picked="0:1;2:3;4:5")
    assert "Heads chosen by **AHON (LN)**, not this set, by hand" in said(app)
    drawn = figure(app, "curve")["data"]
    stars = [t for t in drawn if t["name"] == "this set, by hand"]
    assert [(t["x"], t["y"]) for t in stars] == [([3 / TOTAL], pytest.approx([0.7]))] * 2
    assert len(next(t for t in drawn if t["name"] == "replaced by zero")["x"]) == 5
    assert not [t for t in figure(open_page(), "curve")["data"] if t["name"].startswith("this set")]


def test_a_visit_at_all_heads_does_not_stretch_the_axis(plan, table, no_worker):
    measure(plan, table, lambda share: share, shares=(0.1, 0.3, 1.0))
    app = open_page()
    assert figure(app, "curve")["layout"]["xaxis"]["range"][1] < 0.4
    assert "Measured up to 100%; beyond 35.0% nothing is drawn" in said(app)
    wide = open_page(wide="true")
    assert figure(wide, "curve")["layout"]["xaxis"]["range"][1] > 1
    assert "nothing is drawn" not in said(wide)


def test_the_papers_rule_has_a_curve_of_its_own(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    for share in (0.1, 0.2):
        here = dataclasses.replace(plan, mode="per-input", share=share)
        put(ablation.measuring_per_input(here, table), 0.4, off=share + 0.01)
    (line,) = (
        t for t in figure(open_page(mode="per-input"), "curve")["data"] if t["name"] == "replaced by zero"
    )
    np.testing.assert_allclose(line["x"], [0, 0.11, 0.21], atol=1e-6)
    static = next(t for t in figure(open_page(), "curve")["data"] if t["name"] == "replaced by zero")
    assert len(static["x"]) == 5


def test_measure_inside_goes_on_by_itself_until_the_bracket_is_narrow(plan, table, no_worker):
    measure(plan, table, lambda share: share, shares=(0.02, 0.2), kinds=("zero",))
    measure(plan, table, lambda share: share / 2, shares=(0.02, 0.2), kinds=("mean",))
    app = open_page(nats="0.07", off=20.0)
    app.button(key="measure_inside").click().run()
    for _ in range(12):
        waiting = queued()
        if not waiting:
            break
        assert len(waiting) <= 2, "one at a time for zero and for the mean"
        assert "Measuring inside" in said(app)
        for request in waiting:
            share = len(request.ablation.heads) / TOTAL
            put(request, share if request.ablation.replace == "zero" else share / 2)
            local.withdraw(job_digest(request), app.session_state.headviz_holder)
        app.run()
        assert not app.exception
    assert "Measuring inside" not in said(app)
    line = next(t for t in figure(app, "curve")["data"] if t["name"] == "replaced by zero")
    inside = max(x for x in line["x"] if x <= 0.07)
    outside = min(x for x in line["x"] if x > 0.07)
    assert outside - inside < sweeps.NARROW
    mean = next(t for t in figure(app, "curve")["data"] if t["name"] == "replaced by the mean")
    assert min(x for x in mean["x"] if x > 0.14) - max(x for x in mean["x"] if x <= 0.14) < sweeps.NARROW


def test_cancel_takes_back_what_has_not_begun(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    app = open_page(strict="share", share="20.0")
    app.button(key="measure_curve").click().run()
    assert len(queued()) > 50
    app.button(key="cancel_sweep").click().run()
    assert not app.exception
    assert queued() == []
    assert not [button for button in app.button if button.key == "cancel_sweep"]


def test_the_whole_curve_says_what_it_costs_and_queues_it(plan, table, no_worker):
    measure(plan, table, lambda share: share, shares=(0.2,))
    app = open_page(scores="ahon_ln,awft", draws="2")
    wanted = sweeps.sweep(dataclasses.replace(plan, draws=2), table, ["ahon_ln", "awft"])
    missing = len(wanted) - 3
    assert f"{missing:,} of {len(wanted):,}" in said(app)
    assert "about 3" in said(app), "two seconds a run"
    app.button(key="measure_curve").click().run()
    assert not app.exception
    there = {
        ablation.measuring(dataclasses.replace(plan, replace=kind), ablation.chosen(plan, table))
        for kind in ("zero", "mean")
    }
    assert set(queued()) == set(wanted[1:]) - there


# ------------------------------------------------------------------------------------------------------- scores


def test_scores_are_ranked_on_one_half_and_confirmed_on_the_other(plan, table, no_worker):
    good = measure(plan, table, lambda share: share / 4, tilt=0.01)
    measure(plan, table, lambda share: share, metric="awft", tilt=0.01)
    app = open_page(look="scores", scores="ahon_ln,awft")
    first, second = (
        100 * change_within([s for s, _ in good], [c + tilt for _, c in good], 0.05, worse="higher").share
        for tilt in (0.0, 0.01)
    )
    there = rows(app, "confirmed")
    zero = there[there["in their place"] == "zero"]
    assert list(zero["score"]) == ["AHON (LN)", "AWFT"]
    np.testing.assert_allclose(zero[["chosen", "confirmed"]].iloc[0], [first, second])
    assert (
        "**AHON (LN)** goes furthest on the first half of the documents, and on the second half confirms **between 10.0% and 20.0%**"
        in said(app)
    )
    names = [t["name"] for t in figure(app, "score_curves")["data"] if "tolerance" not in t["name"]]
    assert names == ["AHON (LN)", "AWFT"] * 2


def test_a_figure_says_that_it_is_a_bound_or_not_settled(plan, table, no_worker):
    """One never leaves, one comes back, one was measured at 5% only."""
    measure(plan, table, lambda share: share / 100, kinds=("zero",))
    costs = {14: 0.0, 27: 0.2, 54: 0.2, 81: 0.04}
    measure(plan, table, lambda share: costs[round(share * TOTAL)], metric="awft", kinds=("zero",))
    measure(plan, table, lambda share: 0.0, metric="lthon", shares=(0.05,), kinds=("zero",))
    app = open_page(look="scores", scores="ahon_ln,awft,lthon")
    there = rows(app, "confirmed").set_index("score")
    assert list(there.index) == ["AHON (LN)", "AWFT", "LTHON"]
    assert list(there["rank"])[:2] == [1, 2]
    assert np.isnan(there["rank"].iloc[2])
    assert there["confirmed"].iloc[1] == pytest.approx(100 * 14 / TOTAL)
    assert [words.split(":")[0] for words in there["reads"]] == ["at least", "not settled", "at least"]
    assert "not ranked: measured only to 5.2%" in there.loc["LTHON", "reads"]
    assert "confirms **at least 30.0%** within" in said(app)
    assert "AWFT not settled (outside after 5.19%, then inside again)" in said(app)
    assert "LTHON at least 5.19%, not ranked: measured only to 5.2%" in said(app)


def test_random_heads_are_rows_of_the_ranking(plan, table, no_worker):
    measure(plan, table, lambda share: share / 4)
    measure(plan, table, lambda share: share, metric="awft")
    here = dataclasses.replace(plan, share=0.1, draws=2)
    for several in ablation.controls(here, ablation.chosen(here, table)).values():
        for one in several:
            put(one, 0.5)
    there = rows(open_page(look="scores", scores="ahon_ln,awft"), "confirmed")
    zero = there[there["in their place"] == "zero"]
    assert list(zero["score"]) == ["AHON (LN)", "AWFT", "random, layer by layer as AHON (LN)", "random heads"]
    assert zero["chosen"].iloc[3] == pytest.approx(1.0), "10% × 0.05 / 0.5"


def test_one_score_is_no_ranking(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    assert "only AHON (LN) is measured" in said(open_page(look="scores", scores="ahon_ln,awft"))


# ---------------------------------------------------------------------------------------------------- questions


def answers(request: MeasureRequest, right: float) -> QuestionScores:
    """The first `right` of each subject's questions are answered rightly; the rest by a wrong choice."""
    asked = questions.read_questions(request.questions, settings(), Silent()).items
    subjects = request.questions.subjects
    subject = np.array([subjects.index(one.subject) for one in asked], np.int32)
    rank = np.concatenate([np.arange(n) / n for n in np.bincount(subject)])
    answer = np.array([one.answer for one in asked], np.int32)
    logprob = np.full((len(asked), 4), -3.0)
    given = np.where(rank < right, answer, (answer + 1) % 4)
    logprob[np.arange(len(asked)), given] = -1.0
    return QuestionScores(
        subjects=subjects,
        subject=subject,
        index=np.array([one.index for one in asked], np.int32),
        answer=answer,
        logprob=logprob,
        length=np.ones((len(asked), 4), np.int32),
        off_share=np.full(len(asked), 0.2, np.float32),
        off_sets={},
        provenance=dataclasses.replace(fake_provenance(), request=plain(request), seconds=2.0),
    )


@pytest.fixture
def quizzed(plan):
    """The plan on the bundled quiz, as the page asks it."""
    asked = questions.resolve_questions("quiz", shots=0, scoring="text", settings=settings())
    return dataclasses.replace(plan, text=None, questions=asked)


def quiz(plan: Plan, table, rights: dict[float, float], before: float) -> None:
    base = ablation.measuring(plan, None)
    local.store().put(job_digest(base), answers(base, before))
    for share, right in rights.items():
        here = ablation.with_share(plan, share)
        request = ablation.measuring(here, ablation.chosen(here, table))
        local.store().put(job_digest(request), answers(request, right))


def test_accuracy_is_counted_in_points(quizzed, table, no_worker):
    quiz(quizzed, table, {0.1: 0.75, 0.2: 0.6}, 0.75)
    app = open_page(target="quiz")
    line = next(t for t in figure(app, "curve")["data"] if t["name"] == "replaced by zero")
    assert line["y"][2] == pytest.approx(-15, abs=2)
    assert "largest share within 1 point: **between 10.0% and 20.0%**" in said(app)


def test_a_model_that_guesses_is_counted_by_log_probability(quizzed, table, no_worker):
    quiz(quizzed, table, {0.1: 0.25, 0.2: 0.1}, 0.25)
    app = open_page(target="quiz")
    assert "The model is at chance on these questions" in said(app)
    assert "log-probability of the right answer" in figure(app, "curve")["layout"]["yaxis"]["title"]["text"]
    assert "largest share within 0.05 nats" in said(app)


# ------------------------------------------------------------------------------------------------------- models


def test_models_measured_here_stand_beside_the_published_ones(plan, table, no_worker):
    there = measure(plan, table, lambda share: share)
    other = dataclasses.replace(plan, model=dataclasses.replace(plan.model, name="other", dtype="float32"))
    local.store().put(job_digest(ablation.scoring(other)), table)
    measure(other, table, lambda share: share / 10, metric="awft", kinds=("zero",))
    app = open_page(look="models")
    mine = rows(app, "mode").set_index(["model", "in their place"])
    edge = change_within(*zip(*there, strict=True), 0.05, worse="higher")
    name = f"▶ {plan.model.name} · {plan.model.dtype}"
    assert mine.loc[(name, "zero"), "ahon_ln"] == (f"{100 * edge.share:.2f}% [0%–5.19%], 4 points")
    assert mine.loc[("other · float32", "zero"), "awft"] == "≥ 30.0%, 4 points"
    table2 = rows(app, "awft") if "which" in rows(app, "awft").columns else rows(app, "which")
    assert len(table2) == len(TABLE2) == 14
    assert dict(zip(table2["model"], table2["best"], strict=True))["Llama-3.1-8B"] == 17.11
    assert SOURCE in said(app)
    assert "Chosen by each score on docstrings, train" in said(app)


def test_models_say_which_questions_chose(quizzed, table, no_worker):
    mine = dataclasses.replace(quizzed, chosen_on=quizzed.questions)
    local.store().put(job_digest(ablation.scoring(mine)), table)
    quiz(mine, table, {0.2: 0.6}, 0.75)
    app = open_page(look="models", target="quiz", chosen="measured")
    assert f"Chosen by each score on {questions.describe(quizzed.questions)}" in said(app)


# ------------------------------------------------------------------------------------------------------ overlay


def overlay(app, data: bytes):
    """As the upload's callback leaves it: AppTest has no files."""
    app.session_state.published_csv = data
    app.run()
    assert not app.exception
    return app


@published
def test_the_papers_file_is_drawn_as_it_is_in_its_own_chart(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    app = overlay(open_page(), RESULTS.read_bytes())
    app.selectbox(key="published_model").set_value("Llama-3.1-8B").run()
    app.multiselect(key="published_scores").set_value(["ahon_ln", "awft"]).run()
    assert not app.exception
    drawn = [t for t in figure(app, "published")["data"] if "published" in t["name"]]
    assert [t["line"]["dash"] for t in drawn] == ["dash", "dash"]
    assert min(drawn[0]["y"]) < -1
    assert "axes of its own" in said(app)
    assert not [t for t in figure(app, "curve")["data"] if "published" in t["name"]]


@pytest.mark.parametrize(("mode", "together"), [("per-input", True), ("static", False)])
def test_a_published_curve_shares_axes_only_with_the_papers_rule(quizzed, table, no_worker, mode, together):
    quiz(quizzed, table, {0.2: 0.6}, 0.75)
    csv = b"model,score,share,acc\nm,ahon_ln,0,0.6\nm,ahon_ln,0.1,0.55\n"
    app = overlay(open_page(target="quiz", mode=mode), csv)
    app.multiselect(key="published_scores").set_value(["ahon_ln"]).run()
    there = [t for t in figure(app, "curve")["data"] if "published" in t["name"]]
    assert bool(there) == together
    if together:
        assert there[0]["y"] == pytest.approx([0, -5])


@pytest.mark.parametrize(
    ("data", "says"),
    [(b"a,b\n1,2\n", "no column for the score"), (b"", ""), (b"\xff\xfe", "not a CSV")],
)
def test_a_file_that_is_no_curve_is_a_sentence(plan, table, no_worker, data, says):
    measure(plan, table, lambda share: share)
    app = overlay(open_page(), data)
    assert says in said(app)
    box = next(one for one in app.expander if one.label == "Overlay a published curve")
    assert box.proto.expanded == bool(data), "a sentence in a closed box is none"


def test_nothing_is_computed_by_looking(plan, table, no_worker):
    measure(plan, table, lambda share: share)
    for look in ("curve", "scores", "models"):
        open_page(look=look, strict="share", share="20.0")
    assert queued() == []
    assert many.answered("measure", {})


def test_the_scores_to_compare_are_there_again_after_another_panel(plan, table, no_worker):
    """What a browser shows of a box that comes back is what it is told: without that, an empty one."""
    measure(plan, table, lambda share: share, shares=(0.2,))
    app = open_page(scores="ahon_ln,lthon")
    for look in ("subjects", "curve", "subjects", "scores"):
        app.session_state.look = look
        app.run()
        assert not app.exception
    box = app.multiselect(key="scores_box")
    assert box.value == ["lthon", "ahon_ln"]
    assert box.proto.set_value, "the browser is told"
    box.set_value(["awft"]).run()
    assert app.session_state.scores == "awft"
    assert app.multiselect(key="scores_box").value == ["awft"]


# --------------------------------------------------------------------------------------------- the slider's own place


def test_the_slider_stands_at_the_largest_share_within_tolerance_where_that_is_measured(
    plan, table, no_worker
):
    measure(plan, table, lambda share: 0.01 if share < 0.07 else 0.09, shares=(0.05, 0.1))
    app = open_page()
    assert not app.exception
    assert app.slider(key="off").value == pytest.approx(100 * 20 / 270), "whole heads, and none too many"
    assert "7.59% is the largest share that AHON (LN) keeps within 0.05 nats, zero in their place" in said(
        app
    )
    assert "**20 of 270 (7.41%) heads are off.**" in said(app)
    assert "find_share" not in {one.key for one in app.button}
    app.slider(key="off").set_value(10.0).run()
    assert (app.session_state.strict, app.slider(key="off").value) == ("share", 10.0)
    assert "largest share that AHON" not in said(app)
    app = open_page(off=20.0)
    assert app.slider(key="off").value == 20.0, "who names a share in a link means it"
    app = open_page(metric="awft")
    assert app.slider(key="off").value == 20.0, "of another score nothing is known"


def test_a_share_that_is_not_known_is_found_on_a_click_and_moves_nothing_meanwhile(plan, table, no_worker):
    measure(plan, table, lambda share: share / 2, shares=(0.2,))
    app = open_page()
    assert "20.0% is the usual share: how many heads can go within tolerance is not measured here" in said(
        app
    )
    assert queued() == [], "nothing begins by itself"
    button = app.button(key="find_share")
    assert button.label == "Find the largest within 0.05 nats"
    assert "about 8 runs" in button.help
    button.click().run()
    assert not app.exception
    grid = [ablation.with_share(plan, share) for share in (0.05, 0.1, 0.15, 0.25, 0.3)]
    assert set(queued()) == {ablation.measuring(one, ablation.chosen(one, table)) for one in grid}
    assert app.session_state.look == "curve"
    measure(plan, table, lambda share: share / 2, shares=(0.05, 0.1, 0.15, 0.25, 0.3))
    app.run()
    assert app.slider(key="off").value == 20.0, "the bracket is still being halved"
    assert app.session_state.headviz_inside is not None
    for _ in range(6):  # halving goes on by itself
        for request in queued():
            put(request, len(request.ablation.heads) / 270 / 2)
        app.session_state.headviz_sweep.clear()
        app.run()
    assert app.session_state.headviz_inside is None
    assert app.slider(key="off").value == pytest.approx(10.0, abs=0.01), "at once, with no further click"
    assert "10.0% is the largest share that AHON (LN) keeps within 0.05 nats" in said(app)
