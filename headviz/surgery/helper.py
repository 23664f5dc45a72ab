"""A process beside the one that runs a repair: `python -m headviz.surgery.helper`, started by it and ended with it.

It reads the plan from a pipe, reads model and texts as that process does, and runs chains as it does, in the same folder,
one after the other, as long as it is given any. `side.py` has what they say to each other.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

from headviz.errors import Failure
from headviz.settings import Settings, settings
from headviz.surgery.meter import Meter
from headviz.surgery.turns import Chain
from headviz.types import ModelRef, RepairRequest, Watch, build


class Parent:
    """The process that started this one. As a Watch it is told how far this one is; to stop, it kills."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both, and it is the parent who decides
        self._out = os.fdopen(os.dup(1), "w", buffering=1)
        os.dup2(2, 1)  # what a library prints must not stand between the lines
        self._lines: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._hear, name="parent", daemon=True).start()

    def _hear(self) -> None:
        for line in sys.stdin:
            self._lines.put(json.loads(line))
        os._exit(1)  # it is gone, and nothing here needs tidying up: every file is written whole

    def plan(self) -> RepairRequest:
        return build(RepairRequest, self._lines.get()["request"])

    def next_chain(self) -> Chain | None:
        """What is to be done next; None: nothing."""
        self.say(want=True)
        chain = self._lines.get()["chain"]
        return None if chain is None else Chain(*chain)

    def say(self, **message: Any) -> None:
        try:
            self._out.write(json.dumps(message) + "\n")
        except BrokenPipeError:
            os._exit(1)

    def leave(self) -> None:
        """End this process: a thread still reads from the parent, over which an ordinary end of Python may stumble."""
        sys.stderr.flush()
        os._exit(0)

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        self.say(at=done, says=doing)

    def check(self) -> None:
        pass


@dataclass(frozen=True)
class Alone:
    """What a repair is given to work with, in a process of its own."""

    settings: Settings
    watch: Watch

    def model(self, ref: ModelRef) -> Any:
        from headviz.models.loading import load

        return load(ref, device=self.settings.device, watch=self.watch, settings=self.settings)


def serve(parent: Parent, request: RepairRequest, resources: Any) -> None:
    """Run the chains that the parent gives out, until there is none, or one ends the whole repair."""
    # Torch takes seconds to import. From the first moment on the parent's end must be heard.
    from headviz.surgery.chains import begun, run_chain, threads

    meter = Meter(parent, 0)
    with threads(request.threads):
        work = begun(request, resources, meter)
        while (chain := parent.next_chain()) is not None:
            try:
                run_chain(work, chain)
            except Failure as error:
                parent.say(failed=str(error))
                return
            parent.say(over=True)


def main() -> None:
    from headviz.models.steady import steady_memory

    parent = Parent()
    steady_memory()
    ours = settings()
    serve(parent, parent.plan(), Alone(ours, parent))
    parent.leave()


if __name__ == "__main__":
    main()
