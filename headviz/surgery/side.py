"""Processes beside the one that runs a repair, each with a model of its own, which do chains at the same time.

    with helpers(work.request, turns, count, settings, lock, takes):
        ...                                   # take chains from `turns` here too, until it is no longer open

A helper (`headviz.surgery.helper`) writes into the repair's folder what this process would have written, to the last bit but
for how fast it was (`tokens_per_second`): a chain depends on nothing but the plan and the number of threads. It asks for a chain,
tells how far it is, and asks for the next, a JSON object a line:

    helper → {"want": true} {"at": 120, "says": "arm repair, seed 1 · step 120"} {"over": true} {"failed": "a sentence"}
    here   → {"request": {…}}, then {"chain": ["repair", 1]} or {"chain": null}

A helper that dies, or meets what it cannot say in a sentence, costs what it had not kept: its chain is taken up here, and the
log says so. It ends with this process, however that ends: it reads from a pipe that the system closes then. And it holds the
lock of the repair's folder with it, so whoever comes after a kill waits until all are gone.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headviz.errors import Failure
from headviz.locks import Lock
from headviz.settings import Settings, environment
from headviz.surgery.turns import Chain, Turns
from headviz.types import RepairRequest, plain

log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]  # the checkout: headviz runs from it
COMMAND = (sys.executable, "-m", "headviz.surgery.helper")


@contextmanager
def helpers(
    request: RepairRequest,
    turns: Turns,
    count: int,
    settings: Settings,
    lock: Lock,
    takes: Callable[[int], None],
) -> Iterator[None]:
    """So many processes take chains from `turns` inside the block; afterwards none of them is left.

    lock: of the repair's folder, which they hold too; takes: told how many threads all processes have together
    """
    crew: list[_Helper] = []

    def count_threads() -> None:
        takes(request.threads * (1 + sum(helper.alive for helper in crew)))

    try:
        for _ in range(count):
            try:
                crew.append(_Helper(request, turns, settings, lock, count_threads))
            except OSError:  # no more processes, or no memory for one
                log.warning("no process could be started beside this one", exc_info=True)
        count_threads()
        yield
    finally:
        for helper in crew:
            helper.end()
        takes(request.threads)


class _Helper:
    """One process beside this one, and the thread that hears it."""

    def __init__(
        self,
        request: RepairRequest,
        turns: Turns,
        settings: Settings,
        lock: Lock,
        changed: Callable[[], None],
    ) -> None:
        self._turns, self._changed = turns, changed
        self._chain: Chain | None = None
        self._ending, self.alive = False, True
        threads = str(request.threads)
        self._process = subprocess.Popen(
            COMMAND,
            cwd=ROOT,
            env=environment(settings) | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(lock.descriptor,),
        )
        log.info("process %s runs beside this one", self._process.pid)
        self._heard = threading.Thread(target=self._hear, args=(request,), name="helper", daemon=True)
        self._said = threading.Thread(target=self._log, name="helper's log", daemon=True)
        self._heard.start()
        self._said.start()

    def end(self) -> None:
        """Nothing is lost by the hardest way: what it keeps, it keeps whole."""
        self._ending = True
        self._process.kill()
        self._heard.join()
        self._said.join()

    def _hear(self, request: RepairRequest) -> None:
        try:
            with self._process.stdout as lines:
                self._answer({"request": plain(request)})
                for line in lines:
                    self._take_in(json.loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.debug("process %s: %s", self._process.pid, error)
        finally:
            self._gone()

    def _take_in(self, message: dict[str, Any]) -> None:
        if "want" in message:
            self._chain = self._turns.take(beside=True)
            chain = self._chain
            self._answer({"chain": None if chain is None else [chain.arm, chain.seed]})
        elif "at" in message and self._chain is not None:
            self._turns.tell(self._chain, int(message["at"]), str(message["says"]))
        elif "over" in message and self._chain is not None:
            chain, self._chain = self._chain, None
            self._turns.over(chain)
        elif "failed" in message:
            self._chain = None  # nobody else is to try
            self._turns.fail(Failure(str(message["failed"])))

    def _answer(self, message: dict[str, Any]) -> None:
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def _gone(self) -> None:
        """Its pipe has ended, or it talked nonsense: make sure that it is gone before anybody else has its chain."""
        with suppress(OSError):
            self._process.stdin.close()
        if self._chain is not None:
            self._process.kill()
        code = self._process.wait()
        if (chain := self._chain) is not None and not self._ending:
            log.warning(
                "process %s ended with %s in arm %s, seed %s, which is taken up here",
                self._process.pid, code, chain.arm, chain.seed,
            )  # fmt: skip
        elif code and not self._ending:
            log.warning(
                "process %s ended with %s; what it would have done is done here", self._process.pid, code
            )
        if chain is not None:
            self._turns.back(chain)
        self.alive = False
        self._changed()

    def _log(self) -> None:
        """What it writes goes to this process's log, which knows no secrets."""
        with self._process.stderr as lines:
            for line in lines:
                log.warning("process %s: %s", self._process.pid, line.decode(errors="replace").rstrip())
