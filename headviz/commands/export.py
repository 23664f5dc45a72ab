"""`headviz export`: a finished repair as a checkpoint that plain transformers loads, or its trained slices alone."""

from __future__ import annotations

import argparse
import filecmp
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.commands.common import Terminal
from headviz.errors import BadInput, Failure
from headviz.surgery.arms import ARMS
from headviz.types import RepairedCheckpoint, RepairedRequest

if TYPE_CHECKING:
    from headviz.surgery.slicefile import SliceFile


def options(to: argparse.ArgumentParser) -> None:
    add = to.add_argument
    add(
        "job",
        metavar="JOB",
        help="id of a repair, or its first digits; or a file or folder of slices that --slices wrote",
    )
    add(
        "folder",
        metavar="DIR",
        help="folder to write: a new one, or a checkpoint of headviz, which is replaced",
    )
    add("--arm", choices=list(ARMS), default="repair", help="which arm (default repair)")
    add("--seed", type=int, help="which seed (default: the plan's first)")
    add(
        "--point",
        choices=["best", "last"],
        default="best",
        help="the best step by the select part (default), or the last",
    )
    add(
        "--slices",
        action="store_true",
        help="the trained slices alone, a small file a pass, with the plan inside",
    )
    add("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Write a repaired model as a checkpoint, or its trained slices alone."""
    from headviz.jobs.resources import Resources
    from headviz.jobs.run import prepare_process
    from headviz.settings import settings

    target = Path(args.folder).resolve()
    resources = Resources(settings(), prepare_process(settings()))
    watch = resources.watch = Terminal(args.quiet)
    try:
        from headviz.surgery.merge import read_file, write_repaired  # torch: after the process is prepared
        from headviz.surgery.slicefile import in_order

        request, paths = _wanted(args)
        read = {path: read_file(path) for path in paths}
        files = in_order(list(read.values()))
        if args.slices:
            written = _copy({file.number: path for path, file in read.items()}, target)
        else:
            report = write_repaired(_named(request, files), files, resources, target)
            written = [target]
            if not args.quiet:
                watch.close()
                print(sentence(report), file=sys.stderr)
    finally:
        watch.close()
    for path in written:
        print(path)
    return 0


def _wanted(args: argparse.Namespace) -> tuple[RepairedRequest, list[Path]]:
    """Which run, and the files of its slices. Raises BadInput."""
    from headviz.settings import settings
    from headviz.surgery import kept
    from headviz.surgery.merge import finished_files

    place = Path(args.job)
    if place.is_file() or (place.is_dir() and any(place.glob("*.safetensors"))):
        if args.seed is not None:
            raise BadInput(
                "--seed chooses among the runs of a repair; a file of slices is one run. Leave it out."
            )
        paths = [place] if place.is_file() else list(place.glob("*.safetensors"))
        return RepairedRequest(repair="", arm=args.arm, point=args.point), paths
    digest = kept.find(args.job, settings())
    seed = kept.plan_of(digest, settings()).seeds[0] if args.seed is None else args.seed
    request = RepairedRequest(repair=digest, arm=args.arm, seed=seed, point=args.point)
    return request, finished_files(request, settings())


def _named(request: RepairedRequest, files: Sequence[SliceFile]) -> RepairedRequest:
    """The request with the repair that the files say themselves."""
    from headviz.jobs.kinds import job_digest

    if request.repair:
        return request
    return RepairedRequest(
        repair=job_digest(files[0].plan), arm=files[0].arm, seed=files[0].seed, point=request.point
    )


def _copy(paths: Mapping[int, Path], target: Path) -> list[Path]:
    """The slices of every pass, as pass-1.safetensors and so on. Nothing is replaced: a folder that is there may only hold what
    would be written. Raises BadInput, Failure."""
    wanted = {target / f"pass-{number}.safetensors": paths[number] for number in sorted(paths)}
    try:
        there = [path for path in target.iterdir() if path.suffix != ".half"] if target.is_dir() else []
        if any(not (path in wanted and filecmp.cmp(path, wanted[path], shallow=False)) for path in there):
            raise BadInput(
                f"{target} is there already and holds other files: it is left alone. Name a new folder."
            )
        target.mkdir(parents=True, exist_ok=True)
        for path, source in wanted.items():
            if path not in there:
                half = path.with_suffix(
                    ".half"
                )  # a copy that is cut short must not stand where a whole one is looked for
                shutil.copyfile(source, half)
                half.replace(path)
        return list(wanted)
    except OSError as error:
        raise Failure(f"The slices could not be written to {target}: {error.strerror or error}.") from error


def sentence(report: RepairedCheckpoint | Any) -> str:
    """What was written and how it compares, in one line."""
    from headviz.charts import fmt

    size = fmt.size(sum(file.bytes for file in report.files))
    return (
        f"{size}, {len(report.heads)} heads treated, step {report.step}; loaded again, its logits differ by at most "
        f"{report.difference:.2g} from the job's model (rounding {report.rounding:.2g}); loss on the report part "
        f"{report.loss_stock:.4f} before surgery, {report.loss_job:.4f} of the job's model, {report.loss_after:.4f} of the "
        "checkpoint."
    )
