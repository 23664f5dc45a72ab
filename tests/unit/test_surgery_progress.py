"""The folder of a repair: what was written is read, at any moment, and a full disk costs nothing but time."""

import errno
import threading
from dataclasses import replace

import numpy as np
import pytest

from headviz.errors import Cancelled, Failure
from headviz.settings import settings
from headviz.surgery import meter as meters
from headviz.surgery import progress
from headviz.surgery.meter import Meter
from headviz.surgery.progress import Point
from headviz.surgery.turns import Chain, Turns, all_steps
from headviz.types import DataRef, HeadTest, ModelRef, Recipe, RepairRequest, RepairStock, Silent

DIGEST = "ab" * 32
QUIET = Meter(Silent(), 10)
DATA = DataRef(corpus="docstrings", revision="0" * 64)
REQUEST = RepairRequest(
    model=ModelRef(source="bundled", name="x", revision="0" * 64, dtype="float32"),
    heads=((0, 1),),
    recipe=Recipe(),
    arms=("untrained", "repair"),
    seeds=(3, 0),
    train=DATA,
    held_out=DATA,
    diagnose=DATA,
    passes=2,
)


class Noting:
    """A watch that remembers what it was told."""

    def __init__(self, full=0):
        self.said, self.full = [], full

    def step(self, doing, done=0, total=0, unit=""):
        self.said.append((doing, done, total, unit))
        if self.full > 0:
            self.full -= 1
            raise OSError(errno.ENOSPC, "No space left on device")

    def check(self):
        pass


def maps(step):
    return {name: np.full((2, 3), step + i, np.float32) for i, name in enumerate(progress.MAPS)}


def point(step, select=1.0):
    gone = np.nan if step == 0 else 0.25
    return Point(
        step=step, train_loss=gone, select=select, rate=gone, gradient_norm=gone, tokens_per_second=gone
    )


def stock():
    rows, heads = np.linspace(3, 4, 5), np.ones((2, 3), np.float32)
    return RepairStock(
        select=3.5, report=rows, report_predicted=np.full(5, 7, np.int32), report_cluster=np.arange(5, dtype=np.int32),
        other=rows[:0], other_predicted=np.zeros(0, np.int32), other_cluster=np.zeros(0, np.int32), mass=heads,
        entropy=heads, output_norm=heads, full_norm=heads, half_mass=np.ones((2, 2, 3)), null_mass=np.ones(3),
        null_entropy=np.ones(3),
    )  # fmt: skip


@pytest.fixture
def place():
    return progress.folder(settings(), DIGEST)


def test_nothing_yet(place):
    found = progress.so_far(settings(), DIGEST, REQUEST)
    assert (found.stock, found.runs, found.running, found.tests) == (None, (), (), ())


def test_what_is_written_is_read(place):
    progress.write_stock(place, stock(), QUIET)
    run = progress.run_folder(place, "repair", 3, 1)
    progress.begin_run(run, "repair", 3, 1, ((0, 1), (1, 2)), QUIET)
    assert progress.so_far(settings(), DIGEST, REQUEST).runs == ()
    for step, select in ((0, 2.0), (5, 1.5), (10, 1.5)):
        progress.add_point(run, point(step, select), maps(step), QUIET)
    found = progress.so_far(settings(), DIGEST, REQUEST)
    assert found.stock.select == 3.5
    assert np.array_equal(found.stock.report, stock().report)
    assert found.running == (("repair", 3, 1, 10),)
    (one,) = found.runs
    assert one.step.tolist() == [0, 5, 10]
    assert one.step.dtype == np.int32
    assert one.best == 5  # the earliest of equals
    assert np.isnan(one.train_loss[0])
    assert one.mass.shape == (3, 2, 3)
    assert one.full_norm[2, 0, 0] == 13
    assert one.heads == ((0, 1), (1, 2))
    assert one.ended == ""
    assert len(one.report_best) == 0


