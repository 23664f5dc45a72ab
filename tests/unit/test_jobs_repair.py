"""The lane of repairs: a process of its own beside the live worker, one plan after the other, cancelled and taken up."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from headviz.codec import pack
from headviz.jobs import threads as threads_of
from headviz.jobs.board import Board
from headviz.jobs.folder import JobFolder
from headviz.jobs.jobs import Jobs
from headviz.jobs.kinds import KINDS, job_digest
from headviz.jobs.lane import reap
from headviz.jobs.resources import Resources
from headviz.jobs.threads import set_threads, threads_for
from headviz.settings import Settings
from tests.job_kinds import MEND, PLAY, MendRequest, PlayRequest, wait
from tests.repairs import repair_report, repair_request, small_request

WORKER = (sys.executable, "-m", "tests.job_worker")


@pytest.fixture(autouse=True)
def kinds(monkeypatch):
    monkeypatch.setitem(KINDS, "play", PLAY)
    monkeypatch.setitem(KINDS, "mend", MEND)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(Settings(home=tmp_path / "home", device="cpu", threads=8), command=WORKER)
    yield made
    made.stop_worker()
    assert not any(lane.alive() for lane in made.lanes.values())


def begun(path: Path, lines: int = 1) -> list[str]:
    """The lines of a file that a job writes, once there are so many."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if path.exists() and len(found := path.read_text().splitlines()) >= lines:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{path.name} never had {lines} lines")


def owner(jobs, digest) -> dict:
    return JobFolder(jobs.folder / digest).last().owner()


def test_a_repair_runs_in_its_own_process_beside_the_live_worker(jobs, tmp_path):
    live = jobs.ask(PlayRequest(how="threads", mark=str(tmp_path / "live")), "page").digest
    wait(jobs, live, "done")
    repair = jobs.ask(MendRequest(how="threads", seconds=30, mark=str(tmp_path / "repair")), "page").digest
    wait(jobs, repair, "running")
    other = jobs.ask(PlayRequest(mark="meanwhile"), "page")
    assert other.ahead == 0, "it waits for nothing: the repair is in another lane"
    wait(jobs, other.digest, "done")
    assert jobs.view(repair).state == "running", "live jobs go on meanwhile"
    assert owner(jobs, live)["pid"] == owner(jobs, other.digest)["pid"]
    assert owner(jobs, repair)["pid"] != owner(jobs, live)["pid"]
    assert os.getpgid(owner(jobs, repair)["pid"]) == owner(jobs, repair)["pid"], "in a group of its own"
    niceness = [int(begun(tmp_path / name)[0].split()[3]) for name in ("live", "repair")]
    assert niceness[0] < niceness[1], "what somebody waits for goes first"


def test_the_live_worker_leaves_a_running_repair_its_threads(jobs, tmp_path, monkeypatch):
    monkeypatch.setenv("TEST_CORES", "6")

    def live(name: str) -> list[int]:
        digest = jobs.ask(PlayRequest(how="threads", mark=str(tmp_path / name)), "page").digest
        wait(jobs, digest, "done")
        return [int(number) for number in begun(tmp_path / name)[0].split()[:2]]

    assert live("before") == [6, 6]
    mend = MendRequest(how="threads", seconds=30, mark=str(tmp_path / "repair"), threads=4)
    repair = jobs.ask(mend, "page").digest
    assert begun(tmp_path / "repair")[0].split()[:2] == ["4", "4"], "as many as it asks for"
    assert live("meanwhile") == [2, 2]
    assert jobs.cancel(repair, "page") == "stopped"
    assert live("afterwards") == [6, 6]


