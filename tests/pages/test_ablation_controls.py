"""The ablation page's controls: rules, presets, heads by hand, questions of one's own, and a sentence for bad input."""

import dataclasses
import json

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headviz.analysis import ablation
from headviz.analysis.headfile import read_origin
from headviz.charts import fmt
from headviz.data import questions
from headviz.errors import Unreachable
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.settings import settings
from headviz.types import DataRef, PromptScoreRequest, QuestionScores, QuestionsRef, plain
from headviz.ui.ablation import expected
from tests.fakes import fake_provenance
from tests.pages.conftest import figure, losses, open_page, put, said


def measured() -> list:
    """Requests for measurements that wait, as the page asked for them."""
    return [job.request for job in local.list_jobs() if job.kind == "measure"]


def answers(right: float, shift: float = 0.0, count: int = 40, **more) -> QuestionScores:
    """A share `right` of four-choice questions answered right; the right choice stands anywhere."""
    answer = (np.arange(count) % 4).astype(np.int32)
    logprob = np.full((count, 4), -2.0)
    best = np.where(np.arange(count) < right * count, answer, (answer + 1) % 4)
    logprob[np.arange(count), best] = -1.0 - shift
    fields = {
        "subjects": ("animals", "art"),
        "subject": (np.arange(count) % 2).astype(np.int32),
        "index": np.arange(count, dtype=np.int32),
        "answer": answer,
        "logprob": logprob,
        "length": np.ones((count, 4), np.int32),
        "off_share": np.full(count, 0.2, np.float32),
        "off_sets": {},
        "provenance": fake_provenance(),
    }
    return QuestionScores(**(fields | more))


def keep(request, result) -> None:
    """Into the store, saying which request it answers: the curve finds it by that."""
    made = dataclasses.replace(result.provenance, request=plain(request))
    local.store().put(job_digest(request), dataclasses.replace(result, provenance=made))


# ------------------------------------------------------------------------------------------------ heads by hand


def test_heads_by_hand_are_measured_as_they_are(plan, no_worker):
    app = open_page(pick="hand", picked="3:0,4;5:1")
    assert not app.exception
    assert "3 of 270 (1.11%) heads are off, chosen by hand" in said(app)
    assert "chosen by hand" in said(app)
    sets = {request.ablation.heads for request in measured()}
    assert sets == {(), ((3, 0), (3, 4), (5, 1))}
    hatched = [shape for shape in figure(app, "map")["layout"]["shapes"] if shape["name"] == "inactive"]
    assert sum(shape["path"].count("M") for shape in hatched) == 3


def test_edit_goes_on_by_hand_from_the_set_of_the_score(plan, table, no_worker):
    app = open_page()
    next(b for b in app.button if b.label == "Edit this set").click().run()
    assert not app.exception
    assert "54 of 270 (20.0%) heads are off, chosen by hand" in said(app)
    next(b for b in app.button if b.label == "Clear").click().run()
    assert "Click heads on the map: nothing off costs nothing" in said(app)


def test_a_head_of_another_model_gets_a_sentence_and_can_be_cleared(plan, no_worker):
    app = open_page(pick="hand", picked="40:1")
    assert not app.exception
    assert "There is no head L40.H01" in app.error[0].value
    next(b for b in app.button if b.label == "Clear").click().run()
    assert not app.error


def click(points, **state) -> AppTest:
    """The map's callback, with a selection as Streamlit hands it over."""
    script = f"""
import streamlit as st
for name, value in {state!r}.items():
    st.session_state[name] = value
st.session_state.map = {{"selection": {{"points": {points!r}}}}}
from headviz.ui.ablation.hand import clicked
clicked()
"""
    return AppTest.from_string(script).run()


