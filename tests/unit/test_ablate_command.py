"""`headviz ablate` and `sweep` on a tiny model, nothing faked: files say what was asked and what came out."""

import json

import pytest

from headviz.cli import main
from headviz.settings import settings
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
    again = read(second)
    assert again["ablated"] == tree["ablated"]
    assert (again["metric"], again["chosen_by"], again["share_asked"]) == (None, "heads.json", None)


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


@pytest.fixture
def questions(asked, tmp_path):
    """The same model and text to choose on, measured on questions of our own."""
    rows = [
        {"question": f"what is {i}", "choices": ["a head", "a token"], "answer": i % 2, "subject": subject}
        for subject in ("heads", "tokens") for i in range(3)
    ]  # fmt: skip
    path = tmp_path / "q.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    start = asked.index("--text")
    rest = [*asked[:start], *asked[asked.index("--chosen-on") :]]
    return [*rest, "--target", "own", "--questions", str(path), "--shots", "0", "--scoring", "text"]


def test_questions_of_ones_own_one_by_one(questions, tmp_path):
    out = tmp_path / "r.json"
    more = ["--share", "0.25", "--per-question", "--subjects", "heads, tokens", "--half", "first"]
    assert main(["ablate", *questions, *more, "--out", str(out)]) == 0
    tree = read(out)
    assert tree["measured_on"]["half"] == "first"
    assert tree["n"] == len(tree["questions"]) == 4, "two of three in each subject"
    assert {one["subject"] for one in tree["questions"]} == {"heads", "tokens"}


def test_the_papers_protocol_chooses_on_what_it_measures(questions, tmp_path):
    out = tmp_path / "r.json"
    more = ["--mode", "per-input", "--chosen-on", "measured", "--share", "0.25"]
    where = questions.index("--chosen-on")
    asked = [*questions[:where], "--quiet", *questions[questions.index("--target") :]]
    assert main(["ablate", *asked, *more, "--out", str(out)]) == 0
    tree = read(out)
    assert tree["chosen_on"] == tree["measured_on"]
    assert tree["same_inputs"] is True
    assert tree["replace"] == "zero"


@pytest.mark.parametrize(
    ("half", "measured", "chosen"), [("", "second", "first"), ("first", "first", "second")]
)
def test_heads_are_chosen_on_the_half_of_the_questions_that_is_not_measured(
    questions, tmp_path, half, measured, chosen
):
    out = tmp_path / "r.json"
    where = questions.index("--chosen-on")
    asked = [*questions[:where], "--quiet", *questions[questions.index("--target") :]]
    more = ["--chosen-on", "half", "--share", "0.25", "--per-question", *(["--half", half] if half else [])]
    assert main(["ablate", *asked, *more, "--out", str(out)]) == 0
    tree = read(out)
    assert (tree["chosen_on"]["half"], tree["measured_on"]["half"]) == (chosen, measured)
    assert tree["same_inputs"] is False
    assert {**tree["chosen_on"], "half": ""} == {**tree["measured_on"], "half": ""}, "one draw"


def test_the_other_end_and_a_threshold(asked, tmp_path):
    out = tmp_path / "r.json"
    found = {}
    for more in ((), ("--turned",)):
        assert main(["ablate", *asked, "--metric", "ahon", "--share", "0.5", *more, "--out", str(out)]) == 0
        found[more] = {tuple(head) for head in read(out)["heads"]}
    assert not found[()] & found["--turned",]
    assert main(["ablate", *asked, "--metric", "ahon", "--threshold", "1e9", "--out", str(out)]) == 0
    tree = read(out)
    assert (tree["share_off"], tree["share_asked"], tree["threshold"]) == (1.0, None, 1e9)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--share", "25"], "between 0 and 1"),
        (["--metric", "ahno"], "Did you mean"),
        (["--heads", "missing.json"], "missing.json cannot be read"),
        (["--per-question"], "--target loss measures text, and --per-question would choose questions"),
        (["--half", "first", "--subjects", "a"], "--half, --subjects would choose questions"),
        (
            ["--target", "quiz"],
            "--target quiz measures questions, and --inputs, --text, --tokens would choose text",
        ),
        (["--mode", "per-input", "--by", "group"], "--by cannot be used"),
        (["--mode", "per-input", "--replace", "mean"], "replaced by zero only"),
        (["--share", "0.1", "--threshold", "2"], "--share and --threshold both say how many"),
        (["--chosen-on", "measured"], "--chosen-inputs, --chosen-tokens cannot be used"),
        (["--threshold", "1", "--per-layer"], "cannot be equal per layer"),
    ],
)
def test_bad_input_is_one_sentence(asked, tmp_path, capsys, more, said):
    assert main(["ablate", *asked, *more, "--out", str(tmp_path / "r.json")]) == 2
    assert said.lower() in capsys.readouterr().err.lower()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--target", "own"], "--questions FILE"),
        (["--target", "quiz", "--subjects", "animal"], "Did you mean 'animals'"),
        (["--target", "quiz", "--per-subject", "1", "--half", "second"], "No question of quiz is left"),
        (["--target", "mmlu"], "MMLU"),
        (["--target", "quiz", "--questions", "q.csv"], "--questions goes with --target own, not with quiz"),
        (["--target", "quiz", "--chosen-on", "measured", "--replace", "mean"], "Use --replace zero"),
        (["--target", "quiz", "--chosen-on", "half", "--replace", "mean"], "Use --replace zero"),
        (["--target", "quiz", "--chosen-on", "half", "--half", "all"], "--half all leaves no other half"),
        (["--target", "quiz", "--chosen-on", "half", "--chosen-seed", "1"], "--chosen-seed cannot be used"),
        (["--chosen-on", "half"], "--chosen-on half is for questions"),
    ],
)
def test_bad_questions_are_one_sentence(tmp_path, capsys, monkeypatch, more, said):
    monkeypatch.setenv("HEADVIZ_MMLU", str(tmp_path / "none"))
    settings.cache_clear()
    assert main(["ablate", *more, "--quiet", "--out", str(tmp_path / "r.json")]) == 2
    settings.cache_clear()
    assert said.lower() in capsys.readouterr().err.lower()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "Row 1 of q.csv has no column 'question'. Its columns: a, b"),
        ("question,choices,answer\n", "holds no questions"),
    ],
)
def test_a_csv_that_is_no_set_of_questions(tmp_path, capsys, content, said):
    path = tmp_path / "q.csv"
    path.write_text(content)
    out = str(tmp_path / "r.json")
    assert main(["ablate", "--target", "own", "--questions", str(path), "--quiet", "--out", out]) == 2
    assert said in capsys.readouterr().err


def test_a_head_set_of_another_model(asked, tmp_path, capsys):
    path = tmp_path / "heads.json"
    path.write_text(json.dumps({"model": "gpt2", "heads": [[0, 0]]}))
    assert main(["ablate", *asked, "--heads", str(path), "--out", str(tmp_path / "r.json")]) == 2
    assert "The head set is for gpt2, not for tiny" in capsys.readouterr().err
    assert (
        main(["ablate", *asked, "--heads", str(path), "--share", "0.1", "--out", str(tmp_path / "r.json")])
        == 2
    )
    assert "with which --share cannot be used" in capsys.readouterr().err
