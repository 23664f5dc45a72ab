"""`headviz sweep`: what it costs to switch heads off at several shares, by several scores, and which score is best."""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headviz.analysis.metrics import METRICS
from headviz.commands.ablate import answer, sentence, write
from headviz.commands.common import Terminal, writable
from headviz.commands.plan import options, plan_of
from headviz.errors import BadInput, lookup

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.ablation import Plan
    from headviz.analysis.changes import Measured
    from headviz.analysis.sweeps import Trace
    from headviz.analysis.yardsticks import Yardstick

Places = list[tuple[float, list["Measured"]]]  # share of heads off → what was measured there


def sweep_options(to: argparse.ArgumentParser) -> None:
    options(to)
    add = to.add_argument
    add("--metrics", default="", help="several scores, comma-separated (default: the one of --metric)")
    add("--shares", default="0.05,0.1,0.15,0.2,0.25,0.3", help="shares of heads, fractions, comma-separated")
    add(
        "--tolerance",
        type=float,
        metavar="X",
        help="what may be lost: accuracy points (default 1), or nats with --target loss (default 0.05)",
    )
    add("--points-csv", metavar="FILE", help="write accuracies too, as `headviz tolerance` reads them: .csv")


def sweep(args: argparse.Namespace) -> int:
    """The same at several shares: a curve for each score, and which score is best."""
    out = writable(args.out, (".json",))
    table = writable(args.points_csv, (".csv",), "--points-csv") if args.points_csv else None
    shares, metrics = _shares(args.shares), _metrics(args.metrics or args.metric)
    if args.heads:
        raise BadInput("A sweep chooses its heads by a score; --heads goes with `ablate`.")
    if table is not None and args.target == "loss":
        raise BadInput("--points-csv holds accuracies, so it goes with questions, not with --target loss.")
    if args.tolerance is not None and not args.tolerance > 0:
        raise BadInput(f"A tolerance is larger than zero, not {args.tolerance:g}.")
    watch, rows, curves = Terminal(args.quiet), [], {}
    try:
        plan = plan_of(args, shares[0])
        before = _before(plan, watch)
        for metric in metrics:
            for share in shares:
                tree, places = _point(replace(plan, metric=metric, share=share), before, watch)
                rows.append(tree)
                for name, (at, measured) in places.items():
                    curves.setdefault(name, []).append((at, measured))
                if not args.quiet:
                    print(sentence(tree), file=sys.stderr)
    finally:
        watch.close()
    ranking = _ranking(plan, before, curves, args.tolerance)
    write(out, {"rows": rows, "ranking": ranking})
    if table is not None:
        table.write_text(points_csv(plan, before, curves))
    if not args.quiet:
        print("\n".join(_lines(ranking)), file=sys.stderr)
    return 0


def _before(plan: Plan, watch: Terminal) -> Measured:
    from headviz.analysis import ablation

    return answer(ablation.measuring(plan, None), watch)


def _point(
    plan: Plan, before: Measured, watch: Terminal
) -> tuple[dict[str, Any], dict[str, tuple[float, list[Measured]]]]:
    """(report, curve → (share, measurements)) of one score at one share: the score, and its random heads."""
    from headviz.analysis import ablation, changes

    scores = answer(ablation.scoring(plan), watch)
    off = None
    if plan.mode == "per-input":
        after = answer(ablation.measuring_per_input(plan, scores), watch)
        share = float(after.off_share.mean())
        random = {"uniform": ablation.controls_per_input(plan, share)}
    else:
        off = ablation.chosen(plan, scores)
        share = off.share
        after = answer(ablation.measuring(plan, off), watch)
        random = ablation.controls(plan, off)
    drawn = {kind: [answer(one, watch) for one in several] for kind, several in random.items()}
    places = {plan.metric: (share, [after])}
    if drawn.get("uniform"):
        places["random"] = (share, drawn["uniform"])
    if drawn.get("layer_matched"):
        places[f"layer_matched:{plan.metric}"] = (share, drawn["layer_matched"])
    return changes.report(plan, off, before, after, drawn), places


