"""Many jobs at once: queue a sweep, see how far it is, take back what has not begun.

`local` looks at one job at a time, and says of each how many wait before it: too slow for hundreds every second.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from headviz.errors import BadInput
from headviz.jobs import local
from headviz.jobs.board import WAITING
from headviz.jobs.folder import ENDED
from headviz.jobs.jobs import Jobs
from headviz.jobs.kinds import KINDS, job_digest
from headviz.jobs.view import JobView
from headviz.types import Request, build


@dataclass(frozen=True, kw_only=True)
class Standing:
    """How far some jobs are. Digests in the order given.

    done: answered; left: wait or run; gone: neither asked nor answered; ended: failed or cancelled
    running: the one that is being computed, None where none is; problem: why no worker can be started
    """

    done: tuple[str, ...]
    left: tuple[str, ...]
    gone: tuple[str, ...]
    ended: tuple[str, ...]
    running: JobView | None = None
    problem: str = ""


def queue(requests: Iterable[Request], holder: str, jobs: Jobs | None = None) -> None:
    """`local.ask` for many, which wait behind every single one that is asked. What failed or was cancelled before is
    tried afresh: somebody asks for it again."""
    jobs = jobs or local.jobs()
    there = jobs.store.digests()
    for request in requests:
        digest = job_digest(request)
        if digest in there:
            continue
        new = not jobs._named(digest).exists()
        job = jobs._job(request)
        if job.state() in ENDED and not jobs._answered(job):
            job, new = jobs._afresh(job, request), True
        if new:
            job.wait_behind()
        job.hold(holder)
    jobs.ensure_worker()


def standing(digests: Sequence[str], holder: str, jobs: Jobs | None = None) -> Standing:
    """How far these jobs are. Says that `holder` looks at them, and starts a worker where one is needed."""
    jobs = jobs or local.jobs()
    there = jobs.store.digests()
    sorted_out: dict[str, list[str]] = {"done": [], "left": [], "gone": [], "ended": []}
    running, waiting = None, False
    for digest in digests:
        job = jobs._named(digest)
        state = "done" if digest in there else job.state() if job.exists() else "gone"
        if state == "done" and digest not in there and not job.result_file.exists():
            state = "gone"  # its result was removed
        group = state if state in ("done", "gone") else "ended" if state in ENDED else "left"
        sorted_out[group].append(digest)
        if group == "left":
            job.hold(holder)
            waiting = waiting or state in WAITING
            if state not in WAITING and running is None:
                running = jobs.view(digest)
    problem = jobs.lane.start() if waiting else None
    return Standing(
        **{name: tuple(some) for name, some in sorted_out.items()}, running=running, problem=problem or ""
    )


def take_back(digests: Iterable[str], holder: str, jobs: Jobs | None = None) -> None:
    """`holder` no longer wants these: what has not begun goes, what runs is stopped; unless others look at it."""
    jobs = jobs or local.jobs()
    # the last first, and what runs at the end: else the worker would begin the next one meanwhile
    begun = [digest for digest in reversed(list(digests)) if not jobs.withdraw(digest, holder)]
    for digest in begun:
        jobs.cancel(digest, holder)


def there(digests: Iterable[str], jobs: Jobs | None = None) -> set[str]:
    """Those of the jobs that have an answer: one look into the store, where asking for each takes one each."""
    jobs = jobs or local.jobs()
    stored = jobs.store.digests()
    return {digest for digest in digests if digest in stored or jobs.has_result(digest)}


def answered(kind: str, known: dict[str, Request | None], jobs: Jobs | None = None) -> dict[str, Request]:
    """Every stored answer to a kind of request: digest → request.

    known: what an earlier call found, kept up to date here, so that each result is looked at once
    """
    jobs = jobs or local.jobs()
    for seen in jobs.list_jobs():
        if (
            seen.kind == kind
            and seen.state == "done"
            and seen.request is not None
            and seen.digest not in known
        ):
            jobs.result(seen.request)  # taken into the store
    there = jobs.store.digests()
    for digest in [digest for digest in known if digest not in there]:
        del known[digest]
    for digest in there - set(known):
        known[digest] = _request(kind, jobs, digest)
    return {digest: request for digest, request in known.items() if request is not None}


def _request(kind: str, jobs: Jobs, digest: str) -> Request | None:
    """The request behind a result, where it is of this kind and of the version that is computed now."""
    with suppress(BadInput):
        request = build(KINDS[kind].request, jobs.store.request(digest))
        return request if job_digest(request) == digest else None
    return None