@pytest.mark.parametrize(
    ("before", "heads", "after"),
    [
        ("", [(3, 7)], "3:7"),
        ("3:7", [(3, 7)], ""),
        ("3:7", [(3, 8)], "3:7,8"),
        ("3:7", [(3, 7), (3, 8), (4, 0)], "3:7,8;4:0"),
        ("3:7,8;4:0", [(3, 7), (3, 8)], "4:0"),
        ("3:7", [], "3:7"),
    ],
)
@pytest.mark.parametrize("form", [lambda i, j: {"0": i, "1": j}, lambda i, j: [i, j]])
def test_a_click_adds_or_removes_and_a_box_takes_many(before, heads, after, form):
    points = [{"customdata": form(*place)} for place in heads]
    app = click(points, pick="hand", picked=before)
    assert app.session_state.picked == after


def test_by_a_score_a_click_picks_the_head_for_every_page():
    app = click([{"customdata": {"0": 3, "1": 7}}], pick="score", picked="")
    assert app.session_state.head == "L03.H07"
    assert app.session_state.picked == ""


def load(content: bytes) -> AppTest:
    script = f"""
import types
import streamlit as st
from tests.fakes import fake_table
from headviz.types import ModelRef
from headviz.ui.ablation.hand import load_file
upload = types.SimpleNamespace(name="mine.json", getvalue=lambda: {content!r})
st.session_state.head_file = upload
load_file(ModelRef(source="bundled", name="smollm2", revision="r", dtype="float32"), fake_table())
"""
    return AppTest.from_string(script).run()


def test_a_head_set_comes_from_a_file():
    app = load(json.dumps({"model": "smollm2", "heads": [[3, 7], "L05.H01"]}).encode())
    assert (app.session_state.picked, app.session_state.pick) == ("3:7;5:1", "hand")
    assert app.session_state.by_whom == "mine.json"
    assert app.session_state.picked_on.endswith("[null]"), "it does not say where it was chosen"


def test_a_file_says_where_its_heads_were_chosen():
    place = DataRef(corpus="docstrings", revision="a", part="train")
    tree = {"model": "smollm2", "heads": [[3, 7]], "how": {"chosen_on": plain(place)}}
    app = load(json.dumps(tree).encode())
    assert '"part":"train"' in app.session_state.picked_on
    assert read_origin(json.dumps(tree)) == (place,)
    assert read_origin('{"how": {"chosen_on": "docstrings, train"}}') == (None,)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"model": "gpt2", "heads": []}', "The head set is for gpt2, not for smollm2"),
        (b'{"model": "smollm2", "heads": [[30, 0]]}', "There is no head L30.H00"),
        (b"{", "not JSON"),
        (b"[]", "no head set"),
    ],
)
def test_a_file_that_is_no_set_of_this_model_gets_a_sentence(content, problem):
    app = load(content)
    assert problem in app.session_state.headviz_head_file_problem
    assert "picked" not in app.session_state


# --------------------------------------------------------------------------------------------- how many are off


def test_the_other_end(plan, table, no_worker):
    open_page(turned="true")
    off = ablation.chosen(dataclasses.replace(plan, turned=True), table)
    assert off.heads in {request.ablation.heads for request in measured()}


def test_a_threshold_instead_of_a_share(plan, table, no_worker):
    cut = float(np.quantile(table.mean("ahon_ln"), 0.1))
    app = open_page(strict="value", cut=cut)
    assert not app.exception
    assert f"{int((table.mean('ahon_ln') < cut).sum())} of 270" in said(app)
    app.slider(key="cut").set_value(float(table.mean("ahon_ln").min())).run()
    assert "0 of 270" in said(app)


def test_a_threshold_beyond_the_values_is_said(plan, table, no_worker):
    app = open_page(strict="value", cut=77.0)
    assert "The threshold 77.0 lies outside the values of AHON (LN)" in said(app)
    assert app.session_state.cut == pytest.approx(table.mean("ahon_ln").max())


def test_a_threshold_starts_where_the_share_was(plan, table, no_worker):
    app = open_page(off=10.0)
    app.segmented_control(key="strict").set_value("value").run()
    assert not app.exception
    assert "27 of 270 (10.0%)" in said(app)


