"""From documents to the token ids that a model is fed. No torch: arrays of numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headviz.data.corpora import check_length
from headviz.data.documents import Document
from headviz.data.encoding import Encoder, encoder
from headviz.data.reading import pool_of, read_documents
from headviz.data.table import CORPORA, Corpus
from headviz.errors import BadData, lookup
from headviz.settings import Settings
from headviz.types import DataRef, Watch


@dataclass(frozen=True)
class Inputs:
    """N inputs of at most T tokens; the arrays cannot be written to.

    tokens:       (N, T) int32 token ids, −1 beyond an input's length (padding is on the right)
    lengths:      (N,) int32, 1..T
    documents:    (N,) name of the document each input was cut from
    cluster:      (N,) int32, inputs of one document share a number
    first_is_bos: (N,) bool, whether the first token is the tokenizer's BOS
    notes:        what a reader must know, such as that there are fewer inputs than were asked for
    """

    tokens: np.ndarray
    lengths: np.ndarray
    documents: tuple[str, ...]
    cluster: np.ndarray
    first_is_bos: np.ndarray
    notes: tuple[str, ...] = ()


Cut = tuple[list[int], int]  # token ids of an input, index of its document


def build_inputs(
    ref: DataRef,
    tokenizer: Any,
    settings: Settings,
    watch: Watch,
    context_length: int | None = None,
    change: Callable[[Document], Document] | None = None,
) -> Inputs:
    """The inputs that `ref` stands for, the same on every machine and every time.

    documents: in an order drawn from the seed, each gives its first `tokens` tokens; when all have, each gives the
               next ones, and so on. Documents with fewer tokens give nothing.
    items:     in an order drawn from the seed, each is one input, cut off at `tokens`.
    own text:  from its start, in order; the last piece may be short.
    change: what is done to every document before it is cut, such as putting its words in random order
    `tokens` counts the BOS and a chat template's tokens too. With the template, inputs may be a little shorter.
    Raises BadInput (longer than `context_length`, no BOS token, no chat template, no room) and BadData (no input at
    all), and what `read_documents` raises.
    """
    check_length(ref, context_length)
    row = lookup(CORPORA, ref.corpus, "corpus")
    encode = encoder(tokenizer, tokens=ref.tokens, bos=ref.bos, chat=ref.chat)
    documents = list(read_documents(ref, settings, watch))
    if change is not None:
        documents = [change(document) for document in documents]
    notes: list[str] = []
    if len(documents) == pool_of(ref):
        notes.append(f"drawn from the first {len(documents)} documents of this part")
    order = _order(len(documents), ref, row)
    if row.source == "own":
        found = _own(documents, order, encode, ref.inputs, notes)
    elif row.kind == "items":
        found = _items(documents, order, encode, ref.inputs, notes)
    else:
        found = _rounds(documents, order, encode, ref.inputs)
    cuts: list[Cut] = []
    for cut in found:
        cuts.append(cut)
        watch.step("cutting inputs", len(cuts), ref.inputs, "inputs")
    if not cuts:
        raise _nothing(ref, row, documents)
    if len(cuts) < ref.inputs:
        notes.append(f"{len(cuts)} inputs, {ref.inputs} were asked for: the text has no more of this length")
    return _padded(cuts, documents, tokenizer.bos_token_id, tuple(notes))


def pieces(tokens: np.ndarray, tokenizer: Any) -> dict[str, str]:
    """Token id (as a string) → the text it stands for, for all ids in `tokens` but −1.

    A token that is part of a character (byte-level vocabularies) is shown as the vocabulary writes it; an id that a model
    can write and its tokenizer does not know, as `<id>`.
    """
    found = {}
    for token in np.unique(tokens[tokens >= 0]).tolist():
        text = tokenizer.decode([token], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if "\ufffd" in text or not text:
            text = tokenizer.convert_ids_to_tokens(token) or f"<{token}>"
        found[str(token)] = text
    return found


def _order(count: int, ref: DataRef, row: Corpus) -> Sequence[int]:
    if row.source == "own":
        return range(count)
    return np.random.Generator(np.random.PCG64(ref.seed)).permutation(count).tolist()


def _rounds(documents: list[Document], order: Sequence[int], encode: Encoder, wanted: int) -> Iterator[Cut]:
    """Full windows: the first of every document, then the second of every document …"""
    waiting = [(encode.windows(documents[number].text), number) for number in order]
    given = 0
    while waiting:
        again = []
        for windows, number in waiting:
            ids, full = next(windows, ([], False))
            if not full:
                continue
            yield ids, number
            given += 1
            if given == wanted:
                return
            again.append((windows, number))
        waiting = again


def _items(
    documents: list[Document], order: Sequence[int], encode: Encoder, wanted: int, notes: list[str]
) -> Iterator[Cut]:
    """One input a document."""
    given = cut_off = 0
    for number in order:
        windows = encode.windows(documents[number].text)
        ids, full = next(windows, ([], False))
        if not ids:
            continue
        cut_off += full and next(windows, None) is not None
        given += 1
        yield ids, number
        if given == wanted:
            break
    if cut_off:
        notes.append(f"{cut_off} of {given} inputs are longer and are cut off at {encode.tokens} tokens")


def _own(
    documents: list[Document], order: Sequence[int], encode: Encoder, wanted: int, notes: list[str]
) -> Iterator[Cut]:
    """All of the text from its start, short last pieces too."""
    given = 0
    for number in order:
        for ids, _ in encode.windows(documents[number].text):
            if given == wanted:
                notes.append(f"the text has more than these {wanted} inputs; its start is used")
                return
            yield ids, number
            given += 1


def _nothing(ref: DataRef, row: Corpus, documents: list[Document]) -> BadData:
    what = f"{ref.dataset or ref.corpus}, {ref.part}"
    if not documents:
        return BadData(f"There is no text in {what}. Choose another part, split or column.")
    if row.source == "own" or row.kind == "items":
        return BadData(f"The tokenizer makes no tokens of the text of {what}. Give another text.")
    return BadData(
        f"No document of {what} has {ref.tokens} tokens ({len(documents)} were read). Ask for fewer tokens an input."
    )


def _padded(cuts: list[Cut], documents: list[Document], bos_id: int | None, notes: tuple[str, ...]) -> Inputs:
    lengths = np.array([len(ids) for ids, _ in cuts], dtype=np.int32)
    tokens = np.full((len(cuts), int(lengths.max())), -1, dtype=np.int32)  # (N, T)
    for row, (ids, _) in zip(tokens, cuts, strict=True):
        row[: len(ids)] = ids
    numbers: dict[int, int] = {}
    cluster = np.array([numbers.setdefault(number, len(numbers)) for _, number in cuts], dtype=np.int32)
    first_is_bos = np.array([bos_id is not None and ids[0] == bos_id for ids, _ in cuts], dtype=bool)
    for array in (lengths, tokens, cluster, first_is_bos):
        array.flags.writeable = False
    return Inputs(
        tokens, lengths, tuple(documents[number].name for _, number in cuts), cluster, first_is_bos, notes
    )
