"""Requests and results: frozen dataclasses over numpy arrays. No torch here, so that pages can read them.

A request says everything that its answer depends on. Its canonical JSON is the cache key, the job's id, the spec
that the command line runs, and the provenance under a figure. Device, threads, versions and times are provenance,
never identity. Letters: N inputs, T tokens, L layers, H query heads, G KV heads, D head size, M model size.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import types
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, get_args, get_origin, get_type_hints

import numpy as np

from headviz.errors import BadInput

SCHEMA = 1

Dtype = Literal["float32", "bfloat16", "float16"]
Bos = Literal["tokenizer", "always", "never"]
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16", "float16")
QUANTIZATIONS = ("none", "8bit", "4bit")
BOS_POLICIES: tuple[Bos, ...] = ("tokenizer", "always", "never")
PARTS = ("all", "train", "held-out")


# ---------------------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, kw_only=True)
class ModelRef:
    """A model, pinned. `revision`: hub commit (40 hex digits), or sha256 of the bundled file or local folder."""

    source: Literal["bundled", "hub", "local"]
    name: str
    revision: str
    dtype: Dtype
    quantization: Literal["none", "8bit", "4bit"] = "none"


@dataclass(frozen=True, kw_only=True)
class DataRef:
    """Text, pinned, and how it becomes inputs.

    corpus:   a row of `headviz.data.corpora.CORPORA`; `hub` and `own` are rows too
    revision: sha256 of the text for what is on this machine, the data set's commit for what is on the hub
    dataset, config, split, column: only for corpus `hub`; empty strings otherwise
    part:     `train`, `held-out`, or `all`; held-out means whole packages, documents or splits, never pieces
    inputs:   how many inputs are asked for; tokens: the longest an input may be, BOS included
    bos:      whether the tokenizer decides about a BOS token, or it is always or never put first
    chat:     wrap each input as a user turn of the model's chat template
    """

    corpus: str
    revision: str
    dataset: str = ""
    config: str = ""
    split: str = ""
    column: str = ""
    part: Literal["all", "train", "held-out"] = "held-out"
    inputs: int = 16
    tokens: int = 512
    seed: int = 0
    bos: Bos = "tokenizer"
    chat: bool = False


@dataclass(frozen=True, kw_only=True)
class ScoreRequest:
    """Every score of every head on every input: answered by a `ScoreTable`."""

    kind: ClassVar[str] = "score"
    model: ModelRef
    data: DataRef


@dataclass(frozen=True, kw_only=True)
class PatternRequest:
    """What one head does on one input, token by token: answered by a `HeadPattern`."""

    kind: ClassVar[str] = "pattern"
    model: ModelRef
    data: DataRef
    input: int
    layer: int
    head: int


@dataclass(frozen=True, kw_only=True)
class QuestionsRef:
    """Multiple-choice questions, pinned, and how they are asked.

    source:      row of headviz.data.questions.QUESTIONS: mmlu, quiz, own
    revision:    sha256 of the whole set (local, bundled, own) or the data set's commit (hub)
    subjects:    which subjects, sorted; per_subject: how many of each, drawn with `seed`; 0 takes all
    half:        `all`, or the `first` or `second` half of the draw: a ranking is chosen on one, confirmed on the other
    shots:       worked examples before each question, 0 to 5
    scoring:     `letter` (log-probability of " A" … " D") or `text` (of each answer's text, divided by its tokens)
    """

    source: Literal["mmlu", "quiz", "own"]
    revision: str
    subjects: tuple[str, ...]
    per_subject: int = 0
    seed: int = 0
    half: Literal["all", "first", "second"] = "all"
    shots: int = 5
    scoring: Literal["letter", "text"] = "letter"
    chat: bool = False
    bos: Bos = "never"


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """What is switched off while measuring.

    mode:    `none`; `static`: `heads` on every input; `per-input`: heads whose `metric` lies beyond `threshold` on this
             very input, in the same forward pass (the paper's rule); `random-per-input`: each head with probability `rate`
    replace: `zero`, or `mean`: the head's mean output on `means_on` (its own value at the first position)
    """

    mode: Literal["none", "static", "per-input", "random-per-input"] = "none"
    heads: tuple[tuple[int, int], ...] = ()  # sorted (layer, head)
    metric: str = ""
    threshold: float = 0.0
    rate: float = 0.0
    seed: int = 0
    replace: Literal["zero", "mean"] = "zero"
    means_on: DataRef | None = None


@dataclass(frozen=True, kw_only=True)
class MeasureRequest:
    """How well the model does with some heads off: on questions (QuestionScores) or on text (TextLosses); one of the two."""

    kind: ClassVar[str] = "measure"
    model: ModelRef
    questions: QuestionsRef | None = None
    text: DataRef | None = None
    ablation: Ablation


@dataclass(frozen=True, kw_only=True)
class GradientRequest:
    """How steeply the loss on some text depends on every head: answered by `HeadGradients`."""

    kind: ClassVar[str] = "gradient"
    model: ModelRef
    data: DataRef


@dataclass(frozen=True, kw_only=True)
class MapRequest:
    """What it costs to switch off each head alone, on some text: answered by `HeadLosses`.

    replace: `zero`, or `mean`: the head's mean output on `means_on`, as in `Ablation`
    """

    kind: ClassVar[str] = "map"
    model: ModelRef
    text: DataRef
    replace: Literal["zero", "mean"] = "zero"
    means_on: DataRef | None = None


Request = ScoreRequest | PatternRequest | MeasureRequest | GradientRequest | MapRequest


# ----------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True, kw_only=True)
class Geometry:
    """Shape of a model. `slopes`: ALiBi slope of each head, (H,), or None where positions are not ALiBi."""

    family: str
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    slopes: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What a figure carries beside its request: where, when, with what, and how far to trust the fast path.

    self_check: worst error of the fused statistics against the float32 block loop on one input of this model on
                this device: {"awft": …, "entropy": …, "value_norm": …, "output_norm": …} (norms relative)
    """

    request: dict[str, Any]
    digest: str
    device: str
    threads: int
    seconds: float
    finished: str  # ISO 8601, UTC
    versions: dict[str, str]
    self_check: dict[str, float]
    notes: tuple[
        str, ...
    ] = ()  # what a reader must know: "12 inputs, 16 were asked for: the text has no more"


class _ReadOnlyArrays:
    """Arrays of a result cannot be written to: many pages share one copy."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                view = value.view()
                view.flags.writeable = False
                object.__setattr__(self, f.name, view)


@dataclass(frozen=True, kw_only=True)
class ScoreTable(_ReadOnlyArrays):
    """Scores of all heads, input by input.

    metrics:   ids of `headviz.analysis.metrics.METRICS`, K of them
    values:    (K, N, L, H) float32; NaN where not defined, and then `reasons[metric]` says why
    lengths:   (N,) int32, tokens of each input
    tokens:    (N, T) int32 token ids as fed, −1 beyond an input's length
    pieces:    token id → the text it stands for, for the ids in `tokens`
    documents: (N,) name of the document each input was cut from
    cluster:   (N,) int32, inputs of one document share a number (losses and scores cluster by document)
    first_is_bos: (N,) bool, whether the first token is the tokenizer's BOS
    """

    metrics: tuple[str, ...]
    values: np.ndarray
    reasons: dict[str, str]
    lengths: np.ndarray
    tokens: np.ndarray
    pieces: dict[str, str]
    documents: tuple[str, ...]
    cluster: np.ndarray
    first_is_bos: np.ndarray
    geometry: Geometry
    provenance: Provenance

    def per_input(self, metric: str) -> np.ndarray:
        """(N, L, H) values of one metric."""
        return self.values[self.metrics.index(metric)]

    def mean(self, metric: str) -> np.ndarray:
        """(L, H) mean over inputs; NaN only where no input has a value."""
        values = self.per_input(metric)
        known = ~np.isnan(values)
        total = np.where(known, values, 0).sum(0, dtype=np.float64)
        count = known.sum(0)
        return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


@dataclass(frozen=True, kw_only=True)
class HeadPattern(_ReadOnlyArrays):
    """One head on one input, over its T real tokens.

    attention:    (T, T) float32, row i the distribution of query i over keys 0..i
    entropy:      (T,) nats; sink: (T,) weight on the first token; value_norm, output_norm: (T,)
    pieces:       (T,) text of each token
    """

    layer: int
    head: int
    attention: np.ndarray
    entropy: np.ndarray
    sink: np.ndarray
    value_norm: np.ndarray
    output_norm: np.ndarray
    pieces: tuple[str, ...]
    document: str
    geometry: Geometry
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class QuestionScores(_ReadOnlyArrays):
    """Answers to Q questions with up to C choices each.

    subjects: names; subject: (Q,) int32, number of the question's subject; index: (Q,) int32, its place in the subject
    answer:   (Q,) int32, the right choice
    logprob:  (Q, C) float64, log-probability of each choice (of its letter, or summed over its text); NaN beyond them
    length:   (Q, C) int32, tokens that were summed
    off_share: (Q,) float32, share of the heads that were off for this question; the same number for a static set
    off_sets: per-input only: {"distinct": …, "overlap_within": …, "overlap_between": …}, mean Jaccard within and between
              subjects; empty otherwise
    """

    subjects: tuple[str, ...]
    subject: np.ndarray
    index: np.ndarray
    answer: np.ndarray
    logprob: np.ndarray
    length: np.ndarray
    off_share: np.ndarray
    off_sets: dict[str, float]
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class TextLosses(_ReadOnlyArrays):
    """Next-token losses on N inputs.

    loss:      (N,) float64, nats summed over the input's predicted tokens; predicted: (N,) int32, how many those are
    by_position: (T−1,) float64, mean loss of the token at each position over the inputs that reach it; NaN where none does
    cluster:   (N,) int32, inputs of one document share a number; documents: (N,) their names
    off_share, off_sets: as in QuestionScores
    """

    loss: np.ndarray
    predicted: np.ndarray
    by_position: np.ndarray
    cluster: np.ndarray
    documents: tuple[str, ...]
    off_share: np.ndarray
    off_sets: dict[str, float]
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class HeadGradients(_ReadOnlyArrays):
    """values: (L, H) float64, mean over inputs of |∂ loss / ∂ gate| at 1 (Michel et al. 2019). An order, never nats."""

    values: np.ndarray
    geometry: Geometry
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class HeadLosses(_ReadOnlyArrays):
    """Next-token losses on N inputs with each head off alone.

    loss:      (N, L, H) float64, nats summed over the input's predicted tokens, with that head off
    baseline:  (N,) float64, the same with nothing off; predicted: (N,) int32, how many tokens those are
    cluster:   (N,) int32, inputs of one document share a number; documents: (N,) their names
    """

    loss: np.ndarray
    baseline: np.ndarray
    predicted: np.ndarray
    cluster: np.ndarray
    documents: tuple[str, ...]
    geometry: Geometry
    provenance: Provenance

    def change(self) -> np.ndarray:
        """(L, H) change in mean loss, nats a token: above 0, the model is worse without the head."""
        return (self.loss - self.baseline[:, None, None]).sum(0) / self.predicted.sum()


Result = ScoreTable | HeadPattern | QuestionScores | TextLosses | HeadGradients | HeadLosses

RESULTS: dict[str, type] = {
    cls.__name__: cls
    for cls in (ScoreTable, HeadPattern, QuestionScores, TextLosses, HeadGradients, HeadLosses)
}


class Watch(Protocol):
    """How long work reports and hears of a cancel. Workers, the command line and notebooks each bring one."""

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """Say what is being done and how far it is. Raises Cancelled when somebody asked to stop."""

    def check(self) -> None:
        """Raises Cancelled when somebody asked to stop. Cheap: call it in every layer."""


class Silent:
    """A Watch that reports nowhere and is never cancelled."""

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        pass

    def check(self) -> None:
        pass


# ---------------------------------------------------------------------------------- canonical JSON and digest


def plain(value: Any) -> Any:
    """`value` as JSON types, every default written out. Refuses NaN, infinity and anything JSON does not have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if not math.isfinite(value):
            raise BadInput(f"{value} cannot stand in a request: numbers there are finite.")
        return value + 0.0  # −0.0 + 0.0 is 0.0
    if value is None or isinstance(value, (str, int, bool)):
        return value
    raise TypeError(f"{type(value).__name__} cannot stand in a request")


def canonical(value: Any) -> bytes:
    """The one UTF-8 JSON text of a request: sorted keys, no spaces, no NaN, no −0."""
    return json.dumps(
        plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digest(request: Request, method_version: int) -> str:
    """sha256 of {schema, kind, method_version, request}: cache key and job id, 64 hex digits."""
    whole = {"schema": SCHEMA, "kind": request.kind, "method_version": method_version, "request": request}
    return hashlib.sha256(canonical(whole)).hexdigest()


def build(cls: type, tree: Any) -> Any:
    """The dataclass `cls` from its JSON tree. Raises BadInput for an unknown, missing or wrong field."""
    if not isinstance(tree, dict):
        raise BadInput(f"{cls.__name__} must be a JSON object, not {type(tree).__name__}.")
    hints = get_type_hints(cls)
    known = {f.name: hints[f.name] for f in dataclasses.fields(cls)}
    if extra := sorted(set(tree) - set(known)):
        raise BadInput(f"{cls.__name__} has no field {extra[0]!r}. Its fields: {', '.join(known)}.")
    try:
        return cls(
            **{name: _read(known[name], item, f"{cls.__name__}.{name}") for name, item in tree.items()}
        )
    except TypeError as error:  # a field without default is missing
        raise BadInput(f"{cls.__name__}: {error}.") from None


def _read(hint: Any, item: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return build(hint, item)
    origin = get_origin(hint)
    if origin is types.UnionType:  # X | None: the only unions of a request
        return None if item is None else _read(get_args(hint)[0], item, where)
    if origin is Literal:
        if item not in get_args(hint):
            raise BadInput(f"{where} is {item!r}; it must be one of {', '.join(map(str, get_args(hint)))}.")
        return item
    if origin is tuple:
        if not isinstance(item, list | tuple):
            raise BadInput(f"{where} is {item!r}; it must be a list.")
        inner = get_args(hint)[0]
        return tuple(_read(inner, part, where) for part in item)
    if hint is float and isinstance(item, int) and not isinstance(item, bool):
        return float(item)
    if hint in (str, int, float, bool) and type(item) is not hint:
        raise BadInput(f"{where} is {item!r}; it must be a {hint.__name__}.")
    return item


def head_name(layer: int, head: int) -> str:
    """`L03.H07`: zero-based, the same everywhere."""
    return f"L{layer:02d}.H{head:02d}"
