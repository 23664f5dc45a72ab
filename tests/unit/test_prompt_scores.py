"""Scores on the prompts of questions: the same inputs as are measured, and what is kept of very many of them."""

import numpy as np
import pytest
import torch

from headviz.analysis import prompt_scores
from headviz.analysis.measure import run_measure
from headviz.analysis.metrics import METRICS, inactive, threshold_at
from headviz.analysis.prompt_scores import run_prompt_score
from headviz.charts import tables
from headviz.codec import pack, unpack
from headviz.types import Ablation, MeasureRequest, PromptScoreRequest
from tests import reference
from tests.unit.test_measure import MODEL, Bench, prompt, read_questions


@pytest.fixture
def llama(tmp_path):
    return Bench(tmp_path, "llama")


def scored(bench, **changes):
    return run_prompt_score(PromptScoreRequest(model=MODEL, questions=bench.questions(**changes)), bench)


def test_an_input_is_the_prompt_that_is_measured(llama):
    """Against the slow reference, on prompts written by hand in tests/unit/test_measure.py."""
    table, ref = scored(llama), llama.questions()
    questions = read_questions(ref, llama.settings, llama.watch)
    tokenizer, model = llama.loaded.tokenizer, llama.loaded.model
    inputs = {}
    for item in questions.items:
        before, answers = prompt(item, questions.examples[item.subject][0], "letter")
        for answer in answers:
            ids = tokenizer(before + answer, add_special_tokens=False)["input_ids"][:-1]
            inputs[(item, *ids)] = torch.tensor(ids)
    assert table.values.shape[1] == len(inputs)
    for number, ids in enumerate(inputs.values()):
        expected = reference.scores(model, ids)
        for metric in ("awft", "ahon_ln", "aeqd"):
            np.testing.assert_allclose(
                table.per_input(metric)[number], expected[metric], rtol=2e-4, atol=2e-5
            )


def test_answer_texts_are_inputs_of_their_own(llama):
    assert scored(llama, scoring="text").values.shape[1] == 30, "8 questions, two of them with three choices"


def test_the_threshold_switches_off_the_asked_share(llama):
    """A score of the values alone hardly moves when heads are off, so what is off is what the table says."""
    table = scored(llama, scoring="text", per_subject=1)
    threshold = threshold_at(table.per_input("avvn"), "avvn", 0.25)
    off = inactive(table.per_input("avvn"), "avvn", threshold)  # (N, L, H)
    assert off.mean() == pytest.approx(0.25, abs=0.05)
    rule = Ablation(mode="per-input", metric="avvn", threshold=threshold)
    asked = llama.questions(scoring="text", per_subject=1)
    found = run_measure(MeasureRequest(model=MODEL, questions=asked, ablation=rule), llama)
    assert found.off_share.mean() == pytest.approx(off.mean(), abs=0.1)


def test_it_can_be_kept_and_says_what_it_is(llama):
    table = scored(llama)
    assert unpack(pack(table)).provenance == table.provenance
    assert "prompts of own@" in tables.caption(table.provenance, table)


def test_of_very_many_prompts_quantiles_are_kept(llama, monkeypatch):
    exact = scored(llama)
    monkeypatch.setattr(prompt_scores, "MOST_INPUTS", 5)
    table = scored(llama)
    assert table.values.shape[1] == 5
    assert any("5 quantiles" in note for note in table.provenance.notes)
    for metric in METRICS:
        some, whole = table.per_input(metric), exact.per_input(metric)
        np.testing.assert_allclose(some[[0, -1]], np.stack([whole.min(0), whole.max(0)]), rtol=1e-4)
        np.testing.assert_allclose(some[2], np.median(whole, 0), rtol=1e-4)
    assert table.pieces == {}
