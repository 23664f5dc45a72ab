"""Results of scoring and measuring: frozen dataclasses over numpy arrays that nobody can write to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headviz.types.carried import Geometry, Provenance, ReadOnlyArrays


@dataclass(frozen=True, kw_only=True)
class ScoreTable(ReadOnlyArrays):
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
class HeadPattern(ReadOnlyArrays):
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
class SinkPlaces(ReadOnlyArrays):
    """Attention that each of the first P tokens receives, head by head, on N inputs.

    weights: (N, L, H, P) float32, 0..1, mean weight on token j over the queries i ≥ j; NaN where the input has no token j.
             Column 0 is AWFT
    lengths: (N,) int32; tokens: (N, P) int32 ids of the first tokens, −1 beyond an input's length; pieces: id → text
    documents, cluster, first_is_bos: as in ScoreTable
    """

    weights: np.ndarray
    lengths: np.ndarray
    tokens: np.ndarray
    pieces: dict[str, str]
    documents: tuple[str, ...]
    cluster: np.ndarray
    first_is_bos: np.ndarray
    geometry: Geometry
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class Bands(ReadOnlyArrays):
    """Attention on the first real token, and entropy, of every head on N inputs.

    mass:      (N, L, H) float32, 0..1, mean over all query rows of the weight on the first token; row 0 counts as 1
    entropy:   (N, L, H) float32, nats, mean over all query rows
    lengths:   (N,) int32; cluster: (N,) int32, inputs of one document share a number; documents: (N,) their names
    first_is_bos: (N,) bool, whether the first token is the tokenizer's BOS; first: (N,) its text
    strongest: (N, L, H) float32, the largest mean weight that any one column has, and strongest_at: (N, L, H) int32 which;
               at_bos: (N, L, H) float32, the weight on all tokens that are BOS, NaN where the input has none.
               All three None unless the request asked for `columns`
    """

    mass: np.ndarray
    entropy: np.ndarray
    lengths: np.ndarray
    cluster: np.ndarray
    documents: tuple[str, ...]
    first_is_bos: np.ndarray
    first: tuple[str, ...]
    strongest: np.ndarray | None = None
    strongest_at: np.ndarray | None = None
    at_bos: np.ndarray | None = None
    geometry: Geometry
    provenance: Provenance

    def mean_mass(self) -> np.ndarray:
        """(L, H) mean over inputs."""
        return self.mass.mean(0, dtype=np.float64)

    def mean_entropy(self) -> np.ndarray:
        """(L, H) mean over inputs, nats."""
        return self.entropy.mean(0, dtype=np.float64)

    def without_first_row(self) -> np.ndarray:
        """(N, L, H) float64 mass over the rows from the second on, where a head has a choice; NaN for one token."""
        rows = self.lengths[:, None, None].astype(np.float64)
        more = np.where(rows > 1, rows - 1, np.nan)
        return np.clip((self.mass.astype(np.float64) * rows - 1) / more, 0, 1)


@dataclass(frozen=True, kw_only=True)
class AttentionByDistance(ReadOnlyArrays):
    """How far back one head looks, over the real queries of N inputs of up to T tokens.

    mean:          (T,) float64, weight on the key at each distance, mean over the queries that have one so far back
    without_first: (T,) float64, the same without the first token of each input, on which sinks park; NaN where none is left
    queries:       (T,) int64, how many queries reach each distance
    """

    layer: int
    head: int
    mean: np.ndarray
    without_first: np.ndarray
    queries: np.ndarray
    geometry: Geometry
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class QuestionScores(ReadOnlyArrays):
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
class TextLosses(ReadOnlyArrays):
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
class HeadGradients(ReadOnlyArrays):
    """values: (L, H) float64, mean over inputs of |∂ loss / ∂ gate| at 1 (Michel et al. 2019). An order, never nats."""

    values: np.ndarray
    geometry: Geometry
    provenance: Provenance


@dataclass(frozen=True, kw_only=True)
class HeadLosses(ReadOnlyArrays):
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


@dataclass(frozen=True, kw_only=True)
class Generation(ReadOnlyArrays):
    """How a model went on from a prompt of P tokens: N new ones, the likeliest each time.

    prompt:  (P,) int32 token ids as fed; prompt_pieces: the text that each stands for
    tokens:  (N,) int32 new token ids, the one that ends the text included; pieces: the text that each stands for
    text:    the new tokens as one text, special tokens left out
    logprob: (N,) float64, nats, log-probability of each new token where it was chosen; entropy: (N,) float64, nats, of the
             distribution it was chosen from, 0..ln V
    stop:    `end`: the model ended the text; `length`: as many tokens as were asked for
    """

    prompt: np.ndarray
    prompt_pieces: tuple[str, ...]
    tokens: np.ndarray
    pieces: tuple[str, ...]
    text: str
    logprob: np.ndarray
    entropy: np.ndarray
    stop: str
    geometry: Geometry
    provenance: Provenance
