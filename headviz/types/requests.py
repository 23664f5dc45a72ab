"""Requests: frozen dataclasses that say everything their answer depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

Dtype = Literal["float32", "bfloat16", "float16"]
Bos = Literal["tokenizer", "always", "never"]
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16", "float16")
QUANTIZATIONS = ("none", "8bit", "4bit")
BOS_POLICIES: tuple[Bos, ...] = ("tokenizer", "always", "never")
PARTS = ("all", "train", "held-out")


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
class SinkRequest:
    """How much attention every head gives each of the first tokens, 1..64 `positions`: answered by `SinkPlaces`."""

    kind: ClassVar[str] = "sinks"
    model: ModelRef
    data: DataRef
    positions: int = 16


@dataclass(frozen=True, kw_only=True)
class BandsRequest:
    """Attention on the first token and entropy of every head on some text: answered by `Bands`.

    start:   `data`: inputs begin as `data.bos` says; `two`: a second BOS before the first; `other`: the first token of the
             text `other` in BOS' place. Both want data.bos to be `always`, and keep the inputs' length
    columns: also find the strongest column and the attention on BOS wherever it stands; takes T² numbers, a block at a time
    """

    kind: ClassVar[str] = "bands"
    model: ModelRef
    data: DataRef
    start: Literal["data", "two", "other"] = "data"
    other: str = ""
    columns: bool = False


@dataclass(frozen=True, kw_only=True)
class DistanceRequest:
    """One head's mean attention by distance on some text: answered by `AttentionByDistance`."""

    kind: ClassVar[str] = "distance"
    model: ModelRef
    data: DataRef
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
class PromptScoreRequest:
    """Every score of every head on the prompts of a question set: answered by a `ScoreTable`, an input a prompt.

    The inputs are what `MeasureRequest.questions` runs, so that heads or thresholds can be chosen on the very inputs that
    are measured.
    """

    kind: ClassVar[str] = "prompt-score"
    model: ModelRef
    questions: QuestionsRef


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """What is switched off while measuring.

    mode:    `none`; `static`: `heads` on every input; `per-input`: heads whose `metric` lies beyond `threshold` on this
             very input, in the same forward pass (the paper's rule); `random-per-input`: each head with probability `rate`
    turned:  per-input only: beyond the other way than the paper's, so that the heads it calls most active are off
    replace: `zero`, or `mean`: the head's mean output on `means_on` (its own value at the first position)
    """

    mode: Literal["none", "static", "per-input", "random-per-input"] = "none"
    heads: tuple[tuple[int, int], ...] = ()  # sorted (layer, head)
    metric: str = ""
    threshold: float = 0.0
    turned: bool = False
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


@dataclass(frozen=True, kw_only=True)
class GenerateRequest:
    """How the model goes on from a prompt, the likeliest token each time: answered by a `Generation`.

    prompt:     the text; with `chat` it is the user's turn in the model's chat template, and the answer begins
    bos:        whether the tokenizer decides about a BOS token, or it is always or never put first
    new_tokens: 1..256, at most so many; fewer where the model ends the text
    ablation:   nothing, or a static set; a rule that decides input by input is refused
    """

    kind: ClassVar[str] = "generate"
    model: ModelRef
    prompt: str
    chat: bool = False
    bos: Bos = "tokenizer"
    new_tokens: int = 40
    ablation: Ablation


@dataclass(frozen=True, kw_only=True)
class CheckpointRequest:
    """A checkpoint of the model without some heads, on this machine: answered by a `CheckpointReport`.

    heads:   sorted (layer, head)
    smaller: the heads are left out, instead of having their part of W_O zero; whole KV groups, as many in every layer
    data:    the text on which the written checkpoint is compared with the model
    """

    kind: ClassVar[str] = "checkpoint"
    model: ModelRef
    heads: tuple[tuple[int, int], ...]
    smaller: bool = False
    data: DataRef
