"""How well a model does with some heads off: what a worker runs to answer a `MeasureRequest`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.answering import Answers, answer_each, answer_packed, as_inputs
from headviz.analysis.batches import batches
from headviz.analysis.provenance import provenance
from headviz.analysis.scoring import available, ensure_checked
from headviz.analysis.switching import Switch, each_alone, overlap, run_batch
from headviz.data.inputs import Inputs, build_inputs
from headviz.data.prompts import Row, build_rows
from headviz.data.questions import read_questions
from headviz.errors import BadInput, Failure
from headviz.models.architectures import context_length
from headviz.models.head import logprobs
from headviz.types import MeasureRequest, QuestionScores, TextLosses, Watch
from headviz.types.watch import KeepsNothing


def run_measure(request: MeasureRequest, resources: Any) -> QuestionScores | TextLosses:
    """The answer to a request about questions or about text. Raises Cancelled, BadInput, Failure."""
    if (request.questions is None) == (request.text is None):
        raise BadInput("Heads are measured on questions or on text: give one of the two.")
    started = time.perf_counter()
    loaded = resources.model(request.model)
    if request.text is not None:
        return _text_losses(request, loaded, resources, started)
    return _question_scores(request, loaded, resources, started)


def _question_scores(request: MeasureRequest, loaded: Any, resources: Any, started: float) -> QuestionScores:
    ref, watch = request.questions, resources.watch
    questions = read_questions(ref, resources.settings, watch)
    watch.step("encoding prompts")
    rows = build_rows(questions, ref, loaded.tokenizer, context_length(loaded.model.config))
    ensure_checked(loaded, as_inputs([max(rows, key=lambda row: len(row.tokens))]), watch)
    switch = Switch(request.ablation, loaded, resources)
    kept = getattr(resources, "kept", KeepsNothing())
    answers = Answers(questions, rows, ref, switch.per_input)
    off_share, off_sets = np.full(len(questions.items), switch.share, np.float32), {}
    with torch.inference_mode():
        if switch.per_input:
            off = answer_each(rows, loaded, switch, answers, watch, kept)  # (rows, L, H)
            number = np.array([row.reads[0].question for row in rows])
            off_share = (
                np.bincount(number, off.mean((1, 2), dtype=np.float64)) / np.bincount(number)
            ).astype(np.float32)
            off_sets = overlap(off, np.array([ref.subjects.index(row.subject) for row in rows]))
        else:
            answer_packed(rows, loaded, switch, answers, watch, kept)
    answers.report(watch)
    return QuestionScores(
        subjects=ref.subjects,
        subject=np.array([ref.subjects.index(one.subject) for one in questions.items], np.int32),
        index=np.array([one.index for one in questions.items], np.int32),
        answer=answers.answer,
        logprob=answers.logprob,
        length=answers.length,
        off_share=off_share,
        off_sets=off_sets,
        provenance=provenance(request, loaded, started, (*questions.notes, *_cut_notes(rows))),
    )


def _cut_notes(rows: Sequence[Row]) -> tuple[str, ...]:
    cut = sum(row.cut for row in rows)
    return (
        (f"{cut} of {len(rows)} prompts are longer than the model's context and lost their beginning",)
        if cut
        else ()
    )


def _text_losses(request: MeasureRequest, loaded: Any, resources: Any, started: float) -> TextLosses:
    watch, shape = resources.watch, loaded.geometry
    longest = context_length(loaded.model.config)
    inputs = build_inputs(request.text, loaded.tokenizer, resources.settings, watch, context_length=longest)
    if int(inputs.lengths.max()) < 2:
        raise BadInput("No input has a second token, so there is nothing to predict. Ask for longer inputs.")
    ensure_checked(loaded, inputs, watch)
    switch = Switch(request.ablation, loaded, resources)
    N, T = inputs.tokens.shape
    losses = np.full((N, T - 1), np.nan)
    off = np.zeros((N, shape.layers, shape.heads), bool) if switch.per_input else None
    done, doing = 0, "measuring loss"
    kept = getattr(resources, "kept", KeepsNothing())
    with torch.inference_mode(), each_alone(loaded, switch, watch) as watching:
        for batch in batches(inputs.lengths, shape, loaded.device, available(loaded.device), soon=True):
            watch.step(doing, done, N, "inputs")
            if (before := kept.get(batch)) is None:
                hidden = run_batch(watching, switch, inputs, batch, loaded)  # (B, T, M)
                if off is not None:
                    off[batch] = switch.end()
                token_losses(losses, batch, hidden, inputs, loaded, watch)
                kept.put(batch, losses=losses[batch], **({} if off is None else {"off": off[batch]}))
            else:
                losses[batch] = before["losses"]
                if off is not None:
                    off[batch] = before["off"]
            done += len(batch)
            doing = f"measuring loss · {np.nanmean(losses):.3f} nats a token so far"
    watch.step(doing, N, N, "inputs")
    reached = ~np.isnan(losses)
    count = reached.sum(0)
    return TextLosses(
        loss=np.nansum(losses, 1),
        predicted=reached.sum(1).astype(np.int32),
        by_position=np.divide(np.nansum(losses, 0), count, out=np.full(T - 1, np.nan), where=count > 0),
        cluster=inputs.cluster.astype(np.int32),
        documents=tuple(inputs.documents),
        off_share=np.full(N, switch.share, np.float32)
        if off is None
        else off.mean((1, 2)).astype(np.float32),
        off_sets={} if off is None else overlap(off, inputs.cluster),
        provenance=provenance(request, loaded, started, tuple(inputs.notes)),
    )


def token_losses(
    losses: np.ndarray, batch: np.ndarray, hidden: Tensor, inputs: Inputs, loaded: Any, watch: Watch
) -> None:
    """Fill in losses (N, T−1): nats of every predicted token of a batch, one input at a time through the LM head."""
    for row, number in enumerate(batch):
        watch.check()
        n = int(inputs.lengths[number])
        targets = torch.from_numpy(inputs.tokens[number, 1:n].astype(np.int64)).to(hidden.device)
        found = -logprobs(loaded.model, hidden[row, : n - 1], targets)
        losses[number, : n - 1] = found.double().cpu().numpy()
        if not np.isfinite(losses[number, : n - 1]).all():
            raise Failure(
                f"The model's loss is not finite on input {number} ({inputs.documents[number]}), in "
                f"{loaded.ref.dtype}. Load it in float32 or bfloat16, or check its weights."
            )
