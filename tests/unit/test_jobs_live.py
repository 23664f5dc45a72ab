"""Jobs as a page sees them: a real worker process, asked, watched, killed, cancelled and shared."""

import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headviz.errors import BadData, BadInput, Cancelled, JobFailed, StoreFull
from headviz.jobs import jobs as jobs_module
from headviz.jobs import local
from headviz.jobs.folder import ENDED, JobFolder
from headviz.jobs.jobs import Jobs
from headviz.jobs.kinds import KINDS, job_digest
from headviz.jobs.lane import MAX_STARTS, reap
from headviz.jobs.resources import Resources
from headviz.jobs.run import JobWatch, prepare_process
from headviz.locks import Lock
from headviz.machine import cores
from headviz.settings import Settings, environment, read_settings
from headviz.store import Store
from headviz.types import Silent
from tests.job_kinds import PLAY, PlayRequest, wait
from tests.unit.samples import head_pattern

WORKER = (sys.executable, "-m", "tests.job_worker")


@pytest.fixture(autouse=True)
def play_kind(monkeypatch):
    monkeypatch.setitem(KINDS, "play", PLAY)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):  # running a job here sets them; undone after the test
        monkeypatch.setenv(name, "1")


@pytest.fixture
def jobs(tmp_path):
    made = Jobs(
        Settings(home=tmp_path / "a 'home' with \"quotes\" ü", device="cpu", threads=1), command=WORKER
    )
    yield made
    made.stop_worker()
    assert not made.lane.alive()


def test_asked_run_and_kept(jobs):
    request = PlayRequest(seconds=0.3)
    assert jobs.result(request) is None
    assert jobs.view(job_digest(request)) is None
    seen = jobs.ask(request, "page")
    assert seen.state in ("queued", "running")
    assert (seen.kind, seen.title, seen.request) == ("play", "Play", request)
    running = wait(jobs, seen.digest, "running")
    assert running.attempt == 1
    assert running.holders == 1
    done = wait(jobs, seen.digest, "done")
    assert done.elapsed > 0.2
    result = jobs.result(request)
    assert result.attention.shape == (4, 4)
    assert result.provenance.digest == seen.digest
    assert seen.digest in jobs.store
    assert not list(jobs.folder.glob("*/result/*.safetensors")), "kept once, in the store"
    assert jobs.ask(request, "page").state == "done"
    assert jobs.ask(request, "page").attempt == 1, "nothing is computed twice"
    assert [view.digest for view in jobs.list_jobs()] == [seen.digest]
    assert jobs.find(seen.digest[:6]) == seen.digest
    assert jobs.cancel(seen.digest, "page") == "already ended"


def test_progress_is_seen(jobs):
    seen = jobs.ask(PlayRequest(seconds=3), "page")
    until = time.monotonic() + 10
    while (view := jobs.hold(seen.digest, "page")).eta_seconds is None and time.monotonic() < until:
        time.sleep(0.05)
    assert view.doing == "Sleeping"
    assert (view.total, view.unit) == (150, "steps")
    assert 0 < view.done < 150
    assert 0 < view.eta_seconds < 6
    jobs.cancel(seen.digest, "page")


def test_one_worker_serves_all_oldest_first(jobs):
    requests = [PlayRequest(seconds=0.1, mark=str(n)) for n in range(4)]
    views = []
    for request in requests:
        views.append(jobs.ask(request, "page"))
        time.sleep(0.01)
    assert views[-1].ahead >= 1
    began = []
    for view in views:
        wait(jobs, view.digest, "done")
        began.append(JobFolder(jobs.folder / view.digest).last().owner())
    assert len({owner["pid"] for owner in began}) == 1
    assert began == sorted(began, key=lambda owner: owner["began"])
    assert all(owner["group"] for owner in began)


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("bad data", "BadData", "The text is empty. Give some."),
        (
            "break",
            "JobFailed",
            "The worker met an unexpected error: ZeroDivisionError: never divide; the log has the rest.",
        ),
        ("memory", "NotEnoughMemory", "memory ran out"),
        ("torch memory", "NotEnoughMemory", "memory ran out"),
        ("wrong type", "JobFailed", "answered with a ScoreTable"),
    ],
)
def test_errors_become_sentences(jobs, how, error, says):
    seen = wait(jobs, jobs.ask(PlayRequest(how=how), "page").digest, "failed")
    assert seen.error_type == error
    assert says in seen.error
    assert "Traceback" not in seen.error
    assert ("Traceback" in jobs.log_tail(seen.digest)) == (how in ("break", "memory", "torch memory"))
    assert jobs.ask(PlayRequest(how=how), "page").state == "failed", "asking again does not run it again"
    assert jobs.ask(PlayRequest(how=how), "page").attempt == 1


