"""Write a model without some heads as a checkpoint, and hold the checkpoint against the model: what a worker runs.

The folder appears whole or not at all: it is written under another name, loaded from there by plain transformers,
compared, and only then given its own name.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from headviz.analysis import card, written
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import ensure_checked
from headviz.analysis.switching import check
from headviz.analysis.written import largest, plainly, probed, see
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import BadInput, UnsupportedModel
from headviz.models import catalog, export, gate, local, memory, speed
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.smaller import why_not
from headviz.types import Ablation, CheckpointReport, CheckpointRequest, Speed, Watch

_PROMPT, _NEW = 256, 16  # tokens read, and written, while timing
_SPARE = 1.1  # of the model's memory, for a second one beside it


def run_checkpoint(request: CheckpointRequest, resources: Any) -> CheckpointReport:
    """Write the checkpoint among those of this machine. Raises BadInput, UnsupportedModel, Failure, Cancelled."""
    return write_checkpoint(request, resources, catalog.checkpoint_folder(request, resources.settings))


def write_checkpoint(request: CheckpointRequest, resources: Any, target: Path) -> CheckpointReport:
    """Write the checkpoint to the folder `target`, which is replaced where it is there already."""
    started, watch = time.perf_counter(), resources.watch
    _refuse_quantised(request)
    written.refuse_folder(target)
    loaded = resources.model(request.model)
    _refuse_heads(request, loaded)
    longest = context_length(loaded.model.config)
    inputs = build_inputs(request.data, loaded.tokenizer, resources.settings, watch, context_length=longest)
    if int(inputs.lengths.max()) < 2:
        raise BadInput("No input has a second token, so there is nothing to compare. Ask for longer inputs.")
    ensure_checked(loaded, inputs, watch)
    kept = SimpleNamespace(  # what is left to know of the model where it must go to make room
        device=loaded.device,
        self_check=loaded.self_check,
        geometry=loaded.geometry,
        label=catalog.label(request.model),
        parameters=sum(weight.numel() for weight in loaded.model.parameters()),
    )
    with written.whole(target) as folder:
        _write(request, loaded, folder, resources)
        del loaded  # so that it can be let go where the checkpoint needs its room
        report, notes = _compared(request, folder, inputs, resources)
        (folder / "README.md").write_text(card.text(request, kept, report), encoding="utf-8")
    return CheckpointReport(
        name=target.name,
        revision=local.pin(target, resources.settings, watch),
        smaller=request.smaller,
        off=len(request.heads),
        files=written.saved_files(target, resources.settings, watch),
        parameters_before=kept.parameters,
        geometry=kept.geometry,
        provenance=provenance(request, kept, started, (*inputs.notes, *notes)),
        **report,
    )


def _refuse_quantised(request: CheckpointRequest) -> None:
    if request.model.quantization != "none":
        raise UnsupportedModel(
            f"A checkpoint is written from unquantised weights, and {catalog.label(request.model)} is loaded in "
            f"{request.model.quantization}. Choose quantisation none: the head set stays the same."
        )


def _refuse_heads(request: CheckpointRequest, loaded: Any) -> None:
    check(Ablation(mode="static", heads=request.heads), loaded.geometry)
    if not request.heads:
        raise BadInput(
            "No head is off, so the checkpoint would be the model itself. Choose at least one head."
        )
    if request.smaller and (why := why_not(request.heads, loaded.geometry)):
        raise UnsupportedModel(why)


def _write(request: CheckpointRequest, loaded: Any, folder: Path, resources: Any) -> None:
    watch = resources.watch
    watch.step("taking the heads out")
    state, config = (
        export.sliced(loaded, request.heads)
        if request.smaller
        else (export.zeroed(loaded, request.heads), None)
    )
    written.check_room(state, folder)
    watch.step("writing the checkpoint")
    export.write(loaded, state, folder, config)
    card.add_files(request, loaded, folder, catalog.locate(request.model, resources.settings, watch))


# ------------------------------------------------------------------------------------------- held against the model


def _compared(
    request: CheckpointRequest, folder: Path, inputs: Inputs, resources: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of the report that come from loading the checkpoint again, and notes. Raises Failure where it differs."""
    loaded, watch = resources.model(request.model), resources.watch
    stock = see(plainly(loaded.model), loaded, inputs, watch, "running the model")
    with probe(loaded.model, want=(), watch=watch) as watching:
        rounding = largest(stock, see(probed(watching), loaded, inputs, watch, "running the model"))
    loss_before, stock = stock.loss, None
    gates = gate.without(request.heads, loaded.geometry.layers, loaded.geometry.heads)
    with probe(loaded.model, want=(), gates=gates, watch=watch) as watching:
        off = see(probed(watching), loaded, inputs, watch, "running the model with heads off")
    both = memory.available(loaded.device) > _SPARE * loaded.model.get_memory_footprint()
    notes = ()
    like = SimpleNamespace(dtype=loaded.model.dtype, device=loaded.device)
    if not both:
        resources.forget()
        loaded = None
        notes = (
            "tokens a second were not measured: the model and the checkpoint do not fit into memory together",
        )
    watch.step("loading the checkpoint with plain transformers")
    saved = export.reload(folder, like)
    holder = SimpleNamespace(model=saved, device=like.device)
    after = see(plainly(saved), holder, inputs, watch, "running the checkpoint")
    found = {
        "difference": largest(after, off),
        "rounding": rounding,
        "same_next": float((after.logits.argmax(-1) == off.logits.argmax(-1)).float().mean()),
        "compared": len(off.logits),
        "loss_before": loss_before,
        "loss_off": off.loss,
        "loss_after": after.loss,
        "parameters_after": sum(weight.numel() for weight in saved.parameters()),
    }
    written.check_same(
        found["difference"],
        rounding,
        float(off.logits.abs().max()),
        like.dtype,
        after.loss,
        off.loss,
        off.loss - loss_before,
        "with these heads off",
    )
    speeds = _speeds(loaded.model, saved, inputs, like.device, watch) if both else ()
    return found | {"speeds": speeds}, notes


def _speeds(before: Any, after: Any, inputs: Inputs, device: str, watch: Watch) -> tuple[Speed, ...]:
    row = int(np.argmax(inputs.lengths))
    n = min(int(inputs.lengths[row]), _PROMPT)
    new = min(_NEW, (context_length(before.config) or n + _NEW) - n) or 1
    n = min(n, (context_length(before.config) or n + new) - new)
    prompt = torch.from_numpy(inputs.tokens[row : row + 1, :n].astype(np.int64)).to(device)
    reading, writing = speed.take_turns((before, after), prompt, new, watch)
    return tuple(
        Speed(doing=doing, tokens=count, before=tuple(times[0]), after=tuple(times[1]))
        for doing, count, times in (("reading", n, reading), ("writing", new, writing))
    )
