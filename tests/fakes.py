"""Synthetic results: plausible numbers of the right shapes, without a model. Layer means of LN scores are exactly 1."""

from __future__ import annotations

import numpy as np

from headviz.analysis.metrics import METRICS
from headviz.types import Geometry, HeadPattern, Provenance, ScoreTable

METRIC_IDS = tuple(METRICS)


def fake_provenance(kind: str = "score", **more) -> Provenance:
    """Provenance of a request on the bundled model; `more` adds fields to the request."""
    model = {
        "source": "bundled",
        "name": "SmolLM2-135M-Instruct",
        "revision": "5a1395716f7913741cc51d98581b9b1228d80987a9f7d3664106742eb06bba83",
        "dtype": "bfloat16",
        "quantization": "none",
    }
    data = {
        "corpus": "docstrings", "revision": "9c1f" * 16, "dataset": "", "config": "", "split": "", "column": "",
        "part": "held-out", "inputs": 16, "tokens": 64, "seed": 0, "bos": "tokenizer", "chat": False,
    }  # fmt: skip
    return Provenance(
        request={"model": model, "data": data, **more},
        digest="0123456789abcdef" * 4,
        device="cpu",
        threads=2,
        seconds=1.834,
        finished="2026-05-04T10:11:12+00:00",
        versions={"headviz": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0"},
        self_check={"awft": 2e-4, "entropy": 1e-3, "value_norm": 1e-6, "output_norm": 3e-4},
    )


def fake_table(L=30, H=9, G=3, N=16, T=64, seed=0, nan=False, slopes=False) -> ScoreTable:
    """A ScoreTable of all metrics. `nan`: entropy is 0 in layer 0, so aeqd_ln is NaN there; `slopes`: an ALiBi model."""
    rng = np.random.default_rng(seed)
    sink = np.clip(rng.beta(0.7, 1.2, (L, H)) * np.linspace(0.3, 1.3, L)[:, None], 0.002, 0.985)
    wobble = rng.normal(0, 0.04, (N, L, H))
    base = {"awft": np.clip(sink + wobble, 0.0005, 0.999)}
    base["aeqd"] = np.clip((1 - base["awft"]) * np.log(T) * 0.9 + rng.normal(0, 0.05, (N, L, H)), 0.001, None)
    per_group = np.exp(rng.normal(0, 0.35, (L, G))) * np.linspace(1, 6, L)[:, None]
    value = np.repeat(per_group, H // G, axis=1)  # (L, H): heads of a KV group share their values
    noise = np.exp(rng.normal(0, 0.05, (N, L, 1)))
    base["avvn"] = value * noise
    base["ftvvn"] = value * noise * 0.15
    base["ahon"] = base["avvn"] * (1 - base["awft"]) ** 0.7 * 0.5
    base["lthon"] = base["ahon"] * np.exp(rng.normal(0, 0.25, (N, L, H)))
    base["fullout"] = base["ahon"] * np.exp(rng.normal(0, 0.2, (1, L, H)))
    if nan:
        base["aeqd"][:, 0] = 0.0
    with np.errstate(invalid="ignore"):
        scores = {f"{name}_ln": x / x.mean(-1, keepdims=True) for name, x in base.items()}
    scores["lthon_ln"] = base["lthon"] / base["ahon"].mean(-1, keepdims=True)
    scores["lthon_hn"] = base["lthon"] / base["ahon"]
    scores |= base
    lengths = np.full(N, T, np.int32)
    lengths[-1] = max(T // 2, 1)
    tokens = rng.integers(0, 50, (N, T)).astype(np.int32)
    tokens[np.arange(T)[None] >= lengths[:, None]] = -1
    return ScoreTable(
        metrics=METRIC_IDS,
        values=np.stack([scores[m] for m in METRIC_IDS]).astype(np.float32),
        reasons={"aeqd_ln": "the layer's mean entropy is 0"} if nan else {},
        lengths=lengths,
        tokens=tokens,
        pieces={str(i): f" w{i}" for i in range(50)},
        documents=tuple(f"package/module{n // 2}.py" for n in range(N)),
        cluster=(np.arange(N) // 2).astype(np.int32),
        first_is_bos=np.zeros(N, bool),
        geometry=fake_geometry(L, H, G, slopes),
        provenance=fake_provenance(),
    )


def fake_geometry(L=30, H=9, G=3, slopes=False) -> Geometry:
    ladder = tuple(2.0 ** (-8 * (h + 1) / H) for h in range(H)) if slopes else None
    family = "bloom" if slopes else "llama"
    return Geometry(family=family, layers=L, heads=H, kv_heads=G, head_dim=64, hidden=64 * H, slopes=ladder)


def fake_pattern(T=48, layer=3, head=7, seed=0, L=30, H=9, G=3) -> HeadPattern:
    """A HeadPattern whose rows sum to 1: a sink, a local window and a little noise."""
    rng = np.random.default_rng(seed)
    i, j = np.indices((T, T))
    logits = 2.2 * (j == 0) - 0.25 * (i - j) + rng.normal(0, 0.8, (T, T))
    weights = np.where(j <= i, np.exp(logits), 0)
    weights /= weights.sum(1, keepdims=True)
    safe = np.where(weights > 0, weights, 1)
    value_norm = np.exp(rng.normal(0.5, 0.3, T))
    value_norm[0] *= 0.1
    words = ("The", " value", " of", " the", " first", " token", ",", "\n", " <b>", " is", " small")
    return HeadPattern(
        layer=layer,
        head=head,
        attention=weights.astype(np.float32),
        entropy=-(safe * np.log(safe)).sum(1).astype(np.float32),
        sink=weights[:, 0].astype(np.float32),
        value_norm=value_norm.astype(np.float32),
        output_norm=(weights @ value_norm).astype(np.float32),
        pieces=tuple(words[t % len(words)] for t in range(T)),
        document="package/module0.py",
        geometry=fake_geometry(L, H, G),
        provenance=fake_provenance(input=0, layer=layer, head=head),
    )
