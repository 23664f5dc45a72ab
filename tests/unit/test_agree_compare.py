"""`headviz agree` and `compare` on tiny models, nothing faked."""

import json

import numpy as np
import pytest

from headviz.analysis.agreement import TWELVE
from headviz.cli import main
from headviz.commands.trees import tree
from tests.checkpoints import save

PROSE = "attention heads differ. some of them do nothing at all, and nobody noticed it for years.\n\n" * 40


@pytest.fixture
def text(tmp_path):
    """Options for six inputs of a text of our own, a document each."""
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps({"text": PROSE[i : i + 24]}) for i in range(6)))
    return ["--text", str(file), "--inputs", "6", "--tokens", "24", "--dtype", "float32", "--quiet"]


@pytest.fixture
def model(tmp_path):
    return str(save(tmp_path / "tiny", "llama"))


def read(path):
    return json.loads(path.read_text())


def test_agree_writes_groups_curve_matrices_and_disputes(model, text, tmp_path):
    out = tmp_path / "a.json"
    assert main(["agree", "--model", model, *text, "--share", "0.5", "--sinks", "8", "--out", str(out)]) == 0
    found = read(out)
    assert (found["metrics"], found["count"], found["heads_total"]) == (["awft", "ahon_ln"], 4, 8)
    assert found["groups"]["only_a"]["name"] == "sink but loud"
    assert sum(group["count"] for group in found["groups"].values()) == 8
    both = found["groups"]["both"]["count"]
    assert found["agreement"]["overlap"] == both
    assert found["agreement"]["jaccard"] == both / (8 - both)
    assert found["agreement"]["chance_overlap"] == pytest.approx(2)
    assert found["curve"]["k"] == list(range(1, 9))
    assert found["matrices"]["metrics"] == list(TWELVE)
    assert len(found["disputed"]) == 8
    first = found["disputed"][0]
    assert abs(first["gap"]) == max(abs(one["gap"]) for one in found["disputed"])
    assert first["says"][0].startswith("AWFT is ")
    assert found["provenance"]["request"]["data"]["corpus"] == "own"
    assert len(found["sinks"]["model"]["by_position"]) == 8
    assert "awft_at_own" in found["sinks"]["scores"]
    assert np.shape(found["sinks"]["heads"]["position"]) == (2, 4)


def test_agree_at_thresholds(model, text, tmp_path, capsys):
    out = tmp_path / "a.json"
    loud = [word for word in text if word != "--quiet"]
    asked = [
        "agree",
        "--model",
        model,
        *loud,
        "--metrics",
        "ahon,ahon_ln",
        "--thresholds",
        "1e9,0",
        "--disputed",
        "1",
    ]
    assert main([*asked, "--out", str(out)]) == 0
    found = read(out)
    assert found["groups"]["only_a"]["count"] == 8  # all below the one threshold, none below the other
    assert found["groups"]["only_a"]["name"] == "inactive by AHON alone"
    assert found["thresholds"] == [1e9, 0]
    assert len(found["disputed"]) == 1
    assert "sinks" not in found
    assert "AHON against AHON (LN): 0 heads by both, 8 inactive by AHON alone" in capsys.readouterr().err


def test_a_model_compared_with_itself_has_not_changed(model, text, tmp_path):
    out = tmp_path / "c.json"
    assert main(["compare", model, model, *text, "--out", str(out)]) == 0
    found = read(out)
    assert list(found["models"]) == ["tiny", "tiny (2)"]
    assert list(found["scores"]) == list(TWELVE)
    for score in found["scores"].values():
        assert score["distances"]["value"] == [[0, 0], [0, 0]]
        (one,) = score["comparisons"]
        assert one["pooled"]["value"] == one["pooled"]["scaled"] == one["pooled"]["high"] == 0
        assert not np.any(one["changes"]["change"])
        assert one["changes"]["how"] == "paired"
        assert one["yardstick"]["inputs"] == 3


