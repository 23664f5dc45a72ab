"""`python -m tests.bench NAME [--json FILE]`: run one benchmark, or `all`, and print a table."""

from __future__ import annotations

import argparse
import importlib
import json
import platform
from pathlib import Path

from tests.bench.rows import table

BENCHES = {
    "score": "tests.bench.score",  # all scores against a plain forward pass and against output_attentions
    "ablate": "tests.bench.ablate",  # questions a second against lm-evaluation-harness and a plain loop
    "sets": "tests.bench.sets",  # several head sets in one pass against one after another
    "alibi": "tests.bench.alibi",  # distance of bf16 ALiBi attention from float64, ours and the stock one
    "checkpoint": "tests.bench.checkpoint",  # tokens a second of a smaller checkpoint against its model
    "surgery": "tests.bench.surgery",  # steps on slices against whole matrices with a gradient mask
    "ui": "tests.bench.ui",  # from start to page, to the first map, to the second visit
    "demo": "tests.bench.demo",  # the Disagreement page's demo from cold to its answer
    "paper": "tests.bench.paper",  # what a fifth of the heads costs, by score; about twenty minutes
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("name", choices=[*BENCHES, "all"])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    parser.add_argument(
        "--repeats", type=int, default=5, help="how often ours and the peer take turns (default 5)"
    )
    chosen = parser.parse_args()
    rows = []
    for name in BENCHES if chosen.name == "all" else [chosen.name]:
        bench = importlib.import_module(BENCHES[name])
        rows += (found := bench.run(chosen.repeats))
        print(getattr(bench, "table", table)(found), flush=True)
    if chosen.json:
        machine = {
            "machine": platform.machine(),
            "system": platform.system(),
            "python": platform.python_version(),
        }
        tree = {"machine": machine, "rows": [row.tree() for row in rows]}
        chosen.json.write_text(json.dumps(tree, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
