"""`headviz agree`: where two scores agree about which heads are inactive, and where they do not."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from headviz.commands.ablate import write
from headviz.commands.common import (
    Terminal,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    model_ref,
    writable,
)
from headviz.commands.trees import tree
from headviz.errors import BadInput
from headviz.types import DataRef, ScoreRequest, ScoreTable, SinkPlaces, SinkRequest, Watch

if TYPE_CHECKING:
    from headviz.analysis.agreement import Quadrants, Scored


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add_data(to)
    add = to.add_argument
    add("--metrics", default="awft,ahon_ln", metavar="A,B", help="the two scores (default awft,ahon_ln)")
    add("--share", type=float, default=0.2, help="share of heads that each score may take (default 0.2)")
    add(
        "--thresholds",
        default="",
        metavar="X,Y",
        help="group the heads at these thresholds of the two scores instead",
    )
    add("--disputed", type=int, default=10, metavar="N", help="most disputed heads to write (default 10)")
    add(
        "--sinks",
        type=int,
        default=0,
        metavar="P",
        help="also find where attention goes among the first P tokens, 1 to 64 (default 0: do not)",
    )
    add(
        "--costs",
        action="store_true",
        help="also switch off the heads that one score alone calls inactive, each group by zero and by mean, beside random "
        "heads, and measure the loss on the other part of the corpus (with --part train: on the held-out part)",
    )
    add("--draws", type=int, default=3, help="with --costs: random sets of each kind (default 3)")
    add("--quiet", action="store_true", help="no progress")
    add("--out", required=True, metavar="FILE", help="where to write: .json")


def run(args: argparse.Namespace) -> int:
    """Compare two scores of the same heads: groups, agreement beside chance, and the most disputed heads."""
    from headviz.analysis.sinkplace import check_positions
    from headviz.jobs import local

    out = writable(args.out, (".json",))
    metrics = metric_ids(args.metrics)
    if len(metrics) != 2:
        raise BadInput(f"--metrics {args.metrics!r}: name two scores, such as awft,ahon_ln.")
    thresholds = _thresholds(args.thresholds)
    if not 0 <= args.share <= 1:
        raise BadInput(f"--share {args.share:g}: a share lies between 0 and 1, where 1 is all heads.")
    if args.disputed < 0:
        raise BadInput(f"--disputed {args.disputed}: a number of heads is 0 or more.")
    if args.sinks:
        check_positions(args.sinks)
    if not 0 <= args.draws <= 100:
        raise BadInput(f"--draws {args.draws}: a number of random sets lies between 0 and 100.")
    request = ScoreRequest(model=model_ref(args), data=data_ref(args))
    check_lengths(request.model, request.data)
    measured = _other_part(request.data) if args.costs else None
    watch, places, costs = Terminal(args.quiet), None, None
    try:
        table = local.run_here(request, watch)
        if args.sinks:
            places = local.run_here(
                SinkRequest(model=request.model, data=request.data, positions=args.sinks), watch
            )
        if measured is not None:
            costs = costs_of(request, table, metrics, args.share, thresholds, measured, args.draws, watch)
    finally:
        watch.close()
    report = report_of(table, metrics, args.share, thresholds, args.disputed)
    if costs is not None:
        report["costs"] = costs
    if places is not None:
        report["sinks"] = sinks_of(places)
    write(out, report)
    if not args.quiet:
        print(sentence(report), file=sys.stderr)
        if costs is not None and costs["says"]:
            print(costs["says"].replace("**", ""), file=sys.stderr)
    return 0


def costs_of(
    request: ScoreRequest,
    table: ScoreTable,
    metrics: tuple[str, ...],
    share: float,
    thresholds: tuple[float, float] | None,
    text: DataRef,
    draws: int,
    watch: Watch,
) -> dict[str, Any]:
    """What it costs to lose the heads of either score alone, measured on `text`; as JSON types."""
    from headviz.analysis import agreement, groupcosts
    from headviz.analysis.ablation import Plan
    from headviz.charts.contest import contest_sentence
    from headviz.jobs import local

    a, b = (agreement.scored(table, metric) for metric in metrics)
    groups = _grouping(a, b, share, thresholds)
    plan = Plan(
        model=request.model,
        chosen_on=request.data,
        metric=metrics[0],
        share=share,
        text=text,
        draws=draws,
    )
    plans = groupcosts.group_plans(plan, groups)
    found = {one: local.run_here(one, watch) for one in groupcosts.requests(plans, table.geometry)}
    costs = groupcosts.costs_of(plans, table.geometry, found.get)
    if costs is None:
        return {
            "says": "",
            "why": "The two scores call the same heads inactive: there is nothing to dispute.",
        }
    return {
        "says": contest_sentence(costs, groups, a, b),
        "measured_on": tree(text),
        "chosen_on": tree(request.data),
        **groupcosts.report(costs, groups, plan),
    }


def _other_part(data: DataRef) -> DataRef:
    """The same amount of the part of the corpus that is not scored. Raises BadInput where there is none."""
    from headviz.data import corpora
    from headviz.settings import settings

    other = {"held-out": "train", "train": "held-out"}.get(data.part, "")
    if data.corpus in ("own", "hub") or other not in corpora.CORPORA[data.corpus].parts:
        raise BadInput(
            f"--costs measures on the other part of the corpus, and {data.corpus!r}, part {data.part!r}, has none. Use a corpus "
            "with --part train or held-out, such as docstrings."
        )
    same = {name: getattr(data, name) for name in ("inputs", "tokens", "seed", "bos", "chat")}
    return corpora.resolve(data.corpus, part=other, settings=settings(), **same)


def metric_ids(text: str) -> tuple[str, ...]:
    """Ids of scores, comma-separated. Raises UnknownName for one that does not exist, BadInput for one that stands twice."""
    from headviz.analysis.metrics import METRICS
    from headviz.errors import lookup

    found = [lookup(METRICS, name.strip(), "score").id for name in text.split(",") if name.strip()]
    if twice := next((name for name in found if found.count(name) > 1), None):
        raise BadInput(f"--metrics {text!r} names {twice} twice.")
    return tuple(found)


def report_of(
    table: ScoreTable,
    metrics: tuple[str, ...],
    share: float,
    thresholds: tuple[float, float] | None,
    disputed: int,
) -> dict[str, Any]:
    """What is written, as JSON types."""
    from headviz.analysis import agreement

    a, b = (agreement.scored(table, metric) for metric in metrics)
    count = agreement.budget(share, a, b)
    groups = _grouping(a, b, share, thresholds)
    curve = agreement.agreement(a, b)
    rho, left_out = agreement.spearman(a.urgency, b.urgency)
    return {
        "provenance": tree(table.provenance),
        "metrics": [side.row.id for side in (a, b)],
        "symbols": [side.row.symbol for side in (a, b)],
        "share": share,
        "count": count,
        "heads_total": int(a.values.size),
        "thresholds": list(groups.thresholds),
        "groups": _groups(groups),
        "agreement": curve.at(count) if count else None,
        "rank_correlation": {"rho": rho, "left_out": left_out},
        "curve": tree(curve),
        "matrices": tree(agreement.matrices(table, share)),
        "disputed": _disputed(table, a, b, groups.thresholds, disputed),
    }


def sinks_of(places: SinkPlaces) -> dict[str, Any]:
    """Where the sink is, and the score that follows it, as JSON types."""
    from headviz.analysis.sinkplace import followed, followed_row, head_sinks, model_sink

    heads = head_sinks(places)
    rows = {}
    for follow in ("model", "head"):
        row, values = followed_row(places, follow), followed(places, follow)
        rows[row.id] = {"symbol": row.symbol, "name": row.name, "mean": _mean(values)}
    return {
        "provenance": tree(places.provenance),
        "model": tree(model_sink(places)),
        "heads": tree(heads),
        "scores": rows,
    }


def sentence(report: dict[str, Any]) -> str:
    """The report in one line."""
    from headviz.charts import fmt

    groups, first, second = report["groups"], *report["symbols"]
    told = f"{first} against {second}: {groups['both']['count']} heads by both, "
    told += ", ".join(f"{groups[name]['count']} {groups[name]['name']}" for name in ("only_a", "only_b"))
    told += f"; rank correlation {fmt.signed(report['rank_correlation']['rho'])}"
    if at := report["agreement"]:
        told += (
            f"; at {at['k']} heads each {at['overlap']} in common, Jaccard {fmt.number(at['jaccard'])} "
            f"({fmt.number(at['chance_jaccard'])} by chance)"
        )
    return told


def _thresholds(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if len(found) != 2 or any(x != x for x in found):
        raise BadInput(f"--thresholds {text!r}: write two numbers, such as 0.6,0.5.")
    return found


def _grouping(a: Scored, b: Scored, share: float, thresholds: tuple[float, float] | None) -> Quadrants:
    from headviz.analysis import agreement

    if thresholds is None:
        return agreement.quadrants_of(a, b, agreement.budget(share, a, b))
    return agreement.quadrants_at(a, b, thresholds)


def _groups(groups: Quadrants) -> dict[str, Any]:
    return {
        group: {
            "name": groups.names[group],
            "count": count,
            "heads": [list(head) for head in groups.heads(group)],
        }
        for group, count in groups.counts().items()
    }


def _disputed(
    table: ScoreTable, a: Scored, b: Scored, thresholds: tuple[float, float], most: int
) -> list[dict[str, Any]]:
    from headviz.analysis.agreement import disputes
    from headviz.charts.verdicts import dispute_sentences

    found = disputes(table, a, b, thresholds, most)
    return [{**tree(one), "says": list(dispute_sentences(one, a, b))} for one in found]


def _mean(values: Any) -> list[list[float]]:
    """(N, L, H) → mean over the inputs that have a value, as lists."""
    import numpy as np

    known = ~np.isnan(values)
    count = known.sum(0)
    total = np.where(known, values, 0).sum(0, dtype=np.float64)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0).tolist()
