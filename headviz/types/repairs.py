"""A repair: what is asked, and what comes of it. Requests and results as everywhere else.

Letters: S evaluated steps, L layers, H query heads, N inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from headviz.types.carried import Geometry, Provenance, ReadOnlyArrays
from headviz.types.checkpoints import SavedFile
from headviz.types.requests import DataRef, ModelRef

Arm = Literal["repair", "untrained", "no-reinit", "healthy", "removed"]
Heads = tuple[tuple[int, int], ...]  # sorted (layer, head)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How slices are drawn and trained. The defaults are those of arXiv 2603.09616, with float32 masters.

    init:     distribution of the new Q/K/V weights; biases start at zero, and so do the output columns
    joint:    draw Q, K and V of a head as one [3D, M] block (the paper's code), instead of three [D, M] blocks: the
              size of the block decides the width of the distribution
    rate:     largest learning rate; weight_decay: AdamW's, on slices only; clip: largest gradient norm, 0 for no limit
    batch, accumulate: windows of a forward pass, and forward passes of an optimiser step
    warmup:   steps in which the rate rises from 0, at most a quarter of all; then `schedule`
    master:   `float32`: slices and optimiser in float32, cast to the model's dtype in the forward pass; `model`: all in
              the model's dtype, as the paper's own runs
    checkpointing: recompute activations in the backward pass: less memory, a third more time
    """

    init: Literal["xavier-uniform", "xavier-normal"] = "xavier-uniform"
    joint: bool = True
    rate: float = 5e-5
    weight_decay: float = 0.0
    clip: float = 1.0
    batch: int = 1
    accumulate: int = 8
    warmup: int = 100
    schedule: Literal["cosine", "constant"] = "cosine"
    master: Literal["float32", "model"] = "float32"
    checkpointing: bool = False


@dataclass(frozen=True, kw_only=True)
class RepairRequest:
    """A plan of surgery: which heads, how, with which controls. Answered by a `RepairReport`.

    heads:    the heads to treat, resolved from whatever rule chose them
    healthy:  as many healthy heads, of the same slopes where there are such, for the arm of that name; else empty
    arms:     repair (new Q/K/V, output zero, trained), untrained (the same, no step), no-reinit (trained from what the
              heads have), healthy (repair of `healthy`), removed (heads switched off, nothing trained). By default what a
              verdict needs, and removal, which trains nothing and is a row of the figure remove / leave / repair
    seeds:    one run of every arm each; decides the new weights and the order of the training windows
    train:    training text; `inputs` windows of `tokens` tokens, read again in another order when all were read
    shuffled: words of every paragraph of the training text in random order (drawn from `train.seed`): its noisy counterpart
    held_out: text that decides and judges; its documents are parted in two, *select* and *report*
    other:    text of another domain, only judged by; None for none
    diagnose: text on which attention and norms of heads are measured, the same at every step
    steps, every: optimiser steps of a pass, and steps between two evaluations
    patience: end a pass after so many evaluations without a lower loss on the select part; 0 never does
    passes:   2: afterwards heads that are collapsed still or newly are treated in a second pass, and so on
    dead, sink, low_entropy: thresholds of the classes, as in `headviz.analysis.bands.Thresholds`
    threads:  of the processor, of each run; another number rounds otherwise, so it is part of what is asked. How many runs go on
              at the same time changes nothing, and is not
    """

    kind: ClassVar[str] = "repair"
    model: ModelRef
    heads: Heads
    healthy: Heads = ()
    recipe: Recipe
    arms: tuple[Arm, ...] = ("repair", "untrained", "no-reinit", "removed")
    seeds: tuple[int, ...] = (0, 1, 2)
    train: DataRef
    shuffled: bool = False
    held_out: DataRef
    other: DataRef | None = None
    diagnose: DataRef
    steps: int = 300
    every: int = 25
    patience: int = 0
    passes: int = 1
    dead: float = 0.95
    sink: float = 0.5
    low_entropy: float = 0.5
    threads: int = 1


@dataclass(frozen=True, kw_only=True)
class RepairedRequest:
    """A finished repair as an ordinary checkpoint among the models of this machine: answered by `RepairedCheckpoint`.

    repair: digest of the job; arm, seed: which of its runs; point: its best step by the select part, or its last
    """

    kind: ClassVar[str] = "repaired"
    repair: str
    arm: Arm = "repair"
    seed: int = 0
    point: Literal["best", "last"] = "best"


