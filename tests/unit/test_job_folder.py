"""The job folder: every state from its files, one winner of a claim, three attempts, and who may stop what."""

import fcntl
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from headviz.errors import BadInput
from headviz.jobs import folder as folder_module
from headviz.jobs.board import Board
from headviz.jobs.files import read_json, read_tail, write_json
from headviz.jobs.folder import JobFolder, all_jobs
from headviz.jobs.kinds import KINDS
from headviz.jobs.view import look
from headviz.locks import Lock, held
from tests.job_kinds import PLAY, PlayRequest


@pytest.fixture(autouse=True)
def play_kind(monkeypatch):
    monkeypatch.setitem(KINDS, "play", PLAY)


@pytest.fixture
def jobs(tmp_path):
    path = tmp_path / "a 'home' with \"quotes\" $x ü" / "jobs"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def job(jobs):
    return JobFolder.create(jobs, PlayRequest())


def die(attempt) -> None:
    """What the system does when the process dies: the lock goes, nothing is written."""
    attempt.release()


# ------------------------------------------------------------------------------------------------------ states


def test_queued(job):
    assert job.state() == "queued"
    assert job.request() == PlayRequest()
    assert job.spec_matches()
    assert look(job).attempt == 0


def test_running_then_done(job):
    attempt = job.claim()
    assert job.state() == "running"
    assert attempt.owner()["pid"] == os.getpid()
    attempt.finish("done")
    assert job.state() == "done"
    assert job.claim() is None


def test_stalled_is_not_dead(job):
    attempt = job.claim()
    old = time.time() - folder_module.STALLED - 1
    os.utime(attempt.path / "heartbeat", (old, old))
    assert job.state() == "stalled"
    assert job.claim() is None
    attempt.show_life()
    assert job.state() == "running"


def test_interrupted_is_taken_up_three_times(job):
    for number in (1, 2, 3):
        attempt = job.claim()
        assert attempt.number == number
        (attempt.path / "log").write_text(f"last words {number}\n")
        die(attempt)
        assert job.state() == ("interrupted" if number < 3 else "failed")
    assert job.claim() is None
    seen = look(job)
    assert seen.state == "failed"
    assert seen.error_type == "JobFailed"
    assert "died 3 times" in seen.error
    assert "last words 3" in seen.error


def test_failed_is_final(job):
    job.claim().finish("failed", "BadData", "The text is empty.")
    assert job.state() == "failed"
    assert job.claim() is None
    assert (look(job).error, look(job).error_type) == ("The text is empty.", "BadData")


@pytest.mark.parametrize("begun", [False, True])
def test_cancelled_is_never_taken_up(job, begun):
    if begun:
        attempt = job.claim()
        job.ask_to_cancel()
        assert job.state() == "running"
        assert look(job).stopping
        die(attempt)
    else:
        job.ask_to_cancel()
    assert job.state() == "cancelled"
    assert job.claim() is None
    assert look(job).error is None


def test_done_before_the_cancel_was_seen(job):
    attempt = job.claim()
    job.ask_to_cancel()
    attempt.finish("done")
    assert job.state() == "done"


def test_a_cancel_between_look_and_claim_is_seen(job, monkeypatch):
    """The claim looks for the cancel file again once it holds the attempt."""
    rename = folder_module._rename

    def cancel_first(source, target):
        job.ask_to_cancel()
        return rename(source, target)

    monkeypatch.setattr(folder_module, "_rename", cancel_first)
    assert job.claim() is None
    assert job.state() == "cancelled"
    assert not job.last().alive()


def test_half_written_end_is_no_end(job):
    attempt = job.claim()
    (attempt.path / "end.json").write_text('{"state": "do')
    assert job.state() == "running"
    die(attempt)
    assert job.state() == "interrupted"


# ------------------------------------------------------------------------------------------------------ events


def test_torn_last_event_is_passed_over(job):
    attempt = job.claim()
    attempt.say({"t": 1.0, "doing": "Reading", "done": 1, "total": 4, "unit": "inputs"})
    with (attempt.path / "events.jsonl").open("a") as file:
        file.write('{"t": 2.0, "doing": "Rea')
    seen = look(job)
    assert (seen.doing, seen.done, seen.total, seen.unit) == ("Reading", 1, 4, "inputs")