def test_an_ended_run_has_its_losses_and_runs_stand_in_the_plans_order(place):
    for arm, seed in (("repair", 0), ("untrained", 0), ("untrained", 3), ("repair", 3)):
        run = progress.run_folder(place, arm, seed, 1)
        progress.begin_run(run, arm, seed, 1, ((0, 1),), QUIET)
        progress.add_point(run, point(0), maps(0), QUIET)
        if arm == "untrained":
            progress.end_run(run, "steps", {name: np.arange(4.0) for name in progress.LOSSES}, QUIET)
    found = progress.so_far(settings(), DIGEST, REQUEST)
    assert [(run.arm, run.seed, run.ended) for run in found.runs] == [
        ("untrained", 3, "steps"),
        ("untrained", 0, "steps"),
        ("repair", 3, ""),
        ("repair", 0, ""),
    ]
    assert found.running == (("repair", 3, 1, 0), ("repair", 0, 1, 0)), "two side by side"
    assert found.runs[0].other_last.tolist() == [0, 1, 2, 3]


def test_steps_after_the_checkpoint_are_dropped_and_torn_lines_passed_over(place):
    run = progress.run_folder(place, "repair", 0, 1)
    progress.begin_run(run, "repair", 0, 1, ((0, 1),), QUIET)
    for step in (0, 5, 10):
        progress.add_point(run, point(step), maps(step), QUIET)
    with (run / "curve.jsonl").open("a") as file:
        file.write('{"step": 15, "train_lo')
    assert progress.read_run(run).step.tolist() == [0, 5, 10]
    progress.drop_after(run, 5, QUIET)
    assert progress.read_run(run).step.tolist() == [0, 5]
    progress.add_point(run, point(10, 0.5), maps(10), QUIET)
    assert progress.read_run(run).best == 10
    (run / "maps-000010.safetensors").write_bytes(b"torn")
    assert progress.read_run(run).step.tolist() == [0, 5]


def test_single_heads_come_back_to_the_last_bit_and_what_is_not_defined_is_null(place):
    known = HeadTest(layer=0, head=1, change=0.1 + 0.2, low=-1 / 3, high=1e-17, p=0.02, p_holm=0.04)
    alone = replace(known, head=2, low=np.nan, high=np.nan, p=np.nan, p_holm=np.nan)  # one document
    progress.write_tests(place, (known, alone), QUIET)
    found = progress.so_far(settings(), DIGEST, REQUEST).tests
    assert found[0] == known
    assert repr(found[1]) == repr(replace(alone, low=float("nan"), high=float("nan"), p=float("nan"), p_holm=float("nan")))  # fmt: skip
    assert b"NaN" not in (place / "tests.json").read_bytes()
    progress.write_tests(place, (), QUIET)
    assert progress.read_tests(place) == (), "none to test is another thing than not tested"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"tests": 1}', '{"tests": [1]}', '{"tests": [{"layer": 1}]}']
)
def test_a_file_of_single_heads_that_cannot_be_read_is_none(place, text):
    place.mkdir(parents=True)
    (place / "tests.json").write_text(text)
    assert progress.read_tests(place) is None
    assert progress.so_far(settings(), DIGEST, REQUEST).tests == ()


def test_numbers_come_back_to_the_last_bit(place):
    run = progress.run_folder(place, "repair", 0, 1)
    progress.begin_run(run, "repair", 0, 1, ((0, 1),), QUIET)
    odd = replace(point(1), select=0.1 + 0.2, train_loss=1 / 3)
    progress.add_point(run, odd, maps(1), QUIET)
    assert progress.read_points(run) == [odd]


def test_what_a_killed_process_left_half_written_goes_with_the_next_file(place):
    run = progress.run_folder(place, "repair", 0, 1)
    run.mkdir(parents=True)
    for name in (".end.json.0123", ".tmpPtNsXR"):  # ours, and safetensors'
        (run / name).write_bytes(b"half")
    progress.end_run(run, "steps", {name: np.zeros(2) for name in progress.LOSSES}, QUIET)
    assert sorted(path.name for path in run.iterdir()) == ["end.json", "losses.safetensors"]