def test_what_a_c_library_prints_is_in_the_log(jobs):
    seen = wait(jobs, jobs.ask(PlayRequest(how="talk"), "page").digest, "done")
    assert "from the C library\n" in jobs.log_tail(seen.digest) + "\n"
    assert "from the C library, angry" in jobs.log_tail(seen.digest)


# ------------------------------------------------------------------------------------------------ death, restart


def test_killed_is_seen_at_once_and_taken_up_again(jobs):
    request = PlayRequest(seconds=1.0)
    digest = jobs.ask(request, "page").digest
    wait(jobs, digest, "running")
    pid = JobFolder(jobs.folder / digest).last().owner()["pid"]
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    while jobs.view(digest).state == "running" and time.monotonic() - began < 5:
        time.sleep(0.005)
    noticed = time.monotonic() - began
    assert jobs.view(digest).state == "interrupted"
    logging.getLogger(__name__).info("noticed after %.3f s", noticed)
    assert noticed < 1.0
    done = wait(jobs, digest, "done")
    assert done.attempt == 2
    assert jobs.result(request) is not None


def test_three_deaths_then_failed(jobs):
    seen = wait(jobs, jobs.ask(PlayRequest(how="die"), "page").digest, "failed")
    assert seen.attempt == 3
    assert seen.error_type == "JobFailed"
    assert "died 3 times" in seen.error
    assert "about to die" in seen.error
    with pytest.raises(JobFailed):
        raise jobs_module._raised(seen)


def test_a_death_does_not_lose_the_others(jobs, tmp_path):
    first = jobs.ask(PlayRequest(how="die once", mark=str(tmp_path / "mark")), "page")
    second = jobs.ask(PlayRequest(mark="second"), "page")
    assert wait(jobs, first.digest, "done").attempt == 2
    assert wait(jobs, second.digest, "done").attempt == 1


def test_a_sweep_whose_worker_is_killed_loses_at_most_the_batch_in_flight(jobs, tmp_path):
    marks = [tmp_path / f"set {n}" for n in range(4)]
    asked = [
        jobs.ask(PlayRequest(how="batches", seconds=0.6, mark=str(mark)), "page").digest for mark in marks
    ]
    wait(jobs, asked[0], "done")
    until = time.monotonic() + 20
    while not (marks[1].exists() and len(marks[1].read_text().split()) >= 5) and time.monotonic() < until:
        time.sleep(0.005)
    os.kill(JobFolder(jobs.folder / asked[1]).last().owner()["pid"], signal.SIGKILL)
    computed = [[int(line) for line in mark.read_text().split()] for mark in marks if mark.exists()]
    assert 5 <= len(computed[1]) < 20, "killed half-way"
    attempts = [wait(jobs, digest, "done").attempt for digest in asked]
    assert attempts == [1, 2, 1, 1], "what was done is not run again; what was running is taken up"
    for mark in marks:
        counts = np.bincount([int(line) for line in mark.read_text().split()], minlength=20)
        assert counts.min() == 1
        assert counts.sum() <= (21 if mark == marks[1] else 20), "at most the batch in flight twice"
    assert not list(jobs.folder.glob("*/kept")), "batches go when the job has ended"


def test_a_worker_that_cannot_start_is_reported_and_not_started_forever(tmp_path):
    broken = (sys.executable, "-c", "import sys; sys.exit('no such thing as torch')")
    jobs = Jobs(Settings(home=tmp_path, device="cpu"), command=broken)
    digest = jobs.ask(PlayRequest(), "page").digest
    seen = wait(jobs, digest, "failed")
    assert "ended 3 times while it was starting" in seen.error
    assert "no such thing as torch" in seen.error
    for _ in range(5):
        assert jobs.hold(digest, "page").state == "failed"
        jobs.lane.start()
    assert len(jobs.lane.starts.read_text().splitlines()) == MAX_STARTS
    assert jobs.ensure_worker() == seen.error
    assert "no such thing as torch" in jobs.log_tail(digest)
    reap(5)
    jobs.lane.command = WORKER  # repaired
    assert jobs.retry(digest, "page").state in ("queued", "running", "done")
    wait(jobs, digest, "done")
    assert not jobs.lane.starts.exists()
    jobs.stop_worker()


