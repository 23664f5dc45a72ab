"""A request as code: the Python and the command line that give the same answer. Pure text."""

from __future__ import annotations

import shlex

from headviz.types import DataRef, ModelRef, ScoreRequest

_DATA_DEFAULTS = DataRef(corpus="", revision="")


def _model_options(model: ModelRef) -> dict[str, object]:
    options: dict[str, object] = {"dtype": model.dtype}
    if model.source == "hub":
        options["revision"] = model.revision
    if model.quantization != "none":
        options["quantization"] = model.quantization
    return options


def _data_options(data: DataRef) -> dict[str, object]:
    """What differs from the defaults; the part always, since a corpus has its own; the commit of hub data."""
    options: dict[str, object] = {"corpus": data.corpus}
    if data.corpus == "own":
        options = {"text": data.revision}
    else:
        options["part"] = data.part
    if len(data.revision) == 40:
        options["data_revision"] = data.revision
    for name in ("dataset", "config", "split", "column", "part", "seed", "bos", "chat"):
        if getattr(data, name) != getattr(_DATA_DEFAULTS, name) and not (
            name == "part" and data.corpus == "own"
        ):
            options[name] = getattr(data, name)
    return options | {"inputs": data.inputs, "tokens": data.tokens}


def command_line(request: ScoreRequest, out: str = "scores.parquet") -> str:
    """`python -m headviz score …` that answers `request`."""
    words = ["python", "-m", "headviz", "score", "--model", request.model.name]
    for name, value in (_model_options(request.model) | _data_options(request.data)).items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    return " ".join(shlex.quote(word) for word in [*words, "--out", out])


def python_code(request: ScoreRequest, metric: str) -> str:
    """Python for a notebook that answers `request`."""

    def arguments(options: dict[str, object]) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in options.items())

    return (
        "import headviz\n\n"
        f"model = headviz.load({request.model.name!r}, {arguments(_model_options(request.model))})\n"
        f"table = headviz.score_heads(model, {arguments(_data_options(request.data))})\n"
        f"table.mean({metric!r})          # (layers, heads), mean over the inputs\n"
        f"table.per_input({metric!r})     # (inputs, layers, heads)\n"
    )
