"""One prompt, several times: the model as it is, with heads off, with as many others off. numpy only: pages read this."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from headviz.analysis.ablation import Plan, controls, measuring
from headviz.analysis.choose import HeadSet
from headviz.errors import BadInput
from headviz.types import Ablation, GenerateRequest, Generation

MOST_NEW = 256  # tokens


def check_request(request: GenerateRequest) -> None:
    """Raises BadInput for an empty or unreadable prompt, a number of tokens out of range, a rule per input."""
    if not request.prompt.strip():
        raise BadInput("The prompt is empty: write some text for the model to go on from.")
    try:
        request.prompt.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"The prompt holds half a character or a broken byte at {error.start}. Write it again, in UTF-8."
        ) from None
    if not 1 <= request.new_tokens <= MOST_NEW:
        raise BadInput(f"Between 1 and {MOST_NEW} new tokens can be asked for, not {request.new_tokens}.")
    if request.ablation.mode not in ("none", "static"):
        raise BadInput(
            "A rule that decides input by input chooses from the scores of the whole input, and while a text is written "
            "there is no whole input yet. Switch off a fixed set of heads instead."
        )


def sides(plan: Plan, off: HeadSet, draws: int = 1) -> dict[str, tuple[Ablation, ...]]:
    """What stands side by side: `stock`, `off`, and as many random heads, `uniform` and `layer_matched`.

    The random sets are the first ones that `ablation.controls` measures. Without heads there is only `stock`. What the plan
    measures on plays no part.
    """
    found = {"stock": (Ablation(),)}
    if off.heads:
        found["off"] = (measuring(plan, off).ablation,)
        drawn = controls(replace(plan, draws=draws), off)
        found |= {kind: tuple(request.ablation for request in several) for kind, several in drawn.items()}
    return found


def with_ablation(request: GenerateRequest, ablation: Ablation) -> GenerateRequest:
    """The same prompt with something else off."""
    return replace(request, ablation=ablation)


def first_difference(one: Generation, other: Generation) -> int | None:
    """Number, from 0, of the first new token in which two texts differ; None where they are the same.

    Where one ends earlier, that is the place after its last token.
    """
    n = min(len(one.tokens), len(other.tokens))
    unlike = np.flatnonzero(one.tokens[:n] != other.tokens[:n])
    if unlike.size:
        return int(unlike[0])
    return None if len(one.tokens) == len(other.tokens) else n


def difference_sentence(one: Generation, other: Generation) -> str:
    """`the first difference is token 12: ' the' became ' a'`; tokens are counted from 1, as people count."""
    at = first_difference(one, other)
    if at is None:
        return f"all {len(one.tokens)} tokens are the same"
    before, after = (f"'{text.pieces[at]}'" if at < len(text.pieces) else "nothing" for text in (one, other))
    return f"the first difference is token {at + 1}: {before} became {after}"
