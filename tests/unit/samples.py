"""Small results for the tests of the store and of the jobs."""

import numpy as np

from headviz.types import (
    DataRef,
    Geometry,
    HeadPattern,
    ModelRef,
    Provenance,
    ScoreRequest,
    ScoreTable,
    plain,
)


def score_request(seed: int = 0) -> ScoreRequest:
    return ScoreRequest(
        model=ModelRef(source="bundled", name="smollm2", revision="a" * 64, dtype="float32"),
        data=DataRef(corpus="docstrings", revision="b" * 64, seed=seed),
    )


def provenance(request=None, **more) -> Provenance:
    return Provenance(
        request=plain(request or score_request()),
        digest="0" * 64,
        device="cpu",
        threads=1,
        seconds=0.5,
        finished="2025-01-01T00:00:00Z",
        versions={"torch": "2"},
        self_check={"awft": 1e-7},
        **more,
    )


GEOMETRY = Geometry(family="llama", layers=2, heads=3, kv_heads=1, head_dim=4, hidden=12)


def score_table(N: int = 2, T: int = 5, **more) -> ScoreTable:
    values = np.arange(2 * N * 2 * 3, dtype=np.float32).reshape(2, N, 2, 3)  # (K, N, L, H)
    fields = {
        "metrics": ("awft", "aeqd"),
        "values": values,
        "reasons": {"aeqd": "one token"},
        "lengths": np.full(N, T, np.int32),
        "tokens": np.zeros((N, T), np.int32),
        "pieces": {"0": "é 日本 \x00 😀 \ud800"},
        "documents": tuple(f"d{n}" for n in range(N)),
        "cluster": np.arange(N, dtype=np.int32),
        "first_is_bos": np.zeros(N, bool),
        "geometry": GEOMETRY,
        "provenance": provenance(notes=("a note", "ünd")),
    }
    return ScoreTable(**(fields | more))


def head_pattern(T: int = 4, **more) -> HeadPattern:
    row = np.linspace(0, 1, T, dtype=np.float32)
    fields = {
        "layer": 1,
        "head": 2,
        "attention": np.tril(np.ones((T, T), np.float32)),
        "entropy": row,
        "sink": row,
        "value_norm": row,
        "output_norm": row,
        "pieces": tuple("x" * T),
        "document": "d",
        "geometry": GEOMETRY,
        "provenance": provenance(),
    }
    return HeadPattern(**(fields | more))
