"""Largest share within a tolerance and area: by hand, against a slow scan, and the first paper's published numbers."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from headviz.analysis.metrics import METRICS
from headviz.analysis.points import HEAD_TYPES, Point, read_points, score_id
from headviz.analysis.published import MEANS, TABLE2, published_row
from headviz.analysis.tolerance import area, common_span, curves, ranks, share_within, tolerance_rows
from headviz.errors import BadData, BadInput, HeadvizError

RESULTS = Path(__file__).parents[3] / "shared" / "data" / "inactive_heads" / "results.csv"
published = pytest.mark.skipif(not RESULTS.exists(), reason="the paper's results.csv is not on this machine")


# ------------------------------------------------------------------------------------------------- one curve


def test_straight_line_between_points():
    found = share_within([0, 0.1, 0.2], [0.60, 0.595, 0.555], 0.60)
    assert found.share == pytest.approx(0.1125)
    assert (found.status, found.inside, found.outside, found.line) == (
        "crosses",
        0.1,
        0.2,
        pytest.approx(0.59),
    )


def test_points_come_in_any_order():
    shuffled = share_within([0.2, 0, 0.1], [0.555, 0.60, 0.595], 0.60)
    assert shuffled == share_within([0, 0.1, 0.2], [0.60, 0.595, 0.555], 0.60)


def test_the_last_crossing_counts():
    found = share_within([0, 0.1, 0.2, 0.3], [0.6, 0.5, 0.6, 0.5], 0.6)
    assert found.share == pytest.approx(0.21)
    assert (found.status, found.inside, found.outside) == ("crosses", 0.2, 0.3)


def test_a_curve_that_comes_back_ends_where_it_came_back():
    found = share_within([0, 0.1, 0.2], [0.6, 0.5, 0.6], 0.6)
    assert found.share == pytest.approx(0.19)
    assert (found.status, found.inside) == ("ends inside", 0.2)
    assert math.isnan(found.outside)


def test_never_outside_is_zero_as_in_the_paper_and_says_so():
    found = share_within([0, 0.1, 0.2], [0.6, 0.6, 0.595], 0.6)
    assert (found.share, found.status, found.inside) == (0, "never outside", 0.2)
    assert math.isnan(found.outside)


def test_never_inside_is_zero():
    found = share_within([0.05, 0.1], [0.5, 0.4], 0.6)
    assert (found.share, found.status, found.inside, found.outside) == (0, "never inside", 0, 0.05)
    assert math.isnan(share_within([0, 0.1], [0.5, 0.4], 0.6).inside)


@pytest.mark.parametrize("baseline", [0.57, 0.3, 0.56])  # 0.57 − 0.01 is not 0.56 in floating point
def test_a_point_on_the_line_is_a_crossing(baseline):
    found = share_within([0, 0.1, 0.2], [baseline, round(baseline - 0.01, 2), baseline], baseline)
    assert (found.share, found.status) == (0.1, "never outside")
    assert share_within([0, 0.1], [baseline, round(baseline - 0.01, 2)], baseline).share == 0.1


def test_points_at_the_same_share_and_single_points():
    found = share_within([0, 0.1, 0.1, 0.2], [0.6, 0.6, 0.5, 0.4], 0.6)
    assert (found.share, found.inside, found.outside) == (pytest.approx(0.1), 0.1, 0.1)
    assert share_within([0.1], [0.6], 0.6).share == 0
    assert share_within([0.1], [0.59], 0.6).share == 0


def test_wider_tolerance_allows_more():
    assert share_within([0, 0.2], [0.6, 0.5], 0.6, points=5).share == pytest.approx(0.1)
    assert share_within([0, 0.2], [0.6, 0.5], 0.6, points=0.5).share == pytest.approx(0.01)


def test_against_a_slow_scan():
    rng = np.random.default_rng(0)
    for _ in range(50):
        x = np.sort(rng.random(7))
        y = 0.6 - rng.random(7) * 0.03
        fine = np.linspace(x[0], x[-1], 200_001)
        sign = np.interp(fine, x, y) >= 0.59
        places = fine[np.flatnonzero(sign[1:] != sign[:-1])]
        assert share_within(x, y, 0.6).share == pytest.approx(places[-1] if places.size else 0, abs=1e-5)


def test_bad_curves_are_a_sentence():
    with pytest.raises(BadInput, match="larger than zero"):
        share_within([0, 1], [1, 0], 1, points=0)
    with pytest.raises(BadInput, match="needs points"):
        share_within([], [], 0.5)
    with pytest.raises(BadInput, match="2 shares and 1 accuracies"):
        share_within([0, 1], [1], 0.5)


def test_area_by_hand():
    assert area([0, 0.1, 0.3], [0.6, 0.4, 0.4]) == pytest.approx((0.05 + 0.08) / 0.3)
    assert area([0.3, 0.1, 0], [0.4, 0.4, 0.6]) == pytest.approx((0.05 + 0.08) / 0.3)
    assert area([0, 0.2], [0.6, 0.4], (0.05, 0.1)) == pytest.approx(0.525)
    assert area([0, 0.1, 0.2], [0.6, 0.5, 0.2], (0.0, 0.2)) == pytest.approx(
        area([0, 0.1, 0.2], [0.6, 0.5, 0.2])
    )
    assert math.isnan(area([0.1], [0.5]))
    with pytest.raises(BadInput, match=r"from 0 to 0\.2, not from 0 to 0\.3"):
        area([0, 0.2], [0.6, 0.4], (0, 0.3))


def test_ranks():
    assert ranks([0.5, 0.7, math.nan, 0.5, 0.1]) == [2, 1, None, 2, 4]


# ----------------------------------------------------------------------------------------------------- files


def text(*rows, header="model,score,share,acc"):
    return "\n".join([header, *rows]).encode()


def test_reads_fractions_and_percent_alike(tmp_path):
    ours = text("m,ahon_ln,0,0.6", "m,ahon_ln,0.2,0.5")
    theirs = text("m,HONOR,0,60", "m,HONOR,20,50", header="model,head_type,pct_zeroed,acc")
    (tmp_path / "points.csv").write_bytes(theirs)
    expected = (
        Point(model="m", score="ahon_ln", share=0.0, accuracy=0.6),
        Point(model="m", score="ahon_ln", share=0.2, accuracy=0.5),
    )
    for source in (
        ours,
        theirs,
        tmp_path / "points.csv",
        str(tmp_path / "points.csv"),
        b"\xef\xbb\xbf" + ours + b"\r\n\r\n",
    ):
        assert [(p.model, p.score, p.share, p.accuracy) for p in read_points(source)] == [
            (p.model, p.score, p.share, p.accuracy) for p in expected
        ]


def test_scores_go_by_id_symbol_or_head_type():
    assert [score_id(name) for name in ("AHON (LN)", "honor", "ahon_ln", "Random", "my own")] == [
        "ahon_ln", "ahon_ln", "ahon_ln", "random", "my own"]  # fmt: skip
    assert set(HEAD_TYPES.values()) - {"random"} <= set(METRICS)
    assert len(set(HEAD_TYPES.values())) == 14


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b"model,score,share,acc\n", "no rows"),
        (text("m,a,0,1", header="model,name,share,acc"), "no column for the score: 'score' or 'metric' or 'head_type'"),
        (text("m,a,0,1", header="model,score,part,acc"), "no column for the share of heads switched off"),
        (text("m,a,0,1", header="model,score,share,loss"), "no column for the accuracy"),
        (text("m,a,0,1", header="name,score,share,acc"), "no column for the model: 'model'"),
        (text("m,a,0"), "Line 2 of the CSV has fewer cells"),
        (text("m,a,0,0.5", "m,a,none,0.5"), "Line 3 of the CSV: 'none' in column 'share' is not a number"),
        (text("m,a,0,nan"), "'nan' in column 'acc' is not a number"),
        (text("m,a,0,0.5", "m,a,20,0.4"), "share is 20, outside 0 to 1 .* 'share_percent'"),
        (text("m,a,0,60", "m,a,0.1,0.5"), "some could be percent and some fractions: name it 'acc_percent'"),
        (text("m,a,0,60", "m,a,0.1,160"), "acc is 160, outside 0 to 100"),
        (text("m,a,0,1,mmlu", "m,a,0,1,piqa", header="model,score,share,acc,task"), r"mixes tasks \(mmlu, piqa\)"),
        (text("m,a,0,1,one", header="model,score,share,acc,replace"), "'one' in column 'replace' is neither zero nor mean"),
        (b"\xff\xfe\x00", "not a CSV in UTF-8"),
    ],
)  # fmt: skip
def test_bad_files_are_a_sentence(data, says):
    with pytest.raises(BadData, match=says) as caught:
        read_points(data)
    assert caught.value.exit_code == 2


def test_no_such_file(tmp_path):
    with pytest.raises(BadData, match="No such file"):
        read_points(tmp_path / "none.csv")


def test_named_percent_is_percent_however_small():
    read = read_points(text("m,a,0.5,0.9", header="model,score,share_percent,acc_percent"))
    assert (read[0].share, read[0].accuracy) == pytest.approx((0.005, 0.009))


# -------------------------------------------------------------------------------------------------- baselines


def point(score, share, accuracy, threshold=math.nan, model="m"):
    return Point(model=model, score=score, share=share, accuracy=accuracy, threshold=threshold)


def test_baseline_is_random_at_threshold_zero_then_share_zero():
    mine = [point("ahon", 0, 0.58), point("ahon", 0.1, 0.5)]
    drawn = [point("random", 0.05, 0.4, 0.05), point("random", 0, 0.6, 0.0)]
    assert {c.baseline for c in curves(mine + drawn)} == {0.6}
    rare = point("random", 0.0, 0.59, 1e-6)  # so rare that nothing was off
    assert {c.baseline for c in curves([*mine, rare, *drawn])} == {0.6}
    assert {c.baseline for c in curves([*mine, point("random", 0, 0.61)])} == {0.61}
    assert curves(mine)[0].baseline == 0.58
    other = curves([*mine, point("awft", 0.1, 0.2)])  # no point of its own: the model's
    assert [(c.score, c.baseline) for c in other] == [("ahon", 0.58), ("awft", 0.58)]


def test_no_baseline_or_two_is_a_sentence():
    with pytest.raises(BadData, match="m has no baseline"):
        curves([point("ahon", 0.1, 0.5), point("ahon", 0, 0.6, model="other")])
    with pytest.raises(BadData, match=r"more than one baseline for ahon \(0.5 to 0.6\)"):
        curves([point("ahon", 0, 0.5), point("ahon", 0, 0.6)])


def test_rows_are_json():
    rows = tolerance_rows(
        text("m,random,0,60", "m,random,0.1,50", "m,ahon_ln,0,60", "m,ahon_ln,0.2,59.5", "n,mine,0,40"),
        points=1.0,
    )
    assert [(r["model"], r["score"]) for r in rows] == [("m", "random"), ("m", "ahon_ln"), ("n", "mine")]
    first, second, third = rows
    assert first["share_within"] == pytest.approx(1.0)  # percent
    assert first["bracket"] == [0.0, 0.1]
    assert first["baseline"] == 0.6
    assert (second["share_within"], second["status"], second["bracket"]) == (0, "never outside", [0.2, None])
    assert first["area_common"] == pytest.approx(0.55)
    assert second["area_common"] == pytest.approx(0.59875)
    assert [r["rank_common"] for r in rows] == [2, 1, None]
    assert third["area"] is None
    assert third["status"] == "never outside"
    assert tolerance_rows(read_points(text("m,random,0,60", "m,random,0.1,50")))[0] == {
        **first, "rank_within": 1, "rank_area": 1, "rank_common": 1, "area_common": pytest.approx(0.55)}  # fmt: skip


# ------------------------------------------------------------------------------------- the paper's own numbers


def notebook(xs, ys, line):
    """Slow and obvious: the rule of the paper's notebook, in percent, segment by segment."""
    last = xs[0] if ys[0] == line else None
    for i in range(len(xs) - 1):
        if (ys[i] - line) * (ys[i + 1] - line) < 0:
            last = xs[i] + (line - ys[i]) * (xs[i + 1] - xs[i]) / (ys[i + 1] - ys[i])
        if ys[i + 1] == line:
            last = xs[i + 1]
    return last or 0.0


