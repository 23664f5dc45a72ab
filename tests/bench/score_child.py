"""One measurement of the score benchmark, in a process of its own; prints JSON."""

from __future__ import annotations

import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from headviz.models import steady

if sys.argv[1:2] == ["memory"]:
    # every block comes from the system and goes back to it, or a pass would be charged for holes that loading left
    if mallopt := steady.mallopt():
        mallopt(steady.MMAP_THRESHOLD, 128 * 1024)
else:
    steady.steady_memory()  # before torch, as the worker does

import numpy as np
import psutil
import torch

from headviz.analysis.metrics import METRICS, statistics_for
from headviz.data import corpora
from headviz.data.inputs import build_inputs
from headviz.models import catalog, loading
from headviz.models.attention import probe
from headviz.settings import settings
from headviz.types import Silent

TWELVE = tuple(name for name, row in METRICS.items() if not row.extra)
NO_ENTROPY = tuple(name for name in TWELVE if not name.startswith("aeqd"))


def bundled(dtype: str, B: int, T: int) -> tuple[torch.nn.Module, torch.Tensor]:
    """The bundled model with stock SDPA attention, and B inputs of T tokens of held-out docstrings."""
    here = settings()
    loaded = loading.load(catalog.resolve("smollm2", dtype=dtype, settings=here), device="cpu")
    ref = corpora.resolve("docstrings", inputs=B, tokens=T, settings=here)
    inputs = build_inputs(ref, loaded.tokenizer, here, Silent())
    ids = torch.from_numpy(inputs.tokens.astype("int64"))
    if tuple(ids.shape) != (B, T):
        raise SystemExit(f"the corpus gave inputs of {tuple(ids.shape)}, not {(B, T)}")
    loaded.model.set_attn_implementation("sdpa")
    return loaded.model, ids


def scoring(model: torch.nn.Module, ids: torch.Tensor, metrics: tuple[str, ...]) -> Callable[[], None]:
    def run() -> None:
        with probe(model, want=statistics_for(metrics) if metrics else ()) as watching:
            statistics = watching.run(ids)
        for name in metrics:
            METRICS[name].compute(statistics)

    return run


def plain(model: torch.nn.Module, ids: torch.Tensor, **more: bool) -> Callable[[], None]:
    return lambda: model.base_model(input_ids=ids, use_cache=False, **more)


def eager(model: torch.nn.Module, ids: torch.Tensor, *, scores: bool = False) -> Callable[[], None]:
    """A forward pass that returns the matrices; with `scores`, AWFT and entropy are computed from them too."""

    def run() -> None:
        model.set_attn_implementation("eager")
        try:
            attentions = model.base_model(input_ids=ids, use_cache=False, output_attentions=True).attentions
            for A in attentions if scores else ():  # (B, H, T, T)
                A[..., 0].float().mean(-1)
                torch.special.entr(A.float()).sum(-1).mean(-1)
        finally:
            model.set_attn_implementation("sdpa")

    return run


def take_turns(runs: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run, by name; all have run once before the clock starts."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - started)
    return times


def peak(run: Callable[[], None]) -> float:
    """GB that the process grows by while `run` runs, at the most.

    Linux keeps the high-water mark itself; elsewhere a thread looks now and then (rarely: it would disturb the heap).
    """
    process, most, done = psutil.Process(), 0, threading.Event()
    marks = Path("/proc/self/clear_refs")
    gc.collect()
    before = process.memory_info().rss
    if marks.exists():
        marks.write_text("5")  # from here on
        run()
        status = Path("/proc/self/status").read_text()
        most = 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
        return round((most - before) / 1e9, 4)

    def look() -> None:
        nonlocal most
        while not done.wait(0.05):
            most = max(most, process.memory_info().rss)

    thread = threading.Thread(target=look)
    thread.start()
    run()
    done.set()
    thread.join()
    return round((max(most, process.memory_info().rss) - before) / 1e9, 4)


def times(dtype: str, repeats: str) -> dict[str, list[float]]:
    model, ids = bundled(dtype, 4, 1024)
    runs = {
        "plain SDPA forward": plain(model, ids),
        "twelve scores": scoring(model, ids, TWELVE),
        "scores without entropy": scoring(model, ids, NO_ENTROPY),
        "all fifteen scores": scoring(model, ids, tuple(METRICS)),
    }
    return take_turns(runs, int(repeats))


def eager_times(dtype: str, repeats: str) -> dict[str, list[float]]:
    model, ids = bundled(dtype, 4, 1024)
    runs = {
        "twelve scores": scoring(model, ids, TWELVE),
        "forward": eager(model, ids),
        "scores": eager(model, ids, scores=True),
    }
    return take_turns(runs, int(repeats))


def memory(dtype: str, B: str, T: str, what: str) -> float:
    model, ids = bundled(dtype, int(B), int(T))
    kinds = {"ours": lambda x: scoring(model, x, TWELVE), "plain": lambda x: plain(model, x)}
    kind = kinds.get(what, lambda x: eager(model, x))
    kind(ids[:1, :8])()  # code and tables that are loaded on first use
    return peak(kind(ids))


def bloom(dtype: str, repeats: str) -> dict[str, list[float]]:
    from transformers import AutoModelForCausalLM, BloomConfig

    config = BloomConfig(vocab_size=1000, hidden_size=1024, n_head=16, n_layer=4)  # 560m has 24 layers
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
    ids = torch.randint(1000, (2, 1024))
    runs = {
        "stock": plain(model, ids),
        "our attention": scoring(model, ids, ()),
        "twelve scores": scoring(model, ids, TWELVE),
    }
    return take_turns(runs, int(repeats))


def nearness() -> dict[str, list[float]]:
    """Worst head's mean AWFT and entropy: probe bf16 to stock bf16, probe bf16 to float32, stock bf16 to float32."""
    model, ids = bundled("float32", 4, 256)

    def probed() -> list[np.ndarray]:
        with probe(model, want=("sink", "entropy")) as watching:
            found = watching.run(ids)
        return [found[name].mean(0) for name in ("sink", "entropy")]  # (L, H) each

    def stock() -> list[np.ndarray]:
        model.set_attn_implementation("eager")
        total = torch.zeros(2, len(model.model.layers), model.config.num_attention_heads, dtype=torch.float64)
        for row in ids:
            A = torch.cat(
                model.base_model(row[None], use_cache=False, output_attentions=True).attentions
            ).double()
            total += torch.stack([A[..., 0].mean(-1), torch.special.entr(A).sum(-1).mean(-1)]) / len(ids)
        return list(total.numpy())

    exact = probed()
    model.to(torch.bfloat16)
    ours, theirs = probed(), stock()
    pairs = {
        "probe to stock": (ours, theirs),
        "probe to float32": (ours, exact),
        "stock to float32": (theirs, exact),
    }
    return {
        name: [round(float(np.abs(a - b).max()), 5) for a, b in zip(one, other)]
        for name, (one, other) in pairs.items()
    }


JOBS = {"times": times, "eager-times": eager_times, "memory": memory, "bloom": bloom, "nearness": nearness}

if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