@pytest.mark.parametrize(
    "text", ["", "\n\n", "null\n", "[1]\n", '{"done": "x", "doing": 3, "total": true}\n', "\x00"]
)
def test_odd_events_show_nothing(job, text):
    attempt = job.claim()
    (attempt.path / "events.jsonl").write_text(text)
    seen = look(job)
    assert (seen.doing, seen.done, seen.total, seen.eta_seconds) == ("", 0, 0, None)


def test_eta_from_the_rate_of_what_is_done_now(job):
    attempt = job.claim()
    now = time.time()
    event = {"t": now, "doing": "x", "done": 6, "total": 10, "unit": "", "since": now - 8.0, "from": 2}
    attempt.say(event)
    assert look(job).eta_seconds == pytest.approx(8.0, abs=0.5)
    attempt.say(event | {"done": 2})
    assert look(job).eta_seconds is None
    attempt.say(event | {"total": 0})
    assert look(job).eta_seconds is None


def test_the_time_left_does_not_follow_a_single_slow_or_fast_batch(job):
    """Even batches of 1 s, but one that takes 9 s: the figure takes it in bit by bit, and forgets how it began."""
    attempt, now = job.claim(), time.time()
    took = [9.0 if i == 7 else 1.0 for i in range(12)]
    seen = []
    for i in range(1, 13):
        event = {"doing": f"x · {i}", "done": i, "total": 20, "from": 0, "since": now - sum(took[:i])}
        (attempt.path / "events.jsonl").write_text(
            "".join(
                json.dumps(event | {"done": n, "t": now - sum(took[n:i])}) + "\n" for n in range(1, i + 1)
            )
        )
        seen.append(look(job).eta_seconds + sum(took[:i]))  # when it ends, counted from its beginning
    assert seen[:7] == pytest.approx([20.0] * 7, abs=0.5)
    assert seen[7] == pytest.approx(20.0, abs=0.5), "the mean rate since the beginning says 40 s"
    assert max(abs(b - a) for a, b in itertools.pairwise(seen)) < 16, seen
    assert 28 < seen[-1] < 40


def test_elapsed(job):
    attempt = job.claim()
    write_json(attempt.path / "owner.json", attempt.owner() | {"began": time.time() - 5})
    assert look(job).elapsed == pytest.approx(5, abs=0.5)
    attempt.finish("done")
    time.sleep(0.05)
    first = look(job).elapsed
    time.sleep(0.05)
    assert look(job).elapsed == first


def test_log_tail(job):
    attempt = job.claim()
    (attempt.path / "log").write_text("".join(f"line {n}\n" for n in range(20_000)))
    assert job.log_tail(2) == "line 19998\nline 19999"


# ------------------------------------------------------------------------------------------------------ claims

CLAIM = """
import sys, time
from pathlib import Path
from tests.job_kinds import register
from headviz.jobs.folder import JobFolder
register()
job = JobFolder(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
attempt = job.claim()
print(attempt.number if attempt else 0, flush=True)
sys.stdin.readline()
"""


