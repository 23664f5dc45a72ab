"""Classes and bands: a collapse planted by hand is found where it is; columns and distances against whole matrices."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headviz.analysis import band_masses, bands
from headviz.analysis.bands import Thresholds, classify, find_band
from headviz.data.inputs import Inputs
from headviz.errors import BadInput, UnknownName
from headviz.models.architectures import family_of, geometry
from headviz.models.loading import Loaded
from headviz.models.slopes import alibi_slopes
from headviz.settings import Settings
from headviz.types import Bands, BandsRequest, DataRef, DistanceRequest, Geometry, ModelRef, Silent
from tests import checkpoints, planted, reference, tiny
from tests.unit.samples import provenance

T = 48
MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")
DATA = DataRef(corpus="own", revision="1" * 64, part="all", inputs=4, tokens=T)
# heads 9 to 15 sink in three layers of four; head 4 in one; head 12 of layer 2 is dead
PLAN = {(layer, head): 0.7 for layer in (1, 2, 3) for head in range(9, 16)} | {(0, 4): 0.6, (2, 12): 0.99}


def load(model):
    return Loaded(MODEL, model, checkpoints.letters(), geometry(model.config), family_of(model.config), "cpu")


def inputs_of(tokens):
    N = len(tokens)
    return Inputs(
        tokens=tokens,
        lengths=(tokens >= 0).sum(1).astype(np.int32),
        documents=tuple(f"text {i}" for i in range(N)),
        cluster=np.arange(N, dtype=np.int32),
        first_is_bos=tokens[:, 0] == planted.BOS,
    )


def table(loaded, inputs, **found):
    found = found or band_masses.masses(loaded, inputs)  # which must cope with the padding by itself
    inputs = band_masses.aligned(inputs)
    return Bands(
        **found,
        lengths=inputs.lengths,
        cluster=inputs.cluster,
        documents=inputs.documents,
        first_is_bos=inputs.first_is_bos,
        first=("x",) * len(inputs.lengths),
        geometry=loaded.geometry,
        provenance=provenance(),
    )


def padded_left(tokens, by=9):
    return np.concatenate([np.full((len(tokens), by), -1, np.int32), tokens], 1)


INPUTS = {
    "no BOS": planted.tokens(4, T),
    "BOS": planted.tokens(4, T, first=planted.BOS),
    "left-padded": padded_left(planted.tokens(4, T)),
    "left-padded BOS": padded_left(planted.tokens(4, T, first=planted.BOS)),
}


@pytest.mark.parametrize("tokens", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("order", ["as planted", "permuted"])
def test_a_planted_collapse_is_found_exactly(tokens, order):
    places = np.arange(16) if order == "as planted" else np.random.default_rng(1).permutation(16)
    plan = {(layer, int(places[head])): mass for (layer, head), mass in PLAN.items()}
    loaded = load(planted.model(plan, T))
    found = table(loaded, inputs_of(tokens))
    wanted = np.full((planted.LAYERS, 16), "healthy", dtype=object)
    for (layer, head), mass in plan.items():
        wanted[layer, head] = "dead" if mass > 0.95 else "sink"
    named = bands.classes(found)
    assert named.tolist() == wanted.tolist()
    assert bands.counts(named) == {"dead": 1, "sink": 21, "low entropy": 0, "healthy": 42}
    band = find_band(bands.collapsed(named), loaded.geometry.slopes)
    assert band.heads == tuple(sorted(int(places[head]) for head in range(9, 16)))
    for (layer, head), mass in plan.items():
        assert found.mean_mass()[layer, head] == pytest.approx(mass, abs=0.08)
    if order == "as planted":
        assert (band.first, band.last, band.gaps, band.inside) == (9, 15, (), ())
        assert (band.steepest, band.shallowest) == (2.0**-5, 2.0**-8)
        assert band.by_index == tuple([0.0] * 4 + [0.25] + [0.0] * 4 + [0.75] * 7)


def test_padding_and_bos_change_no_number_of_the_heads_that_were_not_planted():
    loaded = load(planted.model(PLAN, T))
    found = [table(loaded, inputs_of(tokens)) for tokens in INPUTS.values()]
    null = bands.nulls(found[0])
    free = np.array([[(layer, head) not in PLAN for head in range(16)] for layer in range(planted.LAYERS)])
    for one in found:
        assert one.mean_mass()[free] == pytest.approx(np.tile(null.mass, (4, 1))[free], abs=1e-5)
        assert one.mean_entropy()[free] == pytest.approx(np.tile(null.entropy, (4, 1))[free], abs=1e-4)
        assert one.without_first_row() == pytest.approx((one.mass.astype(float) * T - 1) / (T - 1), abs=1e-9)


def test_holes_and_empty_inputs_are_refused():
    tokens = planted.tokens(2, 5)
    tokens[1, 2] = -1
    with pytest.raises(BadInput, match="Input 1 has no token, or padding"):
        band_masses.aligned(inputs_of(tokens))
    tokens[0] = -1
    with pytest.raises(BadInput, match="Input 0"):
        band_masses.aligned(inputs_of(tokens))


def test_one_token_has_no_rows_after_the_first():
    loaded = load(planted.model({}, T))
    found = table(loaded, inputs_of(np.array([[60, -1, -1], [60, 9, 10]], np.int32)))
    assert (found.mass[0] == 1).all()
    assert np.isnan(found.without_first_row()[0]).all()
    assert not np.isnan(found.without_first_row()[1]).any()


@pytest.mark.parametrize("case", ["bloom-six-heads", "llama", "gemma2", "mistral-window", "falcon-groups"])
def test_columns_and_distances_are_those_of_the_whole_matrix(case):
    loaded = load(tiny.build(case))
    ids, lengths = tiny.tokens([30, 13, 1])
    ids[0, 5] = ids[0, 0] = 1  # BOS at the start and in the middle; the other inputs have none
    ids[1:] = ids[1:].clamp(min=3)
    tokens = np.where(np.arange(30) < lengths.numpy()[:, None], ids.numpy(), -1).astype(np.int32)
    inputs = inputs_of(tokens)
    found = band_masses.masses(loaded, inputs, columns=True)
    exact = tiny.build(case, torch.float64)
    total, first, queries, beyond = np.zeros(30), np.zeros(30), np.zeros(30), np.zeros(30)
    for n, length in enumerate(lengths.tolist()):
        for layer, (A, _, _) in enumerate(reference.run(exact, ids[n, :length])):
            column = A.mean(1)  # (H, T)
            np.testing.assert_allclose(found["mass"][n, layer], column[:, 0], atol=1e-5)
            np.testing.assert_allclose(found["strongest"][n, layer], column.max(1), atol=1e-5)
            np.testing.assert_array_equal(found["strongest_at"][n, layer], column.argmax(1))
            on_bos = column[:, [0, 5]].sum(1) if n == 0 else np.full(len(column), np.nan)
            np.testing.assert_allclose(found["at_bos"][n, layer], on_bos, atol=1e-5)
            if layer == 1:
                for i in range(length):
                    for j in range(i + 1):
                        total[i - j] += A[2, i, j]
                        queries[i - j] += 1
                        first[i - j] += A[2, i, j] * (j == 0)
                        beyond[i - j] += j > 0
    far = band_masses.by_distance(loaded, inputs, 1, 2)
    np.testing.assert_array_equal(far["queries"], queries)
    np.testing.assert_allclose(far["mean"], total / queries, atol=1e-5)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(far["without_first"], (total - first) / beyond, atol=1e-5)


# ------------------------------------------------------------------------------------------ classes and bands


def test_classes_are_asked_in_the_papers_order():
    mass = np.array([0.96, 0.95, 0.51, 0.5, 0.5, 0.1])
    entropy = np.array([0.1, 0.1, 0.1, 0.49, 0.5, 2.0])
    named = ["dead", "sink", "sink", "low entropy", "healthy", "healthy"]
    assert classify(mass, entropy).tolist() == named
    assert classify(mass, entropy, bands.preset("summary")).tolist() == ["dead", "dead", *named[2:]]
    assert classify(mass, entropy, Thresholds(sink=0.05, low_entropy=0)).tolist() == ["dead", *["sink"] * 5]
    with pytest.raises(BadInput, match="no class"):
        classify(np.array([np.nan]), np.array([1.0]))


@pytest.mark.parametrize("wrong", [{"sink": 0.96}, {"dead": 1.2}, {"sink": -0.1}, {"low_entropy": -1.0}])
def test_thresholds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(BadInput):
        Thresholds(**wrong)
    with pytest.raises(UnknownName, match="paper"):
        bands.preset("papers")


def test_a_band_says_its_range_and_its_gaps():
    sick = np.zeros((10, 8), bool)
    sick[:4, [2, 3, 6]] = True  # 40% of the layers
    sick[:3, 4] = True  # 30%: not more than 30%
    band = find_band(sick, alibi_slopes(8))
    assert (band.heads, band.first, band.last, band.gaps) == ((2, 3, 6), 2, 6, (4, 5))
    assert (band.steepest, band.shallowest, band.inside) == (2.0**-3, 2.0**-7, (4, 5))
    assert find_band(sick, None, 0.2).heads == (2, 3, 4, 6)
    none = find_band(sick, alibi_slopes(8), 0.5)
    assert (none.heads, none.first, none.steepest) == ((), None, None)
    with pytest.raises(BadInput, match="share of layers"):
        find_band(sick, None, 1.0)


def test_a_band_of_slopes_can_have_gaps_of_indices():
    slopes = alibi_slopes(6)  # 1/4, 1/16, 1/64, 1/256, then 1/2 and 1/8: not in order
    sick = np.zeros((2, 6), bool)
    sick[:, [0, 1, 5]] = True
    band = find_band(sick, slopes)
    assert bands.by_slope(slopes) == [4, 0, 5, 1, 2, 3]
    assert (band.gaps, band.inside) == ((2, 3, 4), ())  # in slope order it is one stretch


def test_numbers_along_the_threshold():
    mass = np.array([[0.1, 0.4], [0.6, 0.9]])
    assert bands.share_between(mass) == 0.5
    assert bands.count_above(mass, np.array([0.0, 0.4, 0.65, 0.9])).tolist() == [4, 2, 1, 0]


def test_agreement_between_inputs_and_means():
    shape = Geometry(family="llama", layers=1, heads=2, kv_heads=2, head_dim=4, hidden=8)
    mass = np.array([[[0.9, 0.1]], [[0.6, 0.1]], [[0.4, 0.2]]], np.float32)
    loaded = SimpleNamespace(geometry=shape)
    found = table(loaded, inputs_of(planted.tokens(3, 5)), mass=mass, entropy=np.ones_like(mass))
    assert bands.classes(found).tolist() == [["sink", "healthy"]]
    assert bands.agreement(found) == pytest.approx(np.array([[2 / 3, 1]]))
    assert bands.nulls(found).mass == pytest.approx(
        [np.mean([1 / n for n in range(1, 6)])] * 2
    )  # no slopes: even


def test_the_sweep_and_the_lab_are_requests():
    assert [ask.data.tokens for ask in bands.sweep(MODEL, DATA)] == list(bands.LENGTHS)
    assert [ask.data.tokens for ask in bands.sweep(MODEL, DATA, 300)] == [64, 128, 256]
    with pytest.raises(BadInput, match="starts at 64"):
        bands.sweep(MODEL, DATA, 32)
    asked = bands.lab(MODEL, DATA, " a")
    assert list(asked) == list(bands.LAB)
    assert [ask.data.bos for ask in asked.values()] == ["tokenizer", "always", "never", "always", "always"]
    assert all(ask.columns for ask in asked.values())


# ---------------------------------------------------------------------------------------------------- requests


@pytest.fixture
def resources(monkeypatch, tmp_path):
    """A planted model, and inputs with BOS first whose texts are the same whatever is asked."""
    loaded = load(planted.model(PLAN, T))
    monkeypatch.setattr(
        band_masses, "build_inputs", lambda *a, **k: inputs_of(planted.tokens(3, T, first=planted.BOS))
    )
    return SimpleNamespace(
        model=lambda ref: loaded, watch=Silent(), settings=Settings(home=tmp_path), loaded=loaded
    )


def ask(resources, **more):
    data = dataclasses.replace(DATA, bos="always")
    return band_masses.run_bands(BandsRequest(model=MODEL, data=data, **more), resources)


def test_two_bos_share_the_attention_and_another_token_gets_none(resources):
    one = ask(resources, columns=True)
    two = ask(resources, start="two", columns=True)
    other = ask(resources, start="other", other="a", columns=True)  # "a" is token 3, without a mark
    at = (slice(None), 2, 12)  # the dead head
    assert one.first == ("[BOS]",) * 3
    assert (two.first_is_bos.all(), other.first_is_bos.any(), other.first[0]) == (True, False, "a")
    assert (one.strongest_at[at] == 0).all()
    assert one.at_bos[at] == pytest.approx(one.mass[at], abs=1e-6)
    assert (two.lengths == one.lengths).all()
    assert two.at_bos[at] == pytest.approx(one.at_bos[at], abs=0.02)
    assert (two.mass[at] < 0.6).all()
    assert (two.strongest[at] < 0.6).all()
    assert (other.mass[at] < 0.2).all()
    assert np.isnan(other.at_bos).all()
    assert one.provenance.request["start"] == "data"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"start": "other"}, "goes with the beginning"),
        ({"other": "a"}, "goes with the beginning"),
        ({"start": "other", "other": "\u00e9"}, None),
    ],
)
def test_beginnings_that_cannot_be_made_are_refused(resources, more, says):
    if says is None:
        assert ask(resources, **more).mass.shape == (3, planted.LAYERS, 16)
        return
    with pytest.raises(BadInput, match=says):
        ask(resources, **more)


def test_a_second_bos_needs_a_first(resources):
    with pytest.raises(BadInput, match="policy always"):
        band_masses.run_bands(BandsRequest(model=MODEL, data=DATA, start="two"), resources)


def test_a_head_by_distance_is_the_null_where_nothing_is_planted(resources):
    found = band_masses.run_distance(DistanceRequest(model=MODEL, data=DATA, layer=0, head=6), resources)
    from headviz.analysis.nulls import null_by_distance

    assert found.mean == pytest.approx(null_by_distance(alibi_slopes(16)[6], T), abs=1e-5)
    with pytest.raises(BadInput, match="no head 16"):
        band_masses.run_distance(DistanceRequest(model=MODEL, data=DATA, layer=0, head=16), resources)


def test_attention_that_is_not_finite_is_a_sentence(resources):
    from headviz.errors import Failure

    resources.loaded.self_check = {"awft": 0.0}
    resources.loaded.model.transformer.h[1].self_attention.query_key_value.bias[0] = float("nan")
    with pytest.raises(Failure, match="not finite, first in layer 1"):
        ask(resources)
