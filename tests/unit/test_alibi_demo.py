"""The bundled ALiBi model: there without install or network, read by plain transformers, and as its card says."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headviz.analysis import bands
from headviz.analysis.alibi_demo import card, plan
from headviz.analysis.band_masses import run_bands
from headviz.analysis.changes import loss_change
from headviz.analysis.measure import run_measure
from headviz.data import corpora
from headviz.models import bundled, catalog, checks, loading
from headviz.settings import Settings
from headviz.types import Ablation, BandsRequest, MeasureRequest, Silent, head_name

ROW = bundled.BUNDLED["alibi-demo"]
CARD = json.loads((card.HERE / "card.json").read_text())


@pytest.fixture(scope="module")
def resources(tmp_path_factory):
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    ref = catalog.resolve("alibi-demo", dtype="float32", settings=settings)
    loaded = loading.load(ref, settings=settings)
    data = corpora.resolve("docstrings", inputs=card.INPUTS, tokens=card.TOKENS, settings=settings)
    return SimpleNamespace(
        model=lambda _: loaded, watch=Silent(), settings=settings, ref=ref, loaded=loaded, data=data
    )


def losses(resources, ablation):
    return run_measure(MeasureRequest(model=resources.ref, text=resources.data, ablation=ablation), resources)


@pytest.fixture(scope="module")
def whole(resources):
    return losses(resources, Ablation())


def test_the_files_are_the_pinned_ones_and_small(tmp_path):
    settings = Settings(home=tmp_path)
    assert bundled.is_installed(ROW, settings)
    folder = bundled.prepare(ROW, settings, Silent())  # compares the hash
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 12e6
    config = json.loads((folder / "config.json").read_text())
    assert {name: config[name] for name in ROW.config} == ROW.config
    assert checks.parameters(folder) == ROW.parameters == CARD["parameters"]


def test_plain_transformers_reads_it():
    from transformers import AutoModelForCausalLM, AutoTokenizer, BloomForCausalLM

    folder = bundled.HERE / ROW.folder
    model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert type(model) is BloomForCausalLM
    assert model.dtype == torch.bfloat16
    text = "Return the number of elements.\n  x = 1"
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids) == text
    assert ids[0] != tokenizer.bos_token_id  # as BLOOM's tokenizer
    assert len(tokenizer) == plan.VOCABULARY


def test_held_out_loss_is_as_on_the_card(resources, whole):
    assert resources.data.revision == CARD["text"]
    loss = whole.loss.sum() / whole.predicted.sum()
    assert loss == pytest.approx(CARD["loss"][0], abs=0.01)
    assert CARD["loss"][1] < loss < CARD["loss"][2]


def test_classes_are_as_on_the_card_and_every_class_occurs(resources):
    found = run_bands(BandsRequest(model=resources.ref, data=resources.data), resources)
    named = bands.classes(found)
    assert bands.counts(named) == CARD["counts"]
    assert all(count > 0 for count in CARD["counts"].values())
    for name, heads in CARD["classes"].items():
        assert [head_name(*map(int, at)) for at in np.argwhere(named == name)] == heads
    mass = found.mean_mass()
    pulled = {head_name(*pair) for pairs in plan.PULLS.values() for pair in pairs}
    assert {head_name(*map(int, at)) for at in np.argwhere(bands.collapsed(named))} <= pulled
    assert all(mass[int(n[1:3]), int(n[5:])] == pytest.approx(m, abs=0.005) for n, m in CARD["mass"].items())
    band = bands.find_band(bands.collapsed(named), found.geometry.slopes)
    assert [band.first, band.last] == CARD["band"] == [9, 15]


def test_its_collapsed_heads_cost_little_and_random_heads_more(resources, whole):
    sick = tuple((int(name[1:3]), int(name[5:])) for name in CARD["mass"])
    change = loss_change(whole, losses(resources, Ablation(mode="static", heads=sick)))
    assert [change.change, change.low, change.high] == pytest.approx(CARD["zeroed"], abs=0.002)
    assert CARD["zeroed"][2] < min(low for _, low, _ in CARD["random"])


def test_the_card_says_first_that_the_collapse_was_made():
    told = (bundled.HERE / ROW.folder / "README.md").read_text()
    assert told == card.card(CARD, CARD["run"])
    said = told.split("# ALiBi-demo")[1].strip()
    assert said.startswith("**The collapse of this model's heads was induced by us.**")
    assert "not BLOOM" in said
