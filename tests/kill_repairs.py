"""Kill a repair at random moments and let it go on, until it is done; it must end as one that nobody killed.

    python -m tests.kill_repairs [MOMENTS] [SEED] [AT ONCE] [CASE …]     # ten moments, seed 0, 1 run at once, bloom and llama

Every try is a process of its own (forked after the imports, which take longer than the repair of a tiny model) and dies by
SIGKILL. With several runs at once there are processes beside it, which nobody kills and which must be gone soon after; the
moments count from when one of them is at work. Every moment is drawn from what is left of the repair, and where little is, it
is let finish and the next one begins from nothing, so that each kill meets one that is alive. The unit tests run three moments.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ |= {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}  # before torch: no threads that a fork would lose

import psutil

from headviz.surgery import side
from headviz.surgery.progress import read_points
from headviz.surgery.repair import run_repair
from headviz.surgery.runs import Trainer
from tests.tiny_repair import Bench

CASES = ("bloom", "llama")


def plan(bench: Bench, long: bool) -> Any:
    """Long enough to be met in the middle of everything: two arms, two passes."""
    steps = 48 if long else 16
    return bench.plan(
        arms=("repair", "no-reinit"), seeds=(0,), steps=steps, every=2, passes=2, sink=0.2, dead=0.9
    )


def attempt(
    home: Path, case: str, seconds: float = math.inf, at_once: int = 1, long: bool = False
) -> float | None:
    """Run the repair in a process of its own, and kill that after so many seconds; how long it took if it came to its end."""
    ready, begun = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            bench = Bench(home, case, at_once=at_once)
            if at_once > 1:
                side.COMMAND = (sys.executable, "-m", "tests.tiny_helper", case)
                wait_for_helper(lambda: os.write(begun, b"."))
            else:
                os.write(begun, b".")
            run_repair(plan(bench, long or at_once > 1), bench)
            status = 0
        finally:
            os._exit(status)
    os.close(begun)
    os.read(ready, 1)
    os.close(ready)
    start = time.monotonic()
    while True:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            if code:
                raise RuntimeError(f"the repair ended with exit code {code}")
            return time.monotonic() - start
        if time.monotonic() - start > seconds:
            beside = psutil.Process(child).children()
            os.kill(child, signal.SIGKILL)
            _, code = os.waitpid(child, 0)
            if not os.WIFSIGNALED(code):  # it had ended a moment before
                return time.monotonic() - start
            if psutil.wait_procs(beside, timeout=10)[1]:
                raise RuntimeError("a process outlived the one that started it")
            return None
        time.sleep(0.002)


def wait_for_helper(then: Callable[[], Any] = lambda: None) -> None:
    """Training waits in this process until each one beside it has something to do or is gone; then `then` is called. They take
    seconds to start, and a tiny repair does not."""
    waiting: set[Any] = set()
    real, real_gone, real_step, real_init = (
        side._Helper._take_in, side._Helper._gone, Trainer.one_step, side._Helper.__init__,
    )  # fmt: skip
    told: list[bool] = []

    def init(self: Any, *args: Any) -> None:
        waiting.add(self)
        try:
            real_init(self, *args)
        except OSError:
            waiting.discard(self)
            raise

    def take_in(self: Any, message: dict[str, Any]) -> None:
        real(self, message)
        if "want" in message:
            waiting.discard(self)

    def gone(self: Any) -> None:
        waiting.discard(self)
        real_gone(self)

    def one_step(self: Any, watching: Any, meter: Any) -> Any:
        while waiting:
            meter.check()
            time.sleep(0.01)
        if not told:
            told.append(True)
            then()
        return real_step(self, watching, meter)

    side._Helper.__init__, side._Helper._take_in, side._Helper._gone = init, take_in, gone
    Trainer.one_step = one_step


def killed(
    calm: Path, place: Path, case: str, moments: int, draw: random.Random, took: float, at_once: int
) -> tuple[int, list[str]]:
    """Kill repairs that are alive so many times in all; (how many it took, files that differ from the one that nobody killed).

    calm: home of that one; took: its seconds; place: where the others' homes are made. Raises RuntimeError where hardly any
    kill meets one alive.
    """
    met, different = 0, []
    for number in range(1, 4 * moments + 1):
        home, left, ended = place / f"disturbed-{number}", took, None
        while met < moments and left > took / 5 and ended is None:
            moment = draw.uniform(0.1, 0.8) * left
            ended = attempt(home, case, moment, at_once)
            left -= moment
            met += ended is None
        if ended is None:
            attempt(home, case, at_once=at_once)
        different += differences(calm, home)
        if met == moments:
            return number, different
    raise RuntimeError(f"only {met} of {moments} kills met a repair that was alive")


def differences(one: Path, other: Path) -> list[str]:
    """Files of two repairs' folders that are not the same, but for how fast training was. A hash of frozen numbers may be missing: a
    process that was killed as it took it has none."""
    found = []
    places = [next((home / "repairs").iterdir()) for home in (one, other)]
    names = [
        {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}
        for place in places
    ]
    if apart := sorted(name for name in names[0] ^ names[1] if not name.endswith("frozen.json")):
        return apart
    for name in sorted(names[0] & names[1]):
        paths = [place / name for place in places]
        if name.endswith("curve.jsonl"):
            curves = [
                [
                    {key: value for key, value in vars(point).items() if key != "tokens_per_second"}
                    for point in read_points(path.parent)
                ]
                for path in paths
            ]
            same = repr(curves[0]) == repr(curves[1])  # NaN is itself, and floats to the last digit
        else:
            same = paths[0].read_bytes() == paths[1].read_bytes()
        if not same:
            found.append(name)
    return found


def main(moments: int = 10, seed: int = 0, at_once: int = 1, cases: Iterable[str] = CASES) -> int:
    draw = random.Random(seed)
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            calm = Path(folder, "calm")
            took = attempt(calm, case, long=at_once > 1)
            count, different = killed(calm, Path(folder), case, moments, draw, took / at_once, at_once)
        ends = f"DIFFERENT: {', '.join(different)}" if different else "the same to the last bit"
        sys.stdout.write(
            f"{case}: {took:.1f} s undisturbed; killed {moments} times while it was alive, in {count} "
            f"repair{'s' * (count != 1)}; {ends}\n"
        )
        if different:
            return 1
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    numbers = [int(one) for one in given[:3]] + [10, 0, 1][len(given[:3]) :]
    sys.exit(main(*numbers, given[3:] or CASES))
