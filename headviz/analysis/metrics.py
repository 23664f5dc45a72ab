"""The scores: one row each. No torch here, so that menus, help and docs read the very rows that compute.

The twelve of "Identifying and Evaluating Inactive Heads in Pretrained LLMs" (arXiv 2504.03889), in the paper's order,
then three extras. A score of your own is one function and one row. `compute` takes the statistics of the probe
(`headviz.models.statistics.STATISTICS`), each (…, L, H) or (…, H), heads last, as numpy arrays or torch tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from headviz.errors import BadInput, lookup

# counted up when the same request would get other numbers: part of the cache key
METHOD_VERSIONS: dict[str, int] = {
    "score": 1,
    "prompt-score": 1,
    "pattern": 1,
    "bands": 1,
    "distance": 1,
    "sinks": 1,
    "measure": 1,
    "gradient": 1,
    "map": 1,
    "generate": 1,
    "checkpoint": 1,
    "repair": 2,
    "repaired": 1,
}

Array = Any  # a numpy array or a torch tensor, heads in the last dimension

_PAPER = "arXiv 2504.03889"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One score.

    name, symbol: the paper's; unit: what the number counts, "" for a ratio
    inactive:     whether heads that do nothing have a `high` or a `low` value
    needs:        statistics of the probe that it is computed from
    normalised:   divided by something of the same layer, so 1 is ordinary
    shares_kv:    equal by construction for all query heads that share a value head (GQA)
    range:        ends of a colour scale that suit every model; None: take the data's
    undefined:    why a value can be missing
    extra:        not one of the paper's twelve
    called, otherwise: a head that the score calls inactive, and one that it does not, in a word or two: "sink", "not a
                  sink"; the names of groups of heads are made of them. Empty: the names are made of the symbol
    """

    id: str
    name: str
    symbol: str
    unit: str
    inactive: Literal["high", "low"]
    help: str
    formula: str
    needs: tuple[str, ...]
    compute: Callable[[Mapping[str, Array]], Array]
    source: str = _PAPER
    normalised: bool = False
    shares_kv: bool = False
    range: tuple[float, float] | None = None
    undefined: str = ""
    extra: bool = False
    called: str = ""
    otherwise: str = ""


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Quotient; 0/0 is NaN. A zero here stands over a zero: the numerator is part of the denominator."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return numerator / denominator


def _per_layer(numbers: Array) -> Array:
    """Divided by the layer's mean over its heads, the head itself included, input by input."""
    return _ratio(numbers, numbers.mean(axis=-1, keepdims=True))


def _normalised(plain: Metric, explained: str) -> Metric:
    """The (LN) row of a score: the same number relative to the heads of the same layer."""
    return Metric(
        id=f"{plain.id}_ln",
        name=f"{plain.name} (LN)",
        symbol=f"{plain.symbol} (LN)",
        unit="",
        inactive=plain.inactive,
        help=explained,
        formula=f"{plain.symbol}_h / mean over the layer's heads of {plain.symbol}",
        needs=plain.needs,
        compute=lambda statistics: _per_layer(plain.compute(statistics)),
        source=plain.source,
        normalised=True,
        shares_kv=plain.shares_kv,
        range=(0.0, 2.0),
        undefined=f"{plain.symbol} is 0 in every head of the layer, so there is no layer mean to divide by.",
        extra=plain.extra,
        called=plain.called,
        otherwise=plain.otherwise,
    )