def test_the_slider_ends_at_30_percent_until_somebody_asks(plan, no_worker):
    app = open_page()
    assert app.slider(key="off").max == 30
    app.toggle(key="wide").set_value(True).run()
    assert app.slider(key="off").max == 100
    app.slider(key="off").set_value(60.0).run()
    assert "162 of 270 (60.0%)" in said(app)
    app.toggle(key="wide").set_value(False).run()
    assert app.session_state.off == 30


# ------------------------------------------------------------------------------------- the rule, input by input


def test_the_papers_rule_has_points_and_random_heads_of_its_own(plan, table, no_worker):
    rule = dataclasses.replace(plan, mode="per-input", draws=2)
    after = dataclasses.replace(
        losses(0.3),
        off_share=np.full(24, 0.15, np.float32),
        off_sets={"distinct": 23.0, "overlap_between": 0.41},
    )
    put(plan, None, 0.0)
    put(plan, ablation.chosen(plan, table), 0.2)  # a static point, which must not be drawn
    keep(ablation.measuring_per_input(rule, table), after)
    for request in ablation.controls_per_input(rule, float(after.off_share.mean())):
        keep(request, losses(0.9))
    app = open_page(mode="per-input", draws=2)
    assert not app.exception
    assert "On average 15.0% of the heads are off, chosen anew for each input" in said(app)
    assert "as many random heads: +0.900 (2 draws)" in said(app)
    assert "23 different sets on 24 inputs" in said(app)
    assert "0.410 between documents" in said(app)
    assert "nothing could be saved" in said(app)
    assert "could save" not in said(app)
    lines = [t for t in figure(app, "curve")["data"] if t.get("name", "").startswith("replaced by")]
    assert [len(line["x"]) for line in lines] == [2], "nothing off, and this share; zero only"
    assert measured() == []


# ----------------------------------------------------------------------------------------------------- presets


def test_presets_set_what_they_say_and_the_view_says_which_it_is(plan, no_worker, monkeypatch):
    def unreachable(*_):
        raise Unreachable("no answer")

    monkeypatch.setattr("headviz.data.hub.commit", unreachable)
    app = open_page()
    assert app.selectbox(key="protocol").value == "deployed"
    app.selectbox(key="protocol").set_value("paper").run()
    assert not app.exception
    state = app.session_state
    assert (state.mode, state.target, state.chosen, state.each) == ("per-input", "mmlu", "measured", 0)
    assert state.template is True, "the bundled model's name says Instruct"
    assert "Set HEADVIZ_MMLU to a folder" in app.error[0].value
    app.selectbox(key="target").set_value("quiz").run()
    assert not app.error, "the controls stay, so a person gets out again"
    assert app.selectbox(key="protocol").value == "yours"
    prompts = [job.request for job in local.list_jobs() if job.kind == "prompt-score"]
    assert [type(request) for request in prompts] == [PromptScoreRequest]
    app.selectbox(key="protocol").set_value("deployed").run()
    assert (app.session_state.mode, app.session_state.chosen) == ("static", "auto")


def test_long_runs_wait_for_a_click(plan, table, no_worker, mmlu):
    app = open_page(target="mmlu", each=0)
    assert not app.exception
    assert measured() == []
    assert (
        "take a while, so they wait for you: 320 questions of 16 subjects; how long that takes is not known"
        in said(app)
    )
    next(b for b in app.button if b.label == "Measure").click().run()
    assert len(measured()) == 3


def test_the_papers_protocol_says_how_many_questions_and_how_long_before_it_begins(
    plan, table, no_worker, mmlu
):
    app = open_page(target="mmlu", mode="per-input", chosen="measured", shots="0", scoring="text")
    assert not app.exception
    assert app.button(key="ask_prompt-score").label == "Score and measure"
    text = said(app)
    assert (
        "**20.0% of the heads will be off, chosen anew for each input, by AHON (LN).** Nothing is measured yet"
        in text
    )
    assert "2 runs over 320 questions of 16 subjects, after one that scores" in text
    assert "how long that takes is not known before the first batch" in text
    assert local.list_jobs() == []


