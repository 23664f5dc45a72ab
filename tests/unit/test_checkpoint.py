"""Checkpoints without some heads: plain transformers loads them and gives the numbers of the gated model, on every family."""

import dataclasses
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from headviz import recipes
from headviz.analysis import checkpoint
from headviz.analysis.card import HEADS_FILE
from headviz.analysis.headfile import read_heads
from headviz.codec import pack, unpack
from headviz.data import corpora, own_text
from headviz.errors import BadInput, Failure, UnsupportedModel
from headviz.models import catalog, export, gate, local
from headviz.models.architectures import FAMILIES, family_of, geometry
from headviz.models.attention import probe
from headviz.models.loading import Loaded
from headviz.models.smaller import SLICING, why_not
from headviz.settings import Settings
from headviz.types import CheckpointRequest, Geometry, ModelRef, Silent
from tests import tiny, tiny_tokenizer

OFF = ((0, 1), (1, 0), (1, 2))
MODEL = ModelRef(source="local", name="tiny", revision="0" * 64, dtype="float32")


class Bench:
    """A tiny model and a text, as a worker has them."""

    def __init__(self, home, case, dtype=torch.float32, **changes):
        self.settings = Settings(home=home)
        self.watch, self.threads, self.forgotten = Silent(), 1, False
        model = tiny.build(case, dtype, vocab_size=330, **changes)
        # on the attention that loading gives it, as the reloaded checkpoint has it
        supports = type(model)._supports_sdpa
        model.set_attn_implementation("sdpa" if supports else "eager")
        name = str(dtype).removeprefix("torch.")
        self.ref = dataclasses.replace(MODEL, dtype=name)
        self.loaded = Loaded(
            self.ref, model, tiny_tokenizer.make(), geometry(model.config), family_of(model.config), "cpu"
        )
        text = own_text.import_text((tiny_tokenizer.TEXT * 3).encode(), "t.txt", settings=self.settings)
        self.text = corpora.resolve(
            "own", revision=text.revision, inputs=3, tokens=24, settings=self.settings
        )

    def model(self, _ref):
        return self.loaded

    def forget(self):
        self.forgotten = True

    def request(self, heads=OFF, **more):
        return CheckpointRequest(model=self.ref, heads=heads, data=self.text, **more)


@pytest.fixture
def bench(home, tmp_path, monkeypatch):
    def make(case, dtype=torch.float32, **changes):
        source = tmp_path / "source"
        source.mkdir(exist_ok=True)
        (source / "LICENSE.txt").write_text("terms")
        monkeypatch.setattr(catalog, "locate", lambda *_: source)
        return Bench(home, case, dtype, **changes)

    return make


def gated(loaded, heads, ids):
    """Logits of the model under headviz's own gate."""
    shape = loaded.geometry
    off = gate.without(heads, shape.layers, shape.heads)
    with torch.inference_mode(), probe(loaded.model, want=(), gates=off) as watching:
        return watching.model(input_ids=ids).logits


def whole_groups(shape, gone=1):
    """`gone` KV groups of every layer, others in each layer."""
    size, G = shape.heads // shape.kv_heads, shape.kv_heads
    return tuple(
        sorted(
            (layer, (i + layer) % G * size + head)
            for layer in range(shape.layers)
            for i in range(gone)
            for head in range(size)
        )
    )


def plainly(folder, ids, **more):
    model = AutoModelForCausalLM.from_pretrained(folder, **more)
    with torch.inference_mode():
        return model(input_ids=ids).logits, model


IDS, _ = tiny.tokens([24, 24])


# ------------------------------------------------------------------------------------------------- W_O columns zero


@pytest.mark.parametrize("case", tiny.CASES)
def test_zeroed_checkpoint_is_the_gated_model_on_every_family(bench, case, tmp_path):
    worker = bench(case)
    loaded = worker.loaded
    before = {name: weight.clone() for name, weight in loaded.model.state_dict().items()}
    want = gated(loaded, OFF, IDS)
    folder = tmp_path / "made"
    folder.mkdir()
    export.write(loaded, export.zeroed(loaded, OFF), folder)
    logits, _ = plainly(folder, IDS)
    assert float((logits - want).abs().max()) <= 1e-6 * float(want.abs().max())
    stock = gated(loaded, (), IDS)
    assert float((want - stock).abs().max()) > 0.01, "these heads do something"
    after = loaded.model.state_dict()
    assert all(torch.equal(weight, after[name]) for name, weight in before.items()), "the model was only read"
    assert {path.suffix for path in folder.glob("model*")} <= {".safetensors", ".json"}


