"""One line a request, by which jobs are told apart."""

import subprocess
import sys

from headviz.describe import describe
from headviz.types import (
    Ablation,
    DataRef,
    GradientRequest,
    MeasureRequest,
    ModelRef,
    PatternRequest,
    PromptScoreRequest,
    QuestionsRef,
    RepairedRequest,
    ScoreRequest,
)
from tests.repairs import small_request

MODEL = ModelRef(source="bundled", name="smollm2", revision="b" * 64, dtype="float32")
DATA = DataRef(corpus="docstrings", revision="a" * 64)
TEXT = "docstrings, held-out · 16 × 512 tokens · seed 0"
NAME = "SmolLM2-135M-Instruct (bundled) · float32"


def measured(off: Ablation, **on) -> str:
    return describe(MeasureRequest(model=MODEL, ablation=off, **(on or {"text": DATA})))


def test_scores_gradients_and_patterns():
    assert describe(ScoreRequest(model=MODEL, data=DATA)) == f"{NAME} · {TEXT}"
    assert describe(GradientRequest(model=MODEL, data=DATA)) == f"{NAME} · {TEXT}"
    head = PatternRequest(model=MODEL, data=DATA, input=2, layer=3, head=7)
    assert describe(head) == f"L03.H07 on input 2 · {NAME} · {TEXT}"
    small = ModelRef(**{**MODEL.__dict__, "quantization": "8bit"})
    assert "float32, 8bit" in describe(ScoreRequest(model=small, data=DATA))


def test_what_is_off():
    assert measured(Ablation()) == f"as it is · {NAME} · {TEXT}"
    assert measured(Ablation(mode="static", heads=((0, 1),))).startswith("1 head off (L00.H01), zero · ")
    three = Ablation(mode="static", heads=((0, 1), (2, 3), (4, 5)), replace="mean")
    assert measured(three).startswith("3 heads off (L00.H01, L02.H03, …), mean · ")
    rule = Ablation(mode="per-input", metric="ahon_ln", threshold=0.25)
    assert measured(rule).startswith("off per input: ahon_ln beyond 0.25, zero · ")
    random = Ablation(mode="random-per-input", rate=0.2, seed=3)
    assert measured(random).startswith("off per input: each head with probability 0.2, seed 3, zero · ")


def test_random_sets_of_one_size_differ():
    sets = [((0, 1), (2, 3), (4, 5)), ((0, 2), (2, 3), (4, 5))]
    assert len({measured(Ablation(mode="static", heads=heads)) for heads in sets}) == 2


def test_questions():
    asked = QuestionsRef(source="mmlu", revision="c" * 64, subjects=("law",), per_subject=20, half="first")
    assert measured(Ablation(), questions=asked).endswith(
        "mmlu, 1 subject, 20 each, seed 0, first half · 5 shots · letter"
    )


def test_a_request_of_another_version():
    assert describe(None) == "written by another version of headviz"


def test_it_imports_nothing_heavy():
    code = "import sys, headviz.describe; sys.exit(bool({'torch', 'transformers', 'streamlit'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_prompts_of_questions():
    asked = QuestionsRef(
        source="quiz", revision="c" * 64, subjects=("a", "b"), shots=0, scoring="text", bos="always"
    )
    said = describe(PromptScoreRequest(model=MODEL, questions=asked))
    assert said == f"{NAME} · quiz, 2 subjects · 0 shots · text · BOS always"


def test_repairs():
    words = "3 heads, 20 steps, 4 arms × 3 seeds · alibi-demo (bundled) · float32 · docstrings, train · 64 × 64 tokens"
    said = describe(small_request())
    assert said.split(" · ")[0] == words.split(" · ")[0]
    assert "docstrings, train" in said
    again = describe(small_request(heads=((0, 0),), passes=2, arms=("repair",), seeds=(1,)))
    assert again.startswith("1 head, 20 steps × 2 passes, 1 arm × 1 seed · ")
    named = describe(RepairedRequest(repair="d" * 64, arm="no-reinit", seed=2))
    assert named == "repair dddddddddddd · no-reinit, seed 2, best step, as a checkpoint"
