"""`headviz repair`: a repair from a plan file or from options, run in this process; asked again, it goes on where it was."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headviz.commands import repair_options
from headviz.commands.common import Noted, Terminal, add_model, given, model_ref, read_bytes, writable
from headviz.commands.repair_lines import Steps, summary
from headviz.errors import BadInput, Cancelled
from headviz.surgery.paper import PRESETS
from headviz.types import Bands, BandsRequest, RepairReport, RepairRequest, ScoreRequest

if TYPE_CHECKING:
    from headviz.surgery.plan import Facts, Measured
    from headviz.types import ModelRef, RepairRun


def options(to: argparse.ArgumentParser) -> None:
    to.add_argument("plan", nargs="?", metavar="PLAN.json", help="a plan: what --save-plan or the page wrote")
    add_model(to)
    add = partial(to.add_argument, action=Noted)
    add(
        "--rule",
        help='which heads: such as "bos>0.5 & slope<0.1 & layers 5-22", "class=dead", "lowest 20 by ahon_ln"',
    )
    add("--heads", metavar="FILE", help="which heads: the JSON that the page or a command wrote")
    add(
        "--preset",
        metavar="NAME",
        help=f"a repair of the paper: {', '.join(PRESETS)}",
    )
    repair_options.add(add)
    to.add_argument(
        "--resume", metavar="JOB", help="go on with a repair that was stopped: its id or the first digits"
    )
    to.add_argument(
        "--preview",
        action="store_true",
        help="say what the plan will take and what to know before; run nothing",
    )
    to.add_argument("--save-plan", metavar="FILE", help="write the plan: .json")
    to.add_argument("--out", metavar="FILE", help="where to write the report: .json")
    to.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Repair heads: train new weights of theirs beside the frozen model, with the controls that make it believable."""
    from headviz.jobs import local
    from headviz.jobs.kinds import job_digest
    from headviz.settings import settings
    from headviz.surgery import plan

    for name in ("out", "save_plan"):
        if path := getattr(args, name):
            writable(path, (".json",), "--" + name.replace("_", "-"))
    watch = Steps(args.quiet)
    try:
        request, rule = _asked(args, watch)
        about = _facts(request.model, watch)
        plan.check(request, about.geometry, about.longest, settings())
        if args.save_plan:
            Path(args.save_plan).write_text(plan.write_plan(request, rule=rule), encoding="utf-8")
        if args.preview:
            watch.close()
            _print_preview(request, about, _doubts(args))
            return 0
        digest = job_digest(request)
        if not args.quiet:
            _warn(request, about, _doubts(args))
            print(f"Repair {digest[:12]}; stopped, it goes on with --resume {digest[:12]}.", file=sys.stderr)
        try:
            report = local.run_here(request, watch)
        except (Cancelled, KeyboardInterrupt):
            watch.close()
            print(f"What is done is kept: --resume {digest[:12]} goes on.", file=sys.stderr)
            raise
    finally:
        watch.close()
    _tell(args, request, report, digest)
    return 0


# ------------------------------------------------------------------------------------------------------ the request


def _asked(args: argparse.Namespace, watch: Terminal) -> tuple[RepairRequest, str]:
    """(plan, rule) from --resume, from a file, or from options. Raises BadInput where they exclude each other."""
    if args.resume:
        if args.plan or given(args):
            raise BadInput(f"--resume takes the plan of that repair; leave out {given(args) or args.plan}.")
        return _resumed(args.resume), ""
    if not args.plan:
        return _designed(args, watch)
    if beside := given(args):
        raise BadInput(
            f"{args.plan} is the whole plan, with which {beside} cannot be used. Change the file instead."
        )
    from headviz.surgery.plan import read_plan

    return read_plan(read_bytes(args.plan))


def _resumed(prefix: str) -> RepairRequest:
    """The plan of a repair that has begun, or of one that waits among the jobs."""
    from headviz.jobs import local
    from headviz.settings import settings
    from headviz.surgery import kept

    try:
        return kept.plan_of(kept.find(prefix, settings()), settings())
    except BadInput:
        waiting = [job for job in local.list_jobs() if prefix and job.digest.startswith(prefix.lower())]
        if len(waiting) == 1 and isinstance(waiting[0].request, RepairRequest):
            return waiting[0].request
        raise


def _designed(args: argparse.Namespace, watch: Terminal) -> tuple[RepairRequest, str]:
    if len(both := given(args, "--rule", "--heads", "--preset").split(", ")) > 1:
        raise BadInput(f"{' and '.join(both)} both say which heads. Leave one out.")
    if not (args.rule or args.heads or args.preset):
        raise BadInput('Say which heads: --rule "bos>0.5", --heads FILE, --preset NAME, or give a plan file.')
    from headviz.settings import settings
    from headviz.surgery import paper, plan

    model = model_ref(args)
    about = _facts(model, watch)
    row = paper.preset(args.preset) if args.preset else None
    changes = repair_options.changes(args, about, row)
    request = plan.default_request(model, (), settings(), about=about, **changes)
    healthy = "healthy" in request.arms
    # everything but the heads, before they are measured
    plan.check(
        replace(
            request,
            heads=((0, 0),),
            arms=tuple(name for name in request.arms if name != "healthy") or ("repair",),
        ),
        about.geometry,
        about.longest,
        settings(),
    )
    rule, heads = args.rule or "", ()
    if row is not None:
        heads, rule = paper.heads_for(row, about.geometry), row.rule
    if args.heads:
        from headviz.analysis.headfile import read_heads

        heads = read_heads(
            read_bytes(args.heads), model=model.name, revision=model.revision, geometry=about.geometry
        ).heads
    measured = _measured(request, about, plan.needs(rule) if rule else frozenset(), healthy, watch)
    if rule:
        heads = plan.heads_by_rule(rule, measured)
    matched = plan.matched_healthy(heads, measured) if healthy else ()
    return replace(request, heads=tuple(sorted(heads)), healthy=matched), rule


