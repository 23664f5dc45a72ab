"""The table of corpora, pinning, and reading local copies: no network in any of this."""

import gzip
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headviz.data import corpora, local, reading, stdlib_code
from headviz.data.corpora import CORPORA, describe, read_documents, resolve
from headviz.data.own_text import import_text
from headviz.errors import BadData, BadInput, UnknownName
from headviz.settings import Settings
from headviz.types import DataRef, Silent, canonical

ROOT = Path(__file__).parents[2]
MMLU = Path(os.environ.get("HEADVIZ_MMLU") or ROOT.parent / "shared" / "data" / "mmlu")


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "data").mkdir()
    return Settings(home=tmp_path / "home", data=tmp_path / "data")


@pytest.fixture
def small_code(tmp_path, monkeypatch):
    """Stand-in for Python's sources: three files."""
    folder = tmp_path / "stdlib"
    folder.mkdir()
    for name in ("csv.py", "json.py", "os.py"):
        (folder / name).write_text(f"# {name}\n")
    monkeypatch.setattr(stdlib_code.sysconfig, "get_path", lambda name: str(folder))


def copy(settings, corpus, name, rows):
    """Write rows into the local copy of a corpus, in the format that the file's ending says."""
    path = settings.data / corpus / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(lines.encode()))
    elif name.endswith(".txt"):
        path.write_text(rows[0]["text"])
    else:
        path.write_text(lines)
    return path


def texts(ref, settings):
    return [document.text for document in read_documents(ref, settings, Silent())]


def test_every_row_is_complete():
    assert set(CORPORA) == {
        "docstrings", "stdlib-code", "fineweb-edu", "mmlu", "piqa", "winogrande", "wikitext", "c4", "hub", "own",
    }  # fmt: skip
    for name, row in CORPORA.items():
        assert row.id == name
        assert len(row.help) > 60
        assert row.help.endswith(".")
        assert row.title
        assert row.licence
        assert set(row.parts) <= {"all", "train", "held-out"}
        assert not row.splits or set(row.splits) == set(row.parts)
        assert bool(row.columns) == (row.source == "hub" and name != "hub")
        assert (row.source == "installed") == (name in reading.INSTALLED)


def test_inputs_longer_than_the_context_are_refused():
    ref = DataRef(corpus="docstrings", revision="0" * 64, tokens=512)
    corpora.check_length(ref, None)
    corpora.check_length(ref, 512)
    with pytest.raises(BadInput, match=r"512 tokens were asked for.*context is 511 tokens. Ask for 511"):
        corpora.check_length(ref, 511)


def test_a_ref_is_pinned_and_described(settings, small_code):
    ref = resolve("stdlib-code", settings=settings)
    assert ref == DataRef(corpus="stdlib-code", revision=ref.revision, part="held-out")
    assert len(ref.revision) == 64
    assert resolve("stdlib-code", settings=settings) == ref
    assert resolve("stdlib-code", part="train", settings=settings).revision != ref.revision
    assert describe(ref) == "stdlib-code, held-out · 16 × 512 tokens · seed 0"
    other = resolve("stdlib-code", inputs=4, tokens=64, seed=3, bos="never", chat=True, settings=settings)
    assert (
        describe(other)
        == "stdlib-code, held-out · 4 × at most 64 tokens · seed 3 · chat template · BOS never"
    )
    assert texts(ref, settings) == ["# csv.py\n", "# json.py\n"]


@pytest.mark.parametrize(
    ("choice", "error", "says"),
    [
        ({"corpus": "docstring"}, UnknownName, "Did you mean 'docstrings'"),
        ({"part": "heldout"}, UnknownName, "Did you mean 'held-out'"),
        ({"corpus": "mmlu", "part": "all"}, UnknownName, "Available: held-out, train"),
        ({"bos": "allways"}, UnknownName, "Did you mean 'always'"),
        ({"inputs": 0}, BadInput, "inputs is 0"),
        ({"inputs": 2.0}, BadInput, "inputs is 2.0"),
        ({"inputs": True}, BadInput, "inputs is True"),
        ({"tokens": 0}, BadInput, "tokens is 0"),
        ({"tokens": 2**31}, BadInput, "tokens is 2147483648"),
        ({"seed": -1}, BadInput, "seed is -1"),
        ({"dataset": "a/b"}, BadInput, "go with the corpus hub"),
        ({"corpus": "hub"}, BadInput, "Say which data set"),
        ({"corpus": "hub", "dataset": "/etc"}, BadData, "no id of a hub data set"),
        ({"corpus": "hub", "dataset": "../x"}, BadData, "no id of a hub data set"),
        ({"corpus": "hub", "dataset": "a/b/c"}, BadData, "no id of a hub data set"),
        ({"corpus": "own"}, BadInput, "Give some text first"),
        ({"corpus": "own", "revision": "0" * 64}, BadData, "Paste or upload it again"),
        ({"corpus": "own", "part": "train", "revision": "0" * 64}, UnknownName, "Available: all"),
        ({"revision": "0" * 64}, BadData, "another text here"),
    ],
)
def test_a_wrong_choice_is_a_sentence(choice, error, says, settings, small_code):
    with pytest.raises(error, match=says):
        resolve(**{"corpus": "stdlib-code", "settings": settings, **choice})


