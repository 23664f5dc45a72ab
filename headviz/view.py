"""What a page shows, as one flat set of values that also stands in the URL.

Pure: no streamlit here. `VIEW` is the only list of URL parameters; app.py checks a URL against it before any widget
exists and says what it ignored, `link` writes every value out, defaults too, so that a link means the same tomorrow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headviz.analysis.metrics import METRICS
from headviz.data.corpora import CORPORA
from headviz.errors import BadInput, lookup
from headviz.surgery.arms import ARMS
from headviz.types import (
    BOS_POLICIES,
    DTYPES,
    PARTS,
    QUANTIZATIONS,
    head_name,
)

DEFAULT_METRIC = "ahon_ln"
_HEAD = re.compile(r"\s*[Ll]?(\d{1,3})\s*[.,: ]\s*[Hh]?(\d{1,3})\s*")


def parse_head(text: str) -> tuple[int, int]:
    """(layer, head) of `L03.H07`, `3.7`, `l3 h7`. Raises BadInput with an example."""
    match = _HEAD.fullmatch(text)
    if not match:
        raise BadInput(f"{text!r} is no head. Write it like L03.H07 (layer 3, head 7, both from zero).")
    return int(match[1]), int(match[2])


def _text(value: str) -> str:
    if len(value) > 300 or any(ord(char) < 32 for char in value):
        raise BadInput("it is too long or holds control characters")
    return value


def _prose(value: str) -> str:
    """A longer text, of several lines."""
    if len(value) > 2_000 or any(ord(char) < 32 and char not in "\n\t" for char in value):
        raise BadInput("it is longer than 2,000 characters or holds control characters")
    return value


def _choice(options) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in options:
            raise BadInput(f"it must be one of {', '.join(options)}")
        return value

    return read


def _row(table: Mapping, kind: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        lookup(table, value, kind)
        return value

    return read


def _whole(low: int, high: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"\d{1,9}", value) or not low <= int(value) <= high:
            raise BadInput(f"it must be a whole number from {low:,} to {high:,}")
        return int(value)

    return read


def _number(low: float, high: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise BadInput(f"it must be a number from {low:g} to {high:g}")
        return number

    return read


def _unless_empty(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """None where the text is empty: nobody has set it."""
    return lambda value: read(value) if value else None


def _flag(value: str) -> bool:
    return _choice(("true", "false"))(value) == "true"


def _head(value: str) -> str:
    return head_name(*parse_head(value)) if value else ""


def parse_heads(text: str) -> tuple[tuple[int, int], ...]:
    """The heads of `3:0,4,7;5:1` (layer 3, heads 0, 4 and 7; layer 5, head 1), sorted. Raises BadInput with an example."""
    found = set()
    for part in text.split(";") if text else ():
        match = re.fullmatch(r"(\d{1,3}):(\d{1,3}(?:,\d{1,3})*)", part)
        if not match:
            raise BadInput(
                f"{part[:60]!r} is no list of heads. Write it like 3:0,4,7;5:1 (layer, then its heads)"
            )
        found |= {(int(match[1]), int(head)) for head in match[2].split(",")}
    return tuple(sorted(found))


def write_heads(heads: Iterable[tuple[int, int]]) -> str:
    """What `parse_heads` reads."""
    layers: dict[int, list[int]] = {}
    for layer, head in sorted(set(heads)):
        layers.setdefault(layer, []).append(head)
    return ";".join(f"{layer}:{','.join(map(str, several))}" for layer, several in layers.items())


def _heads(value: str) -> str:
    return write_heads(parse_heads(value))


def _picked_on(value: str) -> str:
    """Where a set by hand was chosen, and of which set that is told: `headviz.ui.ablation.hand` writes it."""
    if value and (len(value) > 8_000 or not re.fullmatch(r"[0-9a-f]{8}\[.*\]", value)):
        raise BadInput("it must be what headviz wrote about where a set of heads was chosen")
    return value


def _several(table: Mapping, kind: str) -> Callable[[str], str]:
    """Rows of a table, comma-separated, each once, in the table's order."""

    def read(value: str) -> str:
        names = [part.strip() for part in value.split(",") if part.strip()]
        for one in names:
            lookup(table, one, kind)
        return ",".join(name for name in table if name in names)

    return read