def test_a_second_worker_leaves(jobs):
    digest = jobs.ask(PlayRequest(seconds=1), "page").digest
    wait(jobs, digest, "running")
    other = subprocess.run(WORKER, env=environment(jobs.settings), timeout=20, capture_output=True, text=True)
    assert other.returncode == 0
    assert "lives already" in other.stderr


def test_two_dashboards_start_one_worker(jobs):
    others = [Jobs(jobs.settings, command=WORKER) for _ in range(3)]
    views = [
        each.ask(PlayRequest(seconds=0.2, mark=str(n)), "page") for n, each in enumerate([jobs, *others])
    ]
    for view in views:
        wait(jobs, view.digest, "done")
    owners = [JobFolder(jobs.folder / view.digest).last().owner() for view in views]
    assert len({owner["pid"] for owner in owners}) == 1
    assert jobs.lane.log.read_text().count(" for cpu, ") == 1, "no second one was even begun"


def test_the_worker_outlives_the_dashboard(jobs):
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.job_kinds import PlayRequest, register\nregister()\n"
        "from headviz.jobs.jobs import Jobs\nfrom headviz.settings import Settings\n"
        "jobs = Jobs(Settings(home=Path(sys.argv[1]), device='cpu', threads=1), (sys.executable, '-m', 'tests.job_worker'))\n"
        "print(jobs.ask(PlayRequest(seconds=0.5), 'page').digest)\n"
    )
    home = str(jobs.settings.home)
    out = subprocess.run(
        [sys.executable, "-c", code, home], capture_output=True, text=True, timeout=20, check=True
    )
    digest = out.stdout.strip()
    until = time.monotonic() + 10
    while jobs.view(digest).state != "done" and time.monotonic() < until:  # only looks: starts nothing
        time.sleep(0.02)
    assert jobs.view(digest).state == "done"
    assert jobs.view(digest).attempt == 1


def test_leaves_when_idle_and_comes_back(tmp_path):
    jobs = Jobs(Settings(home=tmp_path, device="cpu", idle_minutes=0.3 / 60), command=WORKER)
    wait(jobs, jobs.ask(PlayRequest(mark="1"), "page").digest, "done")
    until = time.monotonic() + 10
    while jobs.lane.alive() and time.monotonic() < until:
        time.sleep(0.05)
    assert not jobs.lane.alive()
    assert jobs.ensure_worker() is None
    assert not jobs.lane.alive(), "nothing waits, so nothing is started"
    reap(5)
    wait(jobs, jobs.ask(PlayRequest(mark="2"), "page").digest, "done")
    jobs.stop_worker()


def test_sigterm_ends_the_worker_at_once(jobs):
    digest = jobs.ask(PlayRequest(how="deaf", seconds=30), "page").digest
    wait(jobs, digest, "running")
    began = time.monotonic()
    os.kill(JobFolder(jobs.folder / digest).last().owner()["pid"], signal.SIGTERM)
    while jobs.lane.alive() and time.monotonic() - began < 3:
        time.sleep(0.01)
    assert time.monotonic() - began < 1.0
    assert jobs.view(digest).state == "interrupted"


# ------------------------------------------------------------------------------------------------------- cancel


@pytest.mark.parametrize(("how", "least"), [("sleep", 0.0), ("deaf", 1.0), ("stone", 1.2)])
def test_cancel_takes_under_two_seconds(jobs, how, least, record_property):
    digest = jobs.ask(PlayRequest(how=how, seconds=30), "page").digest
    while not wait(jobs, digest, "running").doing.startswith(
        {"sleep": "Sl", "deaf": "Not", "stone": "Tu"}[how]
    ):
        time.sleep(0.02)
    time.sleep(0.1)
    began = time.monotonic()
    assert jobs.cancel(digest, "page") == "stopped"
    took = time.monotonic() - began
    record_property("seconds", took)
    logging.getLogger(__name__).warning("cancel of %r took %.2f s", how, took)
    assert least <= took < 2.0
    assert jobs.view(digest).state == "cancelled"
    assert jobs.ask(PlayRequest(how=how, seconds=30), "page").state == "cancelled", "never taken up by itself"
    if how == "sleep":
        assert jobs.lane.alive(), "a worker that listens stays"


