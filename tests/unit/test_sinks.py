"""Attention by position: every family against float64 loops, and where the sink is found to be."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headviz.analysis import sinks
from headviz.analysis.metrics import METRICS
from headviz.analysis.sinkplace import (
    check_positions,
    check_size,
    followed,
    followed_row,
    head_sinks,
    mean_weights,
    model_sink,
)
from headviz.codec import pack, unpack
from headviz.data.inputs import Inputs
from headviz.errors import BadInput, Cancelled, Failure
from headviz.jobs.kinds import KINDS
from headviz.models import blocks, early, fused
from headviz.models.architectures import alibi_slopes, family_of, geometry
from headviz.models.attention import probe
from headviz.models.blocks import Attention, weights_of
from headviz.models.early import early_means
from headviz.models.loading import Loaded
from headviz.settings import Settings
from headviz.types import DataRef, ModelRef, Silent, SinkPlaces, SinkRequest, digest
from tests import checkpoints, reference, tiny
from tests.unit.samples import GEOMETRY, provenance

LENGTHS = [7, 30, 2, 30, 1, 18]
MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")
DATA = DataRef(corpus="own", revision="1" * 64, part="all", inputs=6, tokens=30)


def make_loaded(case="llama"):
    model = tiny.build(case)
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


@pytest.mark.parametrize("case", tiny.CASES)
@pytest.mark.parametrize("elements", [1 << 23, 900], ids=["at once", "in stretches"])
def test_every_family_is_the_float64_loops(case, elements, monkeypatch):
    monkeypatch.setattr(early, "_ELEMENTS", elements)
    monkeypatch.setattr(blocks, "_BLOCK_ELEMENTS", elements)
    inputs, stock = make_inputs(), tiny.build(case, torch.float64)
    found = sinks.early_weights(make_loaded(case), inputs, 16, Silent())
    assert found.shape[-1] == 16
    for i, T in enumerate(LENGTHS):
        for layer, (A, _, _) in enumerate(
            reference.run(stock, torch.from_numpy(inputs.tokens[i, :T]).long())
        ):
            for j in range(16):
                if j >= T:
                    assert np.isnan(found[i, layer, :, j]).all()
                else:
                    np.testing.assert_allclose(found[i, layer, :, j], A[:, j:, j].mean(1), atol=1e-5)


def test_the_first_column_is_awft():
    loaded, inputs = make_loaded("bloom"), make_inputs()
    with torch.inference_mode(), probe(loaded.model, want={"sink"}) as watching:
        sink = watching.run(*sinks.batch_of(inputs, np.arange(6), "cpu"))["sink"]
    found = sinks.early_weights(loaded, inputs, 4, Silent())
    np.testing.assert_allclose(found[..., 0], sink, atol=1e-6)


@pytest.mark.parametrize("slopes", [None, torch.tensor(alibi_slopes(6))], ids=["plain", "alibi"])
@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 5e-3), (torch.float64, 1e-9)])
def test_other_precisions_on_tensors_of_their_own(slopes, dtype, near):
    seed = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, heads, 70, 16, generator=seed).to(dtype) for heads in (6, 2, 2))
    ask = Attention(0.25, slopes=slopes)
    attended = fused.attend("cpu-flash", q, k, v, ask, frozenset())
    lengths = torch.tensor([70, 41])
    found = early_means(q, k, ask, attended, lengths, 32)
    whole = weights_of(q.double(), k.double(), ask)
    for b, T in enumerate(lengths.tolist()):
        for j in range(32):
            wanted = whole[b, :, j:T, j].mean(-1)
            torch.testing.assert_close(found[b, :, j].double(), wanted, rtol=0, atol=near)


def test_short_texts_have_fewer_positions():
    found = sinks.early_weights(make_loaded(), make_inputs([5, 3]), 16, Silent())
    assert found.shape == (2, tiny.LAYERS, 4, 5)
    assert np.isnan(found[1, ..., 3:]).all()
    assert np.isfinite(found[0]).all()


def test_a_request_is_answered_with_what_was_fed(monkeypatch, tmp_path):
    loaded, inputs = make_loaded(), make_inputs()
    monkeypatch.setattr(sinks, "build_inputs", lambda *_, **__: inputs)
    resources = SimpleNamespace(model=lambda _: loaded, watch=Silent(), settings=Settings(home=tmp_path))
    request = SinkRequest(model=MODEL, data=DATA, positions=8)
    places = sinks.run_sinks(request, resources)
    assert KINDS["sinks"].takes(places)
    assert np.array_equal(places.tokens, inputs.tokens[:, :8])
    assert places.pieces.keys() == {str(t) for t in np.unique(places.tokens) if t >= 0}
    assert places.provenance.digest == digest(request, KINDS["sinks"].version)
    assert places.provenance.notes == ("as they come",)
    with pytest.raises(BadInput, match="first 1 to 64 tokens, not 65"):
        sinks.run_sinks(dataclasses.replace(request, positions=65), resources)


def test_a_cancel_is_heard_and_what_is_not_finite_is_refused():
    class Stop(Silent):
        def check(self):
            raise Cancelled("somebody asked to stop")

    with pytest.raises(Cancelled):
        sinks.early_weights(make_loaded(), make_inputs(), 4, Stop())
    broken = make_loaded()
    broken.self_check = {}
    with torch.no_grad():
        broken.model.model.layers[1].self_attn.k_proj.weight[:] = torch.nan
    with pytest.raises(Failure, match="attention is not finite, in float32"):
        sinks.early_weights(broken, make_inputs(), 4, Silent())


# -------------------------------------------------------------------------------------------- where the sink is


def places(weights, lengths, tokens=None):
    weights = np.asarray(weights, dtype=np.float32)
    N, P = weights.shape[0], weights.shape[-1]
    tokens = np.tile(np.arange(P, dtype=np.int32), (N, 1)) if tokens is None else np.asarray(tokens, np.int32)
    return SinkPlaces(
        weights=weights,
        lengths=np.asarray(lengths, np.int32),
        tokens=tokens,
        pieces={str(t): f"<{t}>" for t in range(20)},
        documents=tuple(f"d{n}" for n in range(N)),
        cluster=np.arange(N, dtype=np.int32),
        first_is_bos=np.zeros(N, bool),
        geometry=GEOMETRY,
        provenance=provenance(),
    )


def planted():
    """2 inputs, 1 layer, 3 heads, 4 positions: two heads look at position 2, one at 0."""
    one = [[[0.1, 0.0, 0.7, 0.1], [0.2, 0.1, 0.5, 0.0], [0.6, 0.0, 0.1, 0.2]]]
    return places([one, one], [20, 20], [[3, 4, 9, 5], [3, 4, 8, 5]])


def test_the_sink_is_found_where_it_was_put():
    sink = model_sink(planted())
    assert (sink.position, sink.weight) == (2, pytest.approx(1.3 / 3))
    np.testing.assert_allclose(sink.by_position, [0.3, 0.1 / 3, 1.3 / 3, 0.1], rtol=1e-6)
    assert (sink.piece, sink.share) == ("<8>", 0.5)
    heads = head_sinks(planted())
    assert heads.position.tolist() == [[2, 2, 0]]
    np.testing.assert_allclose(heads.weight, [[0.7, 0.5, 0.6]])


def test_it_comes_back_from_the_store():
    assert np.array_equal(unpack(pack(planted())).weights, planted().weights)


def test_the_score_that_follows_has_a_name_of_its_own():
    by_model, by_head = followed(planted(), "model"), followed(planted(), "head")
    np.testing.assert_allclose(by_model.mean(0), [[0.7, 0.5, 0.1]], rtol=1e-6)
    np.testing.assert_allclose(by_head.mean(0), [[0.7, 0.5, 0.6]], rtol=1e-6)
    assert (by_head.mean(0) >= mean_weights(planted())[..., 0]).all()
    row, own = followed_row(planted(), "model"), followed_row(planted(), "head")
    assert (row.id, row.symbol, row.inactive) == ("awft_at_2", "AWFT@2", "high")
    assert row.name == "Average Weight of Token 2, the model's strongest early column"
    assert own.symbol == "AWFT@own"
    assert not {row.id, own.id} & set(METRICS)
    assert row.source == "headviz"


def test_it_is_awft_where_the_first_token_is_the_sink():
    weights = np.random.default_rng(0).random((3, 2, 3, 5)) * [1, 0.2, 0.2, 0.2, 0.2]
    found = places(weights, [10, 12, 10])
    assert model_sink(found).position == 0
    assert np.array_equal(followed(found), found.weights[..., 0])


def test_a_column_near_the_end_of_an_input_does_not_count():
    weights = np.full((2, 1, 1, 4), 0.1, np.float32)
    weights[0, ..., 3] = 1.0  # the last token of the first input, which only sees itself
    weights[1, ..., 1] = 0.3
    found = places(weights, [4, 8])
    assert model_sink(found).position == 1
    assert model_sink(found).inputs.tolist() == [2, 2, 1, 1]
    assert mean_weights(found)[0, 0].tolist() == pytest.approx([0.1, 0.2, 0.1, 0.1])
    assert np.isnan(mean_weights(places(weights, [4, 6]))[0, 0, 3])


def test_equal_columns_go_to_the_earliest():
    assert model_sink(places(np.full((1, 2, 3, 4), 0.25), [9])).position == 0


def test_what_would_not_fit_is_refused():
    with pytest.raises(BadInput, match="not 0"):
        check_positions(0)
    wide = dataclasses.replace(GEOMETRY, layers=100, heads=100)
    with pytest.raises(BadInput, match="Ask for fewer inputs or positions"):
        check_size(2000, wide, 64)
