"""Small checkpoints on disk, with a tokenizer, for the tests that find, pin and load models."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

from tests import tiny


def save(folder: Path, case: str = "llama", **changes: Any) -> Path:
    """A checkpoint of a row of `tests.tiny.CASES`, as save_pretrained writes it, with a tokenizer."""
    tiny.build(case, **changes).save_pretrained(folder)
    letters().save_pretrained(folder)
    return folder


def letters() -> Any:
    """A tokenizer whose tokens are lower-case letters, digits, the space and the line end; all below id 61."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    signs = [
        "[PAD]",
        "[BOS]",
        "[EOS]",
        *string.ascii_lowercase,
        *string.digits,
        *".,:;()'-=",
        "\u0120",
        "\u010a",
    ]
    backend = Tokenizer(models.BPE({sign: index for index, sign in enumerate(signs)}, [], unk_token="[PAD]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]", unk_token="[PAD]"
    )


def change_config(folder: Path, **changes: Any) -> Path:
    """Write other values into a checkpoint's config.json; None removes a key."""
    path = folder / "config.json"
    tree = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in tree.items() if value is not None}))
    return folder


class Recorder:
    """A Watch that remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int, str]] = []

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        self.steps.append((doing, done, total, unit))

    def check(self) -> None:
        pass
