"""What a page shows, as one flat set of values that also stands in the URL.

Pure: no streamlit here. `VIEW` is the only list of URL parameters; app.py checks a URL against it before any widget
exists and says what it ignored, `link` writes every value out, defaults too, so that a link means the same tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headviz import readers as read
from headviz.analysis.metrics import METRICS
from headviz.data.corpora import CORPORA
from headviz.errors import BadInput
from headviz.surgery.arms import ARMS, DEFAULT_ARMS
from headviz.types import (
    BOS_POLICIES,
    DTYPES,
    PARTS,
    QUANTIZATIONS,
)

DEFAULT_METRIC = "ahon_ln"


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
    "model": Parameter(read.text, "smollm2"),
    "revision": Parameter(read.text, ""),
    "dtype": Parameter(read.choice(("auto", *DTYPES)), "auto"),
    "quantization": Parameter(read.choice(QUANTIZATIONS), "none"),
    "corpus": Parameter(read.row(CORPORA, "corpus"), "docstrings"),
    "dataset": Parameter(read.text, ""),
    "config": Parameter(read.text, ""),
    "split": Parameter(read.text, ""),
    "column": Parameter(read.text, ""),
    "data_revision": Parameter(read.text, ""),
    "text": Parameter(read.sha, ""),
    "part": Parameter(read.choice(PARTS), "held-out"),
    "inputs": Parameter(read.whole(1, 2_000), 16),
    "tokens": Parameter(read.whole(1, 131_072), 512),
    "seed": Parameter(read.whole(0, 999_999), 0),
    "bos": Parameter(read.choice(BOS_POLICIES), "tokenizer"),
    "chat": Parameter(read.flag, False),
    "metric": Parameter(read.row(METRICS, "score"), DEFAULT_METRIC, "heads ablation compare"),
    "rule": Parameter(read.choice(STRICT), "auto", "heads"),
    "share": Parameter(read.number(0, 100), 20.0, "heads compare"),
    "threshold": Parameter(read.number(-1e9, 1e9), 0.0, "heads"),
    "shows": Parameter(read.choice(("score", "inactive")), "score", "heads"),
    "head": Parameter(read.head, "", "heads ablation disagreement compare bands"),
    "panel": Parameter(read.choice(PANELS), "distribution", "heads"),
    "picture": Parameter(
        read.choice(("svg", "png")), "svg", "heads ablation disagreement compare bands surgery"
    ),
    "target": Parameter(read.choice(TARGETS), "loss", "ablation disagreement compare"),
    "off": Parameter(read.number(0, 100), 20.0, "ablation"),
    "by": Parameter(read.choice(("head", "group")), "head", "ablation"),
    "even": Parameter(read.flag, False, "ablation"),
    "draws": Parameter(read.whole(1, 100), 3, "ablation disagreement"),
    "scoring": Parameter(read.choice(("auto", "letter", "text")), "auto", "ablation disagreement compare"),
    "shots": Parameter(read.choice(SHOTS), "auto", "ablation disagreement compare"),
    "each": Parameter(read.whole(0, 1_000), 0, "ablation disagreement compare"),
    "look": Parameter(read.choice(LOOKS), "curve", "ablation"),
    "mode": Parameter(read.choice(("static", "per-input")), "static", "ablation"),
    "turned": Parameter(read.flag, False, "ablation"),
    "pick": Parameter(read.choice(("score", "hand")), "score", "ablation"),
    "picked": Parameter(read.heads, "", "ablation"),
    "scores": Parameter(read.several(METRICS, "score"), "ahon_ln,awft", "ablation"),
    "questions": Parameter(read.sha, "", "ablation disagreement compare"),
    "subjects": Parameter(read.names, "", "ablation disagreement compare"),
    "template": Parameter(read.flag, False, "ablation disagreement compare"),
    "chosen": Parameter(read.choice(CHOSEN), "auto", "ablation disagreement compare"),
    "chosen_part": Parameter(read.choice(("auto", *PARTS)), "auto", "ablation disagreement compare"),
    "chosen_inputs": Parameter(read.whole(0, 2_000), 0, "ablation disagreement compare"),
    "strict": Parameter(read.choice(STRICT), "auto", "ablation"),
    "cut": Parameter(read.number(-1e9, 1e9), 0.0, "ablation"),
    "wide": Parameter(read.flag, False, "ablation"),
    "by_whom": Parameter(read.text, "", "ablation"),
    "picked_on": Parameter(read.picked_on, "", "ablation"),
    "half": Parameter(read.choice(("all", "first", "second")), "all", "ablation disagreement compare"),
    "points": Parameter(read.number(0.01, 100), 1.0, "ablation disagreement compare"),
    "nats": Parameter(read.number(0.001, 100), 0.05, "ablation disagreement compare"),
    "alone": Parameter(read.choice(("short", "whole")), "short", "ablation"),
    "shown": Parameter(read.choice(("score", "gradient", "cost")), "score", "ablation"),
    "prompt": Parameter(read.prose, PROMPT, "ablation"),
    "length": Parameter(read.whole(1, 256), 40, "ablation"),
    "turn": Parameter(read.flag, False, "ablation"),
    "instead": Parameter(read.choice(("zero", "mean")), "zero", "ablation"),
    "others": Parameter(read.choice(("uniform", "layer_matched")), "uniform", "ablation"),
    "against": Parameter(read.names, "", "compare"),
    "other_dtype": Parameter(read.choice(("auto", *DTYPES)), "auto", "compare"),
    "other_quantization": Parameter(read.choice(("left", *QUANTIZATIONS)), "left", "compare"),
    "other_data": Parameter(read.choice(OTHER_DATA), "left", "compare"),
    "other_bos": Parameter(read.choice(("left", *BOS_POLICIES)), "left", "compare"),
    "pair": Parameter(read.whole(1, 8), 1, "compare"),
    "share_by": Parameter(read.choice(("auto", "share")), "auto", "compare"),
    "differs": Parameter(read.choice(COMPARED), "distributions", "compare"),
    "texts": Parameter(read.several(STABLE_DATA, "corpus"), "docstrings,stdlib-code", "compare"),
    "lengths": Parameter(read.lengths, "128,512", "compare"),
    "first": Parameter(read.row(METRICS, "score"), "awft", "disagreement"),
    "second": Parameter(read.row(METRICS, "score"), DEFAULT_METRIC, "disagreement"),
    "budget_by": Parameter(read.choice(STRICT), "auto", "disagreement"),
    "budget": Parameter(read.number(0, 50), 20.0, "disagreement"),
    "line_first": Parameter(read.unless_empty(read.number(-1e9, 1e9)), None, "disagreement"),
    "line_second": Parameter(read.unless_empty(read.number(-1e9, 1e9)), None, "disagreement"),
    "follow": Parameter(read.choice(FOLLOWS), "first", "disagreement"),
    "marked": Parameter(read.heads, "", "disagreement"),
    "looked": Parameter(read.heads, "", "disagreement"),
    "boxes": Parameter(read.flag, True, "disagreement"),
    "facet": Parameter(read.choice(FACETS), "costs", "disagreement"),
    "agree_by": Parameter(read.choice(("jaccard", "overlap", "precision")), "jaccard", "disagreement"),
    "agreed": Parameter(read.flag, False, "disagreement"),
    "step": Parameter(read.whole(0, 4), 0, "disagreement"),
    "order": Parameter(read.choice(("index", "slope")), "slope", "bands"),
    "rows": Parameter(read.choice(("all", "later")), "all", "bands"),
    "dead_above": Parameter(read.number(0, 1), 0.95, "bands surgery"),
    "sink_above": Parameter(read.number(0, 1), 0.5, "bands surgery"),
    "nats_below": Parameter(read.number(0, 20), 0.5, "bands surgery"),
    "band_over": Parameter(read.number(0, 99), 30.0, "bands"),
    "reported": Parameter(read.flag, True, "bands"),
    "overlaid": Parameter(read.names, "", "bands"),
    "aspect": Parameter(read.choice(ASPECTS), "spread", "bands"),
    "instead_of_bos": Parameter(read.text, "The", "bands"),
    "repair": Parameter(read.choice(("collapsed", "band", "dead")), "collapsed", "bands"),
    "treat_by": Parameter(read.choice(("rule", "hand")), "rule", "surgery"),
    "treat_rule": Parameter(read.text, "bos>0.5", "surgery"),
    "treated": Parameter(read.heads, "", "surgery"),
    "treated_from": Parameter(read.text, "", "surgery"),
    "repair_arms": Parameter(read.several(ARMS, "arm"), ",".join(DEFAULT_ARMS), "surgery"),
    "repair_seeds": Parameter(read.seeds, "0,1,2", "surgery"),
    "train_on": Parameter(read.choice(TEXTS), "docstrings", "surgery"),
    "train_windows": Parameter(read.unless_empty(read.whole(1, 1_000_000)), None, "surgery"),
    "train_tokens": Parameter(read.unless_empty(read.whole(2, 8_192)), None, "surgery"),
    "shuffled": Parameter(read.flag, False, "surgery"),
    "held_on": Parameter(read.choice(("same", *TEXTS)), "same", "surgery"),
    "held_windows": Parameter(read.whole(2, 2_000), 64, "surgery"),
    "other_on": Parameter(read.choice(("none", *TEXTS)), "stdlib-code", "surgery"),
    "repair_steps": Parameter(read.whole(1, 100_000), 300, "surgery"),
    "every": Parameter(read.whole(1, 100_000), 25, "surgery"),
    "patience": Parameter(read.unless_empty(read.whole(1, 1_000)), None, "surgery"),
    "passes": Parameter(read.whole(1, 9), 1, "surgery"),
    "repair_threads": Parameter(read.unless_empty(read.whole(1, 1_024)), None, "surgery"),
    "recipe": Parameter(read.choice(("auto", "paper", "small", "edited")), "auto", "surgery"),
    "init": Parameter(read.choice(("xavier-uniform", "xavier-normal")), "xavier-uniform", "surgery"),
    "joint": Parameter(read.flag, True, "surgery"),
    "rate": Parameter(read.number(1e-7, 1), 5e-5, "surgery"),
    "decay": Parameter(read.number(0, 1), 0.0, "surgery"),
    "clip": Parameter(read.number(0, 100), 1.0, "surgery"),
    "batch": Parameter(read.whole(1, 512), 1, "surgery"),
    "accumulate": Parameter(read.whole(1, 512), 8, "surgery"),
    "warmup": Parameter(read.whole(0, 100_000), 100, "surgery"),
    "schedule": Parameter(read.choice(("cosine", "constant")), "cosine", "surgery"),
    "master": Parameter(read.choice(("float32", "model")), "float32", "surgery"),
    "recompute": Parameter(read.flag, False, "surgery"),
    "stage": Parameter(read.choice(STAGES), "design", "surgery"),
    "operation": Parameter(read.sha, "", "surgery"),
    "versus": Parameter(read.sha, "", "surgery"),
    "recovery": Parameter(read.choice(RECOVERY), "verdict", "surgery"),
    "arm_shown": Parameter(read.row(ARMS, "arm"), "repair", "surgery"),
    "seed_shown": Parameter(read.whole(0, 999_999), 0, "surgery"),
    "pass_shown": Parameter(read.whole(1, 9), 1, "surgery"),
    "loss_as": Parameter(read.choice(("nats", "perplexity")), "nats", "surgery"),
    "among": Parameter(read.choice(("treated", "untouched", "all")), "treated", "surgery"),
    "point": Parameter(read.choice(("best", "last")), "best", "surgery"),
    "inside": Parameter(read.flag, False, "heads"),
    "input": Parameter(read.whole(0, 1_999), 0, "heads"),
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
            instead = "the default" if VIEW[name].default is None else f"`{VIEW[name].default}`"
            ignored.append(f"`{name}={text[:60]}` was ignored: {reason}. Shown instead: {instead}.")
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
