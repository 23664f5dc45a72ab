"""`headviz bands` on a model with a planted collapse and on one without ALiBi, nothing faked."""

import json

import pytest

from headviz.cli import main
from tests import checkpoints, planted


@pytest.fixture
def out(tmp_path):
    return tmp_path / "bands.json"


@pytest.fixture
def asked(tmp_path, out):
    """Options for a planted model: with BOS first, L01 to L03 sink on it in H10 to H12, and L02.H11 is dead."""
    plan = {(layer, head): 0.75 for layer in (1, 2, 3) for head in (10, 11, 12)} | {(2, 11): 0.99}
    folder = tmp_path / "planted"
    planted.model(plan, 24).save_pretrained(folder)
    checkpoints.letters().save_pretrained(folder)
    return options(folder, out)


def options(folder, out):
    return [
        "bands", "--model", str(folder), "--dtype", "float32", "--corpus", "stdlib-code", "--inputs", "3",
        "--tokens", "24", "--bos", "always", "--out", str(out), "--quiet",
    ]  # fmt: skip


def test_heads_band_and_counts(asked, out):
    assert main(asked) == 0
    tree = json.loads(out.read_text())
    assert len(tree["heads"]) == 64
    assert {
        "layer",
        "head",
        "slope",
        "bos_mass",
        "bos_mass_without_first_row",
        "entropy",
        "null_bos_mass",
        "null_entropy",
        "class",
    } <= set(tree["heads"][0])
    named = {(row["layer"], row["head"]): row["class"] for row in tree["heads"]}
    assert [at for at, name in named.items() if name == "dead"] == [(2, 11)]
    assert sorted(at for at, name in named.items() if name == "sink") == [
        (layer, head) for layer in (1, 2, 3) for head in (10, 11, 12) if (layer, head) != (2, 11)
    ]
    assert tree["counts"]["dead"] == 1
    assert sum(tree["counts"].values()) == 64
    assert tree["band"]["heads"] == [10, 11, 12]
    assert (tree["band"]["first"], tree["band"]["last"]) == (10, 12)
    assert tree["thresholds"] == {"dead": 0.95, "sink": 0.5, "low_entropy": 0.5}
    assert tree["provenance"]["request"]["data"]["tokens"] == 24
    free = next(row for row in tree["heads"] if row["class"] == "healthy")
    assert free["bos_mass"] == pytest.approx(free["null_bos_mass"], abs=1e-5)
    assert free["bos_mass_without_first_row"] == pytest.approx((free["bos_mass"] * 24 - 1) / 23)


def test_thresholds_move_the_classes(asked, out, capsys):
    loud = [option for option in asked if option != "--quiet"]
    assert main([*loud, "--sink", "0.8"]) == 0
    assert json.loads(out.read_text())["counts"]["sink"] == 0
    assert "no head index is collapsed in more than 30% of the layers" in capsys.readouterr().out
    assert main([*loud, "--preset", "summary", "--layers", "0.8"]) == 0
    tree = json.loads(out.read_text())
    assert tree["thresholds"]["dead"] == 0.8
    assert tree["band"]["heads"] == []


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--dead", "0.2"], "sink is 0.5, dead 0.2"),
        (["--layers", "1"], "share of layers"),
        (["--low-entropy", "nan"], "0 nats or more"),
        (["--out", "bands.csv"], "end the name in .json"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(asked, more, says, capsys):
    assert main([*asked, *more]) == 2
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


def test_a_model_without_alibi_has_classes_and_no_slopes(tmp_path, out):
    folder = checkpoints.save(tmp_path / "tiny", "llama")
    assert main(options(folder, out)) == 0
    tree = json.loads(out.read_text())
    assert {row["slope"] for row in tree["heads"]} == {None}
    even = sum(1 / n for n in range(1, 25)) / 24
    assert [row["null_bos_mass"] for row in tree["heads"]] == pytest.approx([even] * len(tree["heads"]))
    assert tree["band"]["steepest"] is None