def test_after_a_hard_cancel_the_others_go_on(jobs):
    deaf = jobs.ask(PlayRequest(how="deaf", seconds=30), "page")
    wait(jobs, deaf.digest, "running")
    other = jobs.ask(PlayRequest(mark="other"), "page")
    assert other.ahead == 1
    assert jobs.cancel(deaf.digest, "page") == "stopped"
    until = time.monotonic() + 10
    while jobs.view(other.digest).state != "done" and time.monotonic() < until:  # nobody holds it: by itself
        time.sleep(0.02)
    assert jobs.view(other.digest).state == "done"


def test_a_waiting_job_is_cancelled_without_a_worker(jobs):
    blocker = jobs.ask(PlayRequest(seconds=30), "page")
    wait(jobs, blocker.digest, "running")
    waiting = jobs.ask(PlayRequest(mark="waiting"), "page")
    assert jobs.cancel(waiting.digest, "page") == "stopped"
    assert jobs.view(waiting.digest).state == "cancelled"
    assert jobs.view(blocker.digest).state == "running"
    jobs.cancel(blocker.digest, "page")


def test_a_stranger_with_a_recycled_pid_is_not_killed(jobs):
    """The recorded process died, and its number belongs to somebody else now: the free lock tells."""
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    try:
        job = jobs._job(PlayRequest(mark="stranger"))
        attempt = job.claim(group=True)
        (attempt.path / "owner.json").write_text(
            f'{{"pid": {stranger.pid}, "host": "{os.uname().nodename}", "group": true, "began": 0}}'
        )
        attempt.release()
        assert jobs.cancel(job.digest, "page") == "stopped"
        assert jobs.view(job.digest).state == "cancelled"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_another_machines_process_is_left_alone(jobs, monkeypatch):
    from headviz.jobs import stop

    monkeypatch.setattr(stop, "ASKED", 0.05)
    job = jobs._job(PlayRequest(mark="far"))
    attempt = job.claim()
    (attempt.path / "owner.json").write_text('{"pid": 2, "host": "far away", "group": true, "began": 0}')
    sent = []
    monkeypatch.setattr(stop, "send", lambda *a, **k: sent.append(a))
    assert jobs.cancel(job.digest, "page") == "still stopping"
    assert sent == []
    attempt.release()


# ------------------------------------------------------------------------------------------------------ sharing


def test_two_sessions_share_a_job_and_the_last_one_stops_it(jobs):
    request = PlayRequest(seconds=30)
    digest = jobs.ask(request, "one").digest
    assert jobs.ask(request, "two").digest == digest
    assert wait(jobs, digest, "running", holder="one").holders == 2
    assert jobs.cancel(digest, "one") == "others still watch"
    assert jobs.view(digest).state == "running"
    assert jobs.view(digest).holders == 1
    assert jobs.cancel(digest, "two") == "stopped"
    assert jobs.view(digest).state == "cancelled"


def test_a_session_that_went_away_does_not_keep_a_job(jobs):
    digest = jobs.ask(PlayRequest(seconds=30), "gone").digest
    wait(jobs, digest, "running", holder="here")
    for path in (jobs.folder / digest / "holders").iterdir():
        os.utime(path, (1, 1))
    jobs.hold(digest, "here")
    assert jobs.cancel(digest, "here") == "stopped"


def test_everyone_stops_it_regardless(jobs):
    digest = jobs.ask(PlayRequest(seconds=30), "one").digest
    wait(jobs, digest, "running", holder="one")
    assert jobs.cancel(digest, "command line") == "others still watch"
    assert jobs.cancel(digest, "command line", everyone=True) == "stopped"