@dataclass(frozen=True, kw_only=True)
class RepairStock(ReadOnlyArrays):
    """The model before surgery, on the texts of the plan.

    select:       nats a token on the select part
    report, other: (N,) nats a token of each input on the report part and on the other domain (N = 0 without one), with how
                  many tokens were predicted and the document (cluster) of each
    mass, entropy, output_norm, full_norm: (L, H) on the diagnostic text, means over inputs: attention on the first token,
                  nats, ‖head output‖ before W_O (AHON) and after it
    half_mass:    (2, L, H) mass on each half of the diagnostic text: how far apart the same model's numbers are
    null_mass, null_entropy: (H,) what a head without preference for content would have at its slope
    """

    select: float
    report: np.ndarray
    report_predicted: np.ndarray
    report_cluster: np.ndarray
    other: np.ndarray
    other_predicted: np.ndarray
    other_cluster: np.ndarray
    mass: np.ndarray
    entropy: np.ndarray
    output_norm: np.ndarray
    full_norm: np.ndarray
    half_mass: np.ndarray
    null_mass: np.ndarray
    null_entropy: np.ndarray


@dataclass(frozen=True, kw_only=True)
class RepairRun(ReadOnlyArrays):
    """One pass of one arm with one seed; of a running repair, as far as it is.

    number:      of the pass, from 1; heads: treated in it
    step:        (S,) int32 evaluated optimiser steps; the first is 0, right after surgery
    train_loss:  (S,) nats a token, mean of the training windows since the evaluation before; NaN at step 0
    select:      (S,) nats a token on the select part
    rate, gradient_norm, tokens_per_second: (S,) of the steps since the evaluation before (norm before clipping); NaN at 0
    mass, entropy, output_norm, full_norm: (S, L, H) as in `RepairStock`
    best:        the step with the lowest `select`, the earliest of equals
    ended:       why it ended: `steps`, `patience`, or a sentence; empty while it runs
    report_best, report_last, other_best, other_last: (N,) nats a token of each input at the best and at the last step;
                 length 0 while it runs
    """

    arm: str
    seed: int
    number: int
    heads: tuple[tuple[int, int], ...]
    step: np.ndarray
    train_loss: np.ndarray
    select: np.ndarray
    rate: np.ndarray
    gradient_norm: np.ndarray
    tokens_per_second: np.ndarray
    mass: np.ndarray
    entropy: np.ndarray
    output_norm: np.ndarray
    full_norm: np.ndarray
    best: int
    ended: str
    report_best: np.ndarray
    report_last: np.ndarray
    other_best: np.ndarray
    other_last: np.ndarray


@dataclass(frozen=True, kw_only=True)
class HeadTest:
    """What the report part loses when one treated head is zeroed alone in the repaired model (first seed, best step).

    change: nats a token, [low, high] its 95% interval over documents; p: two-sided; p_holm: corrected for all heads
    """

    layer: int
    head: int
    change: float
    low: float
    high: float
    p: float
    p_holm: float


@dataclass(frozen=True, kw_only=True)
class RepairReport:
    """What came of a repair.

    runs:     by arm in the plan's order, then seed, then pass
    tests:    single heads of the repair arm; empty without that arm
    frozen_before: sha256 over all tensors of the model in the process that writes the report, before its first run
    frozen_after: the same over the model without slices where each arm and seed was ended, in whichever process that was, and
              where the report is written, at the end: the first that differs from `frozen_before`, which it is if none does.
              Where a process was stopped before it could take its hash, the provenance has a note
    trained:  numbers that were trained in the repair arm's first pass; whole: those of the matrices they are part of, which
              a gradient mask would have needed an optimiser for
    shared_text: share of the 13-grams of the held-out text that occur in the training text too
    files:    trained slices as they lie in HEADVIZ_HOME/repairs/<digest>
    """

    stock: RepairStock
    runs: tuple[RepairRun, ...]
    tests: tuple[HeadTest, ...]
    frozen_before: str
    frozen_after: str
    trained: int
    whole: int
    shared_text: float
    files: tuple[SavedFile, ...]
    geometry: Geometry
    provenance: Provenance

    @property
    def frozen_identical(self) -> bool:
        """Whether what was not trained is the same to the last bit, in every process that ended an arm with a seed and kept its hash."""
        return self.frozen_before == self.frozen_after


@dataclass(frozen=True, kw_only=True)
class RepairedCheckpoint:
    """A repaired model that was written, and how it compares with the job's.

    name, revision: of the model in lists; step: of training; heads: treated ones
    difference: largest |logit of the checkpoint in plain transformers − logit of the job's model| over `compared` tokens
    rounding:   the same for the stock model, plain against headviz
    loss_stock, loss_job, loss_after: nats a token on the report part; the last in plain transformers
    """

    name: str
    revision: str
    arm: str
    seed: int
    step: int
    heads: tuple[tuple[int, int], ...]
    difference: float
    rounding: float
    compared: int
    loss_stock: float
    loss_job: float
    loss_after: float
    files: tuple[SavedFile, ...]
    geometry: Geometry
    provenance: Provenance