_AWFT = Metric(
    id="awft",
    name="Average Weight of First Token",
    symbol="AWFT",
    unit="probability",
    inactive="high",
    called="sink",
    otherwise="not a sink",
    help="How much of its attention the head puts on the very first token, averaged over all tokens. The first token "
    "carries almost no news, so many heads park their attention there when they have nothing to do. Near 1: the head "
    "looks at nothing else, and is called inactive. Near 0: it looks elsewhere. Use it to find attention sinks; it "
    "misses idle heads in models whose sink is another token.",
    formula="(1/N) Σ_i A[i, 0]",
    needs=("sink",),
    compute=lambda s: s["sink"],
    range=(0.0, 1.0),
)
_AEQD = Metric(
    id="aeqd",
    name="Average Entropy of Query Distributions",
    symbol="AEQD",
    unit="nats",
    inactive="low",
    called="focused",
    otherwise="spread out",
    help="How spread out the head's attention is, averaged over all tokens. 0: every token looks at exactly one token. "
    "High: it spreads over many; ln(n) is even over n tokens. Low values are called inactive, because a head stuck on "
    "one token decides nothing; but a head that sharply picks the right token is low too, so read it beside AHON.",
    formula="(1/N) Σ_i −Σ_j A[i, j] ln A[i, j]",
    needs=("entropy",),
    compute=lambda s: s["entropy"],
)
_FTVVN = Metric(
    id="ftvvn",
    name="First Token Value Vector Norm",
    symbol="FTVVN",
    unit="norm",
    inactive="low",
    called="empty at the first token",
    otherwise="full at the first token",
    help="The length of the value vector of the first token: what a head brings along when it looks there. Low: looking "
    "at the first token adds next to nothing, which makes it a good parking place, and the head is called inactive. "
    "Query heads that share a value head always tie.",
    formula="‖V[0]‖",
    needs=("value_first",),
    compute=lambda s: s["value_first"],
    shares_kv=True,
)
_AVVN = Metric(
    id="avvn",
    name="Average Value Vector Norm",
    symbol="AVVN",
    unit="norm",
    inactive="low",
    called="faint values",
    otherwise="strong values",
    help="The average length of the head's value vectors, over all tokens: how loud the content is that it could pass "
    "on. Low: whatever it looks at, little comes through, and the head is called inactive. It ignores where the head "
    "looks. Query heads that share a value head always tie.",
    formula="(1/N) Σ_i ‖V[i]‖",
    needs=("value_mean",),
    compute=lambda s: s["value_mean"],
    shares_kv=True,
)
_LTHON = Metric(
    id="lthon",
    name="Last Token Head Output Norm",
    symbol="LTHON",
    unit="norm",
    inactive="low",
    called="silent at the end",
    otherwise="loud at the end",
    help="The length of what the head writes at the last token, where the model predicts what comes next. Low: the head "
    "adds little to this prediction and is called inactive. One token only, so it varies more between texts than AHON.",
    formula="‖O[N−1]‖",
    needs=("output_last",),
    compute=lambda s: s["output_last"],
)
_AHON = Metric(
    id="ahon",
    name="Average Head Output Norm",
    symbol="AHON",
    unit="norm",
    inactive="low",
    called="silent",
    otherwise="loud",
    help="The average length of what the head writes, over all tokens. It takes into account both where the head looks "
    "and what it finds there. Low: whatever the reason, the head writes almost nothing, and is called inactive. Sizes "
    "differ between layers, so AHON (LN) compares better across a model.",
    formula="(1/N) Σ_i ‖O[i]‖",
    needs=("output_mean",),
    compute=lambda s: s["output_mean"],
)
_LTHON_LN = Metric(
    id="lthon_ln",
    name="Last Token Head Output Norm (LN)",
    symbol="LTHON (LN)",
    unit="",
    inactive="low",
    called="silent at the end",
    otherwise="loud at the end",
    help="What the head writes at the last token, relative to what the heads of its layer write on average over all "
    "tokens. Below 1: less than ordinary for the layer; near 0 the head is called inactive. Because the average is over "
    "all tokens, the mean over a layer need not be 1.",
    formula="‖O_h[N−1]‖ / mean over the layer's heads of AHON",
    needs=("output_last", "output_mean"),
    compute=lambda s: _ratio(s["output_last"], s["output_mean"].mean(axis=-1, keepdims=True)),
    normalised=True,
    range=(0.0, 2.0),
    undefined="Every head of the layer writes zeros, so there is no layer mean to divide by.",
)
_LTHON_HN = Metric(
    id="lthon_hn",
    name="Last Token Head Output Norm (HN)",
    symbol="LTHON (HN)",
    unit="",
    inactive="low",
    called="falls silent at the end",
    otherwise="not silent at the end",
    help="What the head writes at the last token, relative to what the same head writes on average. Near 1: the last "
    "token is like any other. Low: the head falls silent just there, and is called inactive. In the paper's code, "
    "though not among the twelve of its last version.",
    formula="‖O[N−1]‖ / AHON",
    needs=("output_last", "output_mean"),
    compute=lambda s: _ratio(s["output_last"], s["output_mean"]),
    normalised=True,
    range=(0.0, 2.0),
    undefined="The head writes zeros at every token, so there is no average to divide by.",
    extra=True,
)
_FULLOUT = Metric(
    id="fullout",
    name="Full Head Output Norm",
    symbol="FullOut",
    unit="norm",
    inactive="low",
    called="silent after W_O",
    otherwise="loud after W_O",
    help="The average length of what the head really adds to the model's stream: its output after its own slice of the "
    "output matrix W_O. Low: nothing arrives, whatever the head does inside. It is the one score that sees a head whose "
    "output columns are zero, as they are right after surgery.",
    formula="(1/N) Σ_i ‖O[i] W_O[h]‖",
    needs=("full_mean",),
    compute=lambda s: s["full_mean"],
    source=f"{_PAPER}, appendix A.1 (circuit-based)",
    extra=True,
)

