"""Write a model without some heads as a checkpoint, and hold the checkpoint against the model: what a worker runs.

The folder appears whole or not at all: it is written under another name, loaded from there by plain transformers,
compared, and only then given its own name.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis import card
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import ensure_checked
from headviz.analysis.switching import check
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import BadInput, Failure, UnsupportedModel
from headviz.models import catalog, export, gate, head, local, memory, speed
from headviz.models.architectures import context_length
from headviz.models.attention import probe
from headviz.models.hashes import file_sha256
from headviz.models.smaller import why_not
from headviz.types import Ablation, CheckpointReport, CheckpointRequest, SavedFile, Speed, Watch

_HELD = 1 << 25  # logits held for the comparison: 128 MB in float32
_PROMPT, _NEW = 256, 16  # tokens read, and written, while timing
_SPARE = 1.1  # of the model's memory, for a second one beside it


def run_checkpoint(request: CheckpointRequest, resources: Any) -> CheckpointReport:
    """Write the checkpoint among those of this machine. Raises BadInput, UnsupportedModel, Failure, Cancelled."""
    return write_checkpoint(request, resources, catalog.checkpoint_folder(request, resources.settings))


def write_checkpoint(request: CheckpointRequest, resources: Any, target: Path) -> CheckpointReport:
    """Write the checkpoint to the folder `target`, which is replaced where it is there already."""
    started, watch = time.perf_counter(), resources.watch
    _refuse_quantised(request)
    _refuse_folder(target)
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
    folder = _fresh(target)
    try:
        _write(request, loaded, folder, resources)
        del loaded  # so that it can be let go where the checkpoint needs its room
        report, notes = _compared(request, folder, inputs, resources)
        (folder / "README.md").write_text(card.text(request, kept, report), encoding="utf-8")
        if target.exists():
            shutil.rmtree(target)
        folder.rename(target)
    except OSError as error:
        raise Failure(
            f"The checkpoint could not be written to {target.parent}: {error.strerror or error}. Free some space, or "
            "choose another folder."
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    files = [path for path in sorted(target.iterdir()) if path.is_file()]
    return CheckpointReport(
        name=target.name,
        revision=local.pin(target, resources.settings, watch),
        smaller=request.smaller,
        off=len(request.heads),
        files=tuple(
            SavedFile(
                name=path.name,
                sha256=file_sha256(path, resources.settings.home, watch),
                bytes=path.stat().st_size,
            )
            for path in files
        ),
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


def _refuse_folder(target: Path) -> None:
    """Only a checkpoint of ours is ever replaced."""
    ours = (target / card.HEADS_FILE).is_file() or (target.is_dir() and not any(target.iterdir()))
    if target.exists() and not ours:
        raise BadInput(
            f"{target} is there already and is no checkpoint of headviz: it is left alone. Name a new folder."
        )


def _refuse_heads(request: CheckpointRequest, loaded: Any) -> None:
    check(Ablation(mode="static", heads=request.heads), loaded.geometry)
    if not request.heads:
        raise BadInput(
            "No head is off, so the checkpoint would be the model itself. Choose at least one head."
        )
    if request.smaller and (why := why_not(request.heads, loaded.geometry)):
        raise UnsupportedModel(why)


def _fresh(target: Path) -> Path:
    """An empty folder beside `target` to write in; what a process that died left there is removed."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in target.parent.glob(f".{target.name}.*"):
            if not _alive(left.suffix[1:]):
                shutil.rmtree(left, ignore_errors=True)
        folder = target.with_name(f".{target.name}.{os.getpid()}")
        folder.mkdir()
    except OSError as error:
        raise Failure(
            f"The checkpoint cannot be written to {target.parent}: {error.strerror or error}. Choose another folder."
        ) from error
    return folder


def _alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return int(pid) != os.getpid()


def _write(request: CheckpointRequest, loaded: Any, folder: Path, resources: Any) -> None:
    watch = resources.watch
    watch.step("taking the heads out")
    state, config = (
        export.sliced(loaded, request.heads)
        if request.smaller
        else (export.zeroed(loaded, request.heads), None)
    )
    need = sum({w.data_ptr(): w.numel() * w.element_size() for w in state.values()}.values())
    free = shutil.disk_usage(folder).free
    if need > 0.98 * free:
        raise Failure(
            f"The checkpoint takes {need / 1e9:.2f} GB, and {free / 1e9:.2f} GB are free in {folder.parent}. Free some "
            "space, or write it to another disk."
        )
    watch.step("writing the checkpoint")
    export.write(loaded, state, folder, config)
    card.add_files(request, loaded, folder, catalog.locate(request.model, resources.settings, watch))


