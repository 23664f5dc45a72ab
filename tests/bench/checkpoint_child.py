"""One smaller checkpoint of the benchmark, written and timed in a process of its own; prints JSON."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median

from headviz.jobs.run import prepare_process
from headviz.settings import settings

if __name__ == "__main__":
    THREADS = prepare_process(settings())  # before torch, as the worker does

import torch
import transformers

from headviz.analysis.checkpoint import write_checkpoint
from headviz.data import corpora
from headviz.jobs.resources import Resources
from headviz.models import catalog
from headviz.types import CheckpointRequest
from tests.checkpoints import letters

QWEN2 = {
    "vocab_size": 32_000,
    "hidden_size": 768,
    "intermediate_size": 3_072,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2_048,
    "tie_word_embeddings": True,
}
# case → model, KV groups that go in every layer, how it is called
CASES = {
    "qwen2-quarter": ("qwen2", 1, "Qwen2's shape, 1 of 4 KV groups left out"),
    "qwen2-half": ("qwen2", 2, "Qwen2's shape, 2 of 4 KV groups left out"),
    "smollm2-third": ("smollm2", 1, "SmolLM2-135M, 1 of 3 KV groups left out"),
}


def random_model(folder: Path) -> Path:
    torch.manual_seed(0)
    config = transformers.Qwen2Config(**QWEN2)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    letters().save_pretrained(folder)
    return folder


def measured(case: str, place: Path) -> dict:
    name, gone, title = CASES[case]
    if name != "smollm2":  # nothing of a random model belongs into the person's own folder
        os.environ["HEADVIZ_HOME"] = str(place / "home")
        settings.cache_clear()
        name = str(random_model(place / "random"))
    here = replace(settings(), device="cpu")
    ref = catalog.resolve(name, dtype="float32", settings=here, allow_paths=True)
    resources = Resources(here, THREADS)
    shape = resources.model(ref).geometry
    size = shape.heads // shape.kv_heads
    heads = tuple((layer, head) for layer in range(shape.layers) for head in range(gone * size))
    text = corpora.resolve("docstrings", inputs=2, tokens=256, settings=here)
    request = CheckpointRequest(model=ref, heads=heads, smaller=True, data=text)
    report = write_checkpoint(request, resources, place / "made")
    return {
        "title": title,
        "speeds": [
            (f"{s.doing} {s.tokens} tokens", median(s.before), median(s.after)) for s in report.speeds
        ],
        "before": round(report.parameters_before / 1e6, 1),
        "after": round(report.parameters_after / 1e6, 1),
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measured(sys.argv[1], Path(folder))))
