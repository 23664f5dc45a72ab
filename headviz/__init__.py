"""headviz: which attention heads do nothing, what it costs to switch them off, whether they come back.

    import headviz
    model = headviz.load("smollm2", dtype="float32")
    table = headviz.score_heads(model, corpus="docstrings", inputs=8, tokens=256)
    table.mean("ahon_ln")          # (L, H)

Names are imported on first use: `import headviz` alone loads neither torch nor numpy.
"""

from importlib import import_module

__version__ = "0.1.0"

_WHERE = {
    "load": "headviz.api",
    "score_heads": "headviz.api",
    "with_slices": "headviz.api",
    "ModelRef": "headviz.types",
    "DataRef": "headviz.types",
    "ScoreRequest": "headviz.types",
    "ScoreTable": "headviz.types",
    "HeadPattern": "headviz.types",
    "HeadvizError": "headviz.errors",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'headviz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
