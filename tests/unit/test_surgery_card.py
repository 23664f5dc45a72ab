"""The page that lies in a repaired checkpoint."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headviz.models import catalog
from headviz.surgery import card
from headviz.surgery.enclosures import FILM, LOSSES, REPORT
from headviz.surgery.slicefile import SliceFile
from headviz.types import ModelRef
from tests.repairs import SMALL, THREE, repair_report, small_request

FOUND = {
    "difference": 1e-6, "rounding": 1e-6, "compared": 100, "loss_stock": 3.0, "loss_job": 2.9, "loss_after": 2.9
}  # fmt: skip
NOTHING = SimpleNamespace(stock=None, runs=())


def written(model: ModelRef, so_far=NOTHING, arm="repair", enclosed=()) -> str:
    plan = replace(small_request(), model=model)
    file = SliceFile(plan=plan, arm=arm, seed=0, number=1, step=20, heads=THREE, ended="steps", tensors={})
    return card.text([file], SimpleNamespace(label="A model", geometry=SMALL), FOUND, so_far, enclosed)


def test_the_caution_of_the_model_stands_before_anything_else():
    model = small_request().model
    assert (caution := catalog.caution(model)), "ALiBi-demo has one"
    assert written(model).startswith(f"{caution}\n\n# A model with 3 of its heads treated")


@pytest.mark.parametrize(
    ("model", "first"),
    [
        (replace(small_request().model, name="smollm2"), "# A model with"),
        (ModelRef(source="hub", name="a/b", revision="f" * 40, dtype="float32"), "---\nbase_model: a/b\n---\n\n# A model"),
    ],
)  # fmt: skip
def test_without_a_caution_it_begins_with_its_title(model, first):
    assert written(model).startswith(first)


def test_where_one_document_allows_no_interval_none_is_written():
    made = repair_report()
    one = replace(made, stock=replace(made.stock, report_cluster=np.zeros_like(made.stock.report_cluster)))
    told = written(small_request().model, made), written(small_request().model, one)
    assert "[" in told[0].split("Against old weights")[1]
    assert "nan" not in told[1]


MODEL = small_request().model
ALONE = "make the report loss higher when each is zeroed alone"


def test_single_heads_are_a_table_with_the_largest_change_first():
    made = repair_report()
    told = written(MODEL, made)
    assert ALONE in told.split("## Verdict on the repair")[1].split("## Held-out loss")[0]
    part = told.split("## Single heads")[1]
    assert "seed 0, step 100 (its best)" in part
    rows = [line for line in part.splitlines() if line.startswith("| L")]
    assert len(rows) == len(made.tests) == 28
    assert rows[0] == "| L01.H09 | +0.00100 [+0.00080, +0.00120] | 0.0009 |"
    assert rows[-1].endswith("| 1 |")


def test_of_many_single_heads_the_first_forty_and_how_many_more():
    made = repair_report()
    more = tuple(replace(made.tests[1], layer=9, head=number, change=number * 1e-5) for number in range(45))
    part = written(MODEL, replace(made, tests=more)).split("## Single heads")[1]
    rows = [line for line in part.splitlines() if line.startswith("| L09")]
    assert [row[2:9] for row in rows] == [f"L09.H{number:02d}" for number in range(44, 4, -1)]
    assert part.strip().endswith("and 5 more.")


def test_a_verdict_before_every_run_has_ended_is_not_the_last_word():
    made = repair_report()
    assert "So far" not in written(MODEL, made)
    going = [run for run in made.runs if run.arm == "untrained"][-1]
    without = [run for run in made.runs if run is not going]
    second = replace(going, number=2, ended="", report_best=np.zeros(0))
    for runs in (without, [*made.runs, second]):
        told = written(MODEL, SimpleNamespace(stock=made.stock, runs=tuple(runs)))
        assert "**So far: " in told.split("## Verdict on the repair")[1].split("\n\n")[1]


def test_without_tests_the_card_says_nothing_of_them():
    told = written(MODEL, replace(repair_report(), tests=()))
    assert "## Verdict on the repair" in told
    assert "zeroed" not in told
    assert "Single heads" not in told


def test_single_heads_are_of_the_repair_arm_and_stand_in_no_other_arms_card():
    told = written(MODEL, repair_report(), arm="no-reinit")
    assert "## Single heads" not in told
    assert ALONE in told, "the verdict is on the repair"


def test_one_document_leaves_interval_and_p_of_a_single_head_out():
    made = repair_report()
    nan = float("nan")
    alone = replace(made.tests[0], low=nan, high=nan, p=nan, p_holm=nan)
    assert "| L01.H09 | +0.00100 |  |" in written(MODEL, replace(made, tests=(alone,)))


def test_report_and_pictures_are_linked_where_they_are():
    links = {name: f"]({name})" for name in (REPORT, FILM, LOSSES)}
    for there in (set(), {FILM}, set(links)):
        told = written(MODEL, repair_report(), enclosed=there)
        assert {name for name, link in links.items() if link in told} == there
    shown = [line for line in told.splitlines() if line.startswith("![")]
    assert [line.partition("](")[2] for line in shown] == [f"{LOSSES})", f"{FILM})"]
    assert all(len(line.partition("]")[0]) > 20 for line in shown), "words for who cannot see them"
