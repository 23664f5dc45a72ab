"""Runs side by side: the same bytes as one after the other, nothing lost with a process, and none left behind."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from headviz.errors import Cancelled, Failure
from headviz.surgery import repair, side
from headviz.surgery.repair import run_repair
from headviz.surgery.runs import Trainer
from headviz.surgery.slices import frozen_hash
from tests.checkpoints import Recorder
from tests.kill_repairs import differences, wait_for_helper
from tests.tiny_repair import Bench

ROOT = Path(__file__).parents[2]


def helper(monkeypatch, case="bloom", wrong=""):
    monkeypatch.setattr(
        side, "COMMAND", (sys.executable, "-m", "tests.tiny_helper", case, *([wrong] if wrong else []))
    )


@pytest.fixture
def slow(monkeypatch):
    """The steps of this process wait until a helper has taken a chain."""
    for name in ("__init__", "_take_in", "_gone"):
        monkeypatch.setattr(side._Helper, name, getattr(side._Helper, name))  # put back afterwards
    monkeypatch.setattr(Trainer, "one_step", Trainer.one_step)
    wait_for_helper()


def children():
    """Helpers of this process that are alive: one that has ended and whose end nobody has asked for yet has no command line."""
    found = []
    for one in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # also a zombie
            if "tests.tiny_helper" in one.cmdline():
                found.append(one)
    return found


@pytest.mark.parametrize("case", ["bloom", "llama"])
def test_side_by_side_gives_the_same_folder_to_the_last_byte(tmp_path, monkeypatch, slow, case):
    helper(monkeypatch, case)
    alone, two = Bench(tmp_path / "one", case), Bench(tmp_path / "two", case, at_once=2)
    two.watch = Recorder()
    plan = {"arms": ("repair", "untrained", "no-reinit", "removed"), "passes": 2, "sink": 0.2, "dead": 0.9}
    before = run_repair(two.plan(**plan), two)
    assert children() == []
    monkeypatch.undo()
    report = run_repair(alone.plan(**plan), alone)
    assert differences(tmp_path / "one", tmp_path / "two") == []
    assert before.tests == report.tests
    assert [(run.arm, run.seed, run.number) for run in before.runs] == [
        (run.arm, run.seed, run.number) for run in report.runs
    ]
    assert before.files == report.files
    assert alone.taken == [1, 1]
    assert max(two.taken) == 2
    assert two.taken[-1] == 1
    told = [step for step in two.watch.steps if step[3] == "steps"]
    assert {step[2] for step in told} == {2 * 2 * 2 * 12}
    counts = [step[1] for step in told]
    assert counts == sorted(counts), "steps of both are counted, each once"
    assert counts[-1] == told[-1][2]
    assert any(
        words.startswith("arm repair, seed 0") and "; arm repair, seed 1" in words for words, *_ in told
    )


@pytest.mark.parametrize(("wrong", "says"), [("dies", "ended with 9"), ("errs", "nobody thought of this")])
def test_what_befalls_a_process_costs_nothing_but_time(tmp_path, monkeypatch, slow, caplog, wrong, says):
    helper(monkeypatch, wrong=wrong)
    alone, two = Bench(tmp_path / "one"), Bench(tmp_path / "two", at_once=2)
    run_repair(two.plan(), two)
    assert says in caplog.text
    assert "which is taken up here" in caplog.text
    monkeypatch.undo()
    run_repair(alone.plan(), alone)
    assert differences(tmp_path / "one", tmp_path / "two") == []


def test_a_process_that_does_not_even_start_leaves_the_work_to_this_one(tmp_path, monkeypatch, caplog):
    for command in (("/nowhere/python",), (sys.executable, "-c", "print('hello')")):
        monkeypatch.setattr(side, "COMMAND", command)
        bench = Bench(tmp_path / command[0].rpartition("/")[2], at_once=3)
        report = run_repair(bench.plan(arms=("repair", "no-reinit")), bench)
        assert {run.ended for run in report.runs} == {"steps"}
    assert "no process could be started" in caplog.text


def test_a_repair_whose_loss_is_not_finite_beside_fails_at_once(tmp_path, monkeypatch, slow):
    helper(monkeypatch, wrong="not finite")
    real = Trainer.one_step

    def stuck(self, watching, meter):
        while self.step == 5:  # here nothing would ever fail
            meter.check()
            time.sleep(0.01)
        return real(self, watching, meter)

    monkeypatch.setattr(Trainer, "one_step", stuck)
    bench = Bench(tmp_path, at_once=2)
    with pytest.raises(Failure, match=r"not finite at step 7.*step 4.*arm repair, seed 1"):
        run_repair(bench.plan(), bench)
    assert children() == []


def test_a_control_that_is_not_finite_beside_ends_that_run_alone(tmp_path, monkeypatch, slow):
    helper(monkeypatch, wrong="not finite")
    bench = Bench(tmp_path, at_once=2)
    report = run_repair(bench.plan(arms=("repair", "no-reinit"), seeds=(0,)), bench)
    assert [run.ended.split(" at ")[0] for run in report.runs] == ["steps", "The loss was not finite"]


def test_a_frozen_number_that_changes_in_another_process_is_in_the_report(tmp_path, monkeypatch, slow):
    helper(monkeypatch, wrong="changes")
    bench = Bench(tmp_path, at_once=2)
    report = run_repair(bench.plan(arms=("repair", "no-reinit"), seeds=(0,)), bench)
    assert {run.ended for run in report.runs} == {"steps"}
    assert report.frozen_before == frozen_hash(bench.loaded.model), "here nothing changed"
    assert not report.frozen_identical
    assert report.frozen_after in (path.read_text()[12:-2] for path in tmp_path.rglob("frozen.json"))


def test_a_cancel_ends_every_process(tmp_path, monkeypatch, slow):
    helper(monkeypatch)

    class Cancelling(Recorder):
        def step(self, doing, *rest):
            if "; arm" in doing:
                raise Cancelled("stopped")

    bench = Bench(tmp_path, at_once=2)
    bench.watch = Cancelling()
    with pytest.raises(Cancelled):
        run_repair(bench.plan(steps=400), bench)
    assert children() == []
    assert not [one for one in threading.enumerate() if one.name.startswith("helper")]


def test_words_of_a_process_that_waits_are_told(tmp_path, monkeypatch):
    """What a helper says it does is in the line of progress, whatever it is."""
    talking = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    if 'request' in json.loads(line):\n"
        "        print(json.dumps({'want': True}), flush=True)\n"
        "    else:\n"
        "        print(json.dumps({'at': 3, 'says': 'waiting: the disk is full'}), flush=True)\n"
    )
    monkeypatch.setattr(side, "COMMAND", (sys.executable, "-c", talking))

    class Impatient(Recorder):
        def step(self, doing, done=0, total=0, unit=""):
            super().step(doing, done, total, unit)
            if doing == "waiting: the disk is full":
                raise Cancelled("seen")

    bench = Bench(tmp_path, at_once=2)
    bench.watch = Impatient()
    real = Trainer.one_step

    def one_step(self, watching, meter):
        while not meter._beside.words():
            time.sleep(0.01)
        return real(self, watching, meter)

    monkeypatch.setattr(Trainer, "one_step", one_step)
    with pytest.raises(Cancelled, match="seen"):
        run_repair(bench.plan(arms=("repair",)), bench)
    (first,) = [step for step in bench.watch.steps if " · step 1; waiting: the disk is full" in step[0]]
    assert first[1:] == (4, 24, "steps"), "a step here and three beside"
    assert bench.watch.steps[-1] == ("waiting: the disk is full", 15, 24, "steps")


def test_no_process_outlives_a_parent_that_was_killed(tmp_path):
    code = (
        "import sys, pathlib\n"
        "from headviz.surgery import side\n"
        "from headviz.surgery.repair import run_repair\n"
        "from tests.tiny_repair import Bench\n"
        "side.COMMAND = (sys.executable, '-m', 'tests.tiny_helper', 'bloom')\n"
        "bench = Bench(pathlib.Path(sys.argv[1]), at_once=3)\n"
        "run_repair(bench.plan(steps=100_000, arms=('repair', 'no-reinit'), seeds=(0, 1)), bench)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    try:
        until = time.monotonic() + 300  # three processes that import torch, on a machine with more to do
        curves = []
        while len(curves) < 3 and time.monotonic() < until and parent.poll() is None:
            curves = list(tmp_path.rglob("curve.jsonl"))
            time.sleep(0.05)
        beside = psutil.Process(parent.pid).children()
        assert (len(curves), len(beside)) == (3, 2), "all three are at work"
        (lock,) = tmp_path.rglob("lock")
        for one in beside:
            assert str(lock) in [file.path for file in one.open_files()], (
                "who comes after waits for this one too"
            )
    finally:
        parent.kill()
        parent.wait()
    gone, left = psutil.wait_procs(beside, timeout=5)
    assert (len(gone), left) == (2, [])


def test_who_comes_after_a_kill_waits_for_the_last_of_them(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    bench.watch = Recorder()
    request = bench.plan(arms=("untrained",), seeds=(0,))
    run_repair(request, bench)
    (lock,) = tmp_path.rglob("lock")
    hold = f"import fcntl, time; f = open({str(lock)!r}, 'r+'); fcntl.flock(f, 2); print(flush=True); time.sleep(0.7)"
    other = subprocess.Popen([sys.executable, "-c", hold], stdout=subprocess.PIPE)
    other.stdout.readline()
    run_repair(request, bench)
    other.stdout.close()
    assert other.wait(1) == 0
    assert "waiting for another process that works on this repair" in [
        words for words, *_ in bench.watch.steps
    ]


def test_a_finished_repair_starts_nothing(tmp_path, monkeypatch):
    bench = Bench(tmp_path, at_once=1)
    request = bench.plan(passes=2, sink=0.99, dead=0.99)
    run_repair(request, bench)
    monkeypatch.setattr(side, "_Helper", None)
    again = Bench(tmp_path, at_once=2)
    assert json.dumps([run.ended for run in run_repair(request, again).runs]) == json.dumps(["steps"] * 6)


def test_on_a_gpu_nothing_runs_beside(tmp_path):
    bench = Bench(tmp_path, at_once=4)
    bench.loaded.device = "cuda:0"
    work = type("Work", (), {"request": bench.plan(), "loaded": bench.loaded, "place": tmp_path})
    assert repair._at_once(work, bench.settings) == 1
    bench.loaded.device = "cpu"
    assert repair._at_once(work, bench.settings) == 4
