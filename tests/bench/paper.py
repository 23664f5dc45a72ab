"""What a fifth of the heads costs, score by score: the order that the first paper reports, on the bundled model.

Heads are chosen by their mean score on docstrings of other packages (the training part) and switched off on every
input; loss is measured on held-out docstrings, each input from a document of its own. Beside the scores stand as many
random heads, anywhere and with as many in each layer as the first score takes; zero and mean stand in for what is off.

Every measurement is kept in HEADVIZ_HOME, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from headviz.analysis import ablation, changes
from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.charts import fmt
from headviz.data import corpora
from headviz.jobs import local
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import DataRef

INPUTS, TOKENS = 20, 256  # 20 documents, from which on intervals resample documents
SHARE, DRAWS = 0.2, 20
SCORES = tuple(name for name, row in METRICS.items() if not row.extra)
MATCHED = "ahon_ln"  # whose layers the layer-matched draws share
REPLACED = ("zero", "mean")


@dataclass(frozen=True)
class Cost:
    """Change in loss, nats a token. For a score [low, high] is a 95% interval over documents; for random heads the
    range over draws. layers: how many heads are off in each, () for random ones; better: random draws that cost no more
    than the score, by kind."""

    off: str
    replaced: str
    baseline: float
    change: float
    low: float
    high: float
    heads: int
    inputs: int
    layers: tuple[int, ...]
    better: dict[str, int]

    def tree(self) -> dict[str, Any]:
        return asdict(self)


def run(_repeats: int) -> list[Cost]:
    """All rows, the cheapest score first, random heads last; nothing here is a time, so nothing is repeated."""
    rows = [row for kind in REPLACED for row in _scores(kind)]
    return sorted(rows, key=lambda row: (REPLACED.index(row.replaced), not row.better, row.change))


def table(rows: list[Cost]) -> str:
    """The rows as a table in Markdown, what stands in side by side."""
    head = [f"{rows[0].heads} heads off"]
    for kind in REPLACED:
        head += [f"{kind} instead, nats a token", "cheaper random draws"]
    body = []
    for off in dict.fromkeys(row.off for row in rows):
        mine = {row.replaced: row for row in rows if row.off == off}
        body.append(
            [off, *(cell for kind in REPLACED for cell in _cells(mine[kind])), _first(mine[REPLACED[0]])]
        )
    lines = ([*head, "first layer"], ["---"] * (len(head) + 1), *body)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(row: Cost) -> tuple[str, str]:
    names = {"uniform": "", "layer_matched": "in its layers "}
    beaten = "; ".join(f"{names[kind]}{count} of {DRAWS}" for kind, count in row.better.items())
    return f"{fmt.signed(row.change)} [{fmt.number(row.low)}, {fmt.number(row.high)}]", beaten


def _first(row: Cost) -> str:
    return next((str(layer) for layer, count in enumerate(row.layers) if count), "")


def _data(part: str, inputs: int, tokens: int) -> DataRef:
    return corpora.resolve("docstrings", part=part, inputs=inputs, tokens=tokens, settings=settings())


def _scores(replaced: str) -> Iterator[Cost]:
    """One row a score, then one for each kind of random heads."""
    plan = Plan(
        model=catalog.resolve("smollm2", settings=settings()),
        chosen_on=_data("train", 16, 512),
        text=_data("held-out", INPUTS, TOKENS),
        metric=MATCHED,
        share=SHARE,
        replace=replaced,
        draws=DRAWS,
    )
    scores = local.run_here(ablation.scoring(plan))
    before = local.run_here(ablation.measuring(plan, None))
    off = ablation.chosen(plan, scores)
    after = {}
    for metric in SCORES:
        _say(f"{METRICS[metric].symbol}, {replaced}")
        after[metric] = _measured(replace(plan, metric=metric), scores)
    drawn: dict[str, list[Any]] = {}
    for kind, requests in ablation.controls(plan, off).items():
        for number, request in enumerate(requests, 1):
            _say(f"random heads, {kind.replace('_', '-')}, {replaced}: {number} of {DRAWS}")
            drawn.setdefault(kind, []).append(local.run_here(request))
    for metric in SCORES:
        chosen = replace(plan, metric=metric)
        random = drawn if metric == MATCHED else {"uniform": drawn["uniform"]}
        told = changes.report(chosen, ablation.chosen(chosen, scores), before, after[metric], random)
        yield _row(METRICS[metric].symbol, replaced, told)
    for kind, band in told_bands(plan, off, before, drawn):
        yield Cost(kind, replaced, told["baseline"], *band, off.count, told["n"], (), {})


def told_bands(plan: Plan, off: Any, before: Any, drawn: dict[str, list[Any]]) -> Iterator[tuple[str, tuple]]:
    """Each kind of random heads, and the mean, least and largest change over its draws."""
    names = {
        "uniform": "random, anywhere",
        "layer_matched": f"random, in the layers of {METRICS[MATCHED].symbol}",
    }
    for kind, several in drawn.items():
        band = changes.report(plan, off, before, before, {kind: several})["random"][kind]
        yield names[kind], (band["mean"], band["low"], band["high"])


def _measured(plan: Plan, scores: Any) -> Any:
    return local.run_here(ablation.measuring(plan, ablation.chosen(plan, scores)))


def _row(symbol: str, replaced: str, told: dict[str, Any]) -> Cost:
    in_layer = Counter(layer for layer, _ in told["heads"])
    layers = tuple(in_layer[layer] for layer in range(max(in_layer) + 1))
    better = {kind: band["better"] for kind, band in told["random"].items()}
    ends = (told["change"], told["ci_low"], told["ci_high"])
    return Cost(symbol, replaced, told["baseline"], *ends, told["heads_off"], told["n"], layers, better)


def _say(doing: str) -> None:
    print(f"… {doing}", file=sys.stderr, flush=True)