@pytest.mark.parametrize("case", tiny.CASES)
def test_ten_lines_of_python_do_what_the_gate_does(bench, case, tmp_path):
    loaded = bench(case).loaded
    loaded.model.save_pretrained(tmp_path / "tiny")
    code = recipes.heads_code(MODEL, OFF, loaded.geometry, place=str(tmp_path / "tiny"))
    assert "headviz" not in code.replace(str(tmp_path), "")
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    names = {}
    exec(compile(code, "recipe", "exec"), names)
    want = gated(loaded, OFF, IDS)
    with torch.inference_mode():
        logits = names["model"](input_ids=IDS).logits
    assert float((logits - want).abs().max()) <= 1e-6 * float(want.abs().max())


def test_code_says_what_it_does_not_do():
    shape = Geometry(family="qwen2", layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32)
    hub = dataclasses.replace(MODEL, source="hub", name="org/model", revision="c" * 40, dtype="bfloat16")
    code = recipes.heads_code(hub, ((0, 0), (0, 3), (1, 1)), shape, replace="mean")
    assert "zero in their place" in code
    assert "off = {0: [0, 3], 1: [1]}" in code
    assert f"'org/model', revision='{'c' * 40}', dtype=torch.bfloat16" in code
    with pytest.raises(BadInput, match="not on this machine"):
        recipes.heads_code(MODEL, OFF, shape)
    with pytest.raises(BadInput, match="quantisation none"):
        recipes.heads_code(dataclasses.replace(hub, quantization="4bit"), OFF, shape)


# --------------------------------------------------------------------------------------------------- heads left out


def test_every_family_has_a_row_about_smaller_checkpoints():
    assert set(SLICING) == set(FAMILIES)


ACCEPTING = [case for case in tiny.CASES if not SLICING[case.split("-")[0]].refused]


@pytest.mark.parametrize("case", ACCEPTING)
def test_smaller_checkpoint_is_the_gated_model_where_the_family_accepts_it(bench, case, tmp_path):
    loaded = bench(case).loaded
    if loaded.geometry.kv_heads == 1:
        assert "at least one KV group" in why_not(whole_groups(loaded.geometry), loaded.geometry)
        return
    heads = whole_groups(loaded.geometry)
    assert why_not(heads, loaded.geometry) == ""
    want = gated(loaded, heads, IDS)
    state, config = export.sliced(loaded, heads)
    folder = tmp_path / "made"
    folder.mkdir()
    export.write(loaded, state, folder, config)
    logits, model = plainly(folder, IDS)
    assert float((logits - want).abs().max()) <= 1e-6 * float(want.abs().max())
    count = sum(weight.numel() for weight in model.parameters())
    assert count < sum(weight.numel() for weight in loaded.model.parameters())
    assert geometry(model.config) == dataclasses.replace(
        loaded.geometry,
        heads=loaded.geometry.heads - len(heads) // loaded.geometry.layers,
        kv_heads=loaded.geometry.kv_heads - 1,
    )


@pytest.mark.parametrize("case", ["llama-mha", "qwen2", "qwen3", "mistral", "phi3"])
def test_a_head_count_that_does_not_divide_the_model_size(bench, case, tmp_path):
    """3 heads of 16 numbers in a model of 64: Llama's config refuses it, the others do not care."""
    shape = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16}
    loaded = bench(case, **shape).loaded
    heads = whole_groups(loaded.geometry)
    if case == "llama-mha":
        assert "hidden size (64) is not a multiple of the number of attention heads" in why_not(
            heads, loaded.geometry
        )
        assert "would do: 2, 1" in why_not(heads, loaded.geometry)
        return
    state, config = export.sliced(loaded, heads)
    (tmp_path / "made").mkdir()
    export.write(loaded, state, tmp_path / "made", config)
    logits, _ = plainly(tmp_path / "made", IDS)
    want = gated(loaded, heads, IDS)
    assert float((logits - want).abs().max()) <= 1e-6 * float(want.abs().max())


@pytest.mark.parametrize("family", [name for name, row in SLICING.items() if row.divides])
def test_it_is_the_config_of_transformers_that_refuses(bench, monkeypatch, family):
    loaded = bench(family, hidden_size=64, num_key_value_heads=4, head_dim=16).loaded
    monkeypatch.setitem(SLICING, family, dataclasses.replace(SLICING[family], divides=False))
    with pytest.raises(UnsupportedModel, match=r"refuses 3 heads.*hidden size \(64\) is not a multiple"):
        export.sliced(loaded, whole_groups(loaded.geometry))


