"""Python's own sources as a corpus."""

import pytest

from headviz.data import stdlib_code
from headviz.errors import BadData


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("code")


def test_parts_are_whole_modules_and_together_all(kept):
    held_out, train, whole = (stdlib_code.load(part, kept) for part in ("held-out", "train", "all"))

    def tops(text):
        return {document.name.split("/")[0].removesuffix(".py") for document in text.documents}

    assert tops(held_out) == stdlib_code.HELD_OUT & tops(whole)
    assert not tops(held_out) & tops(train)
    assert whole.documents == held_out.documents + train.documents
    assert len({text.revision for text in (held_out, train, whole)}) == 3
    assert sum(len(document.text) > 4000 for document in held_out.documents) >= 64
    assert held_out.characters > 1_000_000


def test_tests_tables_and_installed_packages_are_out(kept):
    names = [document.name for document in stdlib_code.load("all", kept).documents]
    folders = {part for name in names for part in name.split("/")[:-1]}
    assert not folders & stdlib_code.SKIPPED
    assert not [name for name in names if "_sysconfigdata" in name]
    assert "os.py" in names


def test_files_are_read_in_their_own_encoding_and_sorted(tmp_path):
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "z.py").write_bytes("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"))
    (tmp_path / "csv.py").write_text("x = 1\n")
    (tmp_path / "blank.py").write_text("\n")
    (tmp_path / "os.py").write_text("y = 2\n")
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "t.py").write_text("y = 2\n")
    found = list(stdlib_code.documents(tmp_path, "held-out"))
    assert [document.name for document in found] == ["csv.py", "json/z.py"]
    assert "é" in found[1].text
    assert [document.name for document in stdlib_code.documents(tmp_path, "train")] == ["os.py"]


def test_kept_after_the_first_time(kept, monkeypatch):
    first = stdlib_code.load("held-out", kept)
    monkeypatch.setattr(stdlib_code, "documents", lambda *rest: pytest.fail("read a second time"))
    assert stdlib_code.load("held-out", kept) == first


def test_a_python_without_sources_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(stdlib_code.sysconfig, "get_path", lambda name: str(tmp_path / "nothing"))
    with pytest.raises(BadData, match="no sources"):
        stdlib_code.load("held-out", tmp_path)
