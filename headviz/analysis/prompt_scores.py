"""Scores of every head on the prompts of a question set: the very inputs on which heads that are off are measured."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from headviz.analysis.answering import as_inputs
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import MOST_INPUTS, Scores, score_inputs
from headviz.data.inputs import Inputs, pieces
from headviz.data.prompts import build_rows
from headviz.data.questions import read_questions
from headviz.models.architectures import context_length
from headviz.types import PromptScoreRequest, ScoreTable, Watch


def run_prompt_score(request: PromptScoreRequest, resources: Any) -> ScoreTable:
    """The answer to a request, an input a prompt (with answer texts, an input an answer). Raises Cancelled, BadInput, Failure.

    Beyond 2,000 inputs not every value is kept: of each score and head there are 2,000 quantiles, evenly spaced from the
    smallest to the largest, in the place of its inputs. A threshold over all pooled values, and the mean, stay what they
    were to a 2,000th of a head's range; the tokens are left out.
    """
    started = time.perf_counter()
    loaded, watch = resources.model(request.model), resources.watch
    questions = read_questions(request.questions, resources.settings, watch)
    watch.step("encoding prompts")
    longest = context_length(loaded.model.config)
    rows = build_rows(questions, request.questions, loaded.tokenizer, longest)
    inputs = as_inputs(rows)
    bos = loaded.tokenizer.bos_token_id
    inputs = replace(inputs, first_is_bos=inputs.tokens[:, 0] == (-1 if bos is None else bos))
    scores = _all_scores(loaded, inputs, watch)
    notes = (*questions.notes, *scores.notes)
    N = len(inputs.lengths)
    if N > MOST_INPUTS:
        inputs, scores = _as_quantiles(inputs, scores)
        notes += (f"of {N:,} prompts, {MOST_INPUTS:,} quantiles of each head's scores are kept",)
    return ScoreTable(
        metrics=scores.metrics,
        values=scores.values,
        reasons=scores.reasons,
        lengths=inputs.lengths.astype(np.int32),
        tokens=inputs.tokens.astype(np.int32),
        pieces=pieces(inputs.tokens, loaded.tokenizer),
        documents=tuple(inputs.documents),
        cluster=inputs.cluster.astype(np.int32),
        first_is_bos=inputs.first_is_bos,
        geometry=loaded.geometry,
        provenance=provenance(request, loaded, started, notes),
    )


def _all_scores(loaded: Any, inputs: Inputs, watch: Watch) -> Scores:
    """`score_inputs` over any number of inputs, as many at a time as it takes."""
    N = len(inputs.lengths)
    parts = []
    for start in range(0, N, MOST_INPUTS):
        some = slice(start, start + MOST_INPUTS)
        if N > MOST_INPUTS:
            watch.step(f"scoring prompts from {start:,} of {N:,}")
        lengths = inputs.lengths[some]
        part = Inputs(
            inputs.tokens[some, : lengths.max()],
            lengths,
            inputs.documents[some],
            inputs.cluster[some],
            inputs.first_is_bos[some],
        )
        parts.append(score_inputs(loaded, part, watch))
    return Scores(
        metrics=parts[0].metrics,
        values=np.concatenate([part.values for part in parts], 1),  # (K, N, L, H)
        reasons={name: why for part in parts for name, why in part.reasons.items()},
        notes=parts[0].notes,
    )


def _as_quantiles(inputs: Inputs, scores: Scores) -> tuple[Inputs, Scores]:
    """MOST_INPUTS quantiles in the place of the N inputs, head by head; of the lengths likewise."""
    levels = np.linspace(0, 1, MOST_INPUTS)
    K, _, L, H = scores.values.shape
    kept = np.full((K, MOST_INPUTS, L, H), np.nan, np.float32)
    for k in range(K):
        for layer in range(L):
            values = scores.values[k, :, layer]  # (N, H)
            known = ~np.isnan(values)
            if known.all():
                kept[k, :, layer] = np.quantile(values, levels, axis=0)
                continue
            for head in range(H):
                if known[:, head].any():
                    kept[k, :, layer, head] = np.quantile(values[known[:, head], head], levels)
    made = Inputs(
        np.full((MOST_INPUTS, 1), -1, np.int32),
        np.quantile(inputs.lengths, levels).round().astype(np.int32),
        tuple(f"quantile {level:.4f}" for level in levels),
        np.arange(MOST_INPUTS, dtype=np.int32),
        np.full(MOST_INPUTS, bool(inputs.first_is_bos.all())),
    )
    return made, replace(scores, values=kept)
