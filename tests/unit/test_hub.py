"""The hub: pinning, downloads, the cache without a network, and a sentence for every refusal."""

from __future__ import annotations

import errno
import logging
import traceback

import httpx2
import pytest

from headviz.errors import (
    BadInput,
    Cancelled,
    Failure,
    GatedModel,
    HeadvizError,
    ModelNotFound,
    NotEnoughMemory,
    Unreachable,
    UnsafeModel,
    UnsupportedModel,
)
from headviz.models import catalog, hub, loading, memory
from headviz.settings import Settings
from tests import tiny
from tests.checkpoints import Recorder, change_config, save
from tests.hub import COMMIT, connected

TOKEN = "hf_FakeTokenFakeTokenFakeToken"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    with connected(tmp_path / "cache", monkeypatch) as hub:
        hub.repositories["org/tiny"] = save(tmp_path / "tiny")
        yield hub


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home")


def resolve(settings, name="org/tiny", **options):
    return catalog.resolve(name, dtype="float32", settings=settings, **options)


@pytest.mark.parametrize("revision", ["", "main", COMMIT])
def test_a_revision_becomes_a_commit(fake, settings, revision):
    ref = resolve(settings, revision=revision)
    assert (ref.source, ref.name, ref.revision) == ("hub", "org/tiny", COMMIT)
    assert catalog.label(ref) == "org/tiny@1a2b3c4"
    assert catalog.short(ref) == "tiny"


def test_download_load_and_then_no_network(fake, settings):
    watch = Recorder()
    ref = resolve(settings)
    loaded = loading.load(ref, settings=settings, watch=watch)
    assert loaded.geometry.family == "llama"
    downloads = [step for step in watch.steps if step[0] == "downloading org/tiny"]
    assert downloads[-1][1] == downloads[-1][2] > 0
    assert downloads[-1][3] == "bytes"

    fake.requests.clear()
    loading.load(ref, settings=settings)
    assert fake.requests == []

    def unplugged(method, path):
        raise httpx2.ConnectError("no route")

    fake.refuse = unplugged
    assert resolve(settings) == ref
    assert resolve(settings, revision=COMMIT) == ref
    assert [entry.label for entry in catalog.list_models(settings) if entry.source == "hub"] == [
        "org/tiny@1a2b3c4"
    ]


def test_offline_switch_is_obeyed(fake, settings, monkeypatch):
    from huggingface_hub import constants

    ref = resolve(settings)
    hub.download(ref.name, ref.revision, "tiny", Recorder())
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    fake.requests.clear()
    assert resolve(settings) == ref
    with pytest.raises(Unreachable, match=r"other.*HF_HUB_OFFLINE.*bundled"):
        resolve(settings, "org/other")
    with pytest.raises(Unreachable):
        resolve(settings, revision="dev")
    assert fake.requests == []


def test_an_incomplete_cache_is_completed(fake, settings, tmp_path):
    ref = resolve(settings)
    folder = hub.download(ref.name, ref.revision, "tiny", Recorder())
    (folder / "model.safetensors").unlink()
    assert hub.cached(ref.name, ref.revision) is None
    assert hub.in_cache() == []
    loading.load(ref, settings=settings)
    assert (folder / "model.safetensors").is_file()


def test_a_lost_shard_is_fetched_again(fake, settings):
    folder = fake.repositories["org/tiny"]
    tiny.build("llama").save_pretrained(folder, max_shard_size="20KB")
    (folder / "model.safetensors").unlink(missing_ok=True)
    ref = resolve(settings)
    here = hub.download(ref.name, ref.revision, "tiny", Recorder())
    shard = next(here.glob("model-*.safetensors"))
    shard.unlink()
    assert hub.cached(ref.name, ref.revision) is None
    hub.download(ref.name, ref.revision, "tiny", Recorder())
    assert shard.is_file()


def test_a_cancel_stops_a_download(fake, settings):
    class Stop(Recorder):
        def step(self, doing, done=0, total=0, unit=""):
            if done:
                raise Cancelled("stop")

    with pytest.raises(Cancelled):
        hub.download("org/tiny", COMMIT, "tiny", Stop())


def _weights_asked(fake):
    return [path for _, path in fake.requests if "safetensors" in path or path.endswith(".bin")]


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), UnsafeModel, "no safetensors"),
        (lambda f: (f / "config.json").unlink(), ModelNotFound, r"no config\.json"),
        (lambda f: (f / "tokenizer.json").unlink(), ModelNotFound, "no tokenizer"),
        (
            lambda f: change_config(f, model_type="own", auto_map={"AutoModel": "x.Y"}),
            UnsafeModel,
            "own code",
        ),
        (lambda f: change_config(f, architectures=["BertForMaskedLM"]), UnsupportedModel, "no causal"),
        (lambda f: change_config(f, model_type="mamba"), UnsupportedModel, "'mamba'"),
    ],
)
def test_refused_before_any_weights_are_fetched(fake, settings, spoil, error, words):
    spoil(fake.repositories["org/tiny"])
    ref = resolve(settings)
    with pytest.raises(error, match=words):
        loading.load(ref, settings=settings)
    assert _weights_asked(fake) == []


