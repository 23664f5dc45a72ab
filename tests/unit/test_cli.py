"""The command line: exit codes, one sentence on stderr, files that carry their provenance."""

import dataclasses
import json
import shlex
import socket

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
        (["score", "--out", "x.csv", "--dataset", "foo", "--split", "test"], "go with the corpus hub"),
        (["score", "--out", "x.csv", "--column", "body"], "go with the corpus hub"),
        (["score", "--out", "x.csv", "--text", "a.txt", "--corpus", "docstrings"], "--corpus cannot be used"),
        (["score", "--out", "x.csv", "--text", "a.txt", "--part", "all", "--split", "x"], "--part, --split"),
        (["score", "--out", "x.csv", "--text", "0" * 64, "--column", "body"], "no columns any more"),
        (["score", "--out", "x.csv", "--request", "r.json", "--model", "smollm2"], "so --model cannot"),
        (
            ["score", "--out", "x.csv", "--request", "r.json", "--chat", "--seed=0"],
            "so --chat, --seed cannot",
        ),
        (["score", "--out", "x.csv", "--tokens", "9000"], "the model's context is 8192 tokens"),
        (["serve", "--port", "99999"], "--port is 99999"),
        (["serve", "--port", "0"], "--port is 0"),
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
    monkeypatch.setattr("os.execv", lambda *_: pytest.fail("the dashboard was started"))
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
    "arguments",
    [
        [],
        ["score"],
        ["ablate"],
        ["sweep"],
        ["agree"],
        ["compare"],
        ["tolerance"],
        ["models"],
        ["store"],
        ["jobs"],
        ["serve"],
    ],
)
def test_help_everywhere(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--help"])
    assert stop.value.code == 0
    assert "usage" in capsys.readouterr().out


def test_models_lists_what_is_here_and_what_works(capsys):
    assert main(["models", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["models"][0]["name"] == "smollm2"
    assert {"llama", "bloom", "gpt2"} <= set(told["families"])


def test_models_says_which_folders_cannot_be_used(tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("HEADVIZ_MODELS", str(tmp_path))
    settings.cache_clear()
    assert main(["models"]) == 0
    assert "empty has no config.json" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["unusable"]] == ["empty"]
    assert main(["score", "--out", str(tmp_path / "x.csv"), "--model", "empty"]) == 2
    assert "empty has no config.json" in capsys.readouterr().err


def test_a_request_longer_than_the_context_is_refused_before_anything_is_loaded(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(local, "run_here", lambda *_: pytest.fail("it was run"))
    request = request_on(PROSE)
    long = dataclasses.replace(request, data=dataclasses.replace(request.data, tokens=9000))
    file = tmp_path / "request.json"
    file.write_text(json.dumps(spec(long)))
    assert main(["score", "--request", str(file), "--out", str(tmp_path / "s.csv")]) == 2
    assert "context is 8192 tokens" in capsys.readouterr().err


def test_fewer_inputs_than_asked_are_told(answered, tmp_path, capsys):
    table, note = fake_table(), "12 inputs, 16 were asked for: the text has no more of this length"
    made = dataclasses.replace(table.provenance, notes=(note,))
    local.store().put(job_digest(request_on(PROSE)), dataclasses.replace(table, provenance=made))
    assert main([*answered, "--out", str(tmp_path / "s.csv")]) == 0
    assert capsys.readouterr().err.endswith(f"Note: {note}.\n")
    assert main([*answered, "--quiet", "--out", str(tmp_path / "s.csv")]) == 0
    assert capsys.readouterr().err == ""


def test_jobs_can_be_told_apart(capsys, monkeypatch):
    from datetime import datetime

    from headviz.jobs.view import JobView

    request = request_on(PROSE)
    asked = {"kind": "score", "title": "", "created": datetime(2026, 5, 4, 10, 11)}
    views = [
        JobView(digest="a" * 64, request=request, state="running", doing="layer 3", **asked),
        JobView(digest="b" * 64, request=request, state="done", doing="layer 30", **asked),
        JobView(digest="c" * 64, request=None, state="failed", error="It died.\nlog\nlog", **asked),
    ]
    monkeypatch.setattr(local, "list_jobs", lambda: views)
    assert main(["jobs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    about = f"SmolLM2-135M-Instruct (bundled) · float32 · {corpora.describe(request.data)}"
    assert lines[0] == f"{'a' * 12}  2026-05-04 10:11  running     score    {about} · layer 3"
    assert lines[1].endswith(about), "what it did last says nothing any more"
    assert lines[2].endswith("written by another version of headviz · It died.")


def test_serve_refuses_a_port_that_is_taken(capsys, monkeypatch):
    monkeypatch.setattr("os.execv", lambda *_: pytest.fail("it was started"))
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", "--host", "127.0.0.1", "--port", str(port)]) == 2
    assert f"Port {port} of 127.0.0.1 is taken" in capsys.readouterr().err


def test_serve_refuses_a_host_that_is_not_known(capsys, monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert main(["serve", "--host", "nowhere.invalid"]) == 2
    assert "'nowhere.invalid' is no address" in capsys.readouterr().err


def test_serve_starts_on_a_free_port(monkeypatch):
    started = []
    monkeypatch.setattr("os.execv", lambda _, command: started.append(command))
    monkeypatch.setattr("os.chdir", lambda _: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
    main(["serve", "--host", "localhost", "--port", str(port)])
    assert started[0][-4:] == ["--server.address", "localhost", "--server.port", str(port)]


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


def test_the_printed_comparison_names_every_model_with_its_number_format(home):
    first = request_on(PROSE)
    one = dataclasses.replace(first, model=dataclasses.replace(first.model, dtype="float32"))
    other = dataclasses.replace(first, model=dataclasses.replace(first.model, dtype="bfloat16"))
    words = shlex.split(recipes.compare_command([one, other]))
    args = parser().parse_args(words[3:])
    name = first.model.name
    assert (args.command, args.models, args.dtype) == (
        "compare",
        [f"{name}:float32", f"{name}:bfloat16"],
        "auto",
    )
    same = parser().parse_args(shlex.split(recipes.compare_command([one, one]))[3:])
    assert (same.models, same.dtype) == ([name, name], "float32")
    assert (same.text, same.inputs, same.tokens) == (
        first.data.revision,
        first.data.inputs,
        first.data.tokens,
    )


def test_every_option_has_a_help_text():
    (commands,) = (action for action in parser()._actions if action.dest == "command")
    for name, command in commands.choices.items():
        without = [action.dest for action in command._actions if not action.help]
        assert without == [], f"{name} has options without a help text"