def _names(value: str) -> str:
    """Names, comma-separated, each once, in their order; what they name is known to who uses them."""
    if len(value) > 4_000 or any(ord(char) < 32 for char in value):
        raise BadInput("it is too long or holds control characters")
    return ",".join(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))


def _lengths(value: str) -> str:
    """Input lengths in tokens, comma-separated, each once, shortest first."""
    read = _whole(1, 131_072)
    return ",".join(map(str, sorted({read(part.strip()) for part in value.split(",") if part.strip()})))


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds of `0,1,2`, each once, in their order. Raises BadInput for none, or for what is no seed."""
    read = _whole(0, 999_999)
    found = tuple(dict.fromkeys(read(part.strip()) for part in text.split(",") if part.strip()))
    if not found:
        raise BadInput("There is no seed. Write one or more whole numbers, such as 0,1,2.")
    return found


def _seeds(value: str) -> str:
    return ",".join(map(str, parse_seeds(value)))


def _sha(value: str) -> str:
    if value and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise BadInput("it must be 64 hex digits, under which headviz kept a text or a job")
    return value


@dataclass(frozen=True)
class Parameter:
    """One URL parameter: how it is read, what it is without one, and the pages that use it ("" = all)."""

    read: Callable[[str], Any]
    default: Any
    pages: str = ""


PANELS = ("distribution", "scores", "layers", "ranking", "inputs", "take")

LOOKS = ("curve", "scores", "models", "subjects", "order", "text", "take")  # panels of the ablation page
FACETS = ("costs", "agreement", "matrix", "sink", "cards", "take")  # panels of the disagreement page
FOLLOWS = ("first", "model", "head")  # which early token AWFT looks at there
STRICT = (
    "auto",
    "share",
    "value",
)  # how strict: the largest share within tolerance, a share, or a value of the score
SHARE_OF = {
    "share": "rule",
    "off": "strict",
    "budget": "budget_by",
}  # number of a slider → what says who moved it
TARGETS = ("loss", "quiz", "mmlu", "own")
PROMPT = "Once upon a time there was a small robot who"
SHOTS = ("auto", "0", "1", "2", "3", "4", "5")
# Where heads are chosen: apart from what is measured (auto), on the half of the questions that is not measured, on the very
# inputs that are measured, on the text at the left, or on a corpus.
CHOSEN = (
    "auto",
    "half",
    "measured",
    "left",
    *(name for name, row in CORPORA.items() if name not in ("hub", "own")),
)
# Compare: panels; on what the other models are scored; on what stability is asked.
COMPARED = ("distributions", "scores", "layers", "movers", "stable", "take")
STABLE_DATA = {name: row for name, row in CORPORA.items() if name not in ("hub", "own")}
OTHER_DATA = ("left", *STABLE_DATA)
ASPECTS = (
    "spread",
    "slopes",
    "kernel",
    "lengths",
    "beginnings",
    "published",
    "take",
)  # panels of the bands page

TEXTS = ("left", *STABLE_DATA)  # what a repair may be trained and judged on
STAGES = ("design", "watch", "versus")  # of the surgery page
RECOVERY = (
    "verdict",
    "losses",
    "classes",
    "film",
    "elsewhere",
    "heads",
    "single",
    "training",
    "onward",
    "take",
)  # panels of one repair

VIEW: dict[str, Parameter] = {
    "model": Parameter(_text, "smollm2"),
    "revision": Parameter(_text, ""),
    "dtype": Parameter(_choice(("auto", *DTYPES)), "auto"),
    "quantization": Parameter(_choice(QUANTIZATIONS), "none"),
    "corpus": Parameter(_row(CORPORA, "corpus"), "docstrings"),
    "dataset": Parameter(_text, ""),
    "config": Parameter(_text, ""),
    "split": Parameter(_text, ""),
    "column": Parameter(_text, ""),
    "data_revision": Parameter(_text, ""),
    "text": Parameter(_sha, ""),
    "part": Parameter(_choice(PARTS), "held-out"),
    "inputs": Parameter(_whole(1, 2_000), 16),
    "tokens": Parameter(_whole(1, 131_072), 512),
    "seed": Parameter(_whole(0, 999_999), 0),
    "bos": Parameter(_choice(BOS_POLICIES), "tokenizer"),
    "chat": Parameter(_flag, False),
    "metric": Parameter(_row(METRICS, "score"), DEFAULT_METRIC, "heads ablation compare"),
    "rule": Parameter(_choice(STRICT), "auto", "heads"),
    "share": Parameter(_number(0, 100), 20.0, "heads compare"),
    "threshold": Parameter(_number(-1e9, 1e9), 0.0, "heads"),
    "shows": Parameter(_choice(("score", "inactive")), "score", "heads"),
    "head": Parameter(_head, "", "heads ablation disagreement compare bands"),
    "panel": Parameter(_choice(PANELS), "distribution", "heads"),
    "picture": Parameter(_choice(("svg", "png")), "svg", "heads ablation disagreement compare bands surgery"),
    "target": Parameter(_choice(TARGETS), "loss", "ablation disagreement compare"),
    "off": Parameter(_number(0, 100), 20.0, "ablation"),
    "by": Parameter(_choice(("head", "group")), "head", "ablation"),
    "even": Parameter(_flag, False, "ablation"),
    "draws": Parameter(_whole(1, 100), 3, "ablation disagreement"),
    "scoring": Parameter(_choice(("auto", "letter", "text")), "auto", "ablation disagreement compare"),
    "shots": Parameter(_choice(SHOTS), "auto", "ablation disagreement compare"),
    "each": Parameter(_whole(0, 1_000), 0, "ablation disagreement compare"),
    "look": Parameter(_choice(LOOKS), "curve", "ablation"),
    "mode": Parameter(_choice(("static", "per-input")), "static", "ablation"),
    "turned": Parameter(_flag, False, "ablation"),
    "pick": Parameter(_choice(("score", "hand")), "score", "ablation"),
    "picked": Parameter(_heads, "", "ablation"),
    "scores": Parameter(_several(METRICS, "score"), "ahon_ln,awft", "ablation"),
    "questions": Parameter(_sha, "", "ablation disagreement compare"),
    "subjects": Parameter(_names, "", "ablation disagreement compare"),
    "template": Parameter(_flag, False, "ablation disagreement compare"),
    "chosen": Parameter(_choice(CHOSEN), "auto", "ablation disagreement compare"),
    "chosen_part": Parameter(_choice(("auto", *PARTS)), "auto", "ablation disagreement compare"),
    "chosen_inputs": Parameter(_whole(0, 2_000), 0, "ablation disagreement compare"),
    "strict": Parameter(_choice(STRICT), "auto", "ablation"),
    "cut": Parameter(_number(-1e9, 1e9), 0.0, "ablation"),
    "wide": Parameter(_flag, False, "ablation"),
    "by_whom": Parameter(_text, "", "ablation"),
    "picked_on": Parameter(_picked_on, "", "ablation"),
    "half": Parameter(_choice(("all", "first", "second")), "all", "ablation disagreement compare"),
    "points": Parameter(_number(0.01, 100), 1.0, "ablation disagreement compare"),
    "nats": Parameter(_number(0.001, 100), 0.05, "ablation disagreement compare"),
    "alone": Parameter(_choice(("short", "whole")), "short", "ablation"),
    "shown": Parameter(_choice(("score", "gradient", "cost")), "score", "ablation"),
    "prompt": Parameter(_prose, PROMPT, "ablation"),
    "length": Parameter(_whole(1, 256), 40, "ablation"),
    "turn": Parameter(_flag, False, "ablation"),
    "instead": Parameter(_choice(("zero", "mean")), "zero", "ablation"),
    "others": Parameter(_choice(("uniform", "layer_matched")), "uniform", "ablation"),
    "against": Parameter(_names, "", "compare"),
    "other_dtype": Parameter(_choice(("auto", *DTYPES)), "auto", "compare"),
    "other_quantization": Parameter(_choice(("left", *QUANTIZATIONS)), "left", "compare"),
    "other_data": Parameter(_choice(OTHER_DATA), "left", "compare"),
    "other_bos": Parameter(_choice(("left", *BOS_POLICIES)), "left", "compare"),
    "pair": Parameter(_whole(1, 8), 1, "compare"),
    "share_by": Parameter(_choice(("auto", "share")), "auto", "compare"),
    "differs": Parameter(_choice(COMPARED), "distributions", "compare"),
    "texts": Parameter(_several(STABLE_DATA, "corpus"), "docstrings,stdlib-code", "compare"),
    "lengths": Parameter(_lengths, "128,512", "compare"),
    "first": Parameter(_row(METRICS, "score"), "awft", "disagreement"),
    "second": Parameter(_row(METRICS, "score"), DEFAULT_METRIC, "disagreement"),
    "budget_by": Parameter(_choice(STRICT), "auto", "disagreement"),
    "budget": Parameter(_number(0, 50), 20.0, "disagreement"),
    "line_first": Parameter(_unless_empty(_number(-1e9, 1e9)), None, "disagreement"),
    "line_second": Parameter(_unless_empty(_number(-1e9, 1e9)), None, "disagreement"),
    "follow": Parameter(_choice(FOLLOWS), "first", "disagreement"),
    "marked": Parameter(_heads, "", "disagreement"),
    "looked": Parameter(_heads, "", "disagreement"),
    "boxes": Parameter(_flag, True, "disagreement"),
    "facet": Parameter(_choice(FACETS), "costs", "disagreement"),
    "agree_by": Parameter(_choice(("jaccard", "overlap", "precision")), "jaccard", "disagreement"),
    "agreed": Parameter(_flag, False, "disagreement"),
    "step": Parameter(_whole(0, 4), 0, "disagreement"),
    "order": Parameter(_choice(("index", "slope")), "slope", "bands"),
    "rows": Parameter(_choice(("all", "later")), "all", "bands"),
    "dead_above": Parameter(_number(0, 1), 0.95, "bands surgery"),
    "sink_above": Parameter(_number(0, 1), 0.5, "bands surgery"),
    "nats_below": Parameter(_number(0, 20), 0.5, "bands surgery"),
    "band_over": Parameter(_number(0, 99), 30.0, "bands"),
    "reported": Parameter(_flag, True, "bands"),
    "overlaid": Parameter(_names, "", "bands"),
    "aspect": Parameter(_choice(ASPECTS), "spread", "bands"),
    "instead_of_bos": Parameter(_text, "The", "bands"),
    "repair": Parameter(_choice(("collapsed", "band", "dead")), "collapsed", "bands"),
    "treat_by": Parameter(_choice(("rule", "hand")), "rule", "surgery"),
    "treat_rule": Parameter(_text, "bos>0.5", "surgery"),
    "treated": Parameter(_heads, "", "surgery"),
    "treated_from": Parameter(_text, "", "surgery"),
    "repair_arms": Parameter(_several(ARMS, "arm"), "repair,untrained,no-reinit", "surgery"),
    "repair_seeds": Parameter(_seeds, "0,1,2", "surgery"),
    "train_on": Parameter(_choice(TEXTS), "docstrings", "surgery"),
    "train_windows": Parameter(_whole(0, 1_000_000), 0, "surgery"),
    "train_tokens": Parameter(_whole(0, 8_192), 0, "surgery"),
    "shuffled": Parameter(_flag, False, "surgery"),
    "held_on": Parameter(_choice(("same", *TEXTS)), "same", "surgery"),
    "held_windows": Parameter(_whole(2, 2_000), 64, "surgery"),
    "other_on": Parameter(_choice(("none", *TEXTS)), "stdlib-code", "surgery"),
    "repair_steps": Parameter(_whole(1, 100_000), 300, "surgery"),
    "every": Parameter(_whole(1, 100_000), 25, "surgery"),
    "patience": Parameter(_whole(0, 1_000), 0, "surgery"),
    "passes": Parameter(_whole(1, 9), 1, "surgery"),
    "repair_threads": Parameter(_whole(0, 1_024), 0, "surgery"),
    "recipe": Parameter(_choice(("auto", "paper", "small", "edited")), "auto", "surgery"),
    "init": Parameter(_choice(("xavier-uniform", "xavier-normal")), "xavier-uniform", "surgery"),
    "joint": Parameter(_flag, True, "surgery"),
    "rate": Parameter(_number(1e-7, 1), 5e-5, "surgery"),
    "decay": Parameter(_number(0, 1), 0.0, "surgery"),
    "clip": Parameter(_number(0, 100), 1.0, "surgery"),
    "batch": Parameter(_whole(1, 512), 1, "surgery"),
    "accumulate": Parameter(_whole(1, 512), 8, "surgery"),
    "warmup": Parameter(_whole(0, 100_000), 100, "surgery"),
    "schedule": Parameter(_choice(("cosine", "constant")), "cosine", "surgery"),
    "master": Parameter(_choice(("float32", "model")), "float32", "surgery"),
    "recompute": Parameter(_flag, False, "surgery"),
    "stage": Parameter(_choice(STAGES), "design", "surgery"),
    "operation": Parameter(_sha, "", "surgery"),
    "versus": Parameter(_sha, "", "surgery"),
    "recovery": Parameter(_choice(RECOVERY), "verdict", "surgery"),
    "arm_shown": Parameter(_row(ARMS, "arm"), "repair", "surgery"),
    "seed_shown": Parameter(_whole(0, 999_999), 0, "surgery"),
    "pass_shown": Parameter(_whole(1, 9), 1, "surgery"),
    "loss_as": Parameter(_choice(("nats", "perplexity")), "nats", "surgery"),
    "among": Parameter(_choice(("treated", "untouched", "all")), "treated", "surgery"),
    "point": Parameter(_choice(("best", "last")), "best", "surgery"),
    "inside": Parameter(_flag, False, "heads"),
    "input": Parameter(_whole(0, 1_999), 0, "heads"),
}


def read_url(parameters: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """(values, what was ignored and why) of a URL's parameters. Never raises: a bad value falls back, aloud."""
    values, ignored = {}, []
    for name, text in parameters.items():
        if name not in VIEW:
            ignored.append(f"`{name}` is no parameter of headviz.")
            continue
        try:
            values[name] = VIEW[name].read(text)
        except BadInput as error:
            reason = str(error).rstrip(".")
            ignored.append(
                f"`{name}={text[:60]}` was ignored: {reason}. Shown instead: `{VIEW[name].default}`."
            )
    for name, by in SHARE_OF.items():
        # who names a share means it; the compare page has the share of the heads page, under a choice of its own
        if name in values and by not in parameters and not (name == "share" and "share_by" in parameters):
            values[by] = "share"
    return values, ignored


def written(values: Mapping[str, Any], page: str = "", *, defaults: bool) -> dict[str, str]:
    """URL parameters for `values`: those of `page` and those of every page; with `defaults`, all of them."""
    shown = {}
    for name, parameter in VIEW.items():
        value = values.get(name, parameter.default)
        if (parameter.pages and page not in parameter.pages.split()) or (
            not defaults and (value == parameter.default or _by_itself(name, values, page))
        ):
            continue
        if value is None:
            shown[name] = ""
        elif isinstance(value, bool):
            shown[name] = "true" if value else "false"
        elif isinstance(value, float):
            shown[name] = repr(value)  # exact: a rounded threshold can pick another head
        else:
            shown[name] = str(value)
    return shown


def _by_itself(name: str, values: Mapping[str, Any], page: str) -> bool:
    """Whether this page finds the number of that slider by itself, so that a link need not hold it."""
    by = SHARE_OF.get(name)
    return by is not None and page in VIEW[by].pages.split() and values.get(by, VIEW[by].default) == "auto"


def query(values: Mapping[str, Any], page: str) -> str:
    """The query string of a link that shows exactly this, whatever the defaults become."""
    return urlencode({name: text for name, text in written(values, page, defaults=True).items() if text})
