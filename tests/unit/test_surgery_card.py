"""The page that lies in a repaired checkpoint."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headviz.models import catalog
from headviz.surgery import card
from headviz.surgery.slicefile import SliceFile
from headviz.types import ModelRef
from tests.repairs import SMALL, THREE, repair_report, small_request

FOUND = {
    "difference": 1e-6, "rounding": 1e-6, "compared": 100, "loss_stock": 3.0, "loss_job": 2.9, "loss_after": 2.9
}  # fmt: skip
NOTHING = SimpleNamespace(stock=None, runs=())


def written(model: ModelRef, so_far=NOTHING) -> str:
    plan = replace(small_request(), model=model)
    file = SliceFile(
        plan=plan, arm="repair", seed=0, number=1, step=20, heads=THREE, ended="steps", tensors={}
    )
    return card.text([file], SimpleNamespace(label="A model", geometry=SMALL), FOUND, so_far)


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
