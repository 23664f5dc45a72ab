"""What a page shows of a job, read from its folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any

from headviz.errors import BadInput
from headviz.jobs.files import read_tail
from headviz.jobs.folder import ENDED, MAX_ATTEMPTS, Attempt, JobFolder
from headviz.jobs.kinds import KINDS
from headviz.types import Request


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job at one moment.

    state:       queued, running, stalled, interrupted, done, failed, cancelled
    request:     None where the spec cannot be read (another version wrote it)
    doing, done, total, unit: the newest progress; total 0 where it is not known
    eta_seconds: from the rate of what is being done now, steadied (`_left`); None before there is one
    elapsed:     seconds of the last attempt; 0 before the first
    error:       a sentence when failed, and its class in headviz.errors as error_type
    attempt:     number of the last attempt, 0 before the first
    holders:     how many look at it
    ahead:       how many jobs wait or run before it, for a queued one
    stopping:    cancelled, but its process has not stopped yet
    """

    digest: str
    kind: str
    title: str
    request: Request | None
    state: str
    created: datetime
    doing: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    eta_seconds: float | None = None
    elapsed: float = 0.0
    error: str | None = None
    error_type: str | None = None
    attempt: int = 0
    holders: int = 0
    ahead: int = 0
    stopping: bool = False


def look(job: JobFolder) -> JobView | None:
    """The job now, or None where there is none (any more)."""
    try:
        created = job.created
        state = job.state()
        request = job.request()
    except FileNotFoundError:
        return None
    except BadInput:
        request = None
    last = job.last()
    row = KINDS.get(request.kind) if request else None
    error, error_type = _error(job, last, state)
    return JobView(
        digest=job.digest,
        kind=row.kind if row else "",
        title=row.title if row else "A job of another version",
        request=request,
        state=state,
        created=datetime.fromtimestamp(created).astimezone(),
        elapsed=_elapsed(last),
        error=error,
        error_type=error_type,
        attempt=last.number if last else 0,
        holders=job.holders(),
        stopping=state in ("running", "stalled") and job.cancel_asked(),
        **(_progress(last, state) if last else {}),
    )


def _progress(last: Attempt, state: str) -> dict[str, Any]:
    """Fields of a view from the newest event {t, doing, done, total, unit, since, from}; time left while it runs."""
    event = last.event()
    if not event:
        return {}
    known = {"doing": str, "done": int, "total": int, "unit": str}
    fields: dict[str, Any] = {
        name: event[name] for name, kind in known.items() if type(event.get(name)) is kind
    }
    if state not in ENDED and (ends := _ends(event)) is not None:
        fields["eta_seconds"] = _left(event, ends, last)
    return fields


def _ends(event: dict[str, Any]) -> float | None:
    """When this will be done, seconds since 1970, at the mean rate since it began; None before there is a rate."""
    numbers = [event.get(name, 0) for name in ("done", "total", "from", "t", "since")]
    if any(type(one) not in (int, float) for one in numbers):
        return None
    done, total, start, then, since = numbers
    if not total > done > start or not then > since:
        return None
    return then + (total - done) * (then - since) / (done - start)


def _left(event: dict[str, Any], ends: float, last: Attempt) -> float:
    """Seconds left: the median of what the newer half of the progress foretold.

    One batch is slower or faster than the next, and a figure that follows each of them jumps on the screen.
    """
    phase, middle = _phase(event), (event.get("from", 0) + event["done"]) / 2
    foretold = [
        found
        for before in _events(last)
        if _phase(before) == phase and (found := _ends(before)) is not None and before["done"] >= middle
    ]
    return max(0.0, median(foretold or [ends]) - time.time())


def _phase(event: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(event.get(name) for name in ("since", "from", "total"))


def _events(last: Attempt) -> Iterator[dict[str, Any]]:
    """The newest events, as far as the end of the file goes; torn lines are passed over."""
    for line in read_tail(last.path / "events.jsonl").splitlines():
        with suppress(ValueError):
            event = json.loads(line)
            if isinstance(event, dict):
                yield event


def _elapsed(last: Attempt | None) -> float:
    if last is None:
        return 0.0
    end = last.end() or {}
    until = end.get("ended") or (time.time() if last.alive() else last.beat())
    return max(0.0, until - last.owner().get("began", until))


def _error(job: JobFolder, last: Attempt | None, state: str) -> tuple[str | None, str | None]:
    if state != "failed" or last is None:
        return None, None
    end = last.end()
    if end:
        return str(end.get("message") or "It failed without a word."), str(end.get("error") or "JobFailed")
    return died_too_often(job), "JobFailed"


def died_too_often(job: JobFolder) -> str:
    tail = job.log_tail(8)
    return (
        f"The worker died {MAX_ATTEMPTS} times while it ran this job, so it is not tried again by itself. "
        "Too little memory is the usual reason: try fewer tokens, another dtype or a smaller model. "
        + (f"The end of its log:\n{tail}" if tail else "Its log is empty.")
    )