# ------------------------------------------------------------------------------------------- held against the model


@dataclass
class _Seen:
    """logits: (R, V) float32 of the first tokens; loss: nats a token over all inputs."""

    logits: Tensor
    loss: float


def _compared(
    request: CheckpointRequest, folder: Path, inputs: Inputs, resources: Any
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of the report that come from loading the checkpoint again, and notes. Raises Failure where it differs."""
    loaded, watch = resources.model(request.model), resources.watch
    stock = _see(_plainly(loaded.model), loaded, inputs, watch, "running the model")
    with probe(loaded.model, want=(), watch=watch) as watching:
        rounding = _largest(stock, _see(_probed(watching), loaded, inputs, watch, "running the model"))
    loss_before, stock = stock.loss, None
    gates = gate.without(request.heads, loaded.geometry.layers, loaded.geometry.heads)
    with probe(loaded.model, want=(), gates=gates, watch=watch) as watching:
        off = _see(_probed(watching), loaded, inputs, watch, "running the model with heads off")
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
    after = _see(_plainly(saved), holder, inputs, watch, "running the checkpoint")
    found = {
        "difference": _largest(after, off),
        "rounding": rounding,
        "same_next": float((after.logits.argmax(-1) == off.logits.argmax(-1)).float().mean()),
        "compared": len(off.logits),
        "loss_before": loss_before,
        "loss_off": off.loss,
        "loss_after": after.loss,
        "parameters_after": sum(weight.numel() for weight in saved.parameters()),
    }
    _check_difference(found, off, like.dtype)
    speeds = _speeds(loaded.model, saved, inputs, like.device, watch) if both else ()
    return found | {"speeds": speeds}, notes


def _plainly(model: Any) -> Callable[[Tensor], Tensor]:
    return lambda ids: model(input_ids=ids, use_cache=False).logits[0].float()


def _probed(watching: Any) -> Callable[[Tensor], Tensor]:
    return lambda ids: head.logits(watching.model, watching.hidden(ids)[0])


def _see(forward: Callable[[Tensor], Tensor], loaded: Any, inputs: Inputs, watch: Watch, doing: str) -> _Seen:
    """What a model says of the inputs, one at a time; forward: ids (1, T) → logits (T, V)."""
    held: list[Tensor] = []
    total, predicted, N = 0.0, 0, len(inputs.lengths)
    with torch.inference_mode():
        for number, length in enumerate(inputs.lengths):
            watch.step(doing, number, N, "inputs")
            ids = torch.from_numpy(inputs.tokens[number, :length].astype(np.int64)).to(loaded.device)
            logits = forward(ids[None])  # (T, V)
            total += float(torch.nn.functional.cross_entropy(logits[:-1].double(), ids[1:], reduction="sum"))
            predicted += int(length) - 1
            room = _HELD // logits.shape[-1] - sum(map(len, held))
            if room > 0:
                held.append(logits[:room].cpu())
    return _Seen(torch.cat(held), total / predicted)


def _largest(one: _Seen, other: _Seen) -> float:
    return float((one.logits - other.logits).abs().max())


def _check_difference(found: dict[str, Any], off: _Seen, dtype: torch.dtype) -> None:
    """A checkpoint that does not give the model's numbers is none: only rounding of its number format may differ.

    Other shapes are multiplied in another order: 30 layers in float32 gave 1.5e-6 of the largest logit, a head too many
    or too few gives a hundredth of it and more. In 16 bits logits alone are too coarse, so the loss must agree too.
    """
    scale, rounding = float(off.logits.abs().max()), found["rounding"]
    if dtype == torch.float32:
        allowed = max(8 * rounding, 1e-4 * scale)
    else:
        allowed = 8 * (rounding + torch.finfo(dtype).eps * scale)
    apart = abs(found["loss_after"] - found["loss_off"])
    loss_allowed = max(0.02, 0.1 * abs(found["loss_off"] - found["loss_before"]))
    if not (found["difference"] <= allowed and apart <= loss_allowed):
        raise Failure(
            f"The checkpoint was not kept: loaded again, its logits differ by {found['difference']:.3g} and its loss by "
            f"{apart:.3g} from the model's with these heads off, where rounding explains at most {allowed:.3g} and "
            f"{loss_allowed:.3g}. Please report this with the family and the version of transformers."
        )


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
