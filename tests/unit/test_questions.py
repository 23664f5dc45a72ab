"""Question sets: what is drawn, what is pinned, and one sentence for everything that is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headviz.data import hub, questions
from headviz.data.questions import MMLU_SUBJECTS, import_questions, read_questions, resolve_questions
from headviz.errors import BadData, BadInput, UnknownName, lookup
from headviz.settings import Settings
from headviz.types import Silent

MMLU = Path(__file__).parents[2].parent / "shared" / "data" / "mmlu"


@pytest.fixture
def here(tmp_path):
    return Settings(home=tmp_path / "home")


def read(ref, settings):
    return read_questions(ref, settings, Silent())


def places(found):
    return [(one.subject, one.index) for one in found.items]


def rows(count=6, dev=2, subject="birds"):
    return [
        {"question": f"How many is {i}?", "choices": ["one", "two", "three", "four"], "answer": i % 4,
         "subject": subject, "split": "dev" if i < dev else "test"}
        for i in range(count)
    ]  # fmt: skip


def jsonl(table):
    return "\n".join(map(json.dumps, table)).encode()


def test_the_quiz_is_there_without_a_network(here):
    ref = resolve_questions("quiz", shots=5, settings=here)
    found = read(ref, here)
    assert len(ref.subjects) == 16
    assert len(found.items) == 320
    assert all(len(shots) == 5 for shots in found.examples.values())
    assert places(found) == sorted(places(found))


def test_a_draw_depends_on_seed_and_subject_alone(here):
    few = resolve_questions("quiz", subjects=["animals"], per_subject=7, settings=here)
    many = resolve_questions("quiz", per_subject=7, settings=here)
    drawn = places(read(few, here))
    assert len(drawn) == 7
    assert drawn == [place for place in places(read(many, here)) if place[0] == "animals"]
    other = resolve_questions("quiz", subjects=["animals"], per_subject=7, seed=1, settings=here)
    assert places(read(other, here)) != drawn


@pytest.mark.parametrize("per_subject", [0, 7])
def test_halves_are_disjoint_and_make_up_the_whole(here, per_subject):
    found = {
        half: set(places(read(resolve_questions("quiz", per_subject=per_subject, half=half, settings=here), here)))
        for half in ("all", "first", "second")
    }  # fmt: skip
    assert not found["first"] & found["second"]
    assert found["first"] | found["second"] == found["all"]
    assert 0 <= len(found["first"]) - len(found["second"]) <= 16


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"source": "mmul"}, UnknownName, "Did you mean 'mmlu'"),
        ({"subjects": ["animols"]}, UnknownName, r"'animols'.*Did you mean 'animals'"),
        ({"shots": 6}, BadInput, "shots is 6; it must be a whole number from 0 to 5"),
        ({"per_subject": -1}, BadInput, "per_subject is -1"),
        ({"half": "third"}, UnknownName, "half 'third'"),
        ({"scoring": "letters"}, UnknownName, "Did you mean 'letter'"),
        ({"bos": "maybe"}, UnknownName, "BOS policy 'maybe'"),
        ({"source": "own"}, BadInput, "Give some questions first"),
        ({"source": "own", "revision": "0" * 64}, BadData, "are not on this machine"),
        ({"revision": "0" * 64}, BadData, "other questions here"),
        ({"per_subject": 1, "half": "second"}, BadData, "No question of quiz is left"),
    ],
)
def test_bad_choices_get_a_sentence(here, changes, error, says):
    with pytest.raises(error, match=says):
        resolve_questions(**({"source": "quiz", "settings": here} | changes))


def test_own_questions_have_one_hash_in_every_format(here):
    table = rows()
    one = import_questions(jsonl(table), "mine.jsonl", here)
    lines = ["question,choices,answer,subject,split"]
    for row in table:
        quoted = json.dumps(row["choices"]).replace('"', '""')
        lines.append(f'{row["question"]},"{quoted}",{"ABCD"[row["answer"]]},{row["subject"]},{row["split"]}')
    assert import_questions("\n".join(lines).encode(), "mine.csv", here) == one
    ref = resolve_questions("own", revision=one, shots=2, settings=here)
    found = read(ref, here)
    assert ref.subjects == ("birds",)
    assert len(found.items) == 4
    assert len(found.examples["birds"]) == 2
    assert [item.answer for item in found.items] == [2, 3, 0, 1]


def test_own_questions_without_examples_take_no_shots(here):
    revision = import_questions(jsonl(rows(dev=0)), "mine.jsonl", here)
    with pytest.raises(BadData, match=r"birds has 0 worked examples and 1 were asked for.*split = dev"):
        resolve_questions("own", revision=revision, shots=1, settings=here)


@pytest.mark.parametrize(
    ("data", "name", "says"),
    [
        (b"x", "mine.txt", "neither jsonl nor csv"),
        (b"", "mine.jsonl", "holds no questions"),
        (jsonl(rows(2, dev=2)), "mine.jsonl", "holds no questions"),
        (b'{"question": "a?", "answer": 0}', "mine.jsonl", "Row 1 of mine.jsonl has no column 'choices'"),
        (b'{"question": " ", "answer": 0, "choices": ["a", "b"]}', "q.jsonl", "has no question"),
        (b'{"question": "a?", "answer": 4, "choices": ["a", "b", "c", "d"]}', "q.jsonl", "number from 0 to 3"),
        (b'{"question": "a?", "answer": "E", "choices": ["a", "b"]}', "q.jsonl", "letter from A to B"),
        (b'{"question": "a?", "answer": 0, "choices": ["a"]}', "q.jsonl", "has 1 choices"),
        (b'{"question": "a?", "answer": 0, "choices": ["a", 3]}', "q.jsonl", "no list of choices"),
        (b'{"question": "a?", "answer": 0, "choices": ["a", "b"], "split": "x"}', "q.jsonl", "split 'x'"),
        (b"{", "q.jsonl", "no JSON"),
    ],
)  # fmt: skip
def test_files_that_cannot_be_read_get_a_sentence(here, data, name, says):
    with pytest.raises(BadData, match=says):
        import_questions(data, name, here)


# --------------------------------------------------------------------------------------------------------- MMLU


def folder(tmp_path, tests, dev):
    for name, table in (("test", tests), ("dev", dev)):
        if table is not None:
            pq.write_table(pa.Table.from_pylist(table), tmp_path / f"{name}.parquet")
    return Settings(home=tmp_path / "home", mmlu=tmp_path)


def mmlu(count, subject="anatomy"):
    return [{name: row[name] for name in ("question", "choices", "answer", "subject")} for row in rows(count, subject=subject)]  # fmt: skip


def test_mmlu_from_a_folder(tmp_path):
    settings = folder(tmp_path, mmlu(9) + mmlu(3, "virology"), mmlu(5) + mmlu(5, "virology"))
    ref = resolve_questions("mmlu", per_subject=4, settings=settings)
    found = read(ref, settings)
    assert ref.subjects == ("anatomy", "virology")
    assert len(ref.revision) == 64
    assert len(found.items) == 7
    assert found.notes == ("virology has 3 questions, 4 were asked for",)


def test_another_content_is_another_revision(tmp_path):
    settings = folder(tmp_path, mmlu(3), mmlu(5))
    before = resolve_questions("mmlu", settings=settings)
    folder(tmp_path, mmlu(4), mmlu(5))
    assert resolve_questions("mmlu", settings=settings).revision != before.revision
    with pytest.raises(BadData, match="other questions of mmlu"):
        read(before, settings)


@pytest.mark.parametrize(
    ("tests", "dev", "says"),
    [
        (None, mmlu(5), "no file for split 'test'"),
        (mmlu(5), None, "no file for split 'dev'"),
        ([{"question": "a?", "subject": "anatomy", "answer": 0}], mmlu(5), "no column 'choices'"),
        (mmlu(5), mmlu(4), "anatomy has 4 worked examples and 5 were asked for"),
    ],
)
def test_a_malformed_folder_gets_a_sentence(tmp_path, tests, dev, says):
    with pytest.raises(BadData, match=says):
        resolve_questions("mmlu", settings=folder(tmp_path, tests, dev))


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(BadData, match="HEADVIZ_MMLU names a folder that does not exist"):
        resolve_questions("mmlu", settings=Settings(home=tmp_path, mmlu=tmp_path / "nowhere"))


def test_mmlu_from_the_hub_reads_rows_of_the_pinned_commit(here, monkeypatch):
    asked = []

    def stream(dataset, config, split, columns, revision, watch):
        asked.append((dataset, config, split, revision))
        yield from mmlu(6) if split == "test" else mmlu(5)

    monkeypatch.setattr(hub, "commit", lambda dataset, revision="": "a" * 40)
    monkeypatch.setattr(hub, "rows", stream)
    ref = resolve_questions("mmlu", subjects=["anatomy"], settings=here)
    assert ref.revision == "a" * 40
    assert not asked
    assert len(read(ref, here).items) == 6
    assert asked == [("cais/mmlu", "all", split, "a" * 40) for split in ("test", "dev")]
    assert resolve_questions("mmlu", settings=here).subjects == MMLU_SUBJECTS


@pytest.mark.skipif(not MMLU.is_dir(), reason="the MMLU files are not beside this checkout")
def test_the_real_mmlu(tmp_path):
    settings = Settings(home=tmp_path, mmlu=MMLU)
    ref = resolve_questions("mmlu", settings=settings)
    found = read(ref, settings)
    assert ref.subjects == MMLU_SUBJECTS
    assert len(found.items) == 14042
    first = found.items[0]
    assert first.question.startswith("Find the degree for the given field extension Q(sqrt(2)")
    assert found.examples["abstract_algebra"][0].question.startswith("Find all c in Z_3")


def test_pages_can_pin_questions_without_torch():
    code = (
        "import sys; from headviz.data.questions import QUESTIONS, resolve_questions; "
        "from headviz.settings import settings; resolve_questions('quiz', settings=settings()); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers', 'datasets')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert set(questions.QUESTIONS) == {"mmlu", "quiz", "own"}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("biology", "Did you mean 'college_biology' or 'high_school_biology'? There are 57."),
        ("anatomi", "Did you mean 'anatomy'? There are 57."),
        ("zzz", "There are 57, such as abstract_algebra, anatomy, astronomy."),
    ],
)
def test_of_many_names_the_nearest_are_named(asked, says):
    with pytest.raises(UnknownName) as error:
        lookup(dict.fromkeys(MMLU_SUBJECTS), asked, "subject of mmlu")
    assert str(error.value) == f"Unknown subject of mmlu {asked!r}. {says}"