def _traces(plan: Plan, before: Measured, curves: dict[str, Places], yard: Yardstick) -> dict[str, Trace]:
    """Curves of change; where scores share a size, so do their random heads, which count once."""
    from headviz.analysis import sweeps

    return {
        name: sweeps.trace(
            plan, list({share: (share, some) for share, some in places}.values()), before, yard
        )
        for name, places in curves.items()
    }


def _ranking(
    plan: Plan, before: Measured, curves: dict[str, Places], tolerance: float | None
) -> dict[str, Any]:
    """How the scores compare: chosen on one half, confirmed on the other. Names that end in `within` are percent."""
    from headviz.analysis import sweeps, yardsticks

    yard = yardsticks.yardstick(before, plan.questions.scoring if plan.questions is not None else "")
    value = tolerance if tolerance is not None else {"points": 1.0, "nats": 0.05}[yard.tolerance]
    traces = _traces(plan, before, curves, yard)
    why = sweeps.unranked(traces, yard, value / yard.scale)
    end = sweeps.common_end([one for name, one in traces.items() if not why[name]])
    rows = sweeps.ranking(traces, yard, value / yard.scale, end)
    names = {"first": "chosen", "second": "confirmed"}
    for row in rows:
        for half, said in names.items():
            for what in ("within", "area", "status", "bracket"):
                row[f"{said}_{what}"] = row.pop(f"{half}_{what}")
    return {
        "counts": yard.id,
        "unit": "nats" if yard.unit == "nats" else "accuracy",
        "tolerance": value / yard.scale,
        "halves": "documents" if plan.questions is None else "questions",
        "area_until": end,
        "rows": rows,
    }


def points_csv(plan: Plan, before: Measured, curves: dict[str, Places]) -> str:
    """Accuracies as `headviz tolerance` reads them: model, score, share, acc, each score with its point at nothing off."""
    from headviz.analysis import changes
    from headviz.analysis.yardsticks import YARDSTICKS

    baseline = float(changes.correct(before, plan.questions.scoring).mean())
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(("model", "score", "share", "acc"))
    for name, trace in _traces(plan, before, curves, YARDSTICKS["accuracy"]).items():
        points = (
            (share, baseline + change) for share, change in zip(trace.shares, trace.changes, strict=True)
        )
        nothing = [] if 0.0 in trace.shares else [(0.0, baseline)]
        for share, accuracy in [*nothing, *points]:
            out.writerow((plan.model.name, name, repr(share), repr(accuracy)))
    return text.getvalue()


def _lines(ranking: dict[str, Any]) -> list[str]:
    """The ranking as people read it."""
    points = ranking["counts"] == "accuracy"
    limit = f"{100 * ranking['tolerance']:g} points" if points else f"{ranking['tolerance']:g} nats"
    lines = [
        f"Largest share within {limit}, chosen on one half of the {ranking['halves']}, confirmed on the other:"
    ]
    for number, row in enumerate(ranking["rows"], 1):
        place = "  –" if row["unranked"] else f"{number:>3}"
        said = [
            _reached(row[f"{name}within"], row[f"{before}status"])
            for name, before in (("share_", ""), ("chosen_", "chosen_"), ("confirmed_", "confirmed_"))
        ]
        lines.append(f"{place}. {row['score']:<24} {said[0]}, chosen {said[1]}, confirmed {said[2]}")
        if row["unranked"]:
            lines[-1] += f"; not ranked: {row['unranked']}"
    return lines


def _reached(within: float, status: str) -> str:
    """Percent, with what is not known of it: how far it goes, or that it left the tolerance and came back."""
    said = f"{within:.2f}%"
    if status == "never outside":
        return f"at least {said}"
    return f"{said} (not settled: outside after that, and inside again)" if status == "ends inside" else said


def _metrics(text: str) -> list[str]:
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for name in found:
        lookup(METRICS, name, "score")
    if not found:
        raise BadInput("--metrics is empty: write scores such as ahon_ln,awft.")
    return found


def _shares(text: str) -> Sequence[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise BadInput(f"--shares {text!r}: write fractions between 0 and 1, such as 0.1,0.2,0.3.")
    return sorted(set(shares))
