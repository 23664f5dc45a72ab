"""Kill a repair at random moments and let it go on, until it is done; it must end as one that nobody killed.

    python -m tests.kill_repairs [MOMENTS] [SEED] [CASE …]     # ten moments, seed 0, bloom and llama

Every try is a process of its own (forked after the imports, which take longer than the repair of a tiny model) and dies by
SIGKILL. The unit tests run three moments of it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ |= {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}  # before torch: no threads that a fork would lose

from headviz.surgery.progress import read_points
from headviz.surgery.repair import run_repair
from tests.tiny_repair import Bench

CASES = ("bloom", "llama")


def plan(bench: Bench) -> Any:
    """Long enough to be met in the middle of everything: two arms, two passes."""
    return bench.plan(
        arms=("repair", "no-reinit"), seeds=(0,), steps=16, every=2, passes=2, sink=0.2, dead=0.9
    )


def attempt(home: Path, case: str, seconds: float | None = None) -> bool:
    """Run the repair in a process of its own, and kill that after so many seconds; whether it came to its end."""
    child = os.fork()
    if not child:
        status = 1
        try:
            bench = Bench(home, case)
            run_repair(plan(bench), bench)
            status = 0
        finally:
            os._exit(status)
    until = None if seconds is None else time.monotonic() + seconds
    while True:
        ended, code = os.waitpid(child, os.WNOHANG)
        if ended:
            if code:
                raise RuntimeError(f"the repair ended with exit code {code}")
            return True
        if until is not None and time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return False
        time.sleep(0.002)


def killed(home: Path, case: str, moments: Iterable[float]) -> int:
    """Kill it so many seconds after each start, then let it finish; how many kills met it alive."""
    met = sum(not attempt(home, case, moment) for moment in moments)
    attempt(home, case)
    return met


def differences(one: Path, other: Path) -> list[str]:
    """Files of two repairs' folders that are not the same, but for how fast training was."""
    found = []
    places = [next((home / "repairs").iterdir()) for home in (one, other)]
    names = [
        sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
        for place in places
    ]
    if names[0] != names[1]:
        return sorted(set(names[0]) ^ set(names[1]))
    for name in names[0]:
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


def main(moments: int = 10, seed: int = 0, cases: Iterable[str] = CASES) -> int:
    draw = random.Random(seed)
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            calm, disturbed = Path(folder, "calm"), Path(folder, "disturbed")
            began = time.monotonic()
            attempt(calm, case)
            took = time.monotonic() - began
            met = killed(disturbed, case, [draw.uniform(0.1, 0.8) * took for _ in range(moments)])
            different = differences(calm, disturbed)
        ends = f"DIFFERENT: {', '.join(different)}" if different else "the same to the last bit"
        sys.stdout.write(f"{case}: {took:.1f} s undisturbed; killed {met} times of {moments}; {ends}\n")
        if different or not met:
            return 1
    return 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(int(given[0] if given else 10), int(given[1] if given[1:] else 0), given[2:] or CASES))
