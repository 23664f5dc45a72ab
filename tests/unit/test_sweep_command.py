"""`headviz sweep` on a tiny model, nothing faked: rows, ranking, and points that `headviz tolerance` reads back."""

import json

import pytest

from headviz.analysis import sweeps
from headviz.analysis.tolerance import change_within
from headviz.cli import main
from headviz.commands.sweep import _lines as lines
from tests.unit.test_ablate_command import asked, read  # noqa: F401

QUESTIONS = "\n".join(
    json.dumps(
        {"question": f"what does the head at {i} do", "subject": ("heads", "tokens")[i % 2],
         "choices": ["nothing at all", "a norm", "the first token", "an output"], "answer": i % 4}
    )
    for i in range(16)
)  # fmt: skip


@pytest.fixture
def asking(asked, tmp_path):  # noqa: F811
    """The same on questions of our own."""
    file = tmp_path / "q.jsonl"
    file.write_text(QUESTIONS)
    text, on = asked.index("--text"), asked.index("--chosen-on")
    rest = [*asked[:text], *asked[on:]]
    return [*rest, "--target", "own", "--questions", str(file), "--shots", "0", "--scoring", "text"]


def test_a_row_for_each_score_and_share_with_random_heads_beside_it(asked, tmp_path):  # noqa: F811
    out = tmp_path / "s.json"
    more = ["--metrics", "awft,ahon_ln", "--shares", "0.25,0.5", "--random-draws", "2", "--tolerance", "0.01"]
    assert main(["sweep", *asked, *more, "--out", str(out)]) == 0
    tree = read(out)
    assert [(row["metric"], row["share_off"]) for row in tree["rows"]] == [
        ("awft", 0.25), ("awft", 0.5), ("ahon_ln", 0.25), ("ahon_ln", 0.5),
    ]  # fmt: skip
    assert {row["random"][kind]["n"] for row in tree["rows"] for kind in ("uniform", "layer_matched")} == {2}
    ranking = tree["ranking"]
    assert (ranking["counts"], ranking["unit"], ranking["tolerance"], ranking["halves"]) == (
        "loss", "nats", 0.01, "documents",
    )  # fmt: skip
    assert {row["score"] for row in ranking["rows"]} == {
        "awft", "ahon_ln", "random", "layer_matched:awft", "layer_matched:ahon_ln",
    }  # fmt: skip
    for row in ranking["rows"]:
        assert row["points"] == 2
        if row["score"] in ("awft", "ahon_ln"):
            mine = [one for one in tree["rows"] if one["metric"] == row["score"]]
            edge = change_within(
                [one["share_off"] for one in mine], [one["change"] for one in mine], 0.01, worse="higher"
            )
            assert row["status"] == edge.status
            assert row["share_within"] == pytest.approx(100 * sweeps.reached(edge))
        assert 0 <= row["chosen_within"] <= 50
        assert 0 <= row["confirmed_within"] <= 50
    assert ranking["area_until"] == 0.5


def test_points_come_back_through_tolerance(asking, tmp_path, capsys):
    out, table = tmp_path / "s.json", tmp_path / "points.csv"
    more = ["--metrics", "awft,ahon_ln", "--shares", "0.25,0.5,0.75", "--random-draws", "2"]
    assert main(["sweep", *asking, *more, "--out", str(out), "--points-csv", str(table)]) == 0
    tree = read(out)
    capsys.readouterr()
    assert main(["tolerance", str(table), "--json"]) == 0
    rows = {row["score"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(rows) == {"awft", "ahon_ln", "random", "layer_matched:awft", "layer_matched:ahon_ln"}
    for metric in ("awft", "ahon_ln"):
        mine = [one for one in tree["rows"] if one["metric"] == metric]
        edge = change_within(
            [one["share_off"] for one in mine], [one["change"] for one in mine], 0.01, worse="lower"
        )
        assert rows[metric]["baseline"] == pytest.approx(mine[0]["baseline"])
        assert rows[metric]["status"] == edge.status
        assert rows[metric]["share_within"] == pytest.approx(100 * edge.share)
        assert rows[metric]["bracket"][0] == pytest.approx(edge.inside)


def test_the_papers_rule_sweeps_too(asked, tmp_path):  # noqa: F811
    out = tmp_path / "s.json"
    more = ["--mode", "per-input", "--shares", "0.2,0.5", "--random-draws", "1"]
    assert main(["sweep", *asked, *more, "--out", str(out)]) == 0
    tree = read(out)
    assert {row["mode"] for row in tree["rows"]} == {"per-input"}
    assert {row["score"] for row in tree["ranking"]["rows"]} == {"ahon_ln", "random"}


def test_what_it_says_is_what_it_wrote(asked, tmp_path, capsys):  # noqa: F811
    out = tmp_path / "s.json"
    loud = [one for one in asked if one != "--quiet"]
    assert main(["sweep", *loud, "--shares", "0.25", "--tolerance", "9", "--out", str(out)]) == 0
    said = capsys.readouterr().err
    assert "within 9 nats" in said
    assert "1. ahon_ln" in said
    assert "at least 25.00%" in said


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--metrics", "ahno"], "did you mean"),
        (["--metrics", ","], "--metrics is empty"),
        (["--shares", "25"], "fractions between 0 and 1"),
        (["--tolerance", "0"], "larger than zero"),
        (["--heads", "heads.json"], "goes with `ablate`"),
        (["--points-csv", "p.csv"], "goes with questions"),
        (["--target", "quiz", "--points-csv", "p.json"], "--points-csv 'p.json': end the name in .csv"),
    ],
)
def test_bad_input_is_one_sentence(asked, tmp_path, capsys, more, says):  # noqa: F811
    assert main(["sweep", *asked, *more, "--out", str(tmp_path / "s.json")]) == 2
    said = capsys.readouterr().err
    assert says in said.lower() or says in said
    assert said.count("\n") == 1


def test_the_ranking_says_what_is_not_known():
    row = {"score": "awft", "unranked": "", "share_within": 30.0, "status": "never outside",
           "chosen_within": 10.0, "chosen_status": "ends inside", "confirmed_within": 12.5, "confirmed_status": "crosses"}  # fmt: skip
    short = row | {"score": "ahon", "unranked": "measured only to 5.0%, never outside there"}
    ranking = {"counts": "loss", "tolerance": 0.05, "halves": "documents", "rows": [row, short]}
    first, second = lines(ranking)[1:]
    assert first.startswith("  1. awft")
    assert "at least 30.00%, chosen 10.00% (not settled" in first
    assert first.endswith("confirmed 12.50%")
    assert second.startswith("  –. ahon")
    assert second.endswith("not ranked: measured only to 5.0%, never outside there")
