"""How many training windows a text has, before a tokenizer has read it: an estimate, and a number that it cannot pass. No torch."""

from __future__ import annotations

from functools import lru_cache

from headviz.data import own_text
from headviz.data.corpora import CORPORA
from headviz.data.documents import already_built
from headviz.errors import BadData, BadInput
from headviz.settings import Settings
from headviz.types import DataRef, RepairRequest

CHARACTERS = 4  # of a token, for an estimate: English prose in the vocabularies of language models
SPARE = 8  # tokens of a document that stand for none of its bytes: a leading blank, an end of text


def windows_there(ref: DataRef, settings: Settings) -> int | None:
    """About how many windows a text has, from the characters of its documents; None for a text that is not here or has changed.

    A document gives as many full windows as it has; one of a text of one's own at least a short one.
    """
    if (sizes := _sizes_of(ref, settings)) is None:
        return None
    least = 1 if ref.corpus == "own" else 0
    return max(1, sum(max(least, characters // (CHARACTERS * ref.tokens)) for characters, _ in sizes))


def most_windows(ref: DataRef, settings: Settings) -> tuple[int, bool] | None:
    """(windows that a text has at most, whether it has just as many); None for a text that is not here or has changed.

    A token stands for a byte at least, whatever the vocabulary; a window has a token less than its length, for BOS. With a
    chat template windows are shorter, by how much is not known here: None.
    """
    sizes = None if ref.chat else _sizes_of(ref, settings)
    if sizes is None:
        return None
    if CORPORA[ref.corpus].kind == "items":
        return len(sizes), False
    own, room = ref.corpus == "own", max(1, ref.tokens - 1)
    most = sum(-(-(count + SPARE) // room) if own else (count + SPARE) // room for _, count in sizes)
    return most, own and most == len(sizes)


def check_windows(request: RepairRequest, settings: Settings | None = None) -> None:
    """Refuse a plan whose training text cannot give the windows of one optimiser step. Raises BadInput.

    settings: where to look for the text; without, only what the plan asks for counts
    """
    ref = request.train
    found = None if settings is None else most_windows(ref, settings)
    if found is not None and found[0] < ref.inputs:
        refuse_few(request, found[0], "" if found[1] else "at most ")
    else:
        refuse_few(request, ref.inputs, "at most ")


def refuse_few(request: RepairRequest, there: int, about: str = "") -> None:
    """Raises BadInput where a text of so many windows is too short for one optimiser step."""
    recipe = request.recipe
    need = recipe.batch * recipe.accumulate
    if there < need:
        raise BadInput(
            f"The training text is too short: it gives {about}{there:,} window{'s' * (there != 1)} of {request.train.tokens} tokens, "
            f"and one optimiser step reads {need:,} ({recipe.accumulate} pass{'es' * (recipe.accumulate != 1)} of {recipe.batch}). Take more or shorter windows, "
            "a larger text, or fewer windows a step."
        )


def _sizes_of(ref: DataRef, settings: Settings) -> tuple[tuple[int, int], ...] | None:
    row = CORPORA.get(ref.corpus)
    if row is None or row.source == "hub":
        return None
    try:
        return _sizes(ref.corpus, ref.revision, ref.part, settings)
    except BadData:
        return None


@lru_cache(maxsize=16)
def _sizes(corpus: str, revision: str, part: str, settings: Settings) -> tuple[tuple[int, int], ...]:
    """(characters, bytes) of every document, read once: a page asks at every click. Raises BadData, which is not remembered."""
    if corpus == "own":
        text = own_text.load(revision, settings)
    else:
        text = already_built(settings.home / "corpora", f"{corpus}-{part}", revision)
    if text is None:
        raise BadData(f"{corpus} was not built on this machine yet.")
    return tuple((len(one.text), len(one.text.encode("utf-8", "surrogatepass"))) for one in text.documents)
