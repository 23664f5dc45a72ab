"""The digest: the same for the same question, whoever asks and however it was written down."""

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from headviz.errors import BadInput, UnknownName
from headviz.jobs.kinds import KINDS, LANES, Kind, job_digest, read_spec, spec
from headviz.types import RESULTS, DataRef, ModelRef, PatternRequest, ScoreRequest, canonical
from tests.unit.samples import score_request

GOLDEN = (
    "ab6270454152e3e7cb28fd491bd0c357055bfeac5d007c45afc00394d4b8045a"  # sha256sum of the text in test_golden
)


def pattern_request(**more) -> PatternRequest:
    whole = score_request()
    return PatternRequest(
        **({"model": whole.model, "data": whole.data, "input": 0, "layer": 1, "head": 2} | more)
    )


@dataclass(frozen=True, kw_only=True)
class Number:
    kind: ClassVar[str] = "number"
    x: float = 0.0


@pytest.fixture
def number(monkeypatch):
    row = Kind(
        kind="number", request=Number, run="x:y", result="HeadPattern", version=1, lane="live", title="N"
    )
    monkeypatch.setitem(KINDS, "number", row)


def test_golden():
    """If this fails, every stored result of every user is lost: raise SCHEMA on purpose, or undo."""
    text = (
        '{"kind":"score","method_version":1,"request":{"data":{"bos":"tokenizer","chat":false,"column":"",'
        '"config":"","corpus":"docstrings","dataset":"","inputs":16,"part":"held-out","revision":"'
        + "b"
        * 64
        + '","seed":0,"split":"","tokens":512},"model":{"dtype":"float32","name":"smollm2","quantization":"none",'
        '"revision":"' + "a" * 64 + '","source":"bundled"}},"schema":1}'
    )
    assert canonical(spec(score_request())).decode() == text
    assert job_digest(score_request()) == GOLDEN


def test_field_order_and_defaults_do_not_matter():
    written_out = ScoreRequest(
        data=DataRef(
            chat=False,
            bos="tokenizer",
            seed=0,
            tokens=512,
            inputs=16,
            part="held-out",
            column="",
            split="",
            config="",
            dataset="",
            revision="b" * 64,
            corpus="docstrings",
        ),
        model=ModelRef(
            quantization="none", dtype="float32", revision="a" * 64, name="smollm2", source="bundled"
        ),
    )
    assert job_digest(written_out) == job_digest(score_request())


def test_the_same_in_another_process():
    code = "from headviz.jobs.kinds import job_digest; from tests.unit.samples import *; print(job_digest(score_request()))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == job_digest(score_request())


def test_every_field_matters():
    digests = {job_digest(score_request()), job_digest(pattern_request())}
    digests |= {job_digest(pattern_request(**{name: 7})) for name in ("input", "layer", "head")}
    digests.add(job_digest(score_request(seed=1)))
    assert len(digests) == 6


def test_device_and_threads_are_no_identity(monkeypatch):
    from headviz.settings import settings

    before = job_digest(score_request())
    monkeypatch.setenv("HEADVIZ_DEVICE", "cuda:1")
    monkeypatch.setenv("HEADVIZ_THREADS", "7")
    settings.cache_clear()
    assert settings().threads == 7
    assert job_digest(score_request()) == before
    names = {name for row in KINDS.values() for name in _all_names(spec_tree(row))}
    assert not names & {"device", "threads", "seconds", "versions", "finished", "path", "home"}


def spec_tree(row: Kind) -> dict:
    return spec(score_request() if row.kind == "score" else pattern_request())


def _all_names(tree) -> set[str]:
    if not isinstance(tree, dict):
        return set()
    return set(tree) | {name for part in tree.values() for name in _all_names(part)}


def test_method_version_matters(monkeypatch):
    from dataclasses import replace

    before = job_digest(score_request())
    monkeypatch.setitem(KINDS, "score", replace(KINDS["score"], version=2))
    assert job_digest(score_request()) != before


def test_minus_zero_is_zero(number):
    assert job_digest(Number(x=-0.0)) == job_digest(Number(x=0.0))


def test_a_whole_number_is_the_same_float(number):
    assert job_digest(Number(x=3)) == job_digest(Number(x=3.0))
    assert job_digest(read_spec(spec(Number(x=3)))) == job_digest(Number(x=3))


@pytest.mark.parametrize("x", ["3", True, None, [3]])
def test_fields_have_their_type(number, x):
    with pytest.raises(BadInput, match=r"Number\.x"):
        job_digest(Number(x=x))


@pytest.mark.parametrize("x", [math.nan, math.inf, -math.inf])
def test_numbers_are_finite(number, x):
    with pytest.raises(BadInput):
        job_digest(Number(x=x))


def test_spec_comes_back():
    for request in (score_request(), pattern_request()):
        assert read_spec(spec(request)) == request
        assert read_spec(canonical(spec(request))) == request
        assert read_spec(json.dumps(spec(request), indent=4)) == request


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": 2}, "schema"),
        ({"kind": "scores"}, "Did you mean 'score'"),
        ({"kind": None}, "kind of job"),
        ({"method_version": 0}, "version"),
        ({"method_version": "1"}, "version"),
        ({"request": []}, "JSON object"),
        ({"request": {"model": {}, "data": {}}}, "missing"),
        ({"extra": 1}, "must be a JSON object with"),
    ],
)
def test_a_wrong_spec_is_one_sentence(change, says):
    with pytest.raises(BadInput, match=says):
        read_spec(spec(score_request()) | change)


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "null", b"\xff", "[" * 100_000])
def test_what_is_no_spec_is_one_sentence(text):
    with pytest.raises(BadInput, match="no request of headviz"):
        read_spec(text)


def test_unknown_kind_of_request(monkeypatch):
    monkeypatch.delitem(KINDS, "score")
    with pytest.raises(UnknownName):
        job_digest(score_request())


@pytest.mark.parametrize("row", KINDS.values(), ids=KINDS)
def test_rows_are_whole(row):
    assert row.request.kind == row.kind == next(k for k, v in KINDS.items() if v is row)
    assert set(row.result.split(" | ")) <= set(RESULTS)
    assert row.run.count(":") == 1
    assert row.title
    assert row.lane in LANES


def test_a_digest_that_is_remembered_hides_no_wrong_field():
    """16 and 16.0 are equal, and hash alike; one of them is no number of an input."""
    assert job_digest(pattern_request(input=16)) == job_digest(pattern_request(input=16))
    with pytest.raises(BadInput, match="input"):
        job_digest(pattern_request(input=16.0))
