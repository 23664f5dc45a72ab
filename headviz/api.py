"""The library for a notebook: the same answers as the pages, without jobs and without a store.

model = headviz.load("smollm2", dtype="float32")
table = headviz.score_heads(model, corpus="docstrings", inputs=8, tokens=256)
table = headviz.score_heads(model, texts=["Attention heads differ. Some do nothing."])
table.mean("ahon_ln")                  # (L, H)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from headviz.data import corpora, own_text
from headviz.errors import BadInput
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import ScoreRequest, ScoreTable, Silent, Watch

if TYPE_CHECKING:
    from headviz.models.loading import Loaded


def load(
    name: str = "smollm2",
    *,
    revision: str = "",
    dtype: str = "auto",
    quantization: str = "none",
    device: str = "auto",
    watch: Watch | None = None,
) -> Loaded:
    """A causal language model whose heads can be scored.

    name:         `smollm2` (bundled), a hub id, or the path of a folder with config, safetensors and tokenizer
    revision:     branch, tag or commit on the hub; pinned to a commit
    dtype:        `auto` (bfloat16 where the machine is fast at it), `float32`, `bfloat16`, `float16`
    quantization: `none`, `8bit`, `4bit`; on a GPU with bitsandbytes
    device:       `auto`, `cpu`, `cuda`, `cuda:1` …
    Raises the sentences of `headviz.errors`: ModelNotFound, GatedModel, UnsupportedModel, UnsafeModel, NotEnoughMemory …
    """
    from headviz.models.loading import load as load_model

    ref = catalog.resolve(
        name,
        revision=revision,
        dtype=dtype,
        quantization=quantization,
        settings=settings(),
        allow_paths=True,
    )
    return load_model(ref, device=device, watch=watch or Silent())


def with_slices(model: Loaded, *files: str | Path) -> AbstractContextManager[Loaded]:
    """The model with the trained slices of a repair inside the `with` block; afterwards it is as it was, bit for bit.

    files: what `headviz export JOB DIR --slices` wrote, of every pass
    Raises BadInput where they belong to another model or a pass is missing, BadData for files that are none of headviz.
    """
    from headviz.surgery.merge import applied

    return applied(model, files)


def score_heads(
    model: Loaded | str,
    texts: Sequence[str] | None = None,
    *,
    text: str = "",
    data_revision: str = "",
    watch: Watch | None = None,
    **data: Any,
) -> ScoreTable:
    """Every score of every head, input by input: `table.mean("ahon_ln")` is (L, H).

    model: from `load`, or a name for it
    texts: your own documents, cut into inputs of `tokens` tokens from their start
    text:  instead, the sha256 under which headviz keeps a text that was given before
    data_revision: commit of a hub data set; empty for the newest
    data:  otherwise the arguments of `headviz.data.corpora.resolve`: corpus, part, inputs, tokens, seed, bos, chat
           (and dataset, config, split, column for corpus "hub")
    Raises BadInput for data that cannot be scored, Failure where the statistics cannot be trusted.
    """
    from headviz.analysis.scoring import run_score

    if texts is not None and text:
        raise BadInput("Give either texts or text, not both.")
    loaded = load(model) if isinstance(model, str) else model
    if texts is not None:
        lines = "\n".join(json.dumps({"text": document}) for document in texts)
        text = own_text.import_text(
            lines.encode(), "texts.jsonl", column="text", settings=settings()
        ).revision
    if text:
        data |= {"corpus": "own", "revision": text, "part": "all"}
    ref = corpora.resolve(settings=settings(), **{"corpus": "docstrings", "revision": data_revision, **data})
    resources = SimpleNamespace(
        model=lambda _: loaded, watch=watch or Silent(), settings=settings(), threads=settings().threads
    )
    return run_score(ScoreRequest(model=loaded.ref, data=ref), resources)