def test_a_folder_of_this_machine_is_no_data_set(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner" / "name").mkdir(parents=True)
    with pytest.raises(BadData, match="no id of a hub data set"):
        resolve("hub", dataset="owner/name", revision="0" * 40, settings=settings)


def test_own_text_has_no_seed_and_no_part(settings):
    own = import_text(b"Some text of mine.", "a.txt", settings=settings)
    ref = resolve("own", revision=own.revision, seed=7, settings=settings)
    assert (ref.seed, ref.part) == (0, "all")
    assert texts(ref, settings) == ["Some text of mine."]
    assert describe(ref) == f"own text {own.revision[:8]} · 16 × at most 512 tokens"


def test_a_request_about_another_text_is_refused(settings, small_code):
    ref = resolve("stdlib-code", settings=settings)
    stale = DataRef(**{**ref.__dict__, "revision": "1" * 64})
    with pytest.raises(BadData, match="another text of stdlib-code"):
        texts(stale, settings)


def test_no_path_of_the_machine_is_in_a_request(settings):
    copy(settings, "c4", "validation.jsonl", [{"text": "a"}])
    ref = resolve("c4", settings=settings)
    assert str(settings.data).encode() not in canonical(ref)
    assert ref.dataset == ""


@pytest.mark.parametrize(
    "name", ["validation.parquet", "validation/0.jsonl", "en/c4-validation.00000-of-8.json.gz"]
)
def test_a_local_copy_is_used_and_its_split_found(name, settings):
    copy(settings, "c4", "train.jsonl", [{"text": "train"}])
    copy(settings, "c4", name, [{"text": "one"}, {"text": " "}, {"text": "two"}])
    (settings.data / "c4" / "README.md").write_text("about")
    assert texts(resolve("c4", settings=settings), settings) == ["one", "two"]
    assert texts(resolve("c4", part="train", settings=settings), settings) == ["train"]


def test_csv_and_txt_copies(settings):
    (settings.data / "c4").mkdir()
    (settings.data / "c4" / "validation.csv").write_text('n,text\n1,"a, b"\n')
    copy(settings, "c4", "validation-2.txt", [{"text": "whole file"}])
    assert sorted(texts(resolve("c4", settings=settings), settings)) == ["a, b", "whole file"]


def test_a_local_copys_hash_follows_its_content(settings):
    path = copy(settings, "c4", "validation.jsonl", [{"text": "one"}])
    first = resolve("c4", settings=settings)
    assert resolve("c4", settings=settings) == first
    path.write_text('{"text": "two"}\n')
    os.utime(path, ns=(1, 1))
    second = resolve("c4", settings=settings)
    assert second.revision != first.revision
    with pytest.raises(BadData, match="another text of c4"):
        texts(first, settings)
    with pytest.raises(BadData, match="another text here"):
        resolve("c4", revision=first.revision, settings=settings)
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(BadData, match="not on this machine any more"):
        texts(second, settings)


def test_files_are_hashed_once(settings, monkeypatch):
    copy(settings, "c4", "validation.jsonl", [{"text": "one"}])
    first = resolve("c4", settings=settings)
    monkeypatch.setattr(local.hashlib, "file_digest", lambda *rest: pytest.fail("hashed a second time"))
    assert resolve("c4", settings=settings) == first
    monkeypatch.undo()
    (settings.home / "corpora" / "files.json").write_text("{broken")
    assert resolve("c4", settings=settings) == first


@pytest.mark.parametrize(
    ("name", "rows", "says"),
    [
        ("other.jsonl", [{"text": "a"}], "no file for split 'validation'; it holds other.jsonl"),
        ("validation.jsonl", [{"body": "a"}], "no column 'text'. Its columns: body"),
        ("validation.parquet", [{"body": "a"}], "no column 'text'. Its columns: body"),
        ("validation.jsonl", [{"text": 3}], "has int in column 'text'"),
    ],
)
def test_what_is_wrong_with_a_local_copy(name, rows, says, settings):
    copy(settings, "c4", name, rows)
    with pytest.raises(BadData, match=says):
        texts(resolve("c4", settings=settings), settings)


def test_one_split_is_divided_by_whole_documents(settings):
    rows = [{"text": f"document {number}"} for number in range(250)]
    copy(settings, "fineweb-edu", "part-0.parquet", rows)
    parts = {
        p: texts(resolve("fineweb-edu", part=p, settings=settings), settings)
        for p in ("train", "held-out", "all")
    }
    assert not set(parts["train"]) & set(parts["held-out"])
    assert sorted(parts["train"] + parts["held-out"]) == sorted(parts["all"])
    assert 10 < len(parts["held-out"]) < 45
    shuffled = settings.data / "fineweb-edu" / "part-0.parquet"
    pq.write_table(pa.Table.from_pylist(rows[::-1]), shuffled)  # the same documents, elsewhere: the same part
    assert set(texts(resolve("fineweb-edu", settings=settings), settings)) == set(parts["held-out"])


def test_a_large_set_is_not_read_whole(settings):
    copy(settings, "c4", "validation.jsonl", [{"text": f"document {number}"} for number in range(2000)])
    few, many = (resolve("c4", inputs=inputs, settings=settings) for inputs in (16, 100))
    assert len(texts(few, settings)) == corpora.pool_of(few) == 256
    assert len(texts(many, settings)) == corpora.pool_of(many) == 400


def test_any_hub_data_set_from_a_local_copy(settings):
    copy(settings, "owner--name", "test.jsonl", [{"body": "a"}, {"body": None}, {"body": "b"}])
    ref = resolve("hub", dataset="owner/name", split="test", column="body", settings=settings)
    assert texts(ref, settings) == ["a", "b"]
    assert describe(ref) == "owner/name test body, all · 16 × 512 tokens · seed 0"
    whole = resolve("hub", dataset="owner/name", split="test", settings=settings)
    assert (whole.split, whole.column) == ("test", "text")


def test_wikitext_rows_are_joined_to_articles(settings):
    lines = ["", " = One = \n", " text \n", " = = Part = = \n", " more \n", "", " = Two = \n", " text \n"]
    copy(settings, "wikitext", "test.parquet", [{"text": line} for line in lines])
    found = texts(resolve("wikitext", settings=settings), settings)
    assert found == [" = One = \n text \n = = Part = = \n more \n", " = Two = \n text \n"]


def test_piqa_and_winogrande_texts(settings):
    copy(
        settings, "piqa", "validation.jsonl", [{"goal": "Boil an egg", "sol1": "x", "sol2": "y", "label": 0}]
    )
    assert texts(resolve("piqa", settings=settings), settings) == ["Question: Boil an egg\nAnswer:"]
    row = {
        "sentence": "The cup did not fit, for the _ was too small.",
        "option1": "cup",
        "option2": "shelf",
        "answer": "2",
    }
    copy(settings, "winogrande", "validation.jsonl", [row])
    found = texts(resolve("winogrande", settings=settings), settings)
    assert found == ["The cup did not fit, for the shelf was too small."]
    copy(settings, "winogrande", "validation.jsonl", [{**row, "answer": ""}])
    with pytest.raises(BadData, match="no answer"):
        texts(resolve("winogrande", settings=settings), settings)


def test_mmlu_text_without_the_real_set(settings):
    row = {
        "question": " What is 2? ",
        "subject": "abstract_algebra",
        "choices": ["1", "2", "3", "4"],
        "answer": 1,
    }
    copy(settings, "mmlu", "test.parquet", [row])
    assert texts(resolve("mmlu", settings=settings), settings) == [
        "The following are multiple choice questions (with answers) about abstract algebra.\n\n"
        "What is 2?\nA. 1\nB. 2\nC. 3\nD. 4\nAnswer:"
    ]
    with pytest.raises(BadData, match="HEADVIZ_MMLU"):
        resolve("mmlu", settings=Settings(home=settings.home, mmlu=settings.data / "no"))


@pytest.mark.skipif(not MMLU.is_dir(), reason="MMLU's parquet files are not on this machine (HEADVIZ_MMLU)")
def test_the_real_mmlu(tmp_path):
    settings = Settings(home=tmp_path, mmlu=MMLU)
    held_out, train = (resolve("mmlu", part=part, settings=settings) for part in ("held-out", "train"))
    assert held_out.revision != train.revision
    found = texts(held_out, settings)
    assert len(found) == 14_042  # the whole set: it is sorted by subject, so a part of it would not do
    assert len(texts(train, settings)) == 285
    assert all(text.endswith("\nAnswer:") for text in found)


def test_pages_can_use_it_without_anything_heavy(tmp_path):
    script = """
        import sys
        from pathlib import Path
        from headviz.data.corpora import CORPORA, describe, resolve
        from headviz.data.own_text import import_text
        from headviz.settings import Settings
        before = set(sys.modules) & {"pyarrow", "pandas", "huggingface_hub"}
        settings = Settings(home=Path(sys.argv[1]))
        describe(resolve("docstrings", settings=settings))
        own = import_text(b"text", "a.txt", settings=settings)
        describe(resolve("own", revision=own.revision, settings=settings))
        heavy = {"torch", "transformers", "datasets", "tokenizers", "streamlit", "pandas"}
        print(sorted(before | (set(sys.modules) & heavy)))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
