"""`headviz checkpoint`: the model without some heads, as a checkpoint that plain transformers loads."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from headviz.commands.common import (
    Terminal,
    add_data,
    add_model,
    check_lengths,
    data_ref,
    model_ref,
    read_bytes,
)
from headviz.types import CheckpointReport, CheckpointRequest, ModelRef

if TYPE_CHECKING:
    from headviz.analysis.choose import HeadSet


def options(to: argparse.ArgumentParser) -> None:
    add_model(to)
    add = to.add_argument
    add("--heads", required=True, metavar="FILE", help="head set: the JSON that the page or a command wrote")
    add(
        "--smaller",
        action="store_true",
        help="leave the heads out instead of zeroing them: whole KV groups, as many in every layer",
    )
    add("--out", metavar="DIR", help="folder to write (default: a new one in HEADVIZ_HOME/checkpoints)")
    add_data(to, inputs=4)
    add("--quiet", action="store_true", help="no progress")
    to.set_defaults(tokens=128)


def run(args: argparse.Namespace) -> int:
    """Write the model without some heads as a checkpoint, and compare it with the model."""
    from headviz.models import local
    from headviz.settings import settings

    watch = Terminal(args.quiet)
    try:
        model, data = model_ref(args), data_ref(args)
        check_lengths(model, data)
        chosen = head_set(model, read_bytes(args.heads), watch)
        request = CheckpointRequest(model=model, heads=chosen.heads, smaller=args.smaller, data=data)
        report = _elsewhere(request, args.out, watch) if args.out else _at_home(request, watch)
    finally:
        watch.close()
    place = Path(args.out).resolve() if args.out else local.checkpoints(settings()) / report.name
    if not args.quiet:
        print(sentence(report), file=sys.stderr)
        for note in report.provenance.notes:
            print(f"Note: {note}.", file=sys.stderr)
    print(place)
    return 0


def head_set(model: ModelRef, content: bytes, watch: Terminal) -> HeadSet:
    """The set of a file, for this model, whose shape is read from its config. Raises BadInput."""
    from headviz.analysis.headfile import read_heads
    from headviz.models import catalog
    from headviz.models.architectures import geometry
    from headviz.models.checks import read_config
    from headviz.settings import settings

    folder = catalog.locate(model, settings(), watch)
    shape = geometry(read_config(folder, catalog.label(model)))
    return read_heads(content, model=model.name, revision=model.revision, geometry=shape)


def _at_home(request: CheckpointRequest, watch: Terminal) -> CheckpointReport:
    """Among the checkpoints of this machine, as a job: the page knows it too, and it is not written twice."""
    from headviz.jobs import local as jobs
    from headviz.jobs.kinds import job_digest
    from headviz.models import local
    from headviz.settings import settings

    report = jobs.run_here(request, watch)
    if not (local.checkpoints(settings()) / report.name).is_dir():  # somebody removed it since
        jobs.store().prune(digests=(job_digest(request),))
        report = jobs.run_here(request, watch)
    return report


def _elsewhere(request: CheckpointRequest, out: str, watch: Terminal) -> CheckpointReport:
    """In a folder of the person's own, in this process: no request and no job ever names a path."""
    from headviz.jobs.resources import Resources
    from headviz.jobs.run import prepare_process
    from headviz.settings import settings

    resources = Resources(settings(), prepare_process(settings()))
    resources.watch = watch
    from headviz.analysis.checkpoint import write_checkpoint  # torch: after the process is prepared

    return write_checkpoint(request, resources, Path(out).resolve())


def sentence(report: CheckpointReport) -> str:
    """What was written and how it compares, in one line."""
    from headviz.charts import fmt

    told = (
        f"{fmt.size(report.bytes)} without {report.off} heads; loaded again, its logits differ by at most "
        f"{report.difference:.2g} from the model's with these heads off (rounding {report.rounding:.2g}); loss "
        f"{report.loss_before:.4f} → {report.loss_after:.4f} nats; parameters {report.parameters_before:,} → "
        f"{report.parameters_after:,}"
    )
    for speed in report.speeds:
        told += f"; {speed.doing} {median(speed.before):.1f} → {median(speed.after):.1f} tokens a second"
    return told + "."
