"""Answers to multiple-choice questions: log-probabilities of what may follow each prompt, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.packs import packs
from headviz.analysis.scoring import available
from headviz.analysis.switching import Switch, each_alone, run_batch
from headviz.data.inputs import Inputs
from headviz.data.prompts import Row
from headviz.data.questions import Questions
from headviz.errors import Failure
from headviz.models.head import logprobs
from headviz.models.prefix import Packed, packed
from headviz.types import QuestionsRef, Watch


class Answers:
    """Log-probabilities of answers as they come in."""

    def __init__(self, questions: Questions, rows: Sequence[Row], ref: QuestionsRef, per_input: bool) -> None:
        Q, C = len(questions.items), max(len(one.choices) for one in questions.items)
        self.logprob = np.full((Q, C), np.nan)
        self.length = np.zeros((Q, C), np.int32)
        self.answer = np.array([one.answer for one in questions.items], np.int32)
        self._rows, self._by_length = rows, ref.scoring == "text"
        self._waiting = np.bincount([row.reads[0].question for row in rows], minlength=Q)
        self._doing = "answering questions" + (", each with its own heads off" if per_input else "")

    def take(self, numbers: Sequence[int], found: np.ndarray) -> None:
        """`found`: log-probability of each token that `reads_of` asks for, in its order."""
        at = 0
        for number in numbers:
            for read in self._rows[number].reads:
                sum_of = found[at : at + len(read.targets)]
                at += len(read.targets)
                self.logprob[read.question, read.choice] = sum_of.sum(dtype=np.float64)
                self.length[read.question, read.choice] = len(read.targets)
            self._waiting[self._rows[number].reads[0].question] -= 1
        done = self._waiting == 0
        if not np.isfinite(self.logprob[done & (self.length[:, 0] > 0), 0]).all():
            raise Failure(
                "The model's log-probabilities are not finite. Load it in float32 or bfloat16, or check its weights."
            )

    def report(self, watch: Watch) -> None:
        """Say how many questions are answered, and how many of them rightly."""
        done = self._waiting == 0
        said = self._doing
        if done.any():
            judged = self.logprob[done]
            if self._by_length:
                judged = judged / np.maximum(self.length[done], 1)
            said += f" · accuracy so far {np.mean(np.nanargmax(judged, 1) == self.answer[done]):.2f}"
        watch.step(said, int(done.sum()), len(done), "questions")


def answer_packed(rows: Sequence[Row], loaded: Any, switch: Switch, answers: Answers, watch: Watch) -> None:
    """Static sets: what a subject's prompts begin with runs once, and prompts run without padding."""
    with packed(loaded.model, gates=switch.whole, watch=watch, means=switch.means) as watching:
        for pack, shared in _with_prefix(rows, loaded, watching):
            answers.report(watch)
            skip = shared.length if shared is not None else 0
            hidden = watching.pack([rows[number].tokens[skip:] for number in pack], shared)  # (N, M)
            ends = np.cumsum([len(rows[number].tokens) - skip for number in pack])
            answers.take(pack, read_answers(loaded, hidden, [rows[number] for number in pack], ends))


def _with_prefix(rows: Sequence[Row], loaded: Any, watching: Packed) -> Iterator[tuple[list[int], Any]]:
    """(numbers of rows, their shared beginning or None), pack by pack."""
    plan = packs(rows, loaded.geometry, loaded.device, available(loaded.device), alone=watching.alone)
    whole = []
    for pack in plan:
        beginning = rows[pack.groups[0][0]].tokens[: pack.prefix]
        longest = max(len(rows[number].tokens) for group in pack.groups for number in group)
        shared = watching.prefix(beginning, longest) if pack.prefix else None
        if shared is None and pack.prefix:
            whole.append(pack)  # this model cannot share: as they are, whole
            continue
        for group in pack.groups:
            yield group, shared
    left = sorted(number for pack in whole for group in pack.groups for number in group)
    if left:
        again = packs(
            [rows[number] for number in left],
            loaded.geometry,
            loaded.device,
            available(loaded.device),
            alone=watching.alone,
            share=False,
        )
        for pack in again:
            for group in pack.groups:
                yield [left[number] for number in group], None


def answer_each(
    rows: Sequence[Row], loaded: Any, switch: Switch, answers: Answers, watch: Watch
) -> np.ndarray:
    """Rules that decide input by input: whole prompts, padded on the right. Returns (rows, L, H) bool."""
    shape, inputs = loaded.geometry, as_inputs(rows)
    off = np.zeros((len(rows), shape.layers, shape.heads), bool)
    with each_alone(loaded, switch, watch) as watching:
        for batch in batches(inputs.lengths, shape, loaded.device, available(loaded.device)):
            answers.report(watch)
            hidden = run_batch(watching, switch, inputs, batch, loaded)  # (B, T, M)
            off[batch] = switch.end()
            T = hidden.shape[1]
            ends = np.arange(len(batch)) * T + inputs.lengths[batch]
            answers.take(
                batch.tolist(), read_answers(loaded, hidden.flatten(0, 1), [rows[i] for i in batch], ends)
            )
    return off


def read_answers(loaded: Any, hidden: Tensor, rows: Sequence[Row], ends: np.ndarray) -> np.ndarray:
    """Log-probabilities of all answer tokens of `rows`, in order. hidden (N, M); ends: one past each row's last token."""
    places: list[int] = []  # rows of `hidden` that the LM head sees, each once
    which: list[int] = []
    targets: list[int] = []
    for row, end in zip(rows, ends.tolist(), strict=True):
        n = len(row.reads[0].targets)  # answers read from one input are equally long
        for read in row.reads:
            which += range(len(places), len(places) + n)
            targets += read.targets
        places += range(end - n, end)
    order = np.argsort(which, kind="stable")
    device = hidden.device
    found = logprobs(
        loaded.model,
        hidden[torch.tensor(places, device=device)],
        torch.tensor(targets, device=device)[order],
        torch.tensor(which, device=device)[order],
    )
    back = np.empty(len(order))
    back[order] = found.double().cpu().numpy()
    return back


def as_inputs(rows: Sequence[Row]) -> Inputs:
    lengths = np.array([len(row.tokens) for row in rows], np.int32)
    tokens = np.full((len(rows), lengths.max()), -1, np.int32)
    for number, row in enumerate(rows):
        tokens[number, : lengths[number]] = row.tokens
    names = tuple(f"a question about {row.subject}" for row in rows)
    return Inputs(tokens, lengths, names, np.arange(len(rows)), np.zeros(len(rows), bool))
