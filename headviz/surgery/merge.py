"""A finished run as an ordinary checkpoint, or on a loaded model: what a worker and the command line run.

    run_repaired(request, resources)            among the models of this machine: it is in the list afterwards
    write_repaired(request, files, resources, folder)
    with applied(loaded, paths): ...            the loaded model with the slices of some files

The trained slices are written into the weights of the unquantised model, in its own number format, so plain `from_pretrained`
loads what comes of it. Of a repair over 8 or 4 bits both losses are told: of the job's model, and of the checkpoint.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headviz.analysis import written
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import ensure_checked
from headviz.analysis.written import largest, plainly, probed, see
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import BadInput
from headviz.models import catalog, export, local, memory
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.settings import Settings
from headviz.surgery import card, enclosures, outcomes, progress, slices, texts
from headviz.surgery.kept import slice_files
from headviz.surgery.layouts import treat
from headviz.surgery.planfile import write_plan
from headviz.surgery.restore import restored
from headviz.surgery.slicefile import SliceFile, in_order, read_slices
from headviz.types import RepairedCheckpoint, RepairedRequest, RepairReport, RepairRequest, canonical

_SPARE = 1.1  # of the model's memory, for a second one beside it
_SAYS_WHOLE = "with the trained slices"


def run_repaired(request: RepairedRequest, resources: Any) -> RepairedCheckpoint:
    """Write the checkpoint among those of this machine. Raises BadInput, BadData, Failure, Cancelled."""
    files = [read_slices(path) for path in finished_files(request, resources.settings)]
    return write_repaired(request, files, resources, checkpoint_folder(request, files, resources.settings))


def finished_files(request: RepairedRequest, settings: Settings) -> list[Path]:
    """The slices of a run that has ended, a file a pass, first pass first. Raises BadInput where there is none.

    The best of every pass before the last one, for another pass begins there; of the last one its best or its last step.
    """
    place = progress.folder(settings, request.repair)
    paths = slice_files(place, request.arm, request.seed, request.point)
    if not paths or not progress.ended(paths[-1].parent):
        raise BadInput(
            f"The repair {request.repair[:12]} has no finished run of the arm {request.arm!r} with seed {request.seed} on this "
            "machine. Choose another arm or seed, or wait until it has ended."
        )
    return paths


def checkpoint_folder(request: RepairedRequest, files: Sequence[SliceFile], settings: Settings) -> Path:
    """Where the checkpoint goes: named by the model, how many heads, the arm, and eight digits of which run and step."""
    digits = hashlib.sha256(canonical(request)).hexdigest()[:8]
    name = f"{catalog.short(files[0].plan.model)}-{len(_heads(files))}-{request.arm}-{digits}"
    return local.checkpoints(settings) / name


def write_repaired(
    request: RepairedRequest, files: Sequence[SliceFile], resources: Any, target: Path
) -> RepairedCheckpoint:
    """Write the checkpoint to the folder `target`, which is replaced where it is a checkpoint of ours.

    files: slices of every pass of one run. Raises BadInput, BadData, Failure, Cancelled.
    """
    files = in_order(files)
    started, watch, plan = time.perf_counter(), resources.watch, files[0].plan
    written.refuse_folder(target)
    inputs, loss_job = None, None
    if plan.model.quantization != "none":  # its own loss, before the model goes
        loaded = resources.model(plan.model)
        inputs = _report_part(plan, loaded, resources)
        with restored(loaded, files), probe(loaded.model, want=(), watch=watch) as watching:
            loss_job = see(probed(watching), loaded, inputs, watch, "running the job's model").loss
        loaded = None
    model = replace(plan.model, quantization="none")
    loaded = resources.model(model)
    inputs = inputs if inputs is not None else _report_part(plan, loaded, resources)
    ensure_checked(loaded, inputs, watch)
    kept = SimpleNamespace(  # what is left to know of the model where it must go to make room
        device=loaded.device,
        self_check=loaded.self_check,
        geometry=loaded.geometry,
        label=catalog.label(model),
    )
    with written.whole(target) as folder:
        _write(loaded, files, folder, resources)
        loaded = None
        found = _compared(model, files, folder, inputs, resources)
        if loss_job is not None:
            found["loss_job"] = loss_job
        known = _known(request, plan, resources)
        watch.step("drawing the pictures of the card")
        beside = enclosures.enclosures(plan, request.repair, known, files[0].arm, files[0].seed)
        for name, data in beside.items():
            (folder / name).write_bytes(data)
        (folder / "README.md").write_text(card.text(files, kept, found, known, beside), encoding="utf-8")
    return RepairedCheckpoint(
        name=target.name,
        revision=local.pin(target, resources.settings, watch),
        arm=files[0].arm,
        seed=files[0].seed,
        step=files[-1].step,
        heads=_heads(files),
        files=written.saved_files(target, resources.settings, watch),
        geometry=kept.geometry,
        provenance=provenance(request, kept, started, inputs.notes),
        **found,
    )


def merged(loaded: Any, files: Sequence[SliceFile]) -> slices.State:
    """The model's state dict with the slices of all passes in their places; what is not touched is shared, not copied."""
    state = dict(loaded.model.state_dict())
    for file in files:
        state = slices.written(state, file.tensors, treat(file.heads, loaded.geometry))
    return state