def test_memory_is_checked_before_any_weights_are_fetched(fake, settings, monkeypatch):
    monkeypatch.setattr(memory.machine, "memory", lambda: (1, 1))
    ref = resolve(settings)
    with pytest.raises(NotEnoughMemory):
        loading.load(ref, settings=settings)
    assert _weights_asked(fake) == []


REFUSALS = [
    (401, {"X-Error-Code": "RepoNotFound"}, ModelNotFound, r"no model org/tiny .*private.*hf auth login"),
    (401, {}, (ModelNotFound, GatedModel), r"hf auth login.*HF_TOKEN"),
    (401, {"X-Error-Code": "GatedRepo"}, GatedModel, r"gated.*licence.*hf auth login.*HF_TOKEN"),
    (403, {"X-Error-Code": "GatedRepo"}, GatedModel, r"gated.*licence"),
    (403, {}, GatedModel, r"refuses org/tiny \(403\)"),
    (404, {"X-Error-Code": "RevisionNotFound"}, ModelNotFound, r"no revision"),
    (404, {"X-Error-Code": "RepoNotFound"}, ModelNotFound, r"no model org/tiny"),
    (404, {}, ModelNotFound, r"no model org/tiny"),
    (403, {"X-Error-Message": "Access to this resource is disabled."}, ModelNotFound, r"disabled"),
    (429, {}, Unreachable, r"too many requests"),
    (500, {}, Unreachable, r"error \(500\).*Try again"),
    (503, {}, Unreachable, r"error \(503\)"),
]


@pytest.mark.parametrize(("status", "headers", "error", "words"), REFUSALS)
def test_statuses(fake, settings, status, headers, error, words):
    fake.refuse = lambda method, path: (status, headers)
    with pytest.raises(error, match=words):
        resolve(settings, revision="dev")


@pytest.mark.parametrize(
    "name", ["ConnectError", "ConnectTimeout", "ReadTimeout", "ProxyError", "RemoteProtocolError"]
)
def test_no_network(fake, settings, name):
    def unplugged(method, path):
        raise getattr(httpx2, name)("secret")

    fake.refuse = unplugged
    with pytest.raises(Unreachable, match=rf"does not answer \({name}\).*bundled model") as caught:
        resolve(settings)
    assert "secret" not in str(caught.value)


def test_gated_files_of_a_visible_model(fake, settings):
    """The hub shows a gated model's page to everybody, and refuses its files."""
    ref = resolve(settings)
    fake.refuse = lambda method, path: (403, {"X-Error-Code": "GatedRepo"}) if "/resolve/" in path else None
    with pytest.raises(GatedModel, match=r"gated.*hf auth login"):
        loading.load(ref, settings=settings)


def test_a_file_lost_on_the_way(fake, settings):
    ref = resolve(settings)
    fake.refuse = lambda method, path: (503, {}) if path.endswith("model.safetensors") else None
    with pytest.raises(Unreachable):
        loading.load(ref, settings=settings)


def test_full_disk_is_said(settings):
    with pytest.raises(Failure, match=r"No space left.*HF_HOME"), hub.sentences("org/tiny"):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "org/name/more",
        "org//name",
        "x--y",
        "a..b",
        "-x",
        "x.",
        "<script>",
        "org/na\nme",
        "é",
        "a" * 97,
        "a%2fb",
    ],
)
def test_ids_that_cannot_be_are_refused_unasked(fake, settings, name):
    with pytest.raises(BadInput, match="no hub id"):
        resolve(settings, name)
    assert fake.requests == []


@pytest.mark.parametrize("status", [401, 403, 404, 429, 500])
def test_a_token_is_never_repeated(fake, settings, monkeypatch, caplog, capfd, status):
    """Not even where the server echoes it, or the client puts it into its error."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    fake.refuse = lambda method, path: (status, {"X-Error-Message": f"Bearer {TOKEN} is not welcome"})
    with caplog.at_level(logging.DEBUG), pytest.raises(HeadvizError) as caught:
        resolve(settings)
    assert TOKEN not in str(caught.value)
    assert TOKEN not in repr(caught.value)
    assert TOKEN not in "".join(traceback.format_exception(caught.value))
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("headviz")]
    assert TOKEN not in "".join(ours)
    assert TOKEN not in "".join(capfd.readouterr())


def test_the_token_is_not_kept(fake, settings, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    ref = resolve(settings)
    loading.load(ref, settings=settings)
    assert TOKEN not in repr(ref)
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and TOKEN.encode() in path.read_bytes()]
    assert kept == []
