"""Run one claimed job in this process, whatever process that is: the warm worker, or a command line."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

from headviz.codec import pack, unpack
from headviz.errors import Cancelled, CorruptResult, HeadvizError, JobFailed, NotEnoughMemory
from headviz.jobs.folder import Attempt
from headviz.jobs.kept import Kept
from headviz.jobs.kinds import KINDS
from headviz.jobs.resources import Resources
from headviz.machine import cores
from headviz.settings import Settings
from headviz.types import Result, Watch

log = logging.getLogger(__name__)

LOOK = 0.05  # seconds between two looks for a cancel: a look is one stat
SAY = 0.1  # seconds between two events of the same kind
BEAT = 1.0  # seconds between two heartbeats


class JobWatch:
    """Writes progress to the attempt, and raises Cancelled once the job's cancel file is there."""

    def __init__(self, attempt: Attempt, also: Watch | None = None) -> None:
        """`also`: another watch that hears, and may cancel, the same."""
        self._attempt = attempt
        self._also = also
        self._looked = self._said = -1e9
        self._doing: tuple[str, int] | None = None
        self._since = 0.0
        self._from = 0

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        self.check()
        if self._also is not None:
            self._also.step(doing, done, total, unit)
        now = time.monotonic()
        what = (doing.partition(" · ")[0], total)  # a figure that runs along does not start the work anew
        if what != self._doing:  # the rate, and so the time that is left, counts from here
            self._doing, self._since, self._from = what, time.time(), done
        elif now - self._said < SAY and done != total:
            return
        self._said = now
        self._attempt.say(
            {
                "t": time.time(),
                "doing": doing,
                "done": int(done),
                "total": int(total),
                "unit": unit,
                "since": self._since,
                "from": int(self._from),
            }
        )

    def check(self) -> None:
        now = time.monotonic()
        if now - self._looked >= LOOK:
            if self._attempt.job.cancel_asked():
                raise Cancelled("It was stopped on request.")
            self._looked = now
        if self._also is not None:
            self._also.check()


def carry_out(attempt: Attempt, resources: Resources, also: Watch | None = None) -> None:
    """Run a claimed job to its end, whatever the end is, and write it down. Raises only what stops the process."""
    ended = ("failed", "JobFailed", "It ended without a word.")
    try:
        resources.watch = JobWatch(attempt, also)
        resources.takes = attempt.take_threads
        resources.kept = Kept(attempt.job.kept_folder, resources.settings.device)
        ended = _outcome(attempt, resources)
    except (KeyboardInterrupt, SystemExit):
        ended = ("cancelled", "", "")
        raise
    finally:
        shutil.rmtree(attempt.job.kept_folder, ignore_errors=True)  # only a killed process leaves it
        attempt.finish(ended[0], ended[1], redact(ended[2]))


def _outcome(attempt: Attempt, resources: Resources) -> tuple[str, str, str]:
    """(state, error class, sentence)."""
    try:
        _answer(attempt, resources)
    except Cancelled:
        return "cancelled", "", ""
    except HeadvizError as error:
        log.info("%s: %s", type(error).__name__, error)
        return "failed", type(error).__name__, str(error)
    except Exception as error:
        log.exception("Job %s met an unexpected error", attempt.job.digest[:12])
        if _is_memory(error):
            resources.forget()
            return "failed", NotEnoughMemory.__name__, OUT_OF_MEMORY
        what = f"{type(error).__name__}: {error}".strip(": ").splitlines()[0][:300]
        return (
            "failed",
            JobFailed.__name__,
            f"The worker met an unexpected error: {what}; the log has the rest.",
        )
    return "done", "", ""


def _answer(attempt: Attempt, resources: Resources) -> None:
    job = attempt.job
    if not job.spec_matches():
        raise JobFailed("The request of this job was changed after it was asked. Ask again.")
    request = job.request()
    row = KINDS[request.kind]
    if job.result_file.exists():  # an earlier attempt died after its last step
        try:
            unpack(job.result_file.read_bytes())
            return
        except CorruptResult:
            job.result_file.unlink(missing_ok=True)
    resources.watch.step("Starting")
    resources.begin(request)
    result = _function(row.run)(request, resources)
    if not row.takes(result):
        raise JobFailed(
            f"A {row.kind!r} job answered with a {type(result).__name__} where {row.result} is due."
        )
    job.write_result(pack(_signed(result, job.digest)))


def _function(where: str) -> Callable[..., Result]:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _signed(result: Result, digest: str) -> Result:
    """The result with the job's digest in its provenance: only the job system knows the method's version."""
    return dataclasses.replace(result, provenance=dataclasses.replace(result.provenance, digest=digest))


OUT_OF_MEMORY = "The memory ran out while this was computed. Try fewer tokens an input, another dtype, or a smaller model."


def _is_memory(error: BaseException) -> bool:
    """Whether `error` means that memory ran out; torch says so with errors of its own."""
    names = {cls.__name__ for cls in type(error).__mro__}
    text = str(error).lower()
    return bool(names & {"MemoryError", "OutOfMemoryError"}) or (
        isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)
    )


# ------------------------------------------------------------------------------------------------- the process


@contextmanager
def pulse(attempt: Attempt, holder: str = "") -> Iterator[None]:
    """Show life while the block runs; keeps the interest of `holder` alive too."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            try:
                attempt.show_life()
                if holder:
                    attempt.job.hold(holder)
            except OSError:  # a full disk must not end the thread; no heartbeat shows as stalled
                log.debug("no heartbeat", exc_info=True)

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def prepare_process(settings: Settings) -> int:
    """Before torch starts: memory that stays with the process, and the number of threads, which is returned.

    HEADVIZ_THREADS decides; then OMP_NUM_THREADS, where somebody set it; then all cores this process may use.
    """
    from headviz.models.steady import steady_memory

    steady_memory()
    given = os.environ.get("OMP_NUM_THREADS", "")
    threads = settings.threads or (int(given) if given.isdigit() and int(given) else cores())
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    return threads


_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_KEY|ACCESS_KEY", re.IGNORECASE)


def redact(text: str) -> str:
    """`text` without the values of environment variables that hold secrets, such as HF_TOKEN."""
    for name, value in os.environ.items():
        if _SECRET.search(name) and len(value) >= 8:
            text = text.replace(value, f"<{name}>")
    return text


class Redacting(logging.Formatter):
    """Log lines and tracebacks without secrets."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))


@contextmanager
def logged(attempt: Attempt) -> Iterator[None]:
    """Copies this process's log records to the attempt's log while the block runs."""
    handler = logging.FileHandler(attempt.path / "log", encoding="utf-8")
    handler.setFormatter(Redacting())
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()
