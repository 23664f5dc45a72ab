"""`headviz order` on a tiny model, nothing faked: the order, the measured map, and what agrees with it."""

import json

import pytest

from headviz.analysis.metrics import METRICS
from headviz.cli import main
from tests.checkpoints import save

PROSE = "attention heads differ. some of them do nothing at all, and nobody noticed it for years.\n\n" * 40


@pytest.fixture
def asked(tmp_path):
    text = tmp_path / "mine.jsonl"
    text.write_text("\n".join(json.dumps({"text": PROSE[i : i + 24]}) for i in range(4)))
    folder = save(tmp_path / "tiny", "llama")
    return [
        "order", "--model", str(folder), "--dtype", "float32", "--text", str(text), "--inputs", "4", "--tokens", "24",
        "--chosen-on", "stdlib-code", "--chosen-inputs", "2", "--chosen-tokens", "24",
    ]  # fmt: skip


def test_every_head_has_a_place_by_gradient(asked, tmp_path, capsys):
    out = tmp_path / "o.json"
    assert main([*asked, "--out", str(out)]) == 0
    tree = json.loads(out.read_text())
    heads = tree["gradient"]["heads"]
    assert sorted(row["place"] for row in heads) == list(range(1, 9))
    by_place = [row["gradient"] for row in sorted(heads, key=lambda row: row["place"])]
    assert by_place == sorted(by_place)
    assert tree["gradient"]["taken_on"]["corpus"] == "stdlib-code"
    assert tree["gradient"]["provenance"]["request"]["model"]["dtype"] == "float32"
    assert "map" not in tree
    assert "8 heads ordered by gradient" in capsys.readouterr().err


@pytest.mark.parametrize("replace", ["zero", "mean"])
def test_the_map_has_a_cost_a_head_and_a_correlation_a_score(asked, tmp_path, capsys, replace):
    out = tmp_path / "o.json"
    assert main([*asked, "--map", "--replace", replace, "--out", str(out)]) == 0
    tree = json.loads(out.read_text())
    assert len(tree["map"]["heads"]) == 8
    assert (tree["map"]["replace"], tree["map"]["clusters"], tree["map"]["unit"]) == (replace, 4, "nats")
    assert all(row["ci_low"] <= row["change"] <= row["ci_high"] for row in tree["map"]["heads"])
    assert tree["map"]["measured_on"]["corpus"] == "own"
    assert {row["score"] for row in tree["correlations"]} == {*METRICS, "gradient"}
    known = [row["rho"] for row in tree["correlations"] if row["rho"] is not None]
    assert known == sorted(known, reverse=True)
    assert tree["scores"]["chosen_on"]["corpus"] == "stdlib-code"
    assert "Rank correlation with the cost" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--replace", "mean", "--out", "o.json"], "--replace goes with --map"),
        (["--out", "o.csv"], "end the name in .json"),
        (["--chosen-on", "docstring", "--out", "o.json"], "Did you mean 'docstrings'"),
        (["--map", "--tokens", "100000", "--out", "o.json"], "256"),
    ],
)
def test_bad_input_is_one_sentence(asked, capsys, monkeypatch, tmp_path, more, said):
    monkeypatch.chdir(tmp_path)
    assert main([*asked, *more]) == 2
    assert said in capsys.readouterr().err
