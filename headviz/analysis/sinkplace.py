"""Where the attention sink is: mean attention by position, and AWFT that follows the strongest early column.

AWFT looks at the first token. In OLMo-2 and Qwen2.5-7B, which put no BOS first, the sink is another early token, so AWFT
is small there although heads do park their attention. numpy only. Letters: N inputs, L layers, H query heads, P positions.

A column counts on inputs that are at least twice as long: near the end of an input few queries see a token, and a token's
attention to itself would pass for a sink. The first column always counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from headviz.analysis.metrics import METRICS, Metric
from headviz.errors import BadInput
from headviz.types import Geometry, SinkPlaces

MOST_POSITIONS = 64
MOST_NUMBERS = 1 << 25  # weights kept, an input, head and position each: 128 MB

Follow = Literal["model", "head"]


@dataclass(frozen=True, kw_only=True)
class ModelSink:
    """The early position that the model's heads attend to most.

    position: zero-based; weight: mean over heads and inputs of the weight on it, 0..1
    by_position: (P,) the same for every position; NaN where no input is long enough
    inputs:   (P,) on how many inputs each position counts
    piece:    the token that stands there most often, as text; share: of the inputs that have it there, 0..1
    """

    position: int
    weight: float
    by_position: np.ndarray
    inputs: np.ndarray
    piece: str
    share: float


@dataclass(frozen=True, kw_only=True)
class HeadSinks:
    """Each head's strongest early column. position: (L, H) int, the earliest of equals; weight: (L, H) mean weight, 0..1."""

    position: np.ndarray
    weight: np.ndarray


def mean_weights(places: SinkPlaces) -> np.ndarray:
    """(L, H, P) mean over the inputs on which a column counts; NaN where it does on none."""
    there = _counts(places)  # (N, P)
    total = np.where(there[:, None, None], places.weights, 0).sum(0, dtype=np.float64)
    count = there.sum(0)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def model_sink(places: SinkPlaces) -> ModelSink:
    """The column that is strongest on average over heads and inputs, the earliest of equals."""
    by_position = mean_weights(places).mean(
        (0, 1)
    )  # (P,) every head has the same inputs, so NaN is all or none
    position = int(np.nanargmax(by_position))
    there = _counts(places)
    column = places.tokens[there[:, position], position]
    ids, counts = np.unique(column, return_counts=True)
    return ModelSink(
        position=position,
        weight=float(by_position[position]),
        by_position=by_position,
        inputs=there.sum(0),
        piece=places.pieces[str(int(ids[counts.argmax()]))],
        share=float(counts.max() / counts.sum()),
    )


def head_sinks(places: SinkPlaces) -> HeadSinks:
    """Where each head looks most among the first tokens, on average over inputs."""
    means = mean_weights(places)
    position = np.nanargmax(means, -1)  # (L, H)
    return HeadSinks(position=position, weight=np.take_along_axis(means, position[..., None], -1)[..., 0])


def followed(places: SinkPlaces, follow: Follow = "model") -> np.ndarray:
    """(N, L, H) float32 weight on the strongest early column: the model's, or each head's own. NaN where it does not count.

    "model": every head is asked about the same position, as AWFT does for the first; equal to AWFT where that is 0
    "head":  each head about its own: high also for a head that always looks at, say, token 3 alone; never below AWFT's mean
    """
    weights = np.where(_counts(places)[:, None, None], places.weights, np.float32(np.nan))  # (N, L, H, P)
    if follow == "model":
        return weights[..., model_sink(places).position]
    position = head_sinks(places).position  # (L, H)
    return np.take_along_axis(weights, position[None, ..., None], -1)[..., 0]


def followed_row(places: SinkPlaces, follow: Follow = "model") -> Metric:
    """What the numbers of `followed` are called: a row like those of METRICS, with an id and symbol of its own."""
    plain = METRICS["awft"]
    if follow == "model":
        position = model_sink(places).position
        which, tag, id_ = (
            f"token {position}, the model's strongest early column",
            f"@{position}",
            f"awft_at_{position}",
        )
    else:
        which, tag, id_ = "each head's own strongest early column", "@own", "awft_at_own"
    return replace(
        plain,
        id=id_,
        name=f"Average Weight of {which[0].upper()}{which[1:]}",
        symbol=f"{plain.symbol}{tag}",
        help=f"Like {plain.symbol}, but for {which} instead of the first token, averaged over the tokens that can look "
        "there. For models whose sink is not the first token. A score of headviz, not of the paper; the position was found "
        "on these very inputs. High: the head is called inactive.",
        formula="(1/(N−j)) Σ_{i≥j} A[i, j]",
        needs=(),
        source="headviz",
        extra=True,
    )


def check_positions(positions: int) -> None:
    """Raises BadInput for a number of positions outside 1..64."""
    if not 1 <= positions <= MOST_POSITIONS:
        raise BadInput(
            f"Attention by position is kept for the first 1 to {MOST_POSITIONS} tokens, not {positions}."
        )


def check_size(inputs: int, geometry: Geometry, positions: int) -> None:
    """Raises BadInput where more numbers would be kept than fit: inputs × heads × positions."""
    numbers = inputs * geometry.layers * geometry.heads * positions
    if numbers > MOST_NUMBERS:
        raise BadInput(
            f"{inputs:,} inputs × {geometry.layers * geometry.heads:,} heads × {positions} positions are {numbers:,} "
            f"numbers; {MOST_NUMBERS:,} are kept at most. Ask for fewer inputs or positions."
        )


def _counts(places: SinkPlaces) -> np.ndarray:
    """(N, P) bool, which columns count on each input."""
    return np.arange(places.weights.shape[-1]) < np.maximum(places.lengths // 2, 1)[:, None]
