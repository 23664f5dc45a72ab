"""What can be scored on: the table of corpora, and how a choice becomes a pinned `DataRef`.

    ref = resolve("docstrings", inputs=16, tokens=512, seed=0, settings=settings())
    for document in read_documents(ref, settings(), Silent()): ...

Pages call `resolve` and `describe`; neither imports torch, transformers or datasets.
"""

from __future__ import annotations

import difflib

from headviz.data import hub, local, own_text, questions
from headviz.data.documents import Document
from headviz.data.reading import INSTALLED, pool_of, read_documents, source_of
from headviz.data.table import CORPORA, Corpus
from headviz.errors import BadData, BadInput, UnknownName, lookup
from headviz.settings import Settings
from headviz.types import BOS_POLICIES, Bos, DataRef, QuestionsRef

__all__ = [
    "CORPORA",
    "Corpus",
    "Document",
    "check_length",
    "describe",
    "pool_of",
    "read_documents",
    "resolve",
]


def resolve(
    corpus: str,
    *,
    dataset: str = "",
    config: str = "",
    split: str = "",
    column: str = "",
    revision: str = "",
    part: str = "",
    inputs: int = 16,
    tokens: int = 512,
    seed: int = 0,
    bos: Bos = "tokenizer",
    chat: bool = False,
    settings: Settings,
) -> DataRef:
    """The pinned data of a request.

    part:     empty for the corpus' own default: held-out where there is one, else all
    revision: for `own`, the sha256 that `own_text.import_text` gave; for the hub a branch, tag or commit (empty: main,
              or the local copy when there is one); for what is on this machine empty, or the hash that it must have
    dataset, config, split, column: only for `hub`; split is `train` and column `text` unless given
    inputs ≥ 1, tokens ≥ 1 (BOS and template included), seed ≥ 0

    A local copy (HEADVIZ_DATA, HEADVIZ_MMLU) is used without asking the network. Own text has no seed and no part:
    it is read from its start. Raises UnknownName, BadInput, BadData, GatedModel, Unreachable.
    """
    row = lookup(CORPORA, corpus, "corpus")
    part = part or row.parts[0]
    _check_choices(row, part, bos)
    for name, value, least in (("inputs", inputs, 1), ("tokens", tokens, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**31:
            raise BadInput(f"{name} is {value!r}; it must be a whole number from {least} on.")
    if row.id == "hub":
        if not dataset:
            raise BadInput("Say which data set of the hub: its id, written like owner/name.")
        hub.check_id(dataset)
        split, column = split or "train", column or "text"
    elif dataset or config or split or column:
        raise BadInput(f"dataset, config, split and column go with the corpus hub, not with {corpus}.")
    ref = DataRef(
        corpus=corpus, revision=revision, dataset=dataset, config=config, split=split, column=column, part=part,
        inputs=inputs, tokens=tokens, seed=0 if row.source == "own" else seed, bos=bos, chat=bool(chat),
    )  # fmt: skip
    return _pinned(ref, row, settings)


def check_length(data: DataRef, longest: int | None) -> None:
    """Refuse inputs longer than the model's context, `longest` tokens; None: no limit is known. Raises BadInput."""
    if longest is not None and data.tokens > longest:
        raise BadInput(
            f"Inputs of {data.tokens} tokens were asked for, and the model's context is {longest} tokens. "
            f"Ask for {longest} or fewer."
        )


def describe(ref: DataRef | QuestionsRef) -> str:
    """One line for captions: `docstrings, held-out · 16 × 512 tokens · seed 0`; of questions, `questions.describe`."""
    if isinstance(ref, QuestionsRef):
        return questions.describe(ref)
    row = lookup(CORPORA, ref.corpus, "corpus")
    words = {
        "own": f"own text {ref.revision[:8]}",
        "hub": " ".join((ref.dataset, ref.config, ref.split, ref.column)),
    }
    name = " ".join(words.get(ref.corpus, ref.corpus).split())
    if row.source != "own":
        name += f", {ref.part}"
    at_most = "at most " if row.kind == "items" or ref.chat or row.source == "own" else ""
    said = [name, f"{ref.inputs} × {at_most}{ref.tokens} tokens"]
    if row.source != "own":
        said.append(f"seed {ref.seed}")
    if ref.chat:
        said.append("chat template")
    if ref.bos != "tokenizer":
        said.append(f"BOS {ref.bos}")
    return " · ".join(said)


def _check_choices(row: Corpus, part: str, bos: str) -> None:
    for kind, value, there in (("part", part, row.parts), ("BOS policy", bos, BOS_POLICIES)):
        if value not in there:
            near = difflib.get_close_matches(str(value), there, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            of = f" of {row.id}" if kind == "part" else ""
            raise UnknownName(f"Unknown {kind} {value!r}{of}.{hint} Available: {', '.join(there)}.")


def _pinned(ref: DataRef, row: Corpus, settings: Settings) -> DataRef:
    if row.source == "own":
        if not ref.revision:
            raise BadInput("Give some text first: paste it, or upload a txt, jsonl, csv or parquet file.")
        return _with(ref, own_text.load(ref.revision, settings).revision)
    if row.source == "installed":
        return _with(ref, INSTALLED[row.id](ref.part, settings.home).revision)
    dataset, _, split, _ = source_of(row, ref)
    wants_local = len(ref.revision) == 64
    if not ref.revision or wants_local:
        folder = local.folder_of(row, dataset, settings)
        if folder is not None:
            files = local.files_of(folder, split, ref.corpus)
            return _with(ref, local.revision_of(files, folder, settings))
        if wants_local:
            raise BadData(
                f"{ref.revision[:8]}… is a local copy of {ref.corpus}, which is not on this machine."
            )
    return _with(ref, hub.commit(dataset, ref.revision))


def _with(ref: DataRef, revision: str) -> DataRef:
    """`ref` pinned. Raises BadData when another content hash was asked for."""
    if len(ref.revision) == 64 and ref.revision != revision:
        raise BadData(
            f"{ref.corpus} has another text here ({revision[:8]}…) than was asked for ({ref.revision[:8]}…): packages, "
            "Python or the local copy differ. Leave the revision out to use what is here."
        )
    return DataRef(**{**ref.__dict__, "revision": revision})
