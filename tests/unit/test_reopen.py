"""`Open` on a job: the view asks for the very same again."""

import dataclasses
from pathlib import Path

import pytest

from headviz.data.questions import MMLU_SUBJECTS
from headviz.jobs.kinds import KINDS
from headviz.reopen import PAGES, of_request, page_of
from headviz.types import (
    Ablation,
    CheckpointRequest,
    DataRef,
    GradientRequest,
    MapRequest,
    MeasureRequest,
    ModelRef,
    PromptScoreRequest,
    QuestionsRef,
    ScoreRequest,
)
from headviz.view import VIEW, read_url, written

ROOT = Path(__file__).parents[2]
MODEL = ModelRef(source="bundled", name="smollm2", revision="b" * 64, dtype="float32")
TEXT = DataRef(corpus="docstrings", revision="a" * 64, inputs=5, tokens=40, seed=3)
TRAIN = dataclasses.replace(TEXT, part="train")
QUIZ = QuestionsRef(
    source="quiz", revision="c" * 64, subjects=("animals", "art"), per_subject=4, seed=2, half="first", shots=1,
    scoring="text", chat=True,
)  # fmt: skip
SET = Ablation(mode="static", heads=((3, 0), (3, 4), (5, 1)))


def reopened(off: Ablation, **on):
    return of_request(MeasureRequest(model=MODEL, ablation=off, **(on or {"text": TEXT})))


def test_a_set_comes_back_as_heads_by_hand():
    values = reopened(SET)
    assert (values["pick"], values["picked"], values["mode"]) == ("hand", "3:0,4;5:1", "static")
    assert (values["target"], values["corpus"], values["inputs"], values["seed"]) == (
        "loss",
        "docstrings",
        5,
        3,
    )
    assert reopened(Ablation())["picked"] == ""


@pytest.mark.parametrize(("source", "revision"), [("bundled", ""), ("local", ""), ("hub", "b" * 64)])
def test_the_revision_is_that_of_the_model_and_not_of_the_text(source, revision):
    model = dataclasses.replace(MODEL, source=source)
    assert of_request(ScoreRequest(model=model, data=TEXT))["revision"] == revision


def test_questions_come_back_with_all_that_is_asked():
    values = reopened(SET, questions=QUIZ)
    wanted = {
        "target": "quiz", "subjects": "animals,art", "each": 4, "seed": 2, "half": "first", "shots": "1",
        "scoring": "text", "template": True, "questions": "",
    }  # fmt: skip
    assert {name: values[name] for name in wanted} == wanted
    own = dataclasses.replace(QUIZ, source="own", subjects=("x",))
    assert reopened(SET, questions=own)["questions"] == "c" * 64
    mmlu = dataclasses.replace(QUIZ, source="mmlu", subjects=MMLU_SUBJECTS)
    assert reopened(SET, questions=mmlu)["subjects"] == "", "all of them"


@pytest.mark.parametrize(
    ("means_on", "on", "chosen"),
    [
        (TRAIN, {"text": TEXT}, {"chosen": "docstrings", "chosen_part": "train", "chosen_inputs": 5}),
        (TEXT, {"text": TEXT}, {"chosen": "measured"}),
        (TRAIN, {"questions": QUIZ}, {"chosen": "left", "part": "train", "inputs": 5, "seed": 2}),
    ],
)
def test_the_text_of_the_means_comes_back(means_on, on, chosen):
    values = reopened(dataclasses.replace(SET, replace="mean", means_on=means_on), **on)
    assert {name: values[name] for name in chosen} == chosen


def test_a_map_comes_back_with_what_stood_in_for_the_heads():
    assert of_request(MapRequest(model=MODEL, text=TEXT))["instead"] == "zero"
    values = of_request(MapRequest(model=MODEL, text=TEXT, replace="mean", means_on=TRAIN))
    wanted = {"look": "order", "instead": "mean", "chosen": "docstrings", "chosen_part": "train"}
    assert {name: values[name] for name in wanted} == wanted


def test_the_papers_rule_comes_back_as_its_threshold():
    values = reopened(Ablation(mode="per-input", metric="awft", threshold=0.4, turned=True))
    wanted = {"mode": "per-input", "metric": "awft", "strict": "value", "cut": 0.4, "turned": True}
    assert {name: values[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    "request_",
    [
        MeasureRequest(model=MODEL, text=TEXT, ablation=SET),
        MeasureRequest(model=MODEL, questions=QUIZ, ablation=Ablation(mode="random-per-input", rate=0.1)),
        PromptScoreRequest(model=MODEL, questions=QUIZ),
        GradientRequest(model=MODEL, data=TEXT),
        MapRequest(model=MODEL, text=TEXT),
    ],
)
def test_what_comes_back_can_stand_in_a_url(request_):
    values = of_request(request_)
    assert set(values) <= set(VIEW)
    back, ignored = read_url({n: t for n, t in written(values, "ablation", defaults=True).items() if t})
    assert ignored == []
    shown = {name for name in values if "ablation" in (VIEW[name].pages or "ablation")}
    assert {name: back.get(name, VIEW[name].default) for name in shown} == {
        name: values[name] for name in shown
    }


def test_every_kind_of_job_has_its_page_and_a_random_draw_has_none():
    assert set(PAGES) == set(KINDS)
    assert all((ROOT / "pages" / f"{page}.py").is_file() for page in PAGES.values())
    assert page_of(MeasureRequest(model=MODEL, text=TEXT, ablation=SET)) == "ablation"
    draw = Ablation(mode="random-per-input", rate=0.2)
    assert page_of(MeasureRequest(model=MODEL, text=TEXT, ablation=draw)) is None
    assert page_of(None) is None


def test_a_checkpoints_heads_come_back():
    values = of_request(CheckpointRequest(model=MODEL, heads=SET.heads, data=TEXT))
    assert (values["look"], values["picked"], values["corpus"]) == ("take", "3:0,4;5:1", "docstrings")
