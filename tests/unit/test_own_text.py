"""Text that a person gives: every way in, and one sentence for every way it goes wrong."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headviz.data import own_text
from headviz.data.own_text import Summary, best_column, columns, import_text, load, summary
from headviz.errors import BadData
from headviz.settings import Settings


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path)


def parquet(table) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(table), out)
    return out.getvalue()


def texts(own):
    return [document.text for document in own.documents]


def test_a_txt_file_is_one_document_and_its_name_does_not_count(settings):
    own = import_text("héllo\r\n".encode(), "a.txt", settings=settings)
    assert texts(own) == ["héllo\r\n"]
    assert own.characters == 7
    assert own.columns == ()
    assert import_text("héllo\r\n".encode(), "other.md", settings=settings).revision == own.revision
    assert import_text("héllo\n".encode(), "a.txt", settings=settings).revision != own.revision


def test_it_is_kept_by_its_hash(settings):
    own = import_text(b"Some text.", "a.txt", settings=settings)
    assert [path.name for path in (settings.home / "texts").iterdir()] == [f"{own.revision}.json"]
    assert load(own.revision, settings).documents == own.documents


@pytest.mark.parametrize("revision", ["", "0" * 64, "../texts/x", "A" * 64])
def test_a_text_that_is_not_here(revision, settings, monkeypatch):
    if revision != "0" * 64:  # what is no hash never becomes part of a path
        monkeypatch.setattr(own_text, "read_text", lambda path: pytest.fail(f"{path} was read"))
    with pytest.raises(BadData, match="Paste or upload it again"):
        load(revision, settings)


def test_a_changed_text_is_not_taken_for_the_one_asked_for(settings):
    one, two = (import_text(text, "a.txt", settings=settings) for text in (b"one", b"two"))
    folder = settings.home / "texts"
    (folder / f"{one.revision}.json").write_bytes((folder / f"{two.revision}.json").read_bytes())
    with pytest.raises(BadData, match="not on this machine"):
        load(one.revision, settings)


def test_a_byte_order_mark_is_taken_off(settings):
    own = import_text(b"\xef\xbb\xbfhello", "a.txt", settings=settings)
    assert own.revision == import_text(b"hello", "a.txt", settings=settings).revision
    assert columns(b'\xef\xbb\xbf{"text": "a"}', "a.jsonl") == ["text"]
    assert columns(b"\xef\xbb\xbftext,n\na,1\n", "a.csv") == ["text", "n"]


def test_jsonl(settings):
    data = b'{"n": 1, "text": "first"}\n\n{"n": 2, "text": "second"}\n{"n": 3}\n'
    own = import_text(data, "a.jsonl", settings=settings)
    assert texts(own) == ["first", "second"]
    assert own.columns == ("n", "text")
    assert own.column == "text"
    assert own.notes == ("1 of 3 rows have no text and are left out",)


def test_csv_keeps_what_is_written(settings):
    data = b'id,body\n007,"one, ""two""\nthree"\nNA,NA\n'
    assert texts(import_text(data, "a.csv", column="body", settings=settings)) == ['one, "two"\nthree', "NA"]
    assert texts(import_text(data, "a.csv", column="id", settings=settings)) == ["007", "NA"]
    assert columns(data, "a.csv") == ["id", "body"]


def test_a_long_csv_field(settings):
    text = "word " * 2_000_000  # beyond a field of the csv module, and two blocks of pyarrow
    assert import_text(f"text\n{text}\n".encode(), "a.csv", settings=settings).characters == len(text)


def test_parquet(settings):
    data = parquet({"n": [1, 2, 3], "body": ["a b", None, "c"]})
    own = import_text(data, "a.parquet", settings=settings)
    assert texts(own) == ["a b", "c"]
    assert own.column == "body"
    assert columns(data, "a.parquet") == ["n", "body"]
    assert "1 of 3" in own.notes[0]


TWO = {"title": ["a"], "body": ["b"]}
LATIN = {"text": pa.array([b"caf\xe9"]).view(pa.string())}
UTF16 = "text".encode("utf-16")
WRONG = [
    (b"", "a.txt", "", "a.txt is empty"),
    (b"", "a.parquet", "", "a.parquet is empty"),
    (b"\xef\xbb\xbf \n", "a.txt", "", "a.txt is empty"),
    ("\u2003\n".encode(), "a.txt", "", "nothing but blanks in a.txt"),
    (b'{"text": "  "}', "a.jsonl", "", "nothing but blanks in column 'text' of a.jsonl"),
    (b"caf\xe9", "a.txt", "", r"byte 3 \(line 1\) is 0xe9.*UTF-8"),
    (b"\xef\xbb\xbfa\ncaf\xe9", "a.txt", "", r"byte 8 \(line 2\) is 0xe9"),
    (UTF16, "a.txt", "", "UTF-16"),
    (b'{"text": "a"}\n{"text": "caf\xe9"}', "a.jsonl", "", "Line 2 of a.jsonl is not UTF-8"),
    (b"text\ncaf\xe9\n", "a.csv", "", r"byte 8 \(line 2\) is 0xe9"),
    (b'{"text": "a"}\n{"text": oops}', "a.jsonl", "", "Line 2 of a.jsonl is no JSON"),
    (b'["a"]', "a.jsonl", "", "Line 1 of a.jsonl is no JSON object"),
    (b"[" * 100_000, "a.jsonl", "", "Line 1 of a.jsonl is no JSON"),
    (b'{"text": "\\ud800"}', "a.jsonl", "", "lone surrogate"),
    (b'{"text": 7}', "a.jsonl", "text", "Row 1 of column 'text' of a.jsonl is no text but int"),
    (b"id,title\n1,a\n2,b\n", "a.csv", "id", r"'id' of a.csv holds numbers.*2 of 2.*the others are: title"),
    (b"text\n1\n2.5\nb\n", "a.csv", "", "no column of text. Its columns: text"),
    (b'{"text": "7"}', "a.jsonl", "text", "'text' of a.jsonl holds numbers.*It has no other column"),
    (b'{"n": 7}', "a.jsonl", "", "no column of text. Its columns: n"),
    (b'{"a": "x"}', "a.jsonl", "b", "no column 'b'. Its columns: a"),
    (b'{"a": "x", "b": "y"}', "a.jsonl", "", "several columns of text.*a, b"),
    (b"a,b\nx,y\n", "a.csv", "c", "no column 'c'. Its columns: a, b"),
    (b"a,b\nx,y\n1,2,3\n", "a.csv", "a", "cannot be read as csv"),
    (b"PAR1 no", "a.parquet", "", "no parquet file"),
    (parquet({"n": [1]}), "a.parquet", "", "no column of text. Its columns: n"),
    (parquet({"n": [1]}), "a.parquet", "n", "Row 1 of column 'n' of a.parquet is no text but int"),
    (parquet(TWO), "a.parquet", "", "several columns of text.*title, body"),
    (parquet(TWO)[:4] + b"\xff" * 60 + parquet(TWO)[64:], "a.parquet", "title", "damaged parquet file"),
    (parquet(LATIN), "a.parquet", "text", "not UTF-8"),
    (b"text", "a.pkl", "", r"ending that is not known. Known: \.txt"),
    (b"text", "", "", "ending that is not known"),
    (b"text", "a.txt.gz", "", "ending that is not known"),
]


@pytest.mark.parametrize(("data", "name", "column", "says"), WRONG, ids=[says[:45] for *_, says in WRONG])
def test_what_cannot_be_read_is_a_sentence(data, name, column, says, settings):
    with pytest.raises(BadData, match=says):
        import_text(data, name, column=column, settings=settings)
    assert not (settings.home / "texts").exists()


def test_too_large(settings, monkeypatch):
    monkeypatch.setattr(own_text, "MAX_BYTES", 2_000_000)
    with pytest.raises(BadData, match="3 MB; at most 2 MB"):
        import_text(b"a" * 3_000_000, "a.txt", settings=settings)
    monkeypatch.setattr(own_text, "MAX_CHARACTERS", 1_000_000)
    small = parquet({"text": ["a" * 1000] * 1100})  # a few kB, as one value repeated
    assert len(small) < 100_000
    with pytest.raises(BadData, match="more than 1 million characters"):
        import_text(small, "a.parquet", settings=settings)


def test_what_is_kept_is_json(settings):
    own = import_text(b'{"text": "a"}\n{"text": "b"}', "x.jsonl", settings=settings)
    tree = json.loads((settings.home / "texts" / f"{own.revision}.json").read_bytes())
    assert tree == {"revision": own.revision, "documents": [["row 1", "a"], ["row 2", "b"]]}


@pytest.mark.parametrize(
    ("data", "name", "best"),
    [
        (b"id,body\n1,one\n2,two\n", "a.csv", "body"),
        (b"id,body,empty\n1,one,\n2,two,\n", "a.csv", "body"),
        (b"title,text\nx,one\n", "a.csv", "text"),
        (b"title,body\nx,one\n", "a.csv", ""),
        (b"id,share\n1,2.5%\n-2,1e-3\n", "a.csv", ""),
        (b"text,body\n1,one\n2,two\n", "a.csv", "body"),
        (b"title,text\n" + b"x,\n" * 300 + b"x,one\n", "a.csv", "text"),
        (b'{"id": "17", "n": 4, "body": "one"}\n{"id": "18", "body": "2"}', "a.jsonl", "body"),
        (b'{"n": 4}', "a.jsonl", ""),
        (parquet({"n": [1, 2], "id": ["1", "2"], "body": ["one", None]}), "a.parquet", "body"),
        (parquet({"n": [1, 2]}), "a.parquet", ""),
        (b"1 2 3", "a.txt", ""),
    ],
)
def test_the_column_of_text_is_found_or_left_open(data, name, best, settings):
    assert best_column(data, name) == best
    if best:
        assert import_text(data, name, settings=settings).column == best


def test_the_best_column_reads_the_first_rows_only(settings):
    data = b"id,body\n" + b"7,some words\n" * 300 + b"x,1\n" * 900
    assert best_column(data, "a.csv") == "body"
    with pytest.raises(BadData, match=r"'body' of a.csv holds numbers.*900 of 1200"):
        import_text(data, "a.csv", settings=settings)


def test_what_a_kept_text_is(settings):
    rows = [{"text": " one\n\ttwo " + "words " * 40}, {"text": ""}, {"text": "three"}]
    own = import_text("\n".join(map(json.dumps, rows)).encode(), "a.jsonl", settings=settings)
    told = summary(own.revision, settings)
    start = ("one two " + "words " * 40)[:80]
    assert told == Summary(2, own.characters, start, ("1 of the first 3 rows have no text and are left out",))
    txt = import_text(b"Some text.", "a.txt", settings=settings)
    assert summary(txt.revision, settings) == (1, 10, "Some text.", ())
    with pytest.raises(BadData, match="not on this machine"):
        summary("0" * 64, settings)