def test_withdraw_only_what_has_not_begun_and_nobody_else_watches(jobs):
    blocker = jobs.ask(PlayRequest(seconds=30), "one")
    wait(jobs, blocker.digest, "running", holder="one")
    request = PlayRequest(mark="slider")
    digest = jobs.ask(request, "one").digest
    jobs.hold(digest, "two")
    assert not jobs.withdraw(digest, "one"), "somebody else watches"
    assert jobs.view(digest).state == "queued"
    assert jobs.withdraw(digest, "two")
    assert jobs.view(digest) is None
    assert not jobs.withdraw(blocker.digest, "one"), "it has begun"
    assert jobs.view(blocker.digest).state == "running"
    assert jobs.ask(request, "one").state == "queued", "withdrawn is not cancelled"
    assert jobs.cancel(blocker.digest, "one") == "stopped"
    wait(jobs, digest, "done")
    assert not list(jobs.folder.glob(".gone-*"))
    assert not jobs.withdraw("f" * 64, "one")


def test_withdraw_gives_way_to_who_looks_meanwhile(jobs, monkeypatch):
    job = jobs._job(PlayRequest(mark="race"))
    claim = JobFolder.claim

    def looked_at_meanwhile(self, **more):
        job.hold("two")
        return claim(self, **more)

    monkeypatch.setattr(JobFolder, "claim", looked_at_meanwhile)
    assert not jobs.withdraw(job.digest, "one")
    monkeypatch.undo()
    monkeypatch.setitem(KINDS, "play", PLAY)
    assert job.state() == "queued"
    assert job.claim().number == 1


# -------------------------------------------------------------------------------------------------------- retry


@pytest.mark.parametrize("how", ["bad data", "cancelled"])
def test_retry_keeps_the_old_log_and_runs_afresh(jobs, how):
    request = PlayRequest(how="bad data") if how == "bad data" else PlayRequest(seconds=1)
    digest = jobs.ask(request, "page").digest
    if how == "cancelled":
        jobs.cancel(digest, "page")
    wait(jobs, digest, "failed" if how == "bad data" else "cancelled")
    again = jobs.retry(digest, "page")
    assert again.digest == digest
    assert (jobs.archive / f"{digest}-1" / "spec.json").exists()
    assert wait(jobs, digest, *ENDED).state == ("failed" if how == "bad data" else "done")
    assert len(jobs.list_jobs()) == 1


def test_retry_leaves_a_running_job_alone(jobs):
    digest = jobs.ask(PlayRequest(seconds=30), "page").digest
    wait(jobs, digest, "running")
    assert jobs.retry(digest, "page").state == "running"
    assert not jobs.archive.exists()
    jobs.cancel(digest, "page")
    with pytest.raises(BadInput, match="Ask again"):
        jobs.retry("f" * 64, "page")


# ------------------------------------------------------------------------------------------------------ results


def test_a_damaged_result_is_reported_and_computed_again(jobs):
    request = PlayRequest()
    digest = jobs.ask(request, "page").digest
    wait(jobs, digest, "done")
    path = JobFolder(jobs.folder / digest).result_file
    path.write_bytes(path.read_bytes()[:-3])
    assert jobs.result(request) is None
    assert digest[:12] in jobs.store.problems[0]
    assert jobs.view(digest) is None
    jobs.ask(request, "page")
    wait(jobs, digest, "done")
    assert jobs.result(request) is not None


def test_another_kinds_answer_is_refused(jobs):
    from headviz.codec import pack
    from tests.unit.samples import score_table

    request = PlayRequest(mark="planted")
    job = jobs._job(request)
    job.write_result(pack(score_table()))
    assert jobs.result(request) is None
    assert "ScoreTable" in jobs.store.problems[0]


def test_pruned_is_computed_again(jobs):
    request = PlayRequest()
    digest = jobs.ask(request, "page").digest
    wait(jobs, digest, "done")
    jobs.result(request)
    jobs.store.prune(digests=[digest])
    assert jobs.result(request) is None
    assert jobs.view(digest) is None
    assert jobs.ask(request, "page").state != "done"
    wait(jobs, digest, "done")


def test_kept_without_its_folder(jobs):
    request = PlayRequest(mark="kept")
    jobs.store.put(job_digest(request), head_pattern())
    assert jobs.ask(request, "page").state == "done"
    assert jobs.result(request) is not None
    assert jobs.list_jobs() == []
    assert not jobs.lane.alive()


