"""Loading: every family from disk, and a sentence for everything that must not be loaded."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace

import pytest
import torch

from headviz.errors import (
    BadInput,
    Cancelled,
    Failure,
    ModelNotFound,
    NotEnoughMemory,
    UnsafeModel,
    UnsupportedModel,
)
from headviz.models import catalog, checks, loading, memory
from headviz.models.architectures import FAMILIES
from headviz.settings import Settings
from tests import tiny
from tests.checkpoints import Recorder, change_config, save


@pytest.fixture
def settings(tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    return Settings(home=tmp_path / "home", models=models)


def load(settings, name="m", dtype="float32", **options):
    ref = catalog.resolve(name, dtype=dtype, settings=settings)
    return loading.load(ref, settings=settings, **options)


@pytest.mark.parametrize("case", [case for case in tiny.CASES if case in FAMILIES])
def test_every_family_loads_as_it_was_saved(settings, case):
    save(settings.models / "m", case)
    loaded = load(settings)
    want = tiny.build(case)
    ids, _ = tiny.tokens([7, 7])
    torch.testing.assert_close(loaded.model(ids).logits, want(ids).logits, rtol=1e-5, atol=1e-5)
    assert loaded.family is FAMILIES[case]
    assert loaded.geometry.layers == tiny.LAYERS
    assert loaded.device == "cpu"
    assert loaded.self_check is None
    assert not loaded.model.training
    assert not any(weight.requires_grad for weight in loaded.model.parameters())
    text = "so 7 heads\n(of 9)"
    assert len(loaded.tokenizer(text).input_ids) == len(text)
    assert loaded.tokenizer.decode(loaded.tokenizer(text).input_ids) == text
    assert loaded.model.config._attn_implementation == (
        "eager" if case in ("bloom", "mpt", "gemma2") else "sdpa"
    )


def test_every_family_has_a_case_and_its_native_class():
    from transformers.models.auto import modeling_auto

    names = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    assert set(FAMILIES) <= set(tiny.CASES)
    assert {family: names[family] for family in FAMILIES} == {
        family: checks._NATIVE[family] for family in FAMILIES
    }


@pytest.mark.parametrize(
    ("dtype", "want"), [("bfloat16", torch.bfloat16), ("float16", torch.float16), ("float32", torch.float32)]
)
def test_dtype(settings, dtype, want):
    save(settings.models / "m")
    assert load(settings, dtype=dtype).model.dtype == want


def test_sharded_checkpoint_loads_and_a_lost_shard_is_said(settings):
    folder = settings.models / "m"
    save(folder)
    tiny.build("llama").save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    load(settings)
    next(folder.glob("model-*.safetensors")).unlink()
    with pytest.raises(ModelNotFound, match=r"incomplete: its index lists model-.*Copy it again"):
        load(settings)


def test_progress_is_told(settings):
    save(settings.models / "m")
    watch = Recorder()
    load(settings, watch=watch)
    said = [step[0] for step in watch.steps]
    assert any(doing.startswith("reading the weights of m@") for doing in said)


def test_a_cancel_stops_it(settings):
    save(settings.models / "m")
    watch = Recorder()

    def stop(doing, *rest):
        if "weights" in doing:
            raise Cancelled("stop")

    watch.step = stop
    with pytest.raises(Cancelled):
        load(settings, watch=watch)


# ------------------------------------------------------------------------------------------ what is refused


def _config(folder, **config):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        (
            {"model_type": "bert", "architectures": ["BertForMaskedLM"]},
            UnsupportedModel,
            "BertForMaskedLM.*llama",
        ),
        (
            {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True},
            UnsupportedModel,
            "no causal language model.*T5",
        ),
        (
            {"model_type": "llama", "architectures": ["LlamaForSequenceClassification"]},
            UnsupportedModel,
            "no causal language model.*LlamaForSequenceClassification",
        ),
        (
            {"model_type": "mamba", "architectures": ["MambaForCausalLM"]},
            UnsupportedModel,
            "'mamba'.*llama.*bloom",
        ),
        ({"architectures": ["LlamaForCausalLM"]}, UnsupportedModel, "no model_type"),
        (
            {"model_type": "own", "auto_map": {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}},
            UnsafeModel,
            "own code.*never",
        ),
        (
            {"model_type": "llama", "auto_map": {"AutoModelForCausalLM": "modeling_x.OtherForCausalLM"}},
            UnsafeModel,
            "own code",
        ),
        ({"model_type": "llama", "auto_map": ["modeling_x.LlamaForCausalLM"]}, UnsafeModel, "own code"),
        (
            {"model_type": "llama", "quantization_config": {"quant_method": "gptq"}},
            UnsupportedModel,
            "gptq.*unquantised",
        ),
    ],
)
def test_configs_that_are_refused(settings, config, error, words):
    _config(settings.models / "m", **config)
    with pytest.raises(error, match=words):
        load(settings)


def test_code_that_transformers_has_itself_is_not_run_and_not_needed(settings):
    folder = save(settings.models / "m", "phi3")
    code = {
        "AutoConfig": "configuration_phi3.Phi3Config",
        "AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM",
    }
    change_config(folder, auto_map=code)
    for name in ("configuration_phi3.py", "modeling_phi3.py"):
        (folder / name).write_text("raise SystemExit('code of the checkpoint ran')\n")
    assert type(load(settings).model).__module__.startswith("transformers.")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth", "tf_model.h5"])
def test_pickled_weights_are_refused_unread(settings, name):
    folder = save(settings.models / "m")
    (folder / "model.safetensors").rename(folder / name)
    with pytest.raises(UnsafeModel, match=r"no safetensors.*can run code.*save_pretrained"):
        load(settings)


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("model.safetensors", "no weights"),
        ("tokenizer.json", "no tokenizer"),
    ],
)
def test_missing_files(settings, gone, words):
    folder = save(settings.models / "m")
    (folder / gone).unlink()
    with pytest.raises(ModelNotFound, match=words):
        load(settings)


def test_folder_without_config(settings, tmp_path):
    folder = save(tmp_path / "elsewhere")
    (folder / "config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        catalog.resolve(str(folder), settings=settings, allow_paths=True)


def test_an_adapter_is_named(settings, tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedModel, match=r"adapter.*Merge"):
        catalog.resolve(str(folder), settings=settings, allow_paths=True)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{not json"])
def test_damaged_config(settings, text):
    folder = save(settings.models / "m")
    (folder / "config.json").write_text(text)
    with pytest.raises(ModelNotFound, match=r"config.json of m cannot be read"):
        load(settings)


def test_damaged_weights(settings):
    folder = save(settings.models / "m")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(Failure, match=r"weights of m@.* damaged"):
        load(settings)


def test_damaged_tokenizer(settings):
    folder = save(settings.models / "m")
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelNotFound, match="tokenizer of m@"):
        load(settings)


def test_a_tokenizer_that_says_nothing_is_refused(settings):
    """For some families transformers ignores a tokenizer.json of another kind, and returns no tokens at all."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    folder = save(settings.models / "m", "qwen2")
    backend = Tokenizer(models.WordLevel({"the": 0, "?": 1}, unk_token="?"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=backend).save_pretrained(folder)
    with pytest.raises(ModelNotFound, match=r"tokenizer of m@.* no tokens"):
        load(settings)


def test_weights_that_are_missing_are_not_made_up(settings):
    """transformers would fill them with random numbers and only warn."""
    from safetensors.torch import load_file, save_file

    folder = save(settings.models / "m")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.self_attn.q_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UnsupportedModel, match=r"1 are missing.*layers\.1\.self_attn\.q_proj"):
        load(settings)