_ROWS = (
    _AWFT,
    _AEQD,
    _FTVVN,
    _AVVN,
    _LTHON,
    _AHON,
    _normalised(
        _AWFT,
        "The weight on the first token, relative to the other heads of the layer. 1 is ordinary for the layer; 2 is twice "
        "as much. High: this head looks at the first token more than its neighbours, and is called inactive. In a layer "
        "where all heads do, none stands out.",
    ),
    _normalised(
        _AEQD,
        "How spread out the attention is, relative to the other heads of the layer. 1 is ordinary; near 0 the head is far "
        "more concentrated than its neighbours and is called inactive. Not defined for an input of one token.",
    ),
    _normalised(
        _FTVVN,
        "The length of the first token's value vector, relative to the other heads of the layer. 1 is ordinary; near 0 "
        "the first token is an emptier parking place here than next door, and the head is called inactive.",
    ),
    _normalised(
        _AVVN,
        "The average length of the value vectors, relative to the other heads of the layer. 1 is ordinary; near 0 the "
        "head's content is faint, and it is called inactive. Very stable between data sets, yet a weak choice of heads.",
    ),
    _LTHON_LN,
    _normalised(
        _AHON,
        "How much the head writes, relative to the heads of its layer. 1 is ordinary; near 0 it writes almost nothing "
        "compared with its neighbours, and is called inactive. In the paper the best single choice of heads that can "
        "be switched off: start here.",
    ),
    _LTHON_HN,
    _FULLOUT,
    _normalised(
        _FULLOUT,
        "How much of the head arrives in the model's stream, relative to the heads of its layer. 1 is ordinary; near 0 "
        "the head adds almost nothing and is called inactive.",
    ),
)
METRICS: dict[str, Metric] = {row.id: row for row in _ROWS}


def statistics_for(metrics: tuple[str, ...] | None = None) -> frozenset[str]:
    """What the probe must record for these scores (all of them if None). Raises UnknownName."""
    ids = METRICS if metrics is None else metrics
    return frozenset(name for id_ in ids for name in lookup(METRICS, id_, "score").needs)


def high_first(metric: str, turned: bool = False) -> bool:
    """Whether the heads that go first have high scores: what the paper calls inactive, or the other end if `turned`."""
    return (lookup(METRICS, metric, "score").inactive == "high") != turned


def inactive(values: Array, metric: str, threshold: float, turned: bool = False) -> Array:
    """Which values count as inactive: strictly above or below the threshold. A missing value (NaN) never does."""
    return values > threshold if high_first(metric, turned) else values < threshold


def threshold_at(values: np.ndarray, metric: str, share: float, turned: bool = False) -> float:
    """The threshold that calls a `share` (0..1) of the values inactive: the paper's quantile rule.

    All values are pooled, whatever their shape; the empirical CDF (k/n at the k-th smallest) is inverted by linear
    interpolation, at 1 − share for scores where high means inactive. At share 0 it is the extreme value, so that
    nothing is inactive. Raises BadInput when share is outside 0..1 or no value is defined.
    """
    row = lookup(METRICS, metric, "score")
    if not 0 <= share <= 1:
        raise BadInput(f"A share of heads lies between 0 and 1, not at {share}.")
    pooled = np.sort(np.asarray(values, dtype=np.float64)[~np.isnan(values)])  # (n,)
    if not pooled.size:
        raise BadInput(f"{row.symbol} has no value here, so there is no threshold to choose.")
    level = 1 - share if high_first(metric, turned) else share
    return float(np.interp(level, np.arange(1, pooled.size + 1) / pooled.size, pooled))
