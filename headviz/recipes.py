"""A request as code: the Python and the command line that give the same answer. Pure text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headviz.analysis.bands import Thresholds
from headviz.data.questions import MMLU_SUBJECTS, other_half
from headviz.errors import BadInput
from headviz.models.architectures import FAMILIES
from headviz.types import BandsRequest, DataRef, Geometry, ModelRef, QuestionsRef, ScoreRequest

if TYPE_CHECKING:  # scipy takes half a second to import: only for who asks
    from headviz.analysis.ablation import Plan

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


def compare_command(requests: Sequence[ScoreRequest], out: str = "compare.json") -> str:
    """`python -m headviz compare …` of these models, on the text of the first."""
    first = requests[0]
    words, formats = ["python", "-m", "headviz", "compare"], {request.model.dtype for request in requests}
    for request in requests:
        model = request.model
        name = f"{model.name}@{model.revision}" if model.source == "hub" else model.name
        words.append(f"{name}:{model.dtype}" if len(formats) > 1 else name)
    for name, value in (_model_options(first.model) | _data_options(first.data)).items():
        option = f"--{name.replace('_', '-')}"
        if name != "revision" and not (name == "dtype" and len(formats) > 1):
            words += [option] if value is True else [option, str(value)]
    return " ".join(shlex.quote(word) for word in [*words, "--out", out])


def bands_command(request: BandsRequest, at: Thresholds, share: float, out: str = "bands.json") -> str:
    """`python -m headviz bands …` that answers `request`, with these thresholds of classes and share of layers."""
    words = ["python", "-m", "headviz", "bands", "--model", request.model.name]
    options = _model_options(request.model) | _data_options(request.data)
    options |= {"dead": at.dead, "sink": at.sink, "low_entropy": at.low_entropy, "layers": share}
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        words += [option] if value is True else [option, str(value)]
    return " ".join(shlex.quote(word) for word in [*words, "--out", out])


def ablate_command(plan: Plan, heads: str = "headviz-heads.json", out: str = "ablation.json") -> str:
    """`python -m headviz ablate …` that gives the same numbers as `plan`. heads: the file of a set that no score chose.

    Raises BadInput where heads are chosen on what the command line has no option for.
    """
    measured = plan.questions or plan.text
    options = {"target": "loss" if plan.questions is None else plan.questions.source}
    options |= _model_options(plan.model)
    options |= _data_options(plan.text) if plan.questions is None else _question_options(plan.questions)
    if plan.chosen_on == measured:
        options["chosen_on"] = "measured"
    elif _halves(plan):
        options["chosen_on"] = "half"
    else:
        options |= _choosing_options(plan.chosen_on)
    if plan.by_score:
        options |= {"metric": plan.metric, "turned": plan.turned, "mode": plan.mode}
        if plan.mode == "static":
            options |= {"by": plan.by, "per_layer": plan.per_layer}
        options |= {"share": plan.share} if plan.threshold is None else {"threshold": plan.threshold}
    else:
        options |= {"heads": heads}
    options |= {"replace": plan.replace, "random_draws": plan.draws}
    words = ["python", "-m", "headviz", "ablate", "--model", plan.model.name]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is not False:
            words += [option] if value is True else [f"{option}={value}"]
    return " ".join(shlex.quote(word) for word in [*words, "--out", out])


def _halves(plan: Plan) -> bool:
    """Whether heads are chosen on one half of the questions and measured on the other."""
    asked = plan.questions
    return asked is not None and asked.half != "all" and plan.chosen_on == other_half(asked)


def _question_options(asked: QuestionsRef) -> dict[str, object]:
    options: dict[str, object] = {"questions": asked.revision} if asked.source == "own" else {}
    if asked.subjects != MMLU_SUBJECTS:
        options["subjects"] = ",".join(asked.subjects)
    names = ("per_subject", "seed", "half", "shots", "scoring", "chat", "bos")
    return options | {name: getattr(asked, name) for name in names}


def _choosing_options(place: DataRef | QuestionsRef) -> dict[str, object]:
    if isinstance(place, QuestionsRef) or place.corpus in ("own", "hub"):
        raise BadInput(
            "The command line chooses heads on a corpus of headviz or on the very inputs that are measured, and this view on "
            "something else: there is no command for it."
        )
    names = ("part", "inputs", "tokens", "seed", "bos", "chat")
    return {"chosen_on": place.corpus} | {f"chosen_{name}": getattr(place, name) for name in names}


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


def heads_code(
    model: ModelRef,
    heads: tuple[tuple[int, int], ...],
    geometry: Geometry,
    replace: str = "zero",
    place: str = "",
) -> str:
    """Ten lines of Python, with nothing but torch and transformers, that switch heads off in a model they load.

    place:   the folder of a model that is not on the hub
    replace: the code does what `zero` means; for `mean` it says so in a comment: a head's mean has another value at the
             first position, so no constant (no bias) stands for it
    Raises BadInput for quantised weights, whose columns cannot be set, and where a folder is needed and `place` is empty.
    """
    if model.quantization != "none":
        raise BadInput(
            f"W_O is stored in {model.quantization}, so its columns cannot be set to zero. Choose quantisation none."
        )
    if model.source != "hub" and not place:
        raise BadInput(f"The folder of {model.name} is not on this machine, so there is nothing to load.")
    family, size = FAMILIES[geometry.family], geometry.head_dim
    where = f"{model.name!r}, revision={model.revision!r}" if model.source == "hub" else repr(place)
    off: dict[int, list[int]] = {}
    for layer, head in sorted(heads):
        off.setdefault(layer, []).append(head)
    columns = f"head * {size} : (head + 1) * {size}"
    part, shape = (
        (f"[{columns}]", "heads x head size, model size")
        if family.transposed
        else (f"[:, {columns}]", "model size, heads x head size")
    )
    note = (
        "# zero in their place: a mean differs at the first position, so no fixed weight or bias gives it\n"
        if replace == "mean"
        else ""
    )
    return (
        "import torch\n"
        "from transformers import AutoModelForCausalLM\n\n"
        f"model = AutoModelForCausalLM.from_pretrained({where}, dtype=torch.{model.dtype})\n"
        f"{note}"
        f"off = {off}  # layer: heads, from zero\n"
        "with torch.no_grad():\n"
        "    for layer, heads in off.items():\n"
        f"        weight = model.{family.layers}[layer].{family.attention}.{family.output}.weight  # {shape}\n"
        "        for head in heads:\n"
        f"            weight{part} = 0\n"
    )