@pytest.mark.parametrize("case", [case for case in tiny.CASES if case not in ACCEPTING])
def test_a_family_is_refused_because_it_would_not_be_exact(bench, case):
    """Half of the heads in the config: their size doubles, or, in OLMo 2, the norm spans what is left."""
    loaded = bench(case).loaded
    family = loaded.geometry.family
    assert SLICING[family].refused in why_not(whole_groups(loaded.geometry, 2), loaded.geometry)
    with pytest.raises(UnsupportedModel, match="cannot be made of this family"):
        export.sliced(loaded, whole_groups(loaded.geometry))
    kind = type(loaded.model.config)
    count = getattr(kind, "attribute_map", {}).get("num_attention_heads", "num_attention_heads")
    fewer = {count: 2} | ({"head_dim": 8} if family == "olmo2" else {})
    changed = kind(**loaded.model.config.to_dict() | fewer)
    model = AutoModelForCausalLM.from_config(changed)
    attention = getattr(model.get_submodule(FAMILIES[family].layers)[0], FAMILIES[family].attention)
    if family == "olmo2":
        assert attention.q_norm.weight.numel() == 2 * 8
        return
    output = getattr(attention, FAMILIES[family].output)
    assert min(output.weight.shape) == loaded.geometry.hidden, "fewer heads, and W_O as wide as before"


SHAPE = Geometry(family="qwen2", layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32)


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ((), "No head is off"),
        (((0, 0), (0, 1), (1, 2)), "L01.H02 is off while L01.H03 of its group stays"),
        (((0, 0), (0, 1)), "1 KV group is off in layer 0, 0 KV groups are in layer 1"),
        (tuple((layer, head) for layer in range(2) for head in range(4)), "at least one KV group"),
    ],
)
def test_what_is_in_the_way_of_a_smaller_one_is_said(heads, said):
    assert said in why_not(heads, SHAPE)
    if "layer" in said or "stays" in said:
        assert '"Whole KV groups" and "Same number in every layer"' in why_not(heads, SHAPE)


# --------------------------------------------------------------------------------------------------------- the job


def test_the_job_writes_compares_and_reports(bench):
    worker = bench("qwen2")
    request = worker.request()
    report = checkpoint.run_checkpoint(request, worker)
    folder = local.checkpoints(worker.settings) / report.name
    assert folder == catalog.checkpoint_folder(request, worker.settings)
    assert {path.name for path in folder.iterdir()} == {file.name for file in report.files}
    assert {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "README.md",
            "LICENSE.txt", HEADS_FILE} <= {file.name for file in report.files}  # fmt: skip
    assert report.difference <= 1e-5
    assert report.rounding <= 1e-5
    assert report.same_next == 1
    assert report.loss_after == pytest.approx(report.loss_off, abs=1e-5)
    assert abs(report.loss_after - report.loss_before) > 1e-3
    assert report.parameters_after == report.parameters_before
    assert [(s.doing, len(s.before), len(s.after)) for s in report.speeds] == [
        ("reading", 5, 5),
        ("writing", 5, 5),
    ]
    assert report.provenance.request["heads"] == [list(pair) for pair in OFF]
    assert unpack(pack(report)) == report
    assert str(folder) not in pack(report).decode("latin-1"), "no path of this machine in a result"
    card = (folder / "README.md").read_text()
    assert "3 of 8 query heads" in card
    assert MODEL.revision in card
    chosen = read_heads(
        folder / HEADS_FILE, model="tiny", revision=MODEL.revision, geometry=worker.loaded.geometry
    )
    assert chosen.heads == OFF
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "no half-written folder is left"


def test_the_smaller_job(bench):
    worker = bench("qwen3")
    heads = whole_groups(worker.loaded.geometry)
    report = checkpoint.run_checkpoint(worker.request(heads, smaller=True), worker)
    assert report.difference <= 1e-5
    assert report.parameters_after < report.parameters_before
    again = checkpoint.run_checkpoint(worker.request(heads, smaller=True), worker)
    assert again.revision == report.revision, "the same content each time"


def test_a_written_checkpoint_is_a_model_like_any_other(bench):
    worker = bench("qwen2")
    heads = whole_groups(worker.loaded.geometry)
    report = checkpoint.run_checkpoint(worker.request(heads, smaller=True), worker)
    entry = next(e for e in catalog.list_models(worker.settings) if e.name == report.name)
    assert entry.source == "local"
    assert entry.revision == report.revision
    assert geometry(entry.config).heads == 2
    assert catalog.resolve(report.name, settings=worker.settings).revision == report.revision