def test_a_number_format_of_its_own_tells_a_model_from_itself(model, text, tmp_path):
    out = tmp_path / "c.json"
    more = ["--metrics", "awft", "--draws", "5", "--splits", "2"]
    assert main(["compare", model, f"{model}:bfloat16", *text, *more, "--out", str(out)]) == 0
    found = read(out)
    assert list(found["models"]) == ["tiny float32", "tiny bfloat16"]
    assert [one["dtype"] for one in found["models"].values()] == ["float32", "bfloat16"]


def test_other_models_are_told_apart_and_compared_as_far_as_they_can_be(model, text, tmp_path, capsys):
    other = str(save(tmp_path / "other", "llama", seed=5))
    bloom = str(save(tmp_path / "bloom", "bloom-six-heads"))
    out = tmp_path / "c.json"
    loud = [word for word in text if word != "--quiet"]
    asked = [
        "compare",
        model,
        other,
        bloom,
        *loud,
        "--metrics",
        "awft,ahon_ln",
        "--movers",
        "3",
        "--draws",
        "20",
    ]
    assert main([*asked, "--splits", "5", "--out", str(out)]) == 0
    found = read(out)
    assert list(found["models"]) == ["tiny", "other", "bloom"]
    assert list(found["scores"]) == ["awft", "ahon_ln"]
    near, far = found["scores"]["awft"]["comparisons"]
    square = found["scores"]["awft"]["distances"]["value"]
    assert near["pooled"]["value"] == square[0][1] > 0
    movers = near["changes"]["movers"]
    assert len(movers) == 3
    assert abs(movers[0]["change"]) >= abs(movers[1]["change"])
    assert movers[0]["ci_low"] <= movers[0]["change"] <= movers[0]["ci_high"]
    assert near["changes"]["change"][movers[0]["layer"]][movers[0]["index"]] == movers[0]["change"]
    assert far["changes"] is None
    assert "bloom has 2 of 6" in far["reason"]
    assert far["profiles"][1]["depth"] == [0, 1]
    said = capsys.readouterr().err
    assert "AWFT: other is " in said
    assert "halves of one model: up to " in said


@pytest.mark.parametrize(
    ("command", "more", "said"),
    [
        ("agree", ["--metrics", "awft"], "name two scores"),
        ("agree", ["--metrics", "awft,ahno"], "Did you mean"),
        ("agree", ["--metrics", "awft,awft"], "names awft twice"),
        ("agree", ["--share", "20"], "between 0 and 1"),
        ("agree", ["--thresholds", "1"], "write two numbers"),
        ("agree", ["--thresholds", "1,nan"], "write two numbers"),
        ("agree", ["--disputed", "-1"], "0 or more"),
        ("agree", ["--sinks", "65"], "first 1 to 64 tokens"),
        ("agree", ["--inputs", "0"], "inputs is 0"),
        ("agree", ["--out", "a.csv"], "end the name in .json"),
        ("compare", ["smollm2"], "needs two models"),
        ("compare", ["smollm2", "/no/such/model"], "/no/such/model"),
        ("compare", ["smollm2", "smollm2", "--metrics", "ahno"], "Did you mean"),
        ("compare", ["smollm2", "smollm2", "--draws", "0"], "--draws is 0"),
        ("compare", ["smollm2", "smollm2", "--movers", "-1"], "--movers is -1"),
        ("compare", ["smollm2", "smollm2", "--tokens", "9000"], "context is 8192 tokens"),
        ("compare", ["smollm2", "smollm2@abc"], "has the content"),
    ],
)
def test_bad_input_is_one_sentence(command, more, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in more else ["--out", "x.json"]
    assert main([command, *more, *out]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_numbers_of_numpy_become_those_of_json():
    made = tree({"a": np.arange(2), "b": (np.float32(0.5), {"c": np.int64(3)}), "d": None})
    assert json.dumps(made) == '{"a": [0, 1], "b": [0.5, {"c": 3}], "d": null}'
