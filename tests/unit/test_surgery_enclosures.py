"""What lies beside an exported repair: the report as a file, the film of its run, and the figure of all arms."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from headviz.charts import fmt
from headviz.charts.repaired import film_of
from headviz.surgery.enclosures import FILM, LOSSES, REPORT, enclosures, note
from headviz.surgery.report_tree import report_tree
from tests.repairs import SICK, repair_report, repair_request, repair_run, repair_stock

DIGEST = "c0ffee" + "0" * 58


@pytest.fixture(scope="module")
def report():
    return repair_report()


def known(*runs, stock=True):
    """What a repair has written so far."""
    return SimpleNamespace(stock=repair_stock() if stock else None, runs=runs, tests=())


def test_a_finished_repair_has_its_report_its_film_and_its_losses(report):
    request = repair_request()
    made = enclosures(request, DIGEST, report, "repair", 1)
    assert set(made) == {REPORT, FILM, LOSSES}
    tree = json.loads(made[REPORT])
    assert tree == json.loads(json.dumps(report_tree(request, report))) | {"job": DIGEST}
    film, losses = (Image.open(io.BytesIO(made[name])) for name in (FILM, LOSSES))
    line = note(request, DIGEST, report)
    assert line.endswith(" · repair c0ffee000000")
    assert fmt.duration(report.provenance.seconds) in line
    assert film.n_frames == 1 + len(report.runs[1].step)
    assert film.info["comment"].decode() == f"{line} · arm repair, seed 1"
    assert losses.format == "PNG"
    assert losses.info["Description"] == line
    assert round(losses.info["dpi"][0]) == 200
    assert made == enclosures(request, DIGEST, report, "repair", 1), "the same bytes again"


@pytest.mark.parametrize("arm", ["untrained", "removed"])
def test_an_arm_with_one_evaluated_step_is_a_film_of_before_and_after(report, arm):
    film = Image.open(io.BytesIO(enclosures(repair_request(), DIGEST, report, arm, 0)[FILM]))
    assert film.n_frames == 2


def test_without_a_report_the_pictures_are_of_what_is_known():
    runs = repair_run("repair"), repair_run("no-reinit", upto=40)
    made = enclosures(repair_request(), DIGEST, known(*runs), "repair", 0)
    assert set(made) == {FILM, LOSSES}
    line = Image.open(io.BytesIO(made[FILM])).info["comment"].decode()
    assert "· seeds 0, 1, 2 · repair c0ffee000000 ·" in line, "no time and no version: they are the report's"


@pytest.mark.parametrize(
    ("found", "there"),
    [
        (known(stock=False), set()),
        (known(), set()),
        (known(repair_run("repair", upto=40)), {FILM}),
        (known(repair_run("no-reinit")), {LOSSES}),
    ],
    ids=["nothing", "stock", "not ended", "another arm"],
)
def test_what_has_no_numbers_is_left_out(found, there):
    assert set(enclosures(repair_request(), DIGEST, found, "repair", 0)) == there


def test_the_film_of_a_later_pass_goes_on_where_the_one_before_ended():
    first, second = repair_run("repair", heads=SICK[:5]), repair_run("repair", heads=SICK[5:7], number=2)
    found = known(first, second, repair_run("repair", seed=1))
    one, two = (film_of(repair_request(), found, run) for run in (first, second))
    assert one["step"].tolist() == [0, 20, 40, 60, 80, 100]
    assert two["step"].tolist() == [100, 120, 140, 160, 180, 200]
    assert one["treated"] == SICK[:5]
    assert two["treated"] == SICK[:7]
    assert one["before"] == "5 of 5 treated heads on the first token"
    assert two["told"] == ["0 of 2 treated heads on the first token"] * 6
    assert np.array_equal(two["stock"], found.stock.mass)


def test_the_line_of_provenance_says_that_words_were_shuffled(report):
    request = replace(repair_request(), shuffled=True)
    assert ", words shuffled · held out" in note(request, DIGEST, None)
