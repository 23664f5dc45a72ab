"""The command line: exit codes, one sentence on stderr, files that carry their provenance."""

import json
import shlex

import pandas as pd
import pyarrow.parquet
import pytest

from headviz import recipes
from headviz.charts.tables import LONG_COLUMNS
from headviz.cli import main, parser
from headviz.commands.score import request_of
from headviz.data import corpora, own_text
from headviz.jobs import local
from headviz.jobs.kinds import job_digest, spec
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import DataRef, ModelRef, ScoreRequest
from tests.fakes import fake_table

PROSE = "Attention heads differ. Some of them do nothing at all, and nobody noticed.\n" * 20


def request_on(text: str) -> ScoreRequest:
    kept = own_text.import_text(text.encode(), "text.txt", settings=settings())
    data = corpora.resolve("own", revision=kept.revision, inputs=2, tokens=16, settings=settings())
    return ScoreRequest(model=catalog.resolve("smollm2", dtype="float32", settings=settings()), data=data)


@pytest.fixture
def answered(home, tmp_path):
    """A text file whose scores are already in the store."""
    file = tmp_path / "text.txt"
    file.write_text(PROSE)
    local.store().put(job_digest(request_on(PROSE)), fake_table())
    return ["score", "--text", str(file), "--inputs", "2", "--tokens", "16", "--dtype", "float32"]


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_score_writes_one_row_a_head_and_metric(answered, tmp_path, capsys, ending):
    out = tmp_path / f"scores.{ending}"
    assert main([*answered, "--out", str(out)]) == 0
    if ending == "json":
        frame = pd.DataFrame(json.loads(out.read_text())["rows"])
    else:
        frame = {"csv": pd.read_csv, "parquet": pd.read_parquet}[ending](out)
    table = fake_table()
    assert list(frame.columns) == list(LONG_COLUMNS)
    assert len(frame) == len(table.metrics) * 270
    row = frame[(frame.metric == "awft") & (frame.layer == 3) & (frame["head"] == 7)].iloc[0]
    assert row["mean"] == pytest.approx(table.mean("awft")[3, 7], rel=1e-6)
    assert "request" in capsys.readouterr().err


def test_every_file_carries_its_provenance(answered, tmp_path):
    for ending in ("csv", "json", "parquet"):
        assert main([*answered, "--quiet", "--out", str(tmp_path / f"s.{ending}")]) == 0
    beside = json.loads((tmp_path / "s.csv.provenance.json").read_text())
    inside = json.loads((tmp_path / "s.json").read_text())["provenance"]
    schema = pyarrow.parquet.read_schema(tmp_path / "s.parquet").metadata[b"headviz"]
    assert beside == inside == json.loads(schema)
    assert beside["digest"] == fake_table().provenance.digest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["score", "--out", "x.xlsx"], "end the name in .parquet, .csv, .json"),
        (["score", "--out", "/no/such/folder/x.csv"], "there is no folder"),
        (["score", "--out", "x.csv", "--corpus", "docstring"], "Did you mean 'docstrings'"),
        (["score", "--out", "x.csv", "--text", "missing.txt"], "missing.txt cannot be read"),
        (["score", "--out", "x.csv", "--inputs", "0"], "inputs is 0"),
        (["score", "--out", "x.csv", "--model", "/no/such/model"], "/no/such/model"),
        (["score", "--out", "x.csv", "--quantization", "8bit"], "8bit"),
        (["score", "--out", "x.csv", "--request", "missing.json"], "missing.json cannot be read"),
        (["store", "prune"], "--older-than"),
        (["store", "prune", "--keep", "lots"], "--keep is 'lots'"),
        (["jobs", "cancel"], "needs the id of a job"),
        (["jobs", "cancel", "abcdef"], "abcdef"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "arguments", [[], ["scores"], ["score"], ["score", "--dtype", "int3", "--out", "x.csv"]]
)
def test_a_wrong_word_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["score", "--help"], ["store", "--help"], ["jobs", "--help"]]
)
def test_help_everywhere(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_models_lists_what_is_here_and_what_works(capsys):
    assert main(["models", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["models"][0]["name"] == "smollm2"
    assert {"llama", "bloom", "gpt2"} <= set(told["families"])


def test_store_lists_and_prunes(answered, capsys):
    assert main(["store"]) == 0
    assert "1 results" in capsys.readouterr().out
    assert main(["store", "prune", "--all"]) == 0
    assert "Removed 1" in capsys.readouterr().out
    assert local.store().entries() == []


def test_a_downloaded_request_runs_as_it_is(answered, tmp_path):
    file = tmp_path / "request.json"
    file.write_text(json.dumps(spec(request_on(PROSE))))
    assert main(["score", "--request", str(file), "--quiet", "--out", str(tmp_path / "s.csv")]) == 0


def test_the_printed_command_line_asks_for_the_same(home):
    request = request_on(PROSE)
    words = shlex.split(recipes.command_line(request, "out.csv"))
    assert words[:3] == ["python", "-m", "headviz"]
    assert job_digest(request_of(parser().parse_args(words[3:]))) == job_digest(request)


def test_hub_choices_are_all_in_the_printed_command_line():
    request = ScoreRequest(
        model=ModelRef(source="hub", name="org/m", revision="a" * 40, dtype="bfloat16", quantization="8bit"),
        data=DataRef(
            corpus="hub", revision="b" * 40, dataset="o/d", config="en", split="test", column="body",
            part="all", inputs=3, tokens=9, seed=4, bos="never", chat=True,
        ),
    )  # fmt: skip
    args = parser().parse_args(shlex.split(recipes.command_line(request))[3:])
    for name in ("dataset", "config", "split", "column", "part", "inputs", "tokens", "seed", "bos", "chat"):
        assert getattr(args, name) == getattr(request.data, name)
    assert (args.revision, args.quantization, args.data_revision) == ("a" * 40, "8bit", "b" * 40)
