"""How far an ablation moves the answer, whether or not it changes which one comes first."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import special

from headviz.errors import BadInput


def answer_kl(
    baseline: np.ndarray, ablated: np.ndarray, over: Literal["vocabulary", "choices"] = "vocabulary"
) -> np.ndarray:
    """KL(baseline ‖ ablated) at the answer position, nats, ≥ 0, one number a question.

    baseline, ablated: (n, C) log-probabilities of up to C answers, NaN in both beyond a question's choices
    over: "vocabulary": they are shares of the whole vocabulary; all other tokens together are one more outcome. Merging
          outcomes only lowers a KL, so this is a lower bound of the KL over the vocabulary. What is left to others
          below 1e-7 counts as 1e-7: float32 log-probabilities do not resolve less.
          "choices": they are made to sum to 1 first (answer texts, normalised by length).
    Raises BadInput for other shapes, NaN on one side, or probabilities that sum to more than 1.
    """
    p, q = np.asarray(baseline, dtype=np.float64), np.asarray(ablated, dtype=np.float64)
    if p.ndim != 2 or p.shape != q.shape or (np.isnan(p) != np.isnan(q)).any():
        raise BadInput(
            f"Log-probabilities come as (questions, choices) with the same gaps, not {p.shape} and {q.shape}."
        )
    p, q = (np.where(np.isnan(x), -np.inf, x) for x in (p, q))
    p, q = (_with_rest(x) if over == "vocabulary" else x for x in (p, q))
    p, q = (x - special.logsumexp(x, axis=1, keepdims=True) for x in (p, q))
    with np.errstate(invalid="ignore"):
        terms = np.where(np.isneginf(p), 0.0, np.exp(p) * (p - q))  # 0 ln 0 is 0
    return np.maximum(terms.sum(1), 0.0)


def _with_rest(logs: np.ndarray) -> np.ndarray:
    """(n, C + 1): the log-probability of everything else as a last column."""
    held = np.exp(logs).sum(1)  # (n,)
    if (held > 1 + 1e-4).any():
        raise BadInput(
            f"The probabilities of a question's answers sum to {held.max():.4g}, which is more than 1."
        )
    return np.column_stack([logs, np.log(np.maximum(1 - held, 1e-7))])