def claimers(job: JobFolder, count: int) -> list[subprocess.Popen]:
    command = [sys.executable, "-c", CLAIM, str(job.path)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in running:
        assert process.stdout.readline() == "ready\n"
    return running


def test_of_many_processes_one_claims(job):
    running = claimers(job, 8)
    try:
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        numbers = [int(process.stdout.readline()) for process in running]
        assert sorted(numbers) == [0] * 7 + [1]
        assert job.state() == "running"
        winner = running[numbers.index(1)]
        winner.kill()
        winner.wait(5)
        assert job.state() == "interrupted"
    finally:
        for process in running:
            process.kill()
            process.communicate()
    assert not list((job.path / "attempts").glob(".claim-*"))


def test_of_many_threads_one_claims(job):
    for number in (1, 2, 3):
        won = []
        gate = threading.Barrier(8)

        def claim(won=won, gate=gate):
            gate.wait()
            if attempt := job.claim():
                won.append(attempt)

        threads = [threading.Thread(target=claim) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [attempt.number for attempt in won] == [number]
        die(won[0])


def test_asking_at_once_makes_one_job(jobs):
    gate = threading.Barrier(8)

    def create():
        gate.wait()
        JobFolder.create(jobs, PlayRequest(mark="together"))

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(all_jobs(jobs)) == 1
    assert not list(jobs.glob(".new-*"))


def test_looking_never_passes_for_holding(tmp_path):
    """Two who ask at once whether a lock is held do not take each other for the holder."""
    path = tmp_path / "lock"
    path.touch()
    with path.open() as another:
        fcntl.flock(another, fcntl.LOCK_SH)  # as `held` in another process does
        assert not held(path)
    lock = Lock.take(path)
    assert held(path)
    assert Lock.take(path) is None
    lock.release()
    lock.release()
    assert not held(path)
    assert not held(tmp_path / "none")


def test_a_claim_on_a_folder_that_went_away(job):
    shutil.rmtree(job.path)
    assert job.claim() is None
    assert look(job) is None
    job.hold("a")
    job.drop("a")
    assert job.holders() == 0


# ----------------------------------------------------------------------------------------------------- holders


def test_holders_go_stale(job):
    job.hold("one")
    job.hold("../two: any name at all")
    assert job.holders() == 2
    for path in (job.path / "holders").iterdir():
        assert path.parent == job.path / "holders"
        old = time.time() - folder_module.STALE_HOLDER - 1
        os.utime(path, (old, old))
    assert job.holders() == 0
    job.hold("one")
    assert job.holders() == 1
    job.drop("one")
    job.drop("one")
    assert job.holders() == 0


# -------------------------------------------------------------------------------------------------- the folder


def test_a_changed_spec_is_noticed(job):
    (job.path / "spec.json").write_text(json.dumps({"schema": 1}))
    assert not job.spec_matches()
    with pytest.raises(BadInput):
        job.request()
    seen = look(job)
    assert (seen.request, seen.state) == (None, "queued")


def test_moved_aside_under_a_number(job, jobs):
    for number in (1, 2, 3):
        assert JobFolder.create(jobs, PlayRequest()).move_to(jobs / "archive")
        assert (jobs / "archive" / f"{job.digest}-{number}" / "spec.json").exists()
    assert not job.move_to(jobs / "archive")
    assert all_jobs(jobs) == []


def test_board_remembers_what_ended_until_it_is_tried_afresh(jobs, monkeypatch):
    first = JobFolder.create(jobs, PlayRequest(mark="1"))
    time.sleep(0.01)
    second = JobFolder.create(jobs, PlayRequest(mark="2"))
    board = Board(jobs)
    assert [job.digest for job in board.waiting()] == [first.digest, second.digest]
    assert [view.digest for view in board.views()] == [second.digest, first.digest]
    first.claim().finish("failed", "BadData", "no")
    assert [job.digest for job in board.waiting()] == [second.digest]
    assert board.views()[1].state == "failed"
    looked = []
    monkeypatch.setattr(
        JobFolder, "state", lambda job, real=JobFolder.state: (looked.append(job.digest), real(job))[1]
    )
    board.waiting()
    board.views()
    assert set(looked) == {second.digest}
    first.move_to(jobs / "archive")
    JobFolder.create(jobs, PlayRequest(mark="1"))
    assert [job.digest for job in board.waiting()] == [second.digest, first.digest]
    assert {view.state for view in board.views()} == {"queued"}


def test_a_write_that_fails_half_way_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "end.json"
    write_json(path, {"state": "old"})
    write = Path.write_bytes

    def half(self, data):
        write(self, data[:3])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(OSError):
        write_json(path, {"state": "new"})
    assert read_json(path) == {"state": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["end.json"]


def test_small_files(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path) is None
    write_json(path, {"a": 1})
    assert read_json(path) == {"a": 1}
    path.write_text("[1]")
    assert read_json(path) is None
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]
    assert read_tail(tmp_path / "none") == ""
    path.write_bytes("é\nzwei\n".encode())
    assert read_tail(path, 6) == "zwei\n"
    with pytest.raises(OSError):
        write_json(tmp_path / "no folder" / "x.json", {})
    assert Path(tmp_path).exists()
