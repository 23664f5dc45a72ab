"""Thresholds and selections across texts: by hand, and the first paper's example from its published thresholds."""

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

from headviz.analysis.agreement import chance
from headviz.analysis.metrics import METRICS, threshold_at
from headviz.analysis.stability import stabilities, stability, threshold_ratio
from headviz.analysis.thresholdfile import SHARES, of_model, read_thresholds
from headviz.errors import BadData, BadInput, UnknownName
from tests.fakes import fake_table

FILE = Path(__file__).parents[3] / "shared" / "data" / "inactive_heads" / "thresholds.json"
published = pytest.mark.skipif(not FILE.exists(), reason="the paper's thresholds.json is not on this machine")
ONE = fake_table(L=4, H=5, G=5, N=3)


def with_means(metric, means):
    """ONE with a score of these means, (4, 5), on every input."""
    values = ONE.values.copy()
    values[ONE.metrics.index(metric)] = means
    return dataclasses.replace(ONE, values=values)


@published
def test_the_papers_example():
    rows = read_thresholds(FILE)
    model = "allenai/OLMo-2-1124-7B-Instruct"
    awft, ahon = (of_model(rows, model, metric, 0.15) for metric in ("awft", "ahon_ln"))
    assert {task: round(x, 3) for task, x in awft.items()} == {
        "mmlu": 0.077,
        "piqa": 0.265,
        "winogrande": 0.109,
    }
    assert {task: round(x, 3) for task, x in ahon.items()} == {
        "mmlu": 0.457,
        "piqa": 0.435,
        "winogrande": 0.473,
    }
    assert threshold_ratio(awft)[0] == pytest.approx(3.4, abs=0.05)
    assert 1 < threshold_ratio(ahon)[0] < 1.09


@published
def test_a_stable_threshold_is_no_evidence_of_a_good_score():
    """Medians over the paper's 14 models at 15%: AVVN (LN), a weak choice of heads, has the most stable thresholds."""
    rows = read_thresholds(FILE)
    models = dict.fromkeys(row.model for row in rows)
    assert len(models) == 14

    def median(metric):
        return float(np.median([threshold_ratio(of_model(rows, name, metric, 0.15))[0] for name in models]))

    found = {
        metric: round(median(metric), 2)
        for metric in ("awft", "aeqd", "ahon_ln", "ahon", "awft_ln", "avvn_ln")
    }
    assert found == {
        "awft": 1.29,
        "aeqd": 2.06,
        "ahon_ln": 1.08,
        "ahon": 1.1,
        "awft_ln": 1.04,
        "avvn_ln": 1.01,
    }


@published
def test_the_file_holds_every_score_of_the_twelve_for_every_model_and_task():
    rows = read_thresholds(FILE)
    twelve = {name for name, row in METRICS.items() if not row.extra}
    per_model = {}
    for row in rows:
        assert len(row.thresholds) == len(SHARES)
        per_model.setdefault((row.task, row.model), set()).add(row.metric)
    assert all(twelve <= scores for scores in per_model.values())


def tree(thresholds):
    return json.dumps({"mmlu": {"org_Name": {"HONOR": thresholds, "Random": [0] * 7}}}).encode()


def test_what_is_no_such_file_is_one_sentence(tmp_path):
    (row,) = read_thresholds(tree([0, 1, 2, 3, 4, 5, 6]))
    assert (row.task, row.model, row.metric, row.at(0.15)) == ("mmlu", "org_Name", "ahon_ln", 3)
    assert of_model((row,), "org/Name", "ahon_ln", 0.3) == {"mmlu": 6}
    with pytest.raises(BadInput, match="share of 12%"):
        row.at(0.12)
    with pytest.raises(BadInput, match="published for other; there are org_Name"):
        of_model((row,), "other", "ahon_ln", 0.3)
    with pytest.raises(BadInput, match="No thresholds of awft"):
        of_model((row,), "name", "awft", 0.3)
    for broken in ([0] * 6, "no", [0] * 6 + [None], [0] * 6 + [True], [math.nan] * 7):
        with pytest.raises(BadData, match="HONOR of org_Name in mmlu must have 7 numbers"):
            read_thresholds(tree(broken))
    with pytest.raises(BadData, match="no JSON"):
        read_thresholds(b"{")
    with pytest.raises(BadData, match="mmlu holds no names"):
        read_thresholds(b'{"mmlu": 3}')
    with pytest.raises(BadData, match="Cannot read"):
        read_thresholds(tmp_path / "none.json")


# ------------------------------------------------------------------------------------------------ on score tables


def test_one_text_twice_is_perfectly_stable():
    for row in stabilities({"a": ONE, "b": ONE}, 0.2):
        assert row.ratio == 1
        assert (row.jaccard == 1).all()
        assert (row.mean_jaccard, row.least_jaccard, row.everywhere, row.count) == (1, 1, 4, 4)
        assert row.thresholds["a"] == threshold_at(ONE.per_input(row.metric), row.metric, 0.2)


def test_a_planted_overlap_and_a_planted_ratio():
    first = np.linspace(0.5, 0.1, 20).reshape(4, 5)  # the first four heads go first
    second = 2 * np.roll(first.ravel(), 2).reshape(4, 5)  # heads 2 … 5
    found = stability({"a": with_means("awft", first), "b": with_means("awft", second)}, "awft", 0.2)
    assert found.ratio == pytest.approx(2, rel=1e-5)
    assert found.jaccard[0, 1] == found.mean_jaccard == 2 / 6
    assert found.everywhere == 2
    assert found.chance == chance(4, 20).jaccard


def test_a_stable_threshold_with_other_heads_is_seen():
    rank = np.linspace(0.5, 0.1, 20)
    tables = {"a": with_means("awft", rank.reshape(4, 5)), "b": with_means("awft", rank[::-1].reshape(4, 5))}
    found = stability(tables, "awft", 0.2)
    assert found.ratio == pytest.approx(1)
    assert found.mean_jaccard == 0


def test_a_ratio_needs_thresholds_above_zero():
    ratio, reason = threshold_ratio({"a": 0.5, "b": 0.0})
    assert math.isnan(ratio)
    assert reason == "The threshold of b is 0, and a ratio needs thresholds above 0."
    assert "of b is -1" in threshold_ratio({"a": 1, "b": -1.0})[1]
    assert "of b is not defined" in threshold_ratio({"a": 1, "b": math.nan})[1]
    assert threshold_ratio({"a": 0.2, "b": 0.1, "c": 0.3}) == (pytest.approx(3), "")
    with pytest.raises(BadInput, match="at least one"):
        threshold_ratio({})


def test_bad_input_is_one_sentence():
    with pytest.raises(BadInput, match="at least two"):
        stability({"a": ONE}, "awft", 0.2)
    with pytest.raises(BadInput, match="different models"):
        stability({"a": ONE, "b": fake_table(L=3, H=5, G=5, N=3)}, "awft", 0.2)
    request = {**ONE.provenance.request, "model": {"name": "other"}}
    other = dataclasses.replace(ONE, provenance=dataclasses.replace(ONE.provenance, request=request))
    with pytest.raises(BadInput, match="different models"):
        stability({"a": ONE, "b": other}, "awft", 0.2)
    with pytest.raises(BadInput, match="between 0 and 1"):
        stability({"a": ONE, "b": ONE}, "awft", 20)
    with pytest.raises(UnknownName):
        stability({"a": ONE, "b": ONE}, "ahno", 0.2)
