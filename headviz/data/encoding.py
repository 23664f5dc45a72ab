"""From text to token ids as one model wants them: what stands in front, the chat template, windows of a long text.

A tokenizer here is one of transformers, handed in: nothing of transformers is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headviz.errors import BadData, BadInput
from headviz.types import Bos

_CHARACTERS_A_TOKEN = 6  # first guess; English has about 4.5
_MARGIN = 16  # tokens before a cut that the cut may have changed
_WORD = 200  # characters to look ahead for a blank to cut at


@dataclass(frozen=True)
class Encoder:
    """One tokenizer with one policy. `room`: tokens of an input that are left for text."""

    tokenizer: Any
    tokens: int
    bos: Bos
    prefix: tuple[int, ...]  # without chat: what stands before the text
    chat: bool
    room: int

    def windows(self, text: str) -> Iterator[tuple[list[int], bool]]:
        """(token ids of an input, whether it is full), one after the other from the start of `text`.

        Without the chat template a full window has exactly `tokens` ids. With it, the text is cut so that the whole
        turn has at most `tokens`. The text is tokenised only as far as windows are asked for.
        """
        growing = _Growing(self.tokenizer, text)
        start = 0
        while True:
            stop = growing.reach(start + self.room)
            if stop <= start:
                return
            full = stop - start == self.room
            if self.chat:
                ids, stop = self._turn(growing, start, stop)
            else:
                ids = [*self.prefix, *growing.ids[start:stop]]
            yield ids, full
            start = stop

    def _turn(self, growing: _Growing, start: int, stop: int) -> tuple[list[int], int]:
        """The ids of text tokens start..stop as a user turn, and the stop that fits into `tokens`."""
        while True:
            ids = _chat_ids(self.tokenizer, growing.text_of(start, stop), self.bos)
            over = len(ids) - self.tokens
            if over <= 0:
                return ids, stop
            if stop == start + 1:
                raise _no_room(self.tokens, len(ids) - 1)
            stop = max(start + 1, stop - over)


class _Growing:
    """A text, tokenised from its start as far as was needed."""

    def __init__(self, tokenizer: Any, text: str) -> None:
        self.tokenizer, self.text = tokenizer, text
        self.ids: list[int] = []
        self.offsets: list[tuple[int, int]] | None = None
        self.cut = 0

    def reach(self, count: int) -> int:
        """Tokenise until `count` ids are certain or the text ends; how many of these there are."""
        while self.cut < len(self.text) and len(self.ids) < count + _MARGIN:
            # twice as far each time, so that all tries together cost about two
            self.cut = self._blank_after(max(2 * self.cut, _CHARACTERS_A_TOKEN * (count + _MARGIN)))
            self.ids, self.offsets = _encode(self.tokenizer, self.text[: self.cut])
        return min(count, len(self.ids))

    def text_of(self, start: int, stop: int) -> str:
        """The text that token ids start..stop stand for."""
        if self.offsets is None:  # a tokenizer without offsets
            return self.tokenizer.decode(self.ids[start:stop])
        return self.text[self.offsets[start][0] : self.offsets[stop - 1][1]]

    def _blank_after(self, at: int) -> int:
        for end in range(at, min(at + _WORD, len(self.text))):
            if self.text[end].isspace():
                return end
        return min(at, len(self.text))


def encoder(tokenizer: Any, *, tokens: int, bos: Bos, chat: bool) -> Encoder:
    """Raises BadInput when there is no BOS token or no chat template to use, or no room for text."""
    if bos == "always" and tokenizer.bos_token_id is None:
        raise BadInput(
            "This model's tokenizer has no BOS token, so none can be put first. Choose the BOS policy tokenizer or never."
        )
    if chat:
        # the policy is inside `_chat_ids`; one word of text tells what the turn itself takes
        word = len(_encode(tokenizer, "a")[0])
        taken = len(_chat_ids(tokenizer, "a", bos)) - word
        prefix: tuple[int, ...] = ()
    else:
        prefix = _prefix(tokenizer, bos)
        taken = len(prefix)
    if tokens - taken < 1:
        raise _no_room(tokens, taken)
    return Encoder(tokenizer, tokens, bos, prefix, chat, tokens - taken)


def prompt_ids(tokenizer: Any, text: str, *, bos: Bos, chat: bool) -> list[int]:
    """The ids of one whole text: a user's turn with the answer about to begin (`chat`), or a text that goes on.

    Raises BadInput as `encoder` does, and where the text gives no token.
    """
    before = encoder(tokenizer, tokens=1 << 30, bos=bos, chat=chat).prefix
    ids = _chat_ids(tokenizer, text, bos) if chat else [*before, *_encode(tokenizer, text)[0]]
    if len(ids) == len(before):
        raise BadInput("The tokenizer makes no tokens of this prompt. Write another one.")
    return ids


def _no_room(tokens: int, taken: int) -> BadInput:
    return BadInput(
        f"Inputs of {tokens} tokens leave no room for text: special tokens and template take {taken}. Ask for more tokens."
    )


def _prefix(tokenizer: Any, bos: Bos) -> tuple[int, ...]:
    """What stands before every text: what the tokenizer puts there itself, with or without the BOS as `bos` says.

    What a tokenizer appends (T5's or some BLOOM forks' EOS) is left away: text goes on after the window.
    """
    plain, _ = _encode(tokenizer, "a")
    dressed = list(tokenizer("a", add_special_tokens=True, verbose=False)["input_ids"])
    at = next((i for i in range(len(dressed)) if dressed[i : i + len(plain)] == plain), None)
    if at is None:
        raise BadInput(
            "This model's tokenizer changes the text itself when it adds special tokens; that is not handled."
        )
    return tuple(_with_policy(dressed[:at], tokenizer.bos_token_id, bos))


def _with_policy(ids: list[int], bos_id: int | None, bos: Bos) -> list[int]:
    if bos == "always" and ids[:1] != [bos_id]:
        return [bos_id, *ids]
    if bos == "never":
        first = next((i for i, one in enumerate(ids) if one != bos_id), len(ids))
        return ids[first:] if bos_id is not None else ids
    return ids


def _chat_ids(tokenizer: Any, text: str, bos: Bos) -> list[int]:
    """Ids of `text` as the user's turn, the answer about to begin. The template alone decides about special tokens."""
    if not getattr(tokenizer, "chat_template", None):
        raise BadInput(
            "This model has no chat template. Switch the template off, or choose a model tuned for chat."
        )
    turn = [{"role": "user", "content": text}]
    try:
        rendered = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's author: anything can go wrong in it
        raise BadInput(
            f"This model's chat template does not take a single user turn ({type(error).__name__}: {error}). "
            "Switch the template off."
        ) from error
    return _with_policy(_encode(tokenizer, rendered)[0], tokenizer.bos_token_id, bos)


def _encode(tokenizer: Any, text: str) -> tuple[list[int], list[tuple[int, int]] | None]:
    """Ids without added special tokens, and (start, stop) characters of each where the tokenizer knows them."""
    fast = bool(getattr(tokenizer, "is_fast", False))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadData(
            f"The text holds half a character (a lone surrogate) at {error.start}. Remove it."
        ) from None
    found = tokenizer(text, add_special_tokens=False, return_offsets_mapping=fast, verbose=False)
    return list(found["input_ids"]), found["offset_mapping"] if fast else None
