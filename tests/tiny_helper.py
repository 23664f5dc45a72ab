"""A process beside a repair of a tiny model, which no file holds: `python -m tests.tiny_helper CASE [WHAT GOES WRONG]`."""

from __future__ import annotations

import os
import sys

from headviz.surgery.helper import Parent, serve


def main(case: str, wrong: str = "") -> None:
    parent = Parent()  # first of all, as in the helper itself
    from headviz.settings import settings
    from headviz.surgery import runs
    from tests.tiny_repair import Bench, change_frozen

    real = runs.Trainer.one_step

    def one_step(self, watching, meter):
        if self.step == 6:
            if wrong == "dies":
                os._exit(9)
            if wrong == "errs":
                raise RuntimeError("nobody thought of this")
            if wrong == "not finite":
                raise runs.NotFiniteError("The loss", 7)
            if wrong == "changes":
                change_frozen(bench.loaded.model)
        return real(self, watching, meter)

    runs.Trainer.one_step = one_step
    bench = Bench(settings().home, case)
    bench.watch = parent
    serve(parent, parent.plan(), bench)
    parent.leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
