"""Answers to multiple-choice questions: log-probabilities of what may follow each prompt, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headviz.analysis.batches import batches
from headviz.analysis.packs import Branch, packs
from headviz.analysis.scoring import available
from headviz.analysis.switching import Switch, each_alone, run_batch
from headviz.data.inputs import Inputs
from headviz.data.prompts import Row
from headviz.data.questions import Questions
from headviz.errors import Failure
from headviz.models.head import logprobs
from headviz.models.prefix import Packed, packed
from headviz.types import QuestionsRef, Watch
from headviz.types.watch import Kept


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


def answer_packed(
    rows: Sequence[Row], loaded: Any, switch: Switch, answers: Answers, watch: Watch, kept: Kept
) -> None:
    """Static sets: what prompts share runs once, and nothing is padded."""
    with packed(loaded.model, gates=switch.whole, watch=watch, means=switch.means) as watching:
        for group, shared in _with_prefix(rows, loaded, watching):
            answers.report(watch)
            numbers = [number for branch in group for number in branch.rows]
            if (before := kept.get(numbers)) is None:
                skip = shared.length if shared is not None else 0
                inputs, parents, places = _laid_out(rows, group, skip)
                hidden = watching.pack(inputs, shared, parents)  # (N, M)
                found = read_answers(loaded, hidden, [rows[number] for number in numbers], places)
                kept.put(numbers, found=found)
            else:
                found = before["found"]
            answers.take(numbers, found)


def _laid_out(
    rows: Sequence[Row], group: Sequence[Branch], skip: int
) -> tuple[list[tuple[int, ...]], list[int | None], list[list[int]]]:
    """(inputs, parents) for `Packed.pack`, and for every row of the group where its answers are read."""
    inputs: list[tuple[int, ...]] = []
    parents: list[int | None] = []
    places: list[list[int]] = []
    at = 0
    for branch in group:
        trunk, parent = range(at, at + branch.trunk), None
        if branch.trunk:
            parent = len(inputs)
            inputs.append(rows[branch.rows[0]].tokens[skip : skip + branch.trunk])
            parents.append(None)
            at += branch.trunk
        for number in branch.rows:
            tail = rows[number].tokens[skip + branch.trunk :]
            if tail:  # where an answer is one token, all there is to run is the trunk
                inputs.append(tail)
                parents.append(parent)
            path = [*trunk, *range(at, at + len(tail))]
            at += len(tail)
            places.append(path[-len(rows[number].reads[0].targets) :])
    return inputs, parents, places


def _with_prefix(
    rows: Sequence[Row], loaded: Any, watching: Packed
) -> Iterator[tuple[tuple[Branch, ...], Any]]:
    """(what runs together, its shared beginning or None), pack by pack."""
    room = (loaded.geometry, loaded.device, available(loaded.device))
    left: list[int] = []
    possible = True
    for pack in packs(rows, *room, alone=watching.alone):
        numbers = [number for group in pack.groups for branch in group for number in branch.rows]
        shared = None
        if pack.prefix:
            longest = max(len(rows[number].tokens) for number in numbers)
            beginning = rows[numbers[0]].tokens[: pack.prefix]
            shared = watching.prefix(beginning, longest) if possible else None
            if shared is None:  # this model cannot share: whole, later, and no use in trying again
                possible = False
                left += numbers
                continue
        for group in pack.groups:
            yield group, shared
    for pack in packs([rows[number] for number in left], *room, alone=watching.alone, share=False):
        for group in pack.groups:
            yield tuple(replace(b, rows=tuple(left[n] for n in b.rows)) for b in group), None


def answer_each(
    rows: Sequence[Row], loaded: Any, switch: Switch, answers: Answers, watch: Watch, kept: Kept
) -> np.ndarray:
    """Rules that decide input by input: whole prompts, padded on the right. Returns (rows, L, H) bool."""
    shape, inputs = loaded.geometry, as_inputs(rows)
    off = np.zeros((len(rows), shape.layers, shape.heads), bool)
    with each_alone(loaded, switch, watch) as watching:
        for batch in batches(inputs.lengths, shape, loaded.device, available(loaded.device), soon=True):
            answers.report(watch)
            if (before := kept.get(batch)) is None:
                hidden = run_batch(watching, switch, inputs, batch, loaded)  # (B, T, M)
                T = hidden.shape[1]
                mine = [rows[number] for number in batch]
                ends = (np.arange(len(batch)) * T + inputs.lengths[batch]).tolist()
                places = [
                    range(end - len(row.reads[0].targets), end) for row, end in zip(mine, ends, strict=True)
                ]
                found = read_answers(loaded, hidden.flatten(0, 1), mine, places)
                before = {"found": found, "off": switch.end()}
                kept.put(batch, **before)
            off[batch] = before["off"]
            answers.take(batch.tolist(), before["found"])
    return off


def read_answers(
    loaded: Any, hidden: Tensor, rows: Sequence[Row], places: Sequence[Sequence[int]]
) -> np.ndarray:
    """Log-probabilities of all answer tokens of `rows`, in order.

    hidden (N, M); places: for each row, the rows of `hidden` after which its answers' tokens come
    """
    seen: dict[int, int] = {}  # row of `hidden` → its number among those that the LM head sees, each once
    which: list[int] = []
    targets: list[int] = []
    for row, place in zip(rows, places, strict=True):
        for read in row.reads:
            which += [seen.setdefault(at, len(seen)) for at in place]
            targets += read.targets
    order = torch.from_numpy(np.argsort(which, kind="stable"))
    found = logprobs(
        loaded.model,
        hidden[torch.tensor(list(seen), device=hidden.device)],
        torch.tensor(targets)[order].to(hidden.device),
        torch.tensor(which)[order].to(hidden.device),
    )
    back = np.empty(len(order))
    back[order.numpy()] = found.double().cpu().numpy()
    return back


def as_inputs(rows: Sequence[Row]) -> Inputs:
    lengths = np.array([len(row.tokens) for row in rows], np.int32)
    tokens = np.full((len(rows), lengths.max()), -1, np.int32)
    for number, row in enumerate(rows):
        tokens[number, : lengths[number]] = row.tokens
    names = tuple(f"a question about {row.subject}" for row in rows)
    return Inputs(tokens, lengths, names, np.arange(len(rows)), np.zeros(len(rows), bool))
