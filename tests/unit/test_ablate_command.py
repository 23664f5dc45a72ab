"""`headviz ablate` and `sweep` on a tiny model, nothing faked: files say what was asked and what came out."""

import json

import pytest

from headviz.cli import main
from tests.checkpoints import save

PROSE = "attention heads differ. some of them do nothing at all, and nobody noticed it for years.\n\n" * 40


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Options for a tiny llama, chosen on one part of the standard library's text and measured on a text of our own."""
    text = tmp_path / "mine.jsonl"
    text.write_text("\n".join(json.dumps({"text": PROSE[i : i + 24]}) for i in range(6)))
    folder = save(tmp_path / "tiny", "llama")
    return [
        "--model", str(folder), "--dtype", "float32", "--text", str(text), "--inputs", "6", "--tokens", "24",
        "--chosen-on", "stdlib-code", "--chosen-inputs", "2", "--chosen-tokens", "24", "--quiet",
    ]  # fmt: skip


def read(path):
    return json.loads(path.read_text())


def test_ablate_on_loss_with_random_heads(asked, tmp_path):
    out = tmp_path / "r.json"
    assert main(["ablate", *asked, "--share", "0.25", "--random-draws", "2", "--out", str(out)]) == 0
    tree = read(out)
    assert tree["heads_off"] == len(tree["heads"]) == 2
    assert tree["share_off"] == 0.25
    assert tree["change"] == pytest.approx(tree["ablated"] - tree["baseline"])
    assert tree["ci_low"] <= tree["change"] <= tree["ci_high"]
    assert {kind: band["n"] for kind, band in tree["random"].items()} == {"uniform": 2, "layer_matched": 2}
    assert tree["chosen_on"]["corpus"] == "stdlib-code"
    assert tree["measured_on"]["corpus"] == "own"


def test_nothing_off_changes_nothing(asked, tmp_path):
    out = tmp_path / "r.json"
    assert main(["ablate", *asked, "--share", "0", "--out", str(out)]) == 0
    assert read(out)["change"] == 0


def test_a_head_set_comes_back_from_a_file(asked, tmp_path):
    heads = tmp_path / "heads.json"
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    assert main(["ablate", *asked, "--share", "0.25", "--out", str(first)]) == 0
    tree = read(first)
    heads.write_text(json.dumps({"model": "tiny", "heads": tree["heads"]}))
    assert main(["ablate", *asked, "--heads", str(heads), "--out", str(second)]) == 0
    assert read(second)["ablated"] == tree["ablated"]


def test_the_papers_rule_per_input(asked, tmp_path):
    out = tmp_path / "r.json"
    assert main(["ablate", *asked, "--mode", "per-input", "--share", "0.3", "--out", str(out)]) == 0
    tree = read(out)
    assert tree["mode"] == "per-input"
    assert 0 <= tree["share_off"] <= 1
    assert "heads" not in tree
    assert tree["off_sets"]["distinct"] >= 1


def test_sweep_writes_a_row_a_share(asked, tmp_path):
    out = tmp_path / "s.json"
    assert main(["sweep", *asked, "--shares", "0.25,0.5", "--out", str(out)]) == 0
    assert [row["share_off"] for row in read(out)["rows"]] == [0.25, 0.5]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--share", "25"], "between 0 and 1"),
        (["--metric", "ahno"], "Did you mean"),
        (["--heads", "missing.json"], "missing.json cannot be read"),
        (["--per-question"], "goes with questions"),
        (["--target", "own"], "--questions FILE"),
        (["--target", "quiz", "--subjects", "animal"], "Did you mean 'animals'"),
        (["--target", "mmlu"], "MMLU"),
    ],
)
def test_bad_input_is_one_sentence(asked, tmp_path, capsys, more, said):
    assert main(["ablate", *asked, *more, "--out", str(tmp_path / "r.json")]) == 2
    assert said.lower() in capsys.readouterr().err.lower()
