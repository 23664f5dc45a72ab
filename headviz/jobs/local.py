"""The jobs of this machine, as the dashboard and the command line use them. Opens in milliseconds: no torch.

    view = ask(request, holder)        # answered, running, or queued from now on
    view = hold(view.digest, holder)   # every second or so while it is shown; takes up what was interrupted
    table = result(request)            # the answer once view.state is "done"

The functions below act on the folder that the settings name. `headviz.jobs.jobs.Jobs` is the same for any settings.
"""

from __future__ import annotations

from functools import cache

from headviz.jobs.jobs import Jobs
from headviz.jobs.view import JobView
from headviz.settings import Settings, settings
from headviz.store import Store
from headviz.types import Request, Result, Watch


@cache
def _jobs(ours: Settings) -> Jobs:
    return Jobs(ours)


def jobs() -> Jobs:
    """The jobs of this process's settings."""
    return _jobs(settings())


def ask(request: Request, holder: str) -> JobView:
    return jobs().ask(request, holder)


def view(digest: str) -> JobView | None:
    return jobs().view(digest)


def hold(digest: str, holder: str) -> JobView | None:
    return jobs().hold(digest, holder)


def result(request: Request) -> Result | None:
    return jobs().result(request)


def list_jobs() -> list[JobView]:
    return jobs().list_jobs()


def log_tail(digest: str, lines: int = 40) -> str:
    return jobs().log_tail(digest, lines)


def find(prefix: str) -> str:
    return jobs().find(prefix)


def cancel(digest: str, holder: str, everyone: bool = False) -> str:
    return jobs().cancel(digest, holder, everyone)


def withdraw(digest: str, holder: str) -> bool:
    return jobs().withdraw(digest, holder)


def retry(digest: str, holder: str) -> JobView:
    return jobs().retry(digest, holder)


def ensure_worker() -> str | None:
    return jobs().ensure_worker()


def stop_worker() -> None:
    jobs().stop_worker()


def run_here(request: Request, watch: Watch | None = None) -> Result:
    return jobs().run_here(request, watch)


def run_job(digest: str, watch: Watch | None = None) -> Result:
    return jobs().run_job(digest, watch)


def store() -> Store:
    return jobs().store