@pytest.fixture(scope="module")
def rows():
    return tolerance_rows(RESULTS)


@published
def test_published_means(rows):
    within = {(r["model"], r["score"]): r["share_within"] for r in rows}
    models = {model for model, _ in within}
    scores = {score for _, score in within} - {"awft"}  # Random is among "the others"
    assert (len(rows), len(models)) == (196, 14)
    assert round(np.mean([within[m, "awft"] for m in models]), 2) == MEANS["awft"] == 4.61
    best = np.mean([max(within[m, s] for s in scores) for m in models])
    assert round(best, 2) == MEANS["best_other"] == 12.18
    assert round(np.mean([within[m, "ahon_ln"] for m in models]), 2) == 11.03


@published
def test_published_table_model_by_model(rows):
    assert {r["model"] for r in rows} == set(TABLE2)
    for model, row in TABLE2.items():
        mine = {r["score"]: r for r in rows if r["model"] == model}
        best = max((r for r in mine.values() if r["score"] != "awft"), key=lambda r: r["share_within"])
        assert round(mine["awft"]["share_within"], 2) == row.awft_within
        assert (round(best["share_within"], 2), best["score"]) == (row.best_within, row.best_score)
        assert round(100 * best["baseline"], 2) == row.baseline_percent


@published
def test_published_ranks_by_area(rows):
    mine = [r["rank_area"] for r in rows if r["score"] == "ahon_ln"]
    assert (sum(rank <= 1 for rank in mine), sum(rank <= 3 for rank in mine)) == (8, 13)
    assert sum(r["rank_area"] == 1 for r in rows if r["score"] == "awft") == 2
    assert sum(r["share_within"] == max(x["share_within"] for x in rows if x["model"] == r["model"])
               for r in rows if r["score"] == "awft") == 3  # fmt: skip