def test_the_time_comes_from_a_run_that_was_like_it(plan, table, no_worker):
    found = questions.resolve_questions("quiz", shots=0, scoring="text", settings=settings())
    few = dataclasses.replace(found, subjects=("animals",))
    rule = dataclasses.replace(plan, mode="per-input", text=None, questions=found, chosen_on=found)
    assert expected.time_words(rule, None, 3) == expected.UNKNOWN
    keep(ablation.measuring(dataclasses.replace(rule, questions=few), None), timed(answers(0.5), 4.0))
    assert expected.time_words(rule, None, 3) == expected.UNKNOWN, (
        "prompts that share their beginning are no guide"
    )
    keep(
        ablation.measuring_per_input(dataclasses.replace(rule, questions=few), table),
        timed(answers(0.5), 8.0),
    )
    assert expected.time_words(rule, None, 3) == f"about {fmt.duration(3 * 320 * 8 / 40)} on this machine"
    static = dataclasses.replace(rule, mode="static")
    assert expected.time_words(static, None, 1) == f"about {fmt.duration(320 * 4 / 40)} on this machine"


def timed(result: QuestionScores, seconds: float) -> QuestionScores:
    return dataclasses.replace(result, provenance=dataclasses.replace(result.provenance, seconds=seconds))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, (14_042, True)),
        ({"per_subject": 20}, (57 * 20, False)),
        ({"half": "first"}, (57 * 125, False)),
        ({"subjects": ("anatomy",)}, (250, False)),
    ],
)
def test_the_hub_is_not_asked_to_count(more, says):
    asked = QuestionsRef(source="mmlu", revision="0" * 40, subjects=questions.MMLU_SUBJECTS)
    assert expected.questions_of(dataclasses.replace(asked, **more)) == says


@pytest.fixture
def mmlu(monkeypatch):
    monkeypatch.setattr("headviz.ui.ablation.plan.SMALL", 10)
    real = questions.resolve_questions
    monkeypatch.setattr(questions, "resolve_questions", lambda source, **more: real("quiz", **more))


# --------------------------------------------------------------------------------------------------- questions


def test_where_accuracy_is_at_chance_the_page_leads_with_log_probability(plan, table, no_worker):
    asked = questions.resolve_questions("quiz", shots=0, scoring="text", settings=settings())
    quiz = dataclasses.replace(plan, text=None, questions=asked)
    local.store().put(job_digest(ablation.measuring(quiz, None)), answers(0.25))
    off = ablation.chosen(quiz, table)
    local.store().put(job_digest(ablation.measuring(quiz, off)), answers(0.25, shift=0.2))
    local.store().put(
        job_digest(ablation.measuring(dataclasses.replace(quiz, replace="mean"), off)), answers(0.2)
    )
    drawn = ablation.controls(dataclasses.replace(quiz, draws=1), off)["uniform"][0]
    local.store().put(job_digest(drawn), answers(0.25, shift=0.3))
    app = open_page(target="quiz")
    assert not app.exception
    text = said(app)
    assert "At chance" in text
    assert "Log-probability of the right answer −0.0500 nats a token" in text
    assert "with zero in their place, " in text
    assert "| change [95%], nats a token |" in text
    assert "| within 0.05 nats |" in text, "the tolerance of what counts"
    assert text.index("| within 0.05 nats |") < text.index("| its change [95%], points |")
    assert [box.key for box in app.number_input if "Tolerance" in box.label] == ["nats"]
    assert "KL over the choices, nats" in text
    assert "0 lost, 0 gained" in text
    assert "as many random heads: −0.0750 (1 draw)" in text, "in nats, as everything else"


