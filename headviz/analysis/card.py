"""What lies in a written checkpoint beside weights and tokenizer: which heads, from which model, and a page that says so."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import transformers

from headviz.analysis.choose import HeadSet
from headviz.analysis.headfile import write_heads
from headviz.analysis.written import HEADS_FILE, add_terms
from headviz.data import corpora
from headviz.types import CheckpointRequest


def add_files(request: CheckpointRequest, loaded: Any, folder: Path, source: Path) -> None:
    """The head set, as a file that can be read back for the original model, and the original's licence files."""
    chosen = HeadSet(heads=request.heads, geometry=loaded.geometry)
    how = {"written_with": "smaller checkpoint" if request.smaller else "checkpoint with W_O columns zero"}
    text = write_heads(chosen, model=request.model.name, revision=request.model.revision, how=how)
    (folder / HEADS_FILE).write_text(text, encoding="utf-8")
    add_terms(source, folder)


def text(request: CheckpointRequest, kept: Any, found: dict[str, Any]) -> str:
    """README.md, Markdown. `kept`: label, geometry and parameters of the original; `found`: the report's figures."""
    shape, count = kept.geometry, len(request.heads)
    total = shape.layers * shape.heads
    hub = f"---\nbase_model: {request.model.name}\n---\n\n" if request.model.source == "hub" else ""
    if request.smaller:
        done = (
            f"{count} of {total} query heads are left out with their keys and values: whole KV groups, as many in every "
            "layer. Zeroing them gives the same numbers; leaving them out also saves their memory and time."
        )
    else:
        done = (
            f"The columns of the output projection W_O that belong to {count} of {total} query heads are zero, so these "
            "heads add nothing. Nothing else was changed, and nothing got smaller or faster."
        )
    lines = [
        f"{hub}# {kept.label} without {count} of its heads",
        done,
        f"Made from `{request.model.name}` at `{request.model.revision}`, in {request.model.dtype}. Which heads: "
        f"[{HEADS_FILE}]({HEADS_FILE}). It loads like any checkpoint: "
        "`AutoModelForCausalLM.from_pretrained(folder)`.",
        f"Checked on {corpora.describe(request.data)}, loaded with transformers {transformers.__version__}: logits differ by "
        f"at most {found['difference']:.2g} from those of the model with the heads switched off ({found['rounding']:.2g} "
        f"with nothing off, which is rounding), over {found['compared']:,} tokens. Loss {found['loss_before']:.4f} nats a "
        f"token before, {found['loss_after']:.4f} after. Parameters {kept.parameters:,} before, "
        f"{found['parameters_after']:,} after.",
    ]
    for speed in found["speeds"]:
        lines.append(
            f"{speed.doing.capitalize()} {speed.tokens} tokens: {median(speed.before):.1f} tokens a second before, "
            f"{median(speed.after):.1f} after (medians of {len(speed.before)} turns on one machine)."
        )
    return "\n\n".join(lines) + "\n"
