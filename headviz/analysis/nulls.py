"""What attention would be without any preference for content: ALiBi alone. Closed forms; numpy only.

A head whose logits are its slope alone puts weight e^(−m·d) / Z on the key at distance d. So every head has some mass on
the first token and some entropy by construction, more mass for a shallow slope and for a short text. A measured mass says
something only beside this null. Without ALiBi the slope is 0: even attention, mass 1/n in row n.

Letters: T tokens, m slope in nats a token. All means are over the T query rows, the first one included, as the paper has
it ("Surgical Repair of Collapsed Attention Heads in ALiBi Transformers", arXiv 2603.09616).
"""

from __future__ import annotations

import math

import numpy as np

from headviz.errors import BadInput

_DRAWN_TOKENS = 4096  # T×T numbers are drawn for a random head


def null_mass(slope: float, T: int) -> float:
    """Mean weight on the first token, 0..1, of a head that looks at no content."""
    return float(np.exp(_first(slope, T) - _normaliser(slope, T)).mean())


def null_entropy(slope: float, T: int) -> float:
    """Mean entropy in nats of the same head: ln Z + m · E[distance], row by row."""
    keys = np.arange(1, _tokens(T) + 1, dtype=np.float64)
    if slope == 0:
        return float(np.log(keys).mean())
    # mean distance of a geometric distribution, cut off at n keys; beyond e^700 the second part is 0 to the last digit
    distance = 1 / np.expm1(slope) - keys / np.expm1(np.minimum(slope * keys, 700))
    return float((_normaliser(slope, T) + slope * distance).mean())


def null_by_distance(slope: float, T: int) -> np.ndarray:
    """(T,) weight at each distance of the same head, mean over the queries that have a key so far back."""
    inverse = np.exp(-_normaliser(slope, T))  # (T,) 1/Z of each row
    rows = T - np.arange(T)  # queries that reach the distance
    return np.exp(-slope * np.arange(T)) * np.cumsum(inverse[::-1])[::-1] / rows


def advantage(slope: float, T: int, mass: float = 0.5) -> float:
    """By how many nats the first token's logit must be ahead for a mean mass of `mass`, at this slope and length.

    Row 0 has no choice, so its mass is 1 whatever the logits. Raises BadInput for a mass that no finite advantage gives:
    1 and more, or 1/T and less.
    """
    first, total = _first(slope, T), _normaliser(slope, T)
    if not 1 / T < mass < 1:
        raise BadInput(
            f"A mean mass of {mass:g} needs no finite advantage at {T} tokens: ask for more than 1/{T} and less than 1."
        )
    # the other keys' share of Z, kept away from the logarithm of 0 in row 0, which has none
    others = total[1:] + np.log1p(-np.exp(first[1:] - total[1:]))

    def reached(ahead: float) -> float:
        odds = np.clip(first[1:] + ahead - others, -700, 700)
        return float((1 + (1 / (1 + np.exp(-odds))).sum()) / T)

    low, high = -60.0 - math.log(T), slope * T + 60.0 + math.log(T)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < mass else (low, middle)
    return (low + high) / 2


def random_head(
    slope: float,
    T: int,
    hidden: int,
    head_dim: int,
    *,
    correlation: float = 0.5,
    draws: int = 20,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(mean, lowest, highest) BOS mass over `draws` heads with fresh Xavier-uniform queries and keys and no training.

    Its inputs are drawn: T vectors of `hidden` numbers of size one, any two of them with that `correlation` (0..1), as
    layer-normed activations roughly are. Source: the paper's reinitialisation, one Xavier block of 3·head_dim rows.
    Raises BadInput for a correlation outside 0..1 or more than 4,096 tokens.
    """
    if not 0 <= correlation <= 1:
        raise BadInput(f"A correlation of inputs lies between 0 and 1, not at {correlation:g}.")
    if not 1 <= T <= _DRAWN_TOKENS:
        raise BadInput(f"A random head is drawn for 1 to {_DRAWN_TOKENS} tokens, not {T}.")
    draw = np.random.Generator(np.random.PCG64(seed))
    edge = math.sqrt(6 / (hidden + 3 * head_dim))
    distance = np.arange(T)[:, None] - np.arange(T)  # (T, T), query minus key
    found = np.empty(draws)
    for number in range(draws):
        shared, own = draw.standard_normal(hidden), draw.standard_normal((T, hidden))
        inputs = math.sqrt(correlation) * shared + math.sqrt(1 - correlation) * own  # (T, M)
        q, k = (inputs @ draw.uniform(-edge, edge, (hidden, head_dim)) for _ in range(2))
        logits = np.where(distance >= 0, q @ k.T / math.sqrt(head_dim) - slope * distance, -np.inf)
        weights = np.exp(logits - logits.max(1, keepdims=True))
        found[number] = (weights[:, 0] / weights.sum(1)).mean()
    return float(found.mean()), float(found.min()), float(found.max())


def _tokens(T: int) -> int:
    if T < 1:
        raise BadInput(f"A text has at least one token, not {T}.")
    return T


def _first(slope: float, T: int) -> np.ndarray:
    """(T,) logit of the first key in each row, in nats: minus slope times its distance."""
    if slope < 0:
        raise BadInput(f"An ALiBi slope is 0 or more, not {slope:g}.")
    return -slope * np.arange(_tokens(T), dtype=np.float64)


def _normaliser(slope: float, T: int) -> np.ndarray:
    """(T,) ln Z of each row: Z = Σ_d e^(−m·d) over the row's n keys."""
    keys = np.arange(1, _tokens(T) + 1, dtype=np.float64)
    if slope == 0:
        return np.log(keys)
    return np.log(-np.expm1(-slope * keys)) - np.log(-np.expm1(-slope))