def test_accuracy_counts_in_points_and_percent(plan, table, no_worker):
    asked = questions.resolve_questions("quiz", shots=0, scoring="text", settings=settings())
    quiz = dataclasses.replace(plan, text=None, questions=asked)
    local.store().put(job_digest(ablation.measuring(quiz, None)), answers(0.75))
    off = ablation.chosen(quiz, table)
    local.store().put(job_digest(ablation.measuring(quiz, off)), answers(0.7))
    app = open_page(target="quiz", look="subjects")
    assert not app.exception
    assert "| accuracy | 75.0% → 70.0% |" in said(app)
    assert "| within 1 point |" in said(app)
    assert [box.key for box in app.number_input if "Tolerance" in box.label] == ["points"]
    assert "cannot tell: 2 flips, too few to say how many it would take" in said(app)


def test_own_questions_are_asked_for_and_then_used(plan, no_worker):
    app = open_page(target="own")
    assert not app.exception
    assert "Give some questions first" in app.error[0].value
    rows = [
        {"question": f"{i}?", "choices": ["a", "b"], "answer": i % 2, "subject": "sums"} for i in range(4)
    ]
    app.text_area[0].set_value("\n".join(map(json.dumps, rows))).run()
    next(b for b in app.button if b.label == "Use these questions").click().run()
    assert not app.error
    assert {request.questions.subjects for request in measured()} == {("sums",)}
    assert "4 questions in 1 subject:" in said(app)


@pytest.mark.parametrize(
    ("pasted", "problem"),
    [
        ('{"question": "a?", "answer": 0}', "Row 1 of pasted.jsonl has no column 'choices'"),
        ("question", "no JSON"),
    ],
)
def test_questions_that_cannot_be_read_get_a_sentence(plan, no_worker, pasted, problem):
    app = open_page(target="own")
    app.text_area[0].set_value(pasted).run()
    next(b for b in app.button if b.label == "Use these questions").click().run()
    assert not app.exception
    assert any(problem in error.value for error in app.error)


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"subjects": "animols"}, "Did you mean 'animals'"),
        ({"each": 1, "half": "second"}, "No question of quiz is left"),
        ({"shots": "5", "template": "true", "subjects": "animals,nothing"}, "'nothing'"),
    ],
)
def test_questions_that_are_not_there_get_a_sentence(plan, no_worker, parameters, problem):
    app = open_page(target="quiz", **parameters)
    assert not app.exception
    assert problem in app.error[0].value
    assert app.selectbox(key="target"), "the controls stay"


def test_subjects_are_chosen(plan, no_worker):
    app = open_page(target="quiz")
    app.multiselect(key="subjects_box").set_value(["animals"]).run()
    assert app.session_state.subjects == "animals"
    assert ("animals",) in {request.questions.subjects for request in measured()}


@pytest.mark.parametrize(
    ("subjects", "button", "after"),
    [("animals,biolgy", "Leave out biolgy", "animals"), ("biolgy", "Ask about all subjects", "")],
)
def test_a_subject_that_is_not_there_can_be_left_out_at_once(plan, no_worker, subjects, button, after):
    app = open_page(target="quiz", subjects=subjects)
    assert "Unknown subject of quiz 'biolgy'" in app.error[0].value
    assert app.button(key="leave_out").label == button
    app.button(key="leave_out").click().run()
    assert not app.error
    assert app.session_state.subjects == after
    assert "leave_out" not in {one.key for one in app.button}


@pytest.mark.parametrize("missing", ["folder", "files"])
def test_an_mmlu_folder_that_is_not_there_or_is_something_else(
    plan, no_worker, missing, tmp_path, monkeypatch
):
    folder = tmp_path / "mmlu"
    if missing == "files":
        folder.mkdir()
    real = settings()
    monkeypatch.setattr("headviz.ui.ablation.plan.settings", lambda: dataclasses.replace(real, mmlu=folder))
    app = open_page(target="mmlu")
    assert not app.exception
    assert {"folder": "does not exist", "files": "no file for split"}[missing] in app.error[0].value


# ------------------------------------------------------------------------------------------ chosen and measured


