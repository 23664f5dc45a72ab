"""Finished batches outlive a killed worker: what they hold, when they are read, and that a resumed answer is the same."""

import logging

import numpy as np
import pytest

from headviz.analysis import answering, measure
from headviz.errors import Cancelled
from headviz.jobs.kept import Kept
from headviz.types import Ablation
from tests.unit.test_measure import OFF, Bench


def test_batches_come_back_as_they_were(tmp_path):
    kept = Kept(tmp_path / "kept", "cpu")
    assert kept.get([3, 1]) is None
    kept.put(np.array([3, 1]), found=np.array([1.5, np.nan]), off=np.eye(2, dtype=bool))
    again = Kept(tmp_path / "kept", "cpu").get([3, 1])
    np.testing.assert_array_equal(again["found"], [1.5, np.nan])
    np.testing.assert_array_equal(again["off"], np.eye(2, dtype=bool))


def test_another_batch_or_device_is_computed_again(tmp_path):
    Kept(tmp_path / "kept", "cpu").put([3, 1], found=np.zeros(2))
    assert Kept(tmp_path / "kept", "cpu").get([1, 3]) is None
    assert Kept(tmp_path / "kept", "cpu").get([3]) is None
    assert Kept(tmp_path / "kept", "cuda").get([3, 1]) is None


def test_a_torn_file_and_a_full_disk_cost_the_copy_only(tmp_path, caplog):
    kept = Kept(tmp_path / "kept", "cpu")
    kept.put([0], found=np.zeros(2))
    (file,) = (tmp_path / "kept").iterdir()
    file.write_bytes(b"")
    (tmp_path / "no folder").write_text("a file where the folder should be")
    with caplog.at_level(logging.WARNING):
        assert kept.get([0]) is None
        Kept(tmp_path / "no folder", "cpu").put([0], found=np.zeros(2))
    assert [r.message for r in caplog.records] == [
        "a kept batch could not be read and is computed again",
        "a finished batch could not be kept",
    ]


class StopsAfter:
    """A Watch under which the work is cut off at its n-th report."""

    def __init__(self, reports: int) -> None:
        self.left = reports

    def step(self, doing, done=0, total=0, unit=""):
        self.left -= doing.startswith(("measuring", "answering"))
        if self.left < 0:
            raise Cancelled("killed")

    def check(self):
        pass


@pytest.fixture
def one_at_a_time(monkeypatch):
    """Every input is a batch of its own, and how many were really computed."""
    ran = []

    def each(lengths, *_room, soon):
        return [np.array([i]) for i in np.argsort(-lengths, kind="stable")]

    def counted(module, name):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a: ran.append(name) or real(*a))

    for module in (measure, answering):
        monkeypatch.setattr(module, "batches", each)
    counted(measure, "token_losses")
    counted(answering, "read_answers")
    return ran


CASES = {
    "losses": lambda bench, off: bench.losses(off),
    "questions": lambda bench, off: bench.ask(off, scoring="text"),
}
RULES = {
    "static": Ablation(mode="static", heads=OFF),
    "per input": Ablation(mode="random-per-input", rate=0.5),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("what", CASES)
def test_a_resumed_measurement_is_the_undisturbed_one(tmp_path, one_at_a_time, what, rule):
    bench = Bench(tmp_path, "llama")
    whole = CASES[what](bench, RULES[rule])
    computed = len(one_at_a_time)
    one_at_a_time.clear()
    bench.kept = Kept(tmp_path / "kept", "cpu")
    bench.watch = StopsAfter(1)
    with pytest.raises(Cancelled):
        CASES[what](bench, RULES[rule])
    kept = len(list((tmp_path / "kept").iterdir()))
    assert kept >= 1
    bench.watch = StopsAfter(1000)
    again = CASES[what](bench, RULES[rule])
    assert 0 < kept < computed == len(one_at_a_time), "no batch twice"
    name = "loss" if what == "losses" else "logprob"
    np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    np.testing.assert_array_equal(again.off_share, whole.off_share)
    assert again.off_sets == whole.off_sets