def test_weights_of_another_shape_are_refused(settings):
    folder = save(settings.models / "m")
    change_config(folder, intermediate_size=44)
    with pytest.raises((UnsupportedModel, Failure), match="m@"):
        load(settings)


def test_too_little_memory_is_said_before_anything_is_read(settings, monkeypatch):
    save(settings.models / "m")
    monkeypatch.setattr(memory.machine, "memory", lambda: (2**30, 1000))
    monkeypatch.setattr(loading, "_model", lambda *a: pytest.fail("weights were read"))
    with pytest.raises(
        NotEnoughMemory, match=r"m@.* needs about .* GB in float32, and 0.0 GB of main memory"
    ):
        load(settings)


@pytest.mark.parametrize(
    ("device", "words"),
    [("cuda", "no GPU here"), ("cuda:3", "cuda:3"), ("tpu", "'tpu'"), ("cuda:x", "'cuda:x'"), ("", "''")],
)
def test_devices_that_are_not_there(settings, monkeypatch, device, words):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match=words):
        loading.choose_device(device)


@pytest.mark.parametrize(
    ("count", "device", "want"),
    [
        (0, "auto", "cpu"),
        (1, "auto", "cuda:0"),
        (2, "auto", "auto"),
        (2, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
        (2, "cpu", "cpu"),
    ],
)
def test_devices(monkeypatch, count, device, want):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert loading.choose_device(device) == want


def test_several_gpus_are_left_to_accelerate(settings, monkeypatch):
    save(settings.models / "m")
    asked = {}

    def from_pretrained(folder, **options):
        asked.update(options)
        return tiny.build("llama"), {"missing_keys": [], "mismatched_keys": []}

    import transformers

    monkeypatch.setattr(loading, "choose_device", lambda device: "auto")
    monkeypatch.setattr(memory, "available", lambda device: 2**40)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    load(settings)
    assert asked["device_map"] == "auto"
    assert asked["trust_remote_code"] is False
    assert asked["use_safetensors"] is True


@pytest.mark.parametrize(("quantization", "bits"), [("8bit", "load_in_8bit"), ("4bit", "load_in_4bit")])
def test_quantization_reaches_transformers(monkeypatch, quantization, bits):
    made = {}
    import transformers

    monkeypatch.setattr(transformers, "BitsAndBytesConfig", lambda **options: made.update(options))
    ref = SimpleNamespace(quantization=quantization, dtype="bfloat16")
    loading._quantization(ref, torch)
    assert made[bits] is True


def test_transformers_logs_as_before(settings):
    from transformers.utils import logging as theirs

    save(settings.models / "m")
    before = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    load(settings)
    assert (theirs.get_verbosity(), theirs.is_progress_bar_enabled()) == before


def test_nothing_is_printed(settings, capfd, caplog):
    save(settings.models / "m")
    capfd.readouterr()
    with caplog.at_level(logging.WARNING):
        load(settings)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