def test_a_full_store_still_shows_the_answer(jobs):
    request = PlayRequest()
    jobs.store.limit = 10
    wait(jobs, jobs.ask(request, "page").digest, "done")
    assert jobs.result(request) is not None
    assert "HEADVIZ_STORE_LIMIT" in jobs.store.problems[0]
    assert jobs.result(request) is not None, "it stays in the job's folder"
    with pytest.raises(StoreFull):
        jobs.store.put("a" * 64, head_pattern())


def test_an_answer_written_just_before_death_is_used(jobs):
    from headviz.codec import pack

    request = PlayRequest(how="break", mark="wrote before dying")
    job = jobs._job(request)
    attempt = job.claim()
    job.write_result(pack(head_pattern()))
    attempt.release()
    assert wait(jobs, job.digest, "done").attempt == 2


def test_a_changed_request_is_not_run(jobs):
    from headviz.jobs.kinds import spec
    from headviz.types import canonical

    job = jobs._job(PlayRequest(mark="asked"))
    (job.path / "spec.json").write_bytes(canonical(spec(PlayRequest(mark="changed"))))
    jobs.ensure_worker()
    assert "was changed" in wait(jobs, job.digest, "failed").error


# ----------------------------------------------------------------------------------------------- in this process


class Noting(Silent):
    def __init__(self):
        self.steps = []

    def step(self, doing, done=0, total=0, unit=""):
        self.steps.append((doing, done, total))


def test_run_here_computes_keeps_and_reports(jobs):
    watch = Noting()
    result = jobs.run_here(PlayRequest(seconds=0.1), watch)
    assert result.provenance.digest == job_digest(PlayRequest(seconds=0.1))
    assert watch.steps[0][0] == "Starting"
    assert watch.steps[-1][:2] == ("Sleeping", 4)
    assert not jobs.lane.alive(), "no worker is needed"
    assert jobs.view(result.provenance.digest).state == "done"
    watch.steps.clear()
    assert jobs.run_here(PlayRequest(seconds=0.1), watch) is not None
    assert watch.steps == []


def test_run_here_waits_for_who_runs_it(jobs):
    request = PlayRequest(seconds=1.0)
    digest = jobs.ask(request, "page").digest
    wait(jobs, digest, "running")
    watch = Noting()
    assert jobs.run_here(request, watch) is not None
    assert "Sleeping" in {step[0] for step in watch.steps}
    assert jobs.view(digest).attempt == 1


def test_run_here_raises_what_the_job_raised(jobs):
    with pytest.raises(BadData, match="The text is empty"):
        jobs.run_here(PlayRequest(how="bad data"))
    with pytest.raises(JobFailed, match="ZeroDivisionError"):
        jobs.run_here(PlayRequest(how="break"))
    assert "Traceback" in jobs.log_tail(job_digest(PlayRequest(how="break")))
    with pytest.raises(BadData):
        jobs.run_here(PlayRequest(how="bad data"))
    assert (jobs.archive / f"{job_digest(PlayRequest(how='bad data'))}-1").exists(), (
        "an explicit run tries afresh"
    )


def test_run_here_is_cancelled_by_its_own_watch_and_by_others(jobs):
    class Impatient(Silent):
        def check(self):
            raise Cancelled("enough")

    request = PlayRequest(seconds=5)
    with pytest.raises(Cancelled):
        jobs.run_here(request, Impatient())
    assert jobs.view(job_digest(request)).state == "cancelled"

    class CancelledFromAPage(Silent):
        def step(self, *what):
            if what[0] == "Sleeping":
                JobFolder(jobs.folder / job_digest(request)).ask_to_cancel()

    with pytest.raises(Cancelled):
        jobs.run_here(request, CancelledFromAPage())


def test_control_c_cancels(jobs):
    class ControlC(Silent):
        def step(self, *what):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jobs.run_here(PlayRequest(seconds=5), ControlC())
    assert jobs.view(job_digest(PlayRequest(seconds=5))).state == "cancelled"


def test_run_job_and_find(jobs):
    job = jobs._job(PlayRequest(mark="by id"))
    assert jobs.run_job(jobs.find(job.digest[:10])) is not None
    for wrong in ("", "zzz"):
        with pytest.raises(BadInput):
            jobs.find(wrong)
    for wrong in ("x", "../../etc", "F" * 64):
        with pytest.raises(BadInput):
            jobs.view(wrong)