def test_the_meter_counts_and_tells_what_is_done_beside():
    turns, watch = Turns(REQUEST), Noting()
    meter = Meter(watch, all_steps(REQUEST), turns)
    assert all_steps(REQUEST) == 2 * 2 * 300, "two seeds of two passes; untrained has no steps"
    here = [turns.take() for _ in range(3)][-1]
    beside = turns.take(beside=True)
    assert (here, beside) == (Chain("repair", 3), Chain("repair", 0))
    assert turns.take() is None
    meter.begin("arm repair, seed 3, pass 2", 300)
    meter.at(20)
    turns.tell(beside, 75, "arm repair, seed 0 · step 75")
    meter.at(21)
    assert [line[:2] for line in watch.said] == [
        ("arm repair, seed 3, pass 2 · step 20", 320),
        ("arm repair, seed 3, pass 2 · step 21; arm repair, seed 0 · step 75", 396),
    ]
    meter.begin()
    turns.over(here)
    meter.say("")
    assert watch.said[-1] == ("arm repair, seed 0 · step 75", 675, 1200, "steps")
    turns.back(beside)
    meter.say("reading")
    assert watch.said[-1] == ("reading", 600, 1200, "steps")
    assert turns.open()
    assert turns.take() == beside
    assert not turns.open()
    turns.fail(Failure("that was it"))
    for ask in (meter.check, lambda: meter.say("more"), lambda: meter.at(3)):
        with pytest.raises(Failure, match="that was it"):
            ask()


def test_for_several_takers_repair_comes_first_and_then_what_takes_longest():
    arms, healthy = ("removed", "no-reinit", "untrained", "healthy", "repair"), ((1, 0), (3, 2))
    request = replace(REQUEST, arms=arms, heads=((2, 1),), healthy=healthy, seeds=(1, 0), passes=1)

    def order(turns):
        return [turns.take() for _ in range(10)]

    assert order(Turns(request)) == [Chain(arm, seed) for arm in arms for seed in (1, 0)]
    turns = Turns(request)
    turns.longest_first()
    longest = ("repair", "healthy", "no-reinit", "removed", "untrained")
    assert order(turns) == [Chain(arm, seed) for arm in longest for seed in (1, 0)]
    deep = Turns(replace(request, heads=((0, 1),)))
    deep.longest_first()
    assert [chain.arm for chain in order(deep)[:6:2]] == ["repair", "no-reinit", "healthy"]


def test_a_chain_is_given_to_one_taker_only():
    turns, found = Turns(replace(REQUEST, seeds=tuple(range(500)))), []

    def take(beside):
        while (chain := turns.take(beside=beside)) is not None:
            found.append(chain)

    takers = [threading.Thread(target=take, args=(number > 0,)) for number in range(4)]
    for one in takers:
        one.start()
    for one in takers:
        one.join()
    assert len(found) == len(set(found)) == 1000


def test_a_full_disk_waits_says_so_and_goes_on(place, monkeypatch):
    watch, left = Noting(), [errno.ENOSPC, errno.EDQUOT]
    real = meters._write

    def sometimes(path, data):
        if left:
            raise OSError(left.pop(), "no room")
        real(path, data)

    monkeypatch.setattr(meters, "_write", sometimes)
    monkeypatch.setattr(meters, "LOOK_AGAIN", 0.01)
    run = progress.run_folder(place, "repair", 0, 1)
    meter = Meter(watch, 300)
    meter.begin("arm repair, seed 0", 100)
    meter.at(25)
    progress.begin_run(run, "repair", 0, 1, ((0, 1),), meter)
    progress.add_point(run, point(0), maps(0), meter)
    assert progress.read_run(run).step.tolist() == [0]
    assert watch.said[0] == ("arm repair, seed 0 · step 25", 125, 300, "steps")
    assert watch.said[1][0].startswith("arm repair, seed 0 · waiting: the disk")
    assert watch.said[1][1:] == (125, 300, "steps")
    assert len(watch.said) == 3


def test_another_error_of_the_disk_is_an_error(place, monkeypatch):
    def broken(path, data):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(meters, "_write", broken)
    place.mkdir(parents=True)
    with pytest.raises(OSError, match="broken"):
        meters.write_whole(place / "x", b"x", QUIET)


def test_who_waits_for_room_hears_a_cancel(place, monkeypatch):
    class Cancelling(Noting):
        def check(self):
            raise Cancelled("stopped")

    def full(path, data):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(meters, "_write", full)
    with pytest.raises(Cancelled):
        meters.write_whole(place / "x", b"x", Meter(Cancelling(), 1))


def test_a_line_of_progress_that_finds_no_room_is_lost_and_not_the_repair():
    watch = Noting(full=2)
    meter = Meter(watch, 10)
    meter.at(1)
    meter.step("measuring", 3, 4, "inputs")
    meter.at(2)
    assert [line[0] for line in watch.said] == ["step 1", "measuring", "step 2"]
    assert watch.said[1][1:] == (1, 10, "steps")