@contextmanager
def applied(loaded: Any, paths: Sequence[Path | str]) -> Iterator[Any]:
    """The loaded model with the slices of these files, the passes of one run, inside the block; afterwards it is as it was.

    Raises BadInput where they belong to another model or a pass is missing, BadData for files that are none of ours.
    """
    files = in_order([read_file(Path(path)) for path in paths])
    for file in files:
        if (loaded.ref.name, loaded.ref.revision) != (file.plan.model.name, file.plan.model.revision):
            raise BadInput(
                f"The slices belong to {catalog.label(file.plan.model)}, and {catalog.label(loaded.ref)} is loaded. Load that "
                "model."
            )
    with restored(loaded, files):
        yield loaded


def read_file(path: Path) -> SliceFile:
    """`read_slices` of a path that a person gave. Raises BadInput where there is no file."""
    try:
        return read_slices(path)
    except FileNotFoundError:
        raise BadInput(f"There is no file {path.name!r} at {path.parent}. Check the path.") from None


# ------------------------------------------------------------------------------------------------------------ inside


def _heads(files: Sequence[SliceFile]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({head for file in files for head in file.heads}))


def _known(request: RepairedRequest, plan: RepairRequest, resources: Any) -> outcomes.Found:
    """The repair's report; what its folder holds where there is none, as while other arms of it run."""
    report = resources.answer(request.repair)
    if isinstance(report, RepairReport):
        return report
    return progress.so_far(resources.settings, request.repair, plan)


def _report_part(plan: Any, loaded: Any, resources: Any) -> Inputs:
    longest = context_length(loaded.model.config)
    held_out = build_inputs(
        plan.held_out, loaded.tokenizer, resources.settings, resources.watch, context_length=longest
    )
    return texts.parted(held_out)[1]


def _write(loaded: Any, files: Sequence[SliceFile], folder: Path, resources: Any) -> None:
    watch, plan = resources.watch, files[0].plan
    watch.step("putting the slices into the weights")
    state = merged(loaded, files)
    written.check_room(state, folder)
    watch.step("writing the checkpoint")
    export.write(loaded, state, folder)
    (folder / written.PLAN_FILE).write_text(write_plan(plan, note=card.note(files)), encoding="utf-8")
    written.add_terms(catalog.locate(loaded.ref, resources.settings, watch), folder)


def _compared(
    model: Any, files: Sequence[SliceFile], folder: Path, inputs: Inputs, resources: Any
) -> dict[str, Any]:
    """Fields of the report that come from loading the checkpoint again. Raises Failure where it differs."""
    loaded, watch = resources.model(model), resources.watch
    stock = see(plainly(loaded.model), loaded, inputs, watch, "running the model")
    with probe(loaded.model, want=(), watch=watch) as watching:
        rounding = largest(stock, see(probed(watching), loaded, inputs, watch, "running the model"))
    loss_stock, stock = stock.loss, None
    with restored(loaded, files), probe(loaded.model, want=(), watch=watch) as watching:
        job = see(probed(watching), loaded, inputs, watch, "running the model with its slices")
    like = SimpleNamespace(dtype=loaded.model.dtype, device=loaded.device)
    if memory.available(loaded.device) <= _SPARE * loaded.model.get_memory_footprint():
        resources.forget()
    loaded = None
    watch.step("loading the checkpoint with plain transformers")
    saved = export.reload(folder, like)
    holder = SimpleNamespace(model=saved, device=like.device)
    after = see(plainly(saved), holder, inputs, watch, "running the checkpoint")
    difference, scale = largest(after, job), float(job.logits.abs().max())
    written.check_same(
        difference, rounding, scale, like.dtype, after.loss, job.loss, job.loss - loss_stock, _SAYS_WHOLE
    )
    return {
        "difference": difference,
        "rounding": rounding,
        "compared": len(job.logits),
        "loss_stock": loss_stock,
        "loss_job": job.loss,
        "loss_after": after.loss,
    }
