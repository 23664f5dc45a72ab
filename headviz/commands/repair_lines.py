"""What a terminal reads of a repair: a line for each run while it goes on, and its report in a few lines."""

from __future__ import annotations

from typing import Any

from headviz.commands.common import Terminal

_RUN = "arm "  # how the name of a run begins in what is said of a repair


class Steps(Terminal):
    """Progress of a repair: where lines stay, one a run and not one a step, also of runs that are done beside."""

    def __init__(self, quiet: bool = False) -> None:
        super().__init__(quiet)
        self.stage, self.runs = "", set()  # what was said last that is no run, and all runs that were said

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        if self.live:
            super().step(doing, done, total, unit)
            return
        here, *beside = (part.partition(" · ")[0] for part in doing.split("; "))
        if here and not here.startswith(_RUN) and here != self.stage:
            self.stage = here
            super().step(here)
        for run in (here, *beside):
            if run.startswith(_RUN) and run not in self.runs:
                self.runs.add(run)
                super().step(run)


def summary(tree: dict[str, Any]) -> list[str]:
    """The report in a few lines: an arm each, then the verdict."""
    from headviz.surgery.arms import ARMS

    before = tree["heads_per_class"]["before"]
    lines = [f"{'arm':<34} {'collapsed':>9}  {'loss':>8}  {'against stock':<30} against old weights"]
    for name, row in tree["held_out"].items():
        counts = [one for one in tree["heads_per_class"].get("after", []) if one["arm"] == name]
        sick = _collapsed([before]) if name == "stock" else _collapsed(_last_passes(counts))
        title = "before surgery" if name == "stock" else ARMS[name].title
        lines.append(
            f"{title:<34} {sick:>9.1f}  {row['report']['loss']:>8.4f}  {_change(row['against_stock']):<30} "
            f"{_change(row['against_no_reinit'])}".rstrip()
        )
    said = tree["verdict"]
    frozen = "identical" if tree["frozen_identical"] else "CHANGED"
    return [
        *lines,
        f"Frozen numbers: {frozen}.",
        *said["sentences"],
        *said["notes"],
        f"Verdict: {said['word']}. {said['reason']}",
    ]


def _last_passes(counts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({one["seed"]: one for one in sorted(counts, key=lambda one: one["pass"])}.values())


def _collapsed(counts: list[dict[str, Any]]) -> float:
    return sum(one["dead"] + one["sink"] for one in counts) / len(counts)


def _change(change: dict[str, Any] | None) -> str:
    if change is None:
        return ""
    low, high = change["interval"]
    edges = "" if low is None else f" [{low:+.4f}, {high:+.4f}]"
    return f"{change['change']:+z.4f}{edges}"
