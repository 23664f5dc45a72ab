"""Many jobs at once: queued, watched, taken back, and found again by what they answer."""

import time

from headviz.jobs import many
from headviz.jobs.folder import JobFolder
from headviz.jobs.kinds import KINDS, job_digest
from tests.job_kinds import PLAY, PlayRequest
from tests.unit.samples import head_pattern, score_table
from tests.unit.test_jobs_live import jobs, play_kind, wait  # noqa: F401

HOLDER = "page"


def sets(number, seconds=0.0, how="sleep"):
    return [PlayRequest(how=how, seconds=seconds, mark=str(n)) for n in range(number)]


def watch(jobs, digests, *, left=0, seconds=20.0):  # noqa: F811
    """Look as a page does until no more than `left` are to be computed."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        seen = many.standing(digests, HOLDER, jobs)
        if len(seen.left) <= left:
            return seen
        time.sleep(0.02)
    raise AssertionError(f"still {seen}")


def test_a_sweep_runs_through(jobs):  # noqa: F811
    wanted = sets(5)
    digests = [job_digest(one) for one in wanted]
    assert many.standing(digests, HOLDER, jobs).gone == tuple(digests)
    many.queue(wanted, HOLDER, jobs)
    seen = watch(jobs, digests)
    assert seen.done == tuple(digests)
    assert not seen.left + seen.gone + seen.ended
    assert seen.running is None
    many.queue(wanted, HOLDER, jobs)
    assert all(jobs.view(digest).attempt == 1 for digest in digests), "nothing is computed twice"


def test_taken_back_stops_what_runs_and_removes_what_waits(jobs):  # noqa: F811
    wanted = sets(4, seconds=30)
    digests = [job_digest(one) for one in wanted]
    many.queue(wanted, HOLDER, jobs)
    wait(jobs, digests[0], "running", holder=HOLDER)
    seen = many.standing(digests, HOLDER, jobs)
    assert seen.running.digest == digests[0]
    assert seen.left == tuple(digests)
    many.take_back(digests, HOLDER, jobs)
    seen = many.standing(digests, HOLDER, jobs)
    assert seen.ended == (digests[0],)
    assert seen.gone == tuple(digests[1:])
    many.queue([PlayRequest(mark="0", seconds=30)], HOLDER, jobs)
    assert many.standing(digests, HOLDER, jobs).left == (digests[0],), "asked again, it is tried afresh"
    many.take_back(digests, HOLDER, jobs)


def test_a_single_question_goes_before_a_sweep(jobs):  # noqa: F811
    first = jobs.ask(PlayRequest(seconds=0.5, mark="first"), HOLDER).digest
    wait(jobs, first, "running", holder=HOLDER)
    many.queue(sets(3, seconds=0.1), HOLDER, jobs)
    asked = jobs.ask(PlayRequest(mark="slider"), HOLDER)
    assert asked.ahead == 1, "only what runs"
    wanted = jobs.ask(sets(3, seconds=0.1)[2], HOLDER)
    assert wanted.ahead == 1, "part of the sweep, and somebody waits for it; it was asked before the slider"
    digests = [job_digest(one) for one in sets(3, seconds=0.1)]
    watch(jobs, [*digests, asked.digest])
    began = {
        digest: JobFolder(jobs.folder / digest).last().owner()["began"] for digest in [*digests, asked.digest]
    }
    assert sorted(began, key=began.get) == [digests[2], asked.digest, *digests[:2]]


def test_what_others_watch_goes_on(jobs):  # noqa: F811
    wanted = sets(2, seconds=30)
    digests = [job_digest(one) for one in wanted]
    many.queue(wanted, HOLDER, jobs)
    wait(jobs, digests[0], "running", holder=HOLDER)
    for digest in digests:
        jobs.hold(digest, "somebody else")
    many.take_back(digests, HOLDER, jobs)
    assert many.standing(digests, "somebody else", jobs).left == tuple(digests)
    many.take_back(digests, "somebody else", jobs)


def test_failures_are_told_apart(jobs):  # noqa: F811
    wanted = [*sets(1), *sets(1, how="bad data")]
    digests = [job_digest(one) for one in wanted]
    many.queue(wanted, HOLDER, jobs)
    seen = watch(jobs, digests)
    assert (seen.done, seen.ended) == ((digests[0],), (digests[1],))


def test_answers_are_found_by_their_requests(jobs, monkeypatch):  # noqa: F811
    monkeypatch.setitem(KINDS, "play", PLAY)
    wanted = sets(2)
    many.queue(wanted, HOLDER, jobs)
    watch(jobs, [job_digest(one) for one in wanted])
    jobs.store.put("0" * 64, score_table())  # another kind
    jobs.store.put("1" * 64, head_pattern())  # its request does not say what its key says
    known = {}
    # the answers of play do not name their request: nothing is guessed
    assert many.answered("play", known, jobs) == {}
    assert len(known) == 4
    known[job_digest(wanted[0])] = wanted[0]
    assert many.answered("play", known, jobs) == {job_digest(wanted[0]): wanted[0]}
    jobs.store.prune(digests=[job_digest(wanted[0])])
    assert many.answered("play", known, jobs) == {}


def test_a_measurement_is_found_by_its_request(jobs):  # noqa: F811
    import dataclasses

    from headviz.types import plain
    from tests.unit.test_ablation import losses, plan
    from tests.unit.test_sweeps import measured

    request = measured(0.2)[0]
    answer = losses()
    made = dataclasses.replace(answer.provenance, request=plain(request))
    jobs.store.put(job_digest(request), dataclasses.replace(answer, provenance=made))
    assert many.answered("measure", {}, jobs) == {job_digest(request): request}
    assert request.text == plan().text


def test_what_is_there_is_in_the_store_or_in_a_finished_jobs_folder(jobs):  # noqa: F811
    stored, finished, missing = (str(digit) * 64 for digit in range(1, 4))
    jobs.store.put(stored, head_pattern())
    folder = jobs._named(finished).result_file
    folder.parent.mkdir(parents=True)
    folder.write_bytes(b"what a worker has written, not yet looked at")
    assert many.there([stored, finished, missing], jobs) == {stored, finished}
    assert many.there([], jobs) == set()