@published
def test_every_published_curve_crosses_once_and_as_in_the_notebook(rows):
    table = list(csv.DictReader(RESULTS.read_text().splitlines()))
    base = {
        r["model"]: float(r["acc"]) for r in table if (r["head_type"], float(r["threshold"])) == ("Random", 0)
    }
    for row in rows:
        mine = sorted(
            (float(r["pct_zeroed"]), float(r["acc"]))
            for r in table
            if r["model"] == row["model"] and HEAD_TYPES[r["head_type"]] == row["score"]
        )
        assert row["status"] == "crosses"
        assert row["bracket"][0] <= row["share_within"] / 100 <= row["bracket"][1]
        assert row["share_within"] == pytest.approx(notebook(*zip(*mine), base[row["model"]] - 1))
        xs, ys = map(np.array, zip(*mine))
        own = ((ys[1:] + ys[:-1]) / 2 * np.diff(xs)).sum() / (xs[-1] - xs[0]) / 100
        assert row["area"] == pytest.approx(own)


def test_published_rows_hold_together():
    assert len(TABLE2) == 14
    assert np.mean([r.awft_within for r in TABLE2.values()]) == pytest.approx(MEANS["awft"], abs=0.005)
    assert np.mean([r.best_within for r in TABLE2.values()]) == pytest.approx(MEANS["best_other"], abs=0.005)
    assert all(r.best_score in METRICS for r in TABLE2.values())
    assert published_row("meta-llama/llama-3.1-8B").awft_within == 8.56
    assert published_row("OLMo-2-1124-7B-SFT").hub == "allenai/OLMo-2-1124-7B-SFT"
    assert published_row("gpt2") is None


def test_common_span():
    a, b, c = curves([point("x", 0, 0.6), point("x", 0.3, 0.6), point("y", 0.1, 0.5), point("y", 0.2, 0.5),
                      point("z", 0.25, 0.4), point("z", 0.3, 0.4)])  # fmt: skip
    assert common_span([a, b]) == (0.1, 0.2)
    assert common_span([a, b, c]) is None
    assert issubclass(BadData, HeadvizError)