def _measured(
    request: RepairRequest, about: Facts, needed: frozenset[str], healthy: bool, watch: Terminal
) -> Measured:
    """What the rule looks at, on another text than the one on which the heads are counted afterwards."""
    from headviz.jobs import local
    from headviz.surgery.outcomes import thresholds
    from headviz.surgery.plan import Measured, chosen_on

    bands, scores, text = None, None, chosen_on(request.diagnose)
    if "bands" in needed or healthy:
        bands = local.run_here(BandsRequest(model=request.model, data=text), watch)
    if "scores" in needed:
        scores = local.run_here(ScoreRequest(model=request.model, data=text), watch)
    return Measured(geometry=about.geometry, bands=bands, scores=scores, at=thresholds(request))


def _facts(model: ModelRef, watch: Terminal) -> Facts:
    from headviz.models import catalog
    from headviz.settings import settings
    from headviz.surgery import plan

    catalog.locate(model, settings(), watch)
    return plan.facts(model, settings())


# ---------------------------------------------------------------------------------------------------- what it says


def _doubts(args: argparse.Namespace) -> tuple[str, ...]:
    """What to know of the paper's numbers before comparing with them."""
    return PRESETS[args.preset].doubts if args.preset else ()


def _warn(request: RepairRequest, about: Facts, doubts: tuple[str, ...]) -> None:
    from headviz.settings import settings
    from headviz.surgery import plan

    for said in (*doubts, *plan.warnings(request, about, settings())):
        print(f"Note: {said}", file=sys.stderr)


def _print_preview(request: RepairRequest, about: Facts, doubts: tuple[str, ...]) -> None:
    """What the plan will take, on stdout; a line a thing."""
    from headviz.charts import fmt
    from headviz.jobs.kinds import job_digest
    from headviz.settings import settings
    from headviz.surgery import plan, progress
    from headviz.types import head_name

    digest = job_digest(request)
    there = progress.so_far(settings(), digest, request)
    speed, known = _speed(request, about, there.runs)
    seen = plan.preview(request, about, settings(), speed)
    named = ", ".join(head_name(*head) for head in request.heads[:12]) + ", …" * (len(request.heads) > 12)
    time = (
        "not known before this model and its speed are measured here"
        if seen.seconds is None
        else f"about {fmt.duration(seen.seconds)}"
        if known
        else f"very roughly {fmt.roughly(seen.seconds)}, guessed before a speed was measured here"
    )
    lines = [
        f"Repair {digest[:12]}",
        f"Treated: {fmt.plural(seen.heads, 'head')} in {fmt.plural(seen.layers, 'layer')}: {named}",
        f"Trained: {seen.trained:,} numbers, of {seen.whole:,} in the matrices that they are part of",
        f"Runs: {seen.runs} of training ({', '.join(request.arms)}; seeds {', '.join(map(str, request.seeds))}); "
        f"{seen.steps:,} steps, {seen.tokens:,} tokens; about {fmt.plural(seen.windows, 'window')}, each read {seen.epochs:.1f} times a pass",
        f"Memory, estimated: {fmt.size(seen.memory)} beside the model"
        + (f" ({fmt.size(seen.model)})" if seen.model else "")
        + (
            f", of {seen.at_once} runs at a time, each but the first with a process and a model of its own"
            if seen.at_once > 1
            else ""
        )
        + f"; {fmt.size(seen.memory_free)} are free. Numbers, gradients and moments {fmt.size(seen.optimiser)}, for whole "
        f"matrices {fmt.size(seen.optimiser_whole)}",
        f"Disk, estimated: {fmt.size(seen.disk)}; {fmt.size(seen.disk_free)} are free",
        f"Time: {time}" + (f", {seen.at_once} runs at a time" if seen.at_once > 1 else ""),
    ]
    print("\n".join(lines))
    for said in (*doubts, *plan.warnings(request, about, settings(), seen)):
        print(f"Note: {said}")


def _speed(request: RepairRequest, about: Facts, runs: tuple[RepairRun, ...]) -> tuple[float | None, bool]:
    """(trained tokens a second, whether measured): by this very repair, by another of its model, or as guessed."""
    from headviz.jobs import local
    from headviz.surgery import plan

    if found := plan.measured_speed(runs):
        return found, True
    alike = [
        job.request
        for job in local.list_jobs()
        if job.state == "done"
        and isinstance(job.request, RepairRequest)
        and (job.request.model, job.request.threads) == (request.model, request.threads)
    ]
    reports = (report for one in alike if isinstance(report := local.result(one), RepairReport))
    bands = local.result(BandsRequest(model=request.model, data=plan.chosen_on(request.diagnose)))
    return plan.speed_here(request, about, reports, bands if isinstance(bands, Bands) else None)


def _tell(args: argparse.Namespace, request: RepairRequest, report: RepairReport, digest: str) -> None:
    from headviz.surgery.layouts import treat
    from headviz.surgery.report_tree import as_text, report_tree

    tree = report_tree(request, report, job=digest)
    if args.out:
        Path(args.out).write_text(as_text(tree), encoding="utf-8")
    told = treat(request.heads, report.geometry).notes  # said before it began
    for note in report.provenance.notes if not args.quiet else ():
        if note not in told:
            print(f"Note: {note.rstrip('.')}.", file=sys.stderr)
    print("\n".join(summary(tree)))
