"""The texts of a repair: training windows, held-out documents in two parts, another domain, and proof that they are disjoint.

No torch here. Letters: N inputs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headviz.data.documents import Document
from headviz.data.inputs import Inputs, build_inputs
from headviz.errors import BadInput
from headviz.settings import Settings
from headviz.surgery.windows import refuse_few
from headviz.types import DataRef, RepairRequest, Watch

GRAM = 13  # words: what two texts share by copying, and hardly ever by chance
_BLANK = re.compile(r"\n[ \t]*\n")


@dataclass(frozen=True, kw_only=True)
class Texts:
    """Inputs of a repair, each of two tokens or more.

    train:    windows, in the order in which they were cut
    select, report: the two parts of the held-out text: no document is in both
    shared:   share of the held-out text's 13-grams that occur in the training text too (before its words are shuffled)
    """

    train: Inputs
    select: Inputs
    report: Inputs
    other: Inputs | None
    diagnose: Inputs
    shared: float
    notes: tuple[str, ...]


def read_texts(
    request: RepairRequest, tokenizer: Any, settings: Settings, watch: Watch, longest: int | None
) -> Texts:
    """All texts of a plan. longest: the model's context in tokens, or None.

    Raises BadInput where training and held-out text share a document, where there are too few windows or documents, and
    what `build_inputs` raises.
    """
    read: dict[str, list[Document]] = {}

    def inputs(what: str, ref: DataRef) -> Inputs:
        documents: list[Document] = []

        def note(document: Document) -> Document:
            documents.append(document)
            return shuffled(document, ref.seed) if what == "train" and request.shuffled else document

        found = _with_targets(build_inputs(ref, tokenizer, settings, watch, longest, note), what)
        used = set(found.documents)
        read[what] = [document for document in documents if document.name in used]
        return found

    train = inputs("train", request.train)
    refuse_few(request, len(train.lengths))
    held_out = inputs("held-out", request.held_out)
    other = inputs("other domain", request.other) if request.other is not None else None
    diagnose = inputs("diagnostic", request.diagnose)
    _disjoint(request.train, read["train"], request.held_out, read["held-out"], "held-out text")
    if other is not None:
        _disjoint(request.train, read["train"], request.other, read["other domain"], "text of another domain")
    watch.step("comparing the training text with the held-out text")
    select, report = parted(held_out)
    notes = [
        f"{name}: {note}" for name, some in _named(train, held_out, other, diagnose) for note in some.notes
    ]
    return Texts(
        train=train,
        select=select,
        report=report,
        other=other,
        diagnose=diagnose,
        shared=shared_grams(read["train"], read["held-out"]),
        notes=tuple(notes),
    )


def shuffled(document: Document, seed: int) -> Document:
    """The document with the words of every paragraph in random order: the same words, no sentences."""
    name = int.from_bytes(hashlib.sha256(document.name.encode()).digest()[:8], "big")
    draw = np.random.Generator(np.random.PCG64([seed, name]))
    paragraphs = [paragraph.split() for paragraph in _BLANK.split(document.text)]
    mixed = (" ".join(words[i] for i in draw.permutation(len(words))) for words in paragraphs if words)
    return replace(document, text="\n\n".join(mixed))


def parted(inputs: Inputs) -> tuple[Inputs, Inputs]:
    """(select, report): documents in the order in which they come up, in turn. Raises BadInput for a single document."""
    names = list(dict.fromkeys(inputs.cluster.tolist()))
    if len(names) < 2:
        raise BadInput(
            "The held-out text is one document, and its documents are parted in two: one part chooses the best step, the "
            "other judges it. Take a held-out text of several documents, or ask for more inputs of it."
        )
    reported = np.isin(inputs.cluster, names[::2])
    return subset(inputs, np.flatnonzero(~reported)), subset(inputs, np.flatnonzero(reported))


def halves(inputs: Inputs) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the inputs of each half: by document, or by input where there is one document; one may be empty."""
    of = inputs.cluster if len(set(inputs.cluster.tolist())) > 1 else np.arange(len(inputs.lengths))
    order = {name: at for at, name in enumerate(dict.fromkeys(of.tolist()))}
    second = np.array([order[name] % 2 for name in of.tolist()], dtype=bool)
    return np.flatnonzero(~second), np.flatnonzero(second)


def subset(inputs: Inputs, rows: np.ndarray) -> Inputs:
    """Some of the inputs, with their documents numbered anew."""
    _, cluster = np.unique(inputs.cluster[rows], return_inverse=True)
    return Inputs(
        inputs.tokens[rows],
        inputs.lengths[rows],
        tuple(inputs.documents[row] for row in rows.tolist()),
        cluster.astype(np.int32),
        inputs.first_is_bos[rows],
        inputs.notes,
    )


def shared_grams(train: Iterable[Document], held_out: Iterable[Document]) -> float:
    """Share of the held-out text's 13-grams of words, each as often as it stands there, that the training text has; 0..1."""
    numbers: dict[str, int] = {}
    there = [_grams(document.text, numbers) for document in train]
    asked = [_grams(document.text, numbers) for document in held_out]
    known = np.unique(np.concatenate(there)) if there else np.zeros(0, np.uint64)
    wanted = np.concatenate(asked) if asked else np.zeros(0, np.uint64)
    return float(np.isin(wanted, known).mean()) if len(wanted) else 0.0


def _grams(text: str, numbers: dict[str, int]) -> np.ndarray:
    """(words − 12,) uint64, a hash of each stretch of 13 words."""
    words = text.split()
    for word in words:
        if word not in numbers:
            digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            numbers[word] = int.from_bytes(digest, "big")
    found = np.array([numbers[word] for word in words], dtype=np.uint64)
    count = max(0, len(words) - GRAM + 1)
    total = np.zeros(count, np.uint64)
    for at in range(GRAM):
        total = total * np.uint64(0x9E3779B97F4A7C15) + found[at : at + count]  # wraps around, as meant
    return total


def _with_targets(inputs: Inputs, what: str) -> Inputs:
    long_enough = np.flatnonzero(inputs.lengths > 1)
    if not len(long_enough):
        raise BadInput(
            f"No input of the {what} text has a second token, so there is nothing to predict. Ask for longer inputs."
        )
    return inputs if len(long_enough) == len(inputs.lengths) else subset(inputs, long_enough)


def _disjoint(
    train: DataRef, trained: Sequence[Document], ref: DataRef, others: Sequence[Document], what: str
) -> None:
    """Refuse a document that is in both: by its name in the same corpus, or by its text."""
    names = {document.name for document in trained} if _source(train) == _source(ref) else set()
    texts = {document.text for document in trained}
    for document in others:
        if document.name in names or document.text in texts:
            raise BadInput(
                f"The document {document.name!r} is in the training text and in the {what}, which must be disjoint. "
                "Take another part or another corpus for one of them."
            )


def _source(ref: DataRef) -> tuple[str, ...]:
    own = ref.revision if ref.corpus == "own" else ""
    return ref.corpus, ref.dataset, ref.config, ref.column, own


def _named(
    train: Inputs, held_out: Inputs, other: Inputs | None, diagnose: Inputs
) -> list[tuple[str, Inputs]]:
    found = [("training text", train), ("held-out text", held_out), ("diagnostic text", diagnose)]
    return found if other is None else [*found, ("other domain", other)]