def test_bf16_to_rounding(bench):
    worker = bench("llama", torch.bfloat16)
    report = checkpoint.run_checkpoint(worker.request(), worker)
    assert report.difference <= 8 * (report.rounding + 0.0078 * 10)
    model = AutoModelForCausalLM.from_pretrained(local.checkpoints(worker.settings) / report.name)
    assert model.dtype == torch.bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_checkpoint_that_gives_other_numbers_is_not_kept(bench, monkeypatch, dtype):
    worker = bench("llama", dtype)
    monkeypatch.setattr(export, "zeroed", lambda loaded, heads: dict(loaded.model.state_dict()))
    with pytest.raises(Failure, match="was not kept"):
        checkpoint.run_checkpoint(worker.request(), worker)
    assert not list(local.checkpoints(worker.settings).iterdir())


def test_without_room_for_two_models_the_first_goes(bench, monkeypatch):
    worker = bench("llama")
    monkeypatch.setattr(checkpoint.memory, "available", lambda _device: 1000)
    report = checkpoint.run_checkpoint(worker.request(), worker)
    assert worker.forgotten
    assert report.speeds == ()
    assert "do not fit" in report.provenance.notes[-1]


def test_a_full_disk_is_a_sentence(bench, monkeypatch):
    worker = bench("llama")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(Failure, match=r"takes 0\.00 GB, and 0\.00 GB are free"):
        checkpoint.run_checkpoint(worker.request(), worker)


def test_what_is_not_ours_is_never_replaced(bench, tmp_path):
    worker, mine = bench("llama"), tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(BadInput, match="left alone"):
        checkpoint.write_checkpoint(worker.request(), worker, mine)
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_bad_requests_are_sentences(bench):
    worker = bench("llama")
    with pytest.raises(BadInput, match="No head is off"):
        checkpoint.run_checkpoint(worker.request(()), worker)
    with pytest.raises(BadInput, match="for another model"):
        checkpoint.run_checkpoint(worker.request(((7, 0),)), worker)
    with pytest.raises(UnsupportedModel, match="of its group stays"):
        checkpoint.run_checkpoint(worker.request(smaller=True), worker)
    worker.ref = dataclasses.replace(worker.ref, quantization="8bit")
    with pytest.raises(UnsupportedModel, match="Choose quantisation none"):
        checkpoint.run_checkpoint(worker.request(), worker)


def test_what_a_dead_process_left_is_removed(bench):
    worker = bench("llama")
    folder = catalog.checkpoint_folder(worker.request(), worker.settings)
    left = folder.with_name(f".{folder.name}.999999999")
    left.mkdir(parents=True)
    checkpoint.run_checkpoint(worker.request(), worker)
    assert not left.exists()


# ----------------------------------------------------------------------------------------------------- command line


def test_the_command_writes_where_it_is_told(tmp_path, capsys):
    from headviz.cli import main
    from tests.checkpoints import save

    source = save(tmp_path / "tiny", "qwen2")
    text = tmp_path / "t.txt"
    text.write_text("attention heads differ. some of them do nothing at all.\n" * 8)
    heads = tmp_path / "heads.json"
    heads.write_text(json.dumps({"model": "tiny", "heads": ["L00.H00", "L00.H01", "L01.H02", "L01.H03"]}))
    asked = [
        "checkpoint",
        "--model",
        str(source),
        "--dtype",
        "float32",
        "--heads",
        str(heads),
        "--text",
        str(text),
    ]
    assert main([*asked, "--smaller", "--out", str(tmp_path / "made")]) == 0
    told = capsys.readouterr()
    assert told.out.strip() == str(tmp_path / "made")
    assert "without 4 heads; loaded again, its logits differ by at most" in told.err
    logits, model = plainly(tmp_path / "made", IDS)
    assert model.config.num_key_value_heads == 1
    assert np.isfinite(logits.numpy()).all()
    assert main([*asked, "--quiet"]) == 0
    made = capsys.readouterr().out.strip()
    shutil.rmtree(made)
    assert main([*asked, "--quiet"]) == 0, "written again where somebody removed it"
    assert plainly(made, IDS)[1].config.num_key_value_heads == 2
    heads.write_text(json.dumps({"model": "other", "heads": [[0, 0]]}))
    assert main([*asked, "--quiet"]) == 2
    assert "is for other, not for tiny" in capsys.readouterr().err