def test_threads_of_a_job(tmp_path, monkeypatch):
    monkeypatch.setattr(threads_of, "cores", lambda: 4)
    board = Board(tmp_path / "jobs")
    jobs = Jobs(Settings(home=tmp_path, device="cpu"))
    assert threads_for(PlayRequest(), 8, board) == 4
    assert threads_for(PlayRequest(), 3, board) == 3
    assert threads_for(small_request(threads=7), 3, board) == 7
    assert threads_for(small_request(threads=0), 3, board) == 1
    waiting = jobs._job(MendRequest(threads=2))
    assert threads_for(PlayRequest(), 8, board) == 4, "a repair that waits takes none yet"
    attempt = waiting.claim()
    assert threads_for(PlayRequest(), 8, board) == 2
    assert threads_for(PlayRequest(), 1, board) == 1
    attempt.take_threads(3)
    assert threads_for(PlayRequest(), 8, board) == 1, "in several processes together"
    attempt.take_threads(2)
    assert threads_for(PlayRequest(), 8, board) == 2
    (attempt.path / "threads.json").write_text("torn")
    assert threads_for(PlayRequest(), 8, board) == 2, "what it asks for, then"
    second = jobs._job(MendRequest(threads=9)).claim()
    assert threads_for(PlayRequest(), 8, board) == 1, "never less than one"
    for one in (attempt, second):
        one.finish("done")
    assert threads_for(PlayRequest(), 8, board) == 4


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_no_process_of_a_repair_is_left_when_it_is_stopped(jobs, how):
    digest = jobs.ask(MendRequest(how="side by side"), "page").digest
    until = time.monotonic() + 90
    while len(curves := list(jobs.settings.home.rglob("curve.jsonl"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    worker = psutil.Process(owner(jobs, digest)["pid"])
    beside = worker.children()
    assert (len(curves), len(beside)) == (2, 1), "both are at work"
    assert jobs.board.threads_taken() == 2
    assert {one.nice() for one in beside} == {worker.nice()}
    assert not {"HF_TOKEN", str(jobs.settings.home)} & {word for one in beside for word in one.cmdline()}
    if how == "cancel":
        asked = time.monotonic()
        assert jobs.cancel(digest, "page") == "stopped"
        assert time.monotonic() - asked < 2
    else:
        jobs.folder.joinpath(digest, "cancel").touch()  # so that the next worker leaves it alone
        worker.kill()
    assert psutil.wait_procs(beside, timeout=5)[1] == []
    assert jobs.board.threads_taken() == 0


def test_torch_is_told_where_it_is_there(monkeypatch):
    told = []

    class Torch:
        get_num_threads = staticmethod(lambda: 2)
        set_num_threads = staticmethod(told.append)

    monkeypatch.setitem(sys.modules, "torch", Torch)
    set_threads(2)
    set_threads(3)
    assert told == [3]
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "3"


def test_a_second_repair_runs_after_the_first_and_the_process_leaves(jobs, tmp_path):
    marks = [tmp_path / name for name in ("first", "second")]
    asked = [jobs.ask(MendRequest(how="steps", seconds=0.6, mark=str(mark)), "page") for mark in marks]
    assert asked[1].ahead == 1
    until = time.monotonic() + 20
    while jobs.view(asked[1].digest).state != "done" and time.monotonic() < until:
        states = [jobs.view(view.digest).state for view in asked]
        assert states.count("running") <= 1, "one at a time"
        time.sleep(0.02)
    assert len({*begun(marks[0], 20), *begun(marks[1], 20)}) == 1, (
        "the same process, without waiting to be asked"
    )
    while jobs.lanes["repair"].alive() and time.monotonic() < until:
        time.sleep(0.02)
    assert not jobs.lanes["repair"].alive(), "it leaves when none waits"


def test_a_killed_repair_is_taken_up_and_goes_on_where_it_was(jobs, tmp_path):
    mark = tmp_path / "mark"
    digest = jobs.ask(MendRequest(how="steps", seconds=2.0, mark=str(mark)), "page").digest
    begun(mark, 5)
    os.kill(owner(jobs, digest)["pid"], signal.SIGKILL)
    done = wait(jobs, digest, "done")
    assert done.attempt == 2
    lines = mark.read_text().splitlines()
    assert len(lines) == 20
    assert len(set(lines)) == 2, "another process went on"


@pytest.mark.parametrize("how", ["steps", "stone"])
def test_a_repair_is_cancelled_and_goes_on_when_it_is_asked_again(jobs, tmp_path, how):
    request = MendRequest(how=how, seconds=4.0 if how == "steps" else 30, mark=str(tmp_path / "mark"))
    digest = jobs.ask(request, "page").digest
    if how == "steps":
        begun(tmp_path / "mark", 4)
    wait(jobs, digest, "running")
    time.sleep(0.2)
    began = time.monotonic()
    assert jobs.cancel(digest, "page") == "stopped"
    assert time.monotonic() - began < 2.0
    assert jobs.view(digest).state == "cancelled"
    assert jobs.ensure_worker() is None
    assert jobs.ask(request, "page").state == "cancelled", "never taken up by itself"
    if how != "steps":
        return
    before = len((tmp_path / "mark").read_text().splitlines())
    assert before < 20
    jobs.retry(digest, "page")
    wait(jobs, digest, "done")
    assert len((tmp_path / "mark").read_text().splitlines()) == 20, "what was done is not done again"


def test_a_repair_outlives_the_dashboard(jobs, tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.job_kinds import MendRequest, register\nregister()\n"
        "from headviz.jobs.jobs import Jobs\nfrom headviz.settings import Settings\n"
        "jobs = Jobs(Settings(home=Path(sys.argv[1]), device='cpu'), (sys.executable, '-m', 'tests.job_worker'))\n"
        "print(jobs.ask(MendRequest(how='steps', seconds=0.6, mark=sys.argv[2]), 'page').digest)\n"
    )
    arguments = [sys.executable, "-c", code, str(jobs.settings.home), str(tmp_path / "mark")]
    out = subprocess.run(arguments, capture_output=True, text=True, timeout=20, check=True)
    digest = out.stdout.strip()
    until = time.monotonic() + 10
    while jobs.view(digest).state != "done" and time.monotonic() < until:  # only looks: starts nothing
        time.sleep(0.02)
    assert (jobs.view(digest).state, jobs.view(digest).attempt) == ("done", 1)


def test_the_workers_take_only_what_is_theirs(jobs, tmp_path):
    jobs._job(MendRequest(mark="waits"))
    play = jobs._job(PlayRequest(mark="waits too"))
    assert [job.digest for job in jobs.board.waiting("live")] == [play.digest]
    assert [job.digest for job in jobs.board.waiting("repair")] == [job_digest(MendRequest(mark="waits"))]
    (play.path / "spec.json").write_text("{}")
    assert [job.digest for job in Board(jobs.folder).waiting("live")] == [play.digest], "its worker says so"
    assert jobs.ensure_worker() is None
    assert all(lane.alive() for lane in jobs.lanes.values())
    wait(jobs, job_digest(MendRequest(mark="waits")), "done")
    wait(jobs, play.digest, "failed")


def test_a_lane_that_cannot_start_does_not_hold_up_the_other(tmp_path):
    jobs = Jobs(Settings(home=tmp_path, device="cpu"), command=WORKER)
    jobs.lanes["repair"].command = (sys.executable, "-c", "import sys; sys.exit('no room')")
    digest = jobs.ask(MendRequest(), "page").digest
    seen = wait(jobs, digest, "failed")
    assert "ended 3 times while it was starting" in seen.error
    assert "no room" in jobs.log_tail(digest)
    wait(jobs, jobs.ask(PlayRequest(), "page").digest, "done")
    reap(5)
    jobs.lanes["repair"].command = WORKER
    jobs.retry(digest, "page")
    wait(jobs, digest, "done")
    jobs.stop_worker()


def test_in_this_process_a_repair_has_its_threads_and_the_next_job_those_before(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(threads_of, "cores", lambda: 8)
    for name, request in (
        ("one", PlayRequest(how="threads", mark=str(tmp_path / "one"))),
        ("two", MendRequest(how="threads", mark=str(tmp_path / "two"), threads=3)),
        ("three", PlayRequest(how="threads", mark=str(tmp_path / "three"))),
    ):
        jobs.run_here(request)
        assert (tmp_path / name).exists()
    seen = [(tmp_path / name).read_text().split()[:2] for name in ("one", "two", "three")]
    assert seen == [["8", "8"], ["3", "3"], ["8", "8"]]
    assert not jobs.lanes["repair"].alive()


def test_a_job_finds_what_another_one_came_to(tmp_path):
    request = repair_request()
    digest, resources = job_digest(request), Resources(Settings(home=tmp_path), 1)
    assert resources.answer(digest) is None
    (tmp_path / "jobs").mkdir()
    job = JobFolder.create(tmp_path / "jobs", request)
    assert resources.answer(digest) is None
    job.write_result(pack(repair_report(request)))
    for place in ("the job's folder", "the store"):
        assert resources.answer(digest).trained == 113_000, place
        assert not job.result_file.exists()