# --------------------------------------------------------------------------------------------- secrets, settings


def test_tokens_are_nowhere_on_disk(jobs, monkeypatch):
    marker = "hf_markerThatMustNotBeWritten"
    monkeypatch.setenv("HF_TOKEN", marker)
    seen = wait(jobs, jobs.ask(PlayRequest(how="tell token"), "page").digest, "failed")
    assert "<HF_TOKEN>" in seen.error
    assert "the token is <HF_TOKEN>" in jobs.log_tail(seen.digest)
    with pytest.raises(JobFailed, match="<HF_TOKEN>"):
        jobs.run_here(PlayRequest(how="tell token", mark="here"))
    files = [path for path in jobs.settings.home.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if marker.encode() in path.read_bytes()] == []


def test_a_worker_gets_the_same_settings(tmp_path):
    ours = Settings(
        home=tmp_path / "h",
        models=tmp_path,
        device="cuda:1",
        threads=3,
        side_by_side=2,
        idle_minutes=0.5,
        store_limit=7,
    )
    assert read_settings(environment(ours)) == ours
    assert read_settings(environment(Settings(home=tmp_path))) == Settings(home=tmp_path)


def test_device_names_make_lanes_of_their_own(tmp_path):
    lanes = {
        Jobs(Settings(home=tmp_path, device=device)).lane.lock.name for device in ("cpu", "cuda:0", "cuda:1")
    }
    assert lanes == {"live-cpu.lock", "live-cuda-0.lock", "live-cuda-1.lock"}


def test_module_functions_follow_the_settings(home):
    assert local.store().folder == home / "results"
    assert isinstance(local.store(), Store)
    request = PlayRequest(mark="module")
    assert local.run_here(request) is not None
    assert local.view(job_digest(request)).state == "done"
    assert local.list_jobs()[0].digest == local.find(job_digest(request)[:8])
    assert local.ensure_worker() is None
    assert Lock.take(home / "jobs" / ".lock") is not None


def test_looking_needs_no_torch():
    code = (
        "import sys, headviz.jobs.local, headviz.jobs.worker\n"
        "print([m for m in ('torch', 'transformers', 'datasets') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    assert Path(local.__file__).exists()
    assert replace(PLAY, version=2).version == 2


# --------------------------------------------------------------------------------------------------- resources


def test_the_last_model_stays_loaded(monkeypatch):
    loads = []

    class Loaded:
        def __init__(self, ref):
            self.ref = ref

    def load(ref, *, device, watch):
        loads.append((ref, device, watch))
        if ref == "broken":
            raise BadData("no")
        return Loaded(ref)

    monkeypatch.setitem(sys.modules, "headviz.models.loading", SimpleNamespace(load=load))
    watch = Noting()
    resources = Resources(Settings(home=Path("/nowhere"), device="cuda:1"), threads=2)
    resources.watch = watch
    first = resources.model("one")
    assert resources.model("one") is first
    assert loads == [("one", "cuda:1", watch)]
    gone = weakref.ref(first)
    del first
    assert resources.model("two").ref == "two"
    assert gone() is None, "two models are never held at once"
    with pytest.raises(BadData):
        resources.model("broken")
    assert resources.model("two").ref == "two"
    assert [load[0] for load in loads] == ["one", "two", "broken", "two"]
    resources.forget()
    resources.model("two")
    assert len(loads) == 5


@pytest.mark.parametrize(
    ("asked", "variable", "threads"), [(3, "5", 3), (None, "5", 5), (None, "x", cores())]
)
def test_threads(monkeypatch, asked, variable, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", variable)
    assert prepare_process(Settings(home=Path("/nowhere"), threads=asked)) == threads
    assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == str(threads)


def test_a_step_is_written_at_most_ten_times_a_second(jobs):
    attempt = jobs._job(PlayRequest(mark="many steps")).claim()
    watch = JobWatch(attempt)
    for step in range(2001):
        watch.step("Reading", step, 2000)
    watch.step("Writing")
    lines = (attempt.path / "events.jsonl").read_text().splitlines()
    assert len(lines) < 20
    assert '"done": 2000' in lines[-2]
    assert "Writing" in lines[-1]
    attempt.job.ask_to_cancel()
    time.sleep(0.06)
    with pytest.raises(Cancelled):
        watch.check()
    attempt.release()