def test_same_inputs_are_flagged(plan, table, no_worker):
    local.store().put(job_digest(ablation.scoring(dataclasses.replace(plan, chosen_on=plan.text))), table)
    app = open_page(chosen="measured")
    assert not app.exception
    assert "same inputs" in said(app)
    app.selectbox(key="chosen").set_value("auto").run()
    assert "same inputs" not in said(app)
    assert "other text than is measured" in said(app)


@pytest.mark.parametrize(
    ("half", "measures", "chooses"), [("all", "second", "first"), ("first", "first", "second")]
)
def test_heads_may_be_chosen_on_one_half_of_the_questions_and_measured_on_the_other(
    plan, table, no_worker, half, measures, chooses
):
    for one in ("first", "second"):
        asked = questions.resolve_questions("quiz", shots=0, scoring="text", half=one, settings=settings())
        local.store().put(job_digest(PromptScoreRequest(model=plan.model, questions=asked)), table)
    app = open_page(target="quiz", chosen="half", half=half)
    assert not app.exception
    assert {request.questions.half for request in measured()} == {measures}
    text = said(app)
    assert f"Chosen on the {chooses} half of the questions, measured on the {measures} half." in text
    assert "other questions than is measured" in text
    assert "same inputs" not in text
    means = {request.ablation.means_on for request in measured() if request.ablation.replace == "mean"}
    assert [place.part for place in means] == ["train"], "means are taken on text"
    app.selectbox(key="target").set_value("loss").run()
    assert not app.exception
    assert app.session_state.chosen == "auto", "of a text, the other half is the other part"


def test_a_set_that_is_edited_keeps_its_flag(plan, table, no_worker):
    local.store().put(job_digest(ablation.scoring(dataclasses.replace(plan, chosen_on=plan.text))), table)
    app = open_page(chosen="measured")
    next(b for b in app.button if b.label == "Edit this set").click().run()
    app.selectbox(key="chosen").set_value("auto").run()
    assert not app.exception
    assert "heads are off, chosen by hand, from the set of AHON (LN)" in said(app)
    assert "same inputs" in said(app), "where the score is taken from now on is nothing to this set"
    next(b for b in app.button if b.label == "Clear").click().run()
    assert "same inputs" not in said(app)


def test_where_a_set_of_a_link_was_chosen_is_not_known(plan, table, no_worker):
    app = open_page(pick="hand", picked="3:0", picked_on="0123abcd[]")
    assert "Where this set was chosen is not known" in said(app)


def test_clicks_on_the_measured_costs_are_chosen_on_the_measured_text(plan, no_worker):
    app = open_page(pick="hand", shown="cost", alone="whole")
    assert app.session_state.headviz_map_on == (plan.text,)
    place = DataRef(corpus="docstrings", revision="a", part="held-out")
    script = f"""
import streamlit as st
from headviz.types import DataRef
from headviz.ui.ablation import hand
hand.put_set([(3, 7)])
hand.map_shows({place!r})
st.session_state.pick = "hand"
st.session_state.map = {{"selection": {{"points": [{{"customdata": [4, 0]}}]}}}}
hand.clicked()
st.session_state.places = hand.places_now()
"""
    app = AppTest.from_string(script).run()
    assert not app.exception
    assert app.session_state.places == (place,)


def test_heads_may_be_chosen_on_another_corpus(plan, no_worker):
    open_page(chosen="stdlib-code", chosen_inputs=5)
    asked = [job.request.data for job in local.list_jobs() if job.kind == "score"]
    assert [(data.corpus, data.part, data.inputs) for data in asked] == [("stdlib-code", "train", 5)]


def test_every_control_of_the_page_has_a_help_text(plan, no_worker):
    app = open_page(target="quiz")
    kinds = ("selectbox", "slider", "number_input", "toggle", "multiselect")
    for one in [widget for kind in kinds for widget in getattr(app, kind)]:
        assert one.proto.help, one.label
