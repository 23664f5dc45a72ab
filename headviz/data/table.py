"""The corpora: one row each. Menus, help, the command line and the reader all look here. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from headviz.data import formats


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """One corpus.

    help:    for a first-year student: what it is and when to use it
    source:  `installed` (built from what is on every machine), `hub` (or a local copy of it), `own` (given by a person)
    kind:    `documents` are cut into windows of exactly `tokens`; of `items`, each is one input, cut off at `tokens`
    parts:   what `DataRef.part` may be, the default first
    splits:  part → split of the hub data set. Where it is empty, one split serves all parts and a document is
             held out when the hash of its text says so (one in ten), wherever it was read from
    columns: what must be there; the text is `format(row)`, or the first column where there is no format
    gather:  joins texts of rows to documents, where a row is less than a document
    pool:    draw from the first documents only, so that a large data set is not read whole; False where rows come
             sorted (by subject, say) and the set is small
    """

    id: str
    title: str
    help: str
    source: Literal["installed", "hub", "own"]
    licence: str
    kind: Literal["documents", "items"]
    parts: tuple[str, ...]
    dataset: str = ""
    config: str = ""
    splits: dict[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    format: Callable[[formats.Row], str] | None = None
    gather: Callable[[Iterable[str]], Iterator[str]] | None = None
    pool: bool = True


_ROWS = (
    Corpus(
        id="docstrings",
        title="Docstrings",
        help=(
            "English prose from the documentation inside Python packages (pandas, numpy, scipy …), which headviz "
            "installs anyway. It is always there and needs no network: start here."
        ),
        source="installed",
        licence="that of each package: BSD, MIT or Apache 2.0",
        kind="documents",
        parts=("held-out", "train", "all"),
    ),
    Corpus(
        id="stdlib-code",
        title="Python code",
        help=(
            "Source files of Python's own standard library. Always there. Use it beside docstrings to see whether a "
            "head that does nothing on prose works on code."
        ),
        source="installed",
        licence="PSF 2.0",
        kind="documents",
        parts=("held-out", "train", "all"),
    ),
    Corpus(
        id="fineweb-edu",
        title="FineWeb-Edu",
        help=(
            "Educational web pages, the kind of text that language models are trained on. The first paper compares "
            "score distributions on it. Comes from the Hugging Face hub."
        ),
        source="hub",
        licence="ODC-By 1.0",
        kind="documents",
        parts=("held-out", "train", "all"),
        dataset="HuggingFaceFW/fineweb-edu",
        config="sample-10BT",
        columns=("text",),
    ),
    Corpus(
        id="mmlu",
        title="MMLU",
        help=(
            "Multiple-choice exam questions on 57 subjects, each with its four choices. The first paper counts "
            "inactive heads on these. Questions are short, so an input rarely fills its tokens."
        ),
        source="hub",
        licence="MIT",
        kind="items",
        parts=("held-out", "train"),
        dataset="cais/mmlu",
        config="all",
        splits={"held-out": "test", "train": "dev"},
        columns=("question", "subject", "choices"),
        format=formats.mmlu,
        pool=False,
    ),
    Corpus(
        id="piqa",
        title="PIQA",
        help=(
            "Everyday questions about how to do things with physical objects. Short inputs; one of the three tasks "
            "on which the first paper checks that a score's threshold stays where it is."
        ),
        source="hub",
        licence="AFL 3.0",
        kind="items",
        parts=("held-out", "train"),
        dataset="baber/piqa",  # the rows of ybisk/piqa as parquet: the original needs a script, which nobody runs now
        splits={"held-out": "validation", "train": "train"},
        columns=("goal",),
        format=formats.piqa,
        pool=False,
    ),
    Corpus(
        id="winogrande",
        title="WinoGrande",
        help=(
            "Sentences in which a blank could be one of two people or things; here with the right one filled in. Very "
            "short inputs; the third task of the first paper."
        ),
        source="hub",
        licence="CC BY 4.0",
        kind="items",
        parts=("held-out", "train"),
        dataset="allenai/winogrande",
        config="winogrande_xl",
        splits={"held-out": "validation", "train": "train"},
        columns=("sentence", "option1", "option2", "answer"),
        format=formats.winogrande,
        pool=False,
    ),
    Corpus(
        id="wikitext",
        title="WikiText-103",
        help="Long Wikipedia articles of good quality: the classic text for perplexity. Use it for long inputs.",
        source="hub",
        licence="CC BY-SA 3.0",
        kind="documents",
        parts=("held-out", "train"),
        dataset="Salesforce/wikitext",
        config="wikitext-103-raw-v1",
        splits={"held-out": "test", "train": "train"},
        columns=("text",),
        gather=formats.wikitext_articles,
    ),
    Corpus(
        id="c4",
        title="C4",
        help=(
            "Cleaned web pages in English. The second paper retrained collapsed heads on this. Unedited, so noisier "
            "than FineWeb-Edu."
        ),
        source="hub",
        licence="ODC-By 1.0",
        kind="documents",
        parts=("held-out", "train"),
        dataset="allenai/c4",
        config="en",
        splits={"held-out": "validation", "train": "train"},
        columns=("text",),
    ),
    Corpus(
        id="hub",
        title="Any hub data set",
        help=(
            "A data set of the Hugging Face hub, by its id, configuration, split and column of text. It must not need "
            "a script of its own."
        ),
        source="hub",
        licence="see the data set's page",
        kind="documents",
        parts=("all", "held-out", "train"),
    ),
    Corpus(
        id="own",
        title="Your own text",
        help=(
            "Text that you paste or upload (txt, jsonl, csv or parquet). It is cut into inputs from its start, in "
            "order, and stays on the machine that headviz runs on."
        ),
        source="own",
        licence="yours",
        kind="documents",
        parts=("all",),
    ),
)

CORPORA: dict[str, Corpus] = {row.id: row for row in _ROWS}
