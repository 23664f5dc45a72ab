"""`headviz generate` on a tiny model, nothing faked: the file says what was asked and what was written."""

import json

import pytest

from headviz.cli import main
from tests.checkpoints import save

PROMPT = "some of them do nothing"


@pytest.fixture
def asked(tmp_path):
    """Options for a tiny llama whose heads are chosen on the standard library's text."""
    folder = save(tmp_path / "tiny", "llama")
    return [
        "generate", "--model", str(folder), "--dtype", "float32", "--prompt", PROMPT, "--new-tokens", "6", "--quiet",
        "--chosen-on", "stdlib-code", "--chosen-inputs", "2", "--chosen-tokens", "24",
    ]  # fmt: skip


@pytest.fixture
def out(tmp_path):
    return tmp_path / "texts.json"


def test_three_texts_side_by_side(asked, out):
    assert main([*asked, "--share", "0.25", "--random-draws", "2", "--out", str(out)]) == 0
    tree = json.loads(out.read_text())
    assert tree["heads_off"] == len(tree["heads"]) == 2
    assert tree["off"]["heads"] == tree["heads"]
    assert {kind: len(several) for kind, several in tree["random"].items()} == {
        "uniform": 2,
        "layer_matched": 2,
    }
    assert "".join(tree["prompt"]["pieces"]).endswith(PROMPT)
    texts = [tree["stock"], tree["off"], *tree["random"]["uniform"], *tree["random"]["layer_matched"]]
    for text in texts:
        assert len(text["tokens"]) == len(text["pieces"]) == len(text["logprob"]) == len(text["entropy"])
        assert max(text["logprob"]) <= 0
        assert text["stop"] == ("length" if len(text["tokens"]) == 6 else "end")
    for text in texts[1:]:
        at = text["first_difference"]
        assert text["tokens"][:at] == tree["stock"]["tokens"][:at]
        assert at is None or text["tokens"][at : at + 1] != tree["stock"]["tokens"][at : at + 1]


def test_nothing_off_is_only_the_model_as_it_is(asked, out):
    assert main([*asked, "--share", "0", "--out", str(out)]) == 0
    tree = json.loads(out.read_text())
    assert tree["off"] is None
    assert tree["random"] == {}


def test_heads_from_a_file_and_a_prompt_from_a_file(asked, out, tmp_path, capsys):
    heads, prompt = tmp_path / "heads.json", tmp_path / "p.txt"
    heads.write_text(json.dumps({"model": "tiny", "heads": [[0, 1], [1, 3]]}))
    prompt.write_text(PROMPT)
    at = asked.index("--prompt")
    asked[at : at + 2] = ["--prompt-file", str(prompt)]
    asked.remove("--quiet")
    assert main([*asked, "--heads", str(heads), "--replace", "mean", "--out", str(out)]) == 0
    tree = json.loads(out.read_text())
    assert tree["heads"] == [[0, 1], [1, 3]]
    assert tree["metric"] is None
    assert tree["chosen_on"]["corpus"] == "stdlib-code", "the means are taken there"
    said = capsys.readouterr().out
    assert f"As it is: {tree['stock']['text']!r}" in said
    assert "Layer-matched random heads off: " in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--share", "25"], "between 0 and 1"),
        (["--metric", "ahno"], "Did you mean"),
        (["--heads", "missing.json"], "missing.json cannot be read"),
        (["--heads", "h.json", "--share", "0.1"], "--share cannot choose them"),
        (["--prompt-file", "p.txt"], "in one way"),
        (["--prompt", " "], "prompt is empty"),
        (["--prompt", "a\udcff"], "broken byte"),
        (["--new-tokens", "300"], "1 and 256"),
        (["--chat"], "no chat template"),
        (["--random-draws", "-1"], "0 or more"),
    ],
)
def test_bad_input_is_one_sentence(asked, out, capsys, more, said):
    assert main([*asked, *more, "--out", str(out)]) == 2
    assert said in capsys.readouterr().err
    assert not out.exists()
