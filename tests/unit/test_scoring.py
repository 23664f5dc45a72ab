"""From a request to a table: batches, order, progress, provenance, and what is refused."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headviz.analysis import scoring
from headviz.analysis.batches import batches, bytes_per_token
from headviz.analysis.metrics import METRICS
from headviz.data.inputs import Inputs
from headviz.errors import BadInput, Cancelled, Failure, SelfCheckFailed
from headviz.models import selfcheck
from headviz.models.architectures import family_of, geometry
from headviz.models.attention import probe
from headviz.models.loading import Loaded
from headviz.settings import Settings
from headviz.types import DataRef, ModelRef, PatternRequest, ScoreRequest, Silent, digest
from tests import checkpoints, reference, tiny

LENGTHS = [7, 30, 2, 30, 1, 18]
MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")
DATA = DataRef(corpus="own", revision="1" * 64, part="all", inputs=6, tokens=30)


def make_loaded(case="llama", dtype=torch.float32):
    model = tiny.build(case, dtype)
    return Loaded(MODEL, model, checkpoints.letters(), geometry(model.config), family_of(model.config), "cpu")


def make_inputs(lengths=LENGTHS):
    ids, _ = tiny.tokens(lengths)
    beyond = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return Inputs(
        tokens=ids.masked_fill(beyond, -1).int().numpy(),
        lengths=np.array(lengths, np.int32),
        documents=tuple(f"text {i}" for i in range(len(lengths))),
        cluster=np.arange(len(lengths), dtype=np.int32),
        first_is_bos=np.zeros(len(lengths), bool),
        notes=("as they come",),
    )


class Recorder(Silent):
    def __init__(self):
        self.steps = []

    def step(self, doing, done=0, total=0, unit=""):
        self.steps.append((doing, done, total, unit))


@pytest.fixture
def resources(monkeypatch, tmp_path):
    loaded, watch = make_loaded(), Recorder()
    asked = []

    def build(ref, tokenizer, settings, seen, context_length=None):
        asked.append((ref, tokenizer, settings, seen, context_length))
        return make_inputs()

    monkeypatch.setattr(scoring, "build_inputs", build)
    settings = Settings(home=tmp_path)
    return SimpleNamespace(
        model=lambda ref: loaded, watch=watch, settings=settings, loaded=loaded, asked=asked
    )


def test_values_are_the_loops_in_the_order_of_the_inputs(resources, monkeypatch):
    monkeypatch.setattr(scoring, "batches", lambda *a: [np.array([1, 3]), np.array([5]), np.array([0, 2, 4])])
    table = scoring.run_score(ScoreRequest(model=MODEL, data=DATA), resources)
    assert table.metrics == tuple(METRICS)
    assert table.values.shape == (15, 6, tiny.LAYERS, 4)
    assert table.values.dtype == np.float32
    stock, inputs = tiny.build("llama", torch.float64), make_inputs()
    for i, T in enumerate(LENGTHS):
        loops = reference.scores(stock, torch.from_numpy(inputs.tokens[i, :T]).long())
        for metric in METRICS:
            np.testing.assert_allclose(table.per_input(metric)[i], loops[metric], rtol=1e-5, atol=1e-5)


def test_table_says_what_was_fed_and_where_it_comes_from(resources):
    request = ScoreRequest(model=MODEL, data=DATA)
    table = scoring.run_score(request, resources)
    inputs = make_inputs()
    assert np.array_equal(table.tokens, inputs.tokens)
    assert table.lengths.tolist() == LENGTHS
    assert table.pieces.keys() == {str(t) for t in np.unique(inputs.tokens) if t >= 0}
    assert table.pieces["3"] == "a"
    assert table.documents == inputs.documents
    assert table.reasons.keys() == {"aeqd_ln"}  # one input has a single token
    assert "0 in every head" in table.reasons["aeqd_ln"]
    origin = table.provenance
    assert origin.request["data"]["tokens"] == 30
    assert origin.digest == digest(request, 1)
    assert origin.notes[0] == "as they come"
    assert set(origin.versions) == {"headviz", "torch", "transformers", "python"}
    assert origin.self_check.keys() == {"awft", "entropy", "value_norm", "output_norm"}
    assert origin.seconds > 0
    assert origin.finished.endswith("+00:00")
    assert origin.device == "cpu"
    (asked,) = resources.asked
    assert asked[0] == DATA
    assert asked[4] == 256  # the model's context


def test_progress_counts_inputs_and_the_model_is_checked_once(resources, monkeypatch):
    monkeypatch.setattr(scoring, "batches", lambda *a: [np.array([1, 3, 5]), np.array([0, 2, 4])])
    checked = []
    right = scoring.self_check
    monkeypatch.setattr(
        scoring, "self_check", lambda model, ids, watch: checked.append(ids) or right(model, ids, watch)
    )
    scoring.run_score(ScoreRequest(model=MODEL, data=DATA), resources)
    scoring.run_score(ScoreRequest(model=MODEL, data=DATA), resources)
    assert [ids.shape for ids in checked] == [(30,)]  # the longest input
    steps = [step for step in resources.watch.steps if step[0] == "scoring"]
    assert steps[:3] == [
        ("scoring", 0, 6, "inputs"),
        ("scoring", 3, 6, "inputs"),
        ("scoring", 6, 6, "inputs"),
    ]


def test_self_check_that_fails_stops_and_is_not_remembered(resources, monkeypatch):
    monkeypatch.setitem(selfcheck.TOLERANCES, torch.float32, dict.fromkeys(selfcheck._FULL, -1.0))
    for _ in range(2):
        with pytest.raises(SelfCheckFailed):
            scoring.run_score(ScoreRequest(model=MODEL, data=DATA), resources)
    assert resources.loaded.self_check is None


def test_a_cancel_between_batches_and_within_one(resources):
    class Impatient(Silent):
        def __init__(self, after):
            self.left = after

        def check(self):
            self.left -= 1
            if self.left < 0:
                raise Cancelled("stop")

    before = dict(resources.loaded.model.state_dict())
    for after in (1, 3, 1):  # in the self-check, after it, and in the batch of a model that is checked
        resources.watch = Impatient(after)
        with pytest.raises(Cancelled):
            scoring.run_score(ScoreRequest(model=MODEL, data=DATA), resources)
    assert resources.loaded.model.config._attn_implementation == "eager"
    assert all(torch.equal(before[name], now) for name, now in resources.loaded.model.state_dict().items())


def test_chosen_metrics_only():
    scores = scoring.score_inputs(make_loaded(), make_inputs(), metrics=("ahon_ln", "awft"))
    assert scores.metrics == ("ahon_ln", "awft")
    assert scores.values.shape == (2, 6, tiny.LAYERS, 4)
    assert scores.reasons == {}


@pytest.mark.parametrize("checked", [None, {}], ids=["first use", "later"])
def test_activations_that_are_not_finite_name_layer_and_input(checked):
    loaded = make_loaded()
    loaded.self_check = checked
    with torch.no_grad():
        loaded.model.model.layers[1].self_attn.v_proj.weight[:] = torch.inf
    with pytest.raises(Failure, match=r"first in layer 1, on input 1 \(text 1\), in float32"):
        scoring.score_inputs(loaded, make_inputs())


def test_more_inputs_than_are_kept_one_by_one_are_refused(monkeypatch):
    monkeypatch.setattr(scoring, "MOST_INPUTS", 5)
    with pytest.raises(BadInput, match="6 inputs were asked for"):
        scoring.score_inputs(make_loaded(), make_inputs())


@pytest.mark.parametrize("case", ["llama", "bloom-six-heads", "mistral-window", "gemma2"])
def test_pattern_is_the_attention_that_the_stock_model_materialises(case, resources, monkeypatch):
    loaded = make_loaded(case)
    resources.model = lambda ref: loaded
    H = loaded.geometry.heads
    request = PatternRequest(model=MODEL, data=DATA, input=3, layer=1, head=H - 1)
    pattern = scoring.run_pattern(request, resources)
    inputs = make_inputs()
    A, V, _ = reference.run(tiny.build(case, torch.float64), torch.from_numpy(inputs.tokens[3]).long())[1]
    np.testing.assert_allclose(pattern.attention, A[-1], atol=1e-5)
    np.testing.assert_allclose(pattern.attention.sum(-1), 1, rtol=1e-6)
    assert np.triu(pattern.attention, 1).max() == 0
    np.testing.assert_allclose(pattern.sink, A[-1, :, 0], atol=1e-5)
    np.testing.assert_allclose(pattern.value_norm, np.linalg.norm(V[-1], axis=-1), rtol=1e-5)
    np.testing.assert_allclose(pattern.output_norm, np.linalg.norm(A[-1] @ V[-1], axis=-1), rtol=1e-4)
    with torch.inference_mode(), probe(loaded.model) as watching:
        means = watching.run(torch.from_numpy(inputs.tokens[3:4]).long())
    assert pattern.entropy.mean() == pytest.approx(means["entropy"][0, 1, -1], abs=1e-5)
    assert (pattern.layer, pattern.head, pattern.document) == (1, H - 1, "text 3")
    assert len(pattern.pieces) == 30
    assert pattern.provenance.digest == digest(request, 1)


@pytest.mark.parametrize(("what", "number"), [("input", 6), ("layer", 2), ("head", 4), ("head", -1)])
def test_pattern_of_what_does_not_exist(what, number, resources):
    request = PatternRequest(model=MODEL, data=DATA, input=0, layer=0, head=0)
    with pytest.raises(BadInput, match=f"There is no {what} {number} here: .* 0 to"):
        scoring.run_pattern(dataclasses.replace(request, **{what: number}), resources)


def test_pattern_has_a_longest_input_and_refuses_numbers_that_are_not_finite(resources, monkeypatch):
    request = PatternRequest(model=MODEL, data=DATA, input=1, layer=1, head=0)
    resources.loaded.self_check = {}
    with torch.no_grad():
        resources.loaded.model.model.layers[1].self_attn.v_proj.weight[:] = torch.nan
    with pytest.raises(Failure, match="layer 1, on input 1"):
        scoring.run_pattern(request, resources)
    monkeypatch.setattr(scoring, "MOST_PATTERN_TOKENS", 29)
    with pytest.raises(BadInput, match=r"Input 1 has 30 tokens; .* 29 at most"):
        scoring.run_pattern(request, resources)


def test_notes_say_when_the_slow_path_or_another_precision_was_taken():
    inputs = make_inputs()
    assert scoring.score_inputs(make_loaded(), inputs).notes == ()
    (note,) = scoring.score_inputs(make_loaded("mistral-window"), inputs).notes
    assert note.startswith("2 of 2 layers were computed in float32 blocks")


def test_notes_name_float32_attention_under_bf16_activations(monkeypatch):
    loaded = make_loaded(dtype=torch.bfloat16)
    monkeypatch.setattr(scoring.fused, "low_precision_pays", lambda: False)
    (note,) = scoring.score_inputs(loaded, make_inputs()).notes
    assert note.startswith("Attention was computed in float32")
    monkeypatch.setattr(scoring.fused, "low_precision_pays", lambda: True)
    assert scoring.score_inputs(loaded, make_inputs()).notes == ()


def test_batches_hold_every_input_once_alike_in_length_and_within_memory():
    shape = make_loaded().geometry
    lengths = np.array([5, 100, 7, 98, 6, 1])
    room = 4 * 210 * bytes_per_token(shape)
    found = batches(lengths, shape, "cpu", room)
    assert sorted(np.concatenate(found)) == list(range(6))
    assert [batch.tolist() for batch in found] == [[1, 3], [2, 4, 0, 5]]
    assert all(lengths[batch].max() * len(batch) <= 210 for batch in found)
    assert [len(batch) for batch in batches(lengths, shape, "cpu", 0)] == [1] * 6  # never less than one
    assert len(batches(np.full(100, 512), shape, "cpu", 1 << 40)[0]) == 8  # 4096 tokens
    assert len(batches(np.full(100, 512), shape, "cuda:1", 1 << 40)[0]) == 32
    sizes = [len(batch) for batch in batches(np.full(100, 256), shape, "cpu", 1 << 40, soon=True)]
    assert sizes == [2, 16, 16, 16, 16, 16, 16, 2]  # a first figure after 512 tokens
