"""A repair of a tiny model on texts of a few words: seconds to run, and the same in another process."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from headviz.data import corpora, own_text
from headviz.models.architectures import family_of, geometry
from headviz.models.loading import Loaded
from headviz.settings import Settings
from headviz.types import DataRef, ModelRef, Recipe, RepairRequest, Silent
from tests import tiny, tiny_tokenizer

WORDS = tiny_tokenizer.TEXT.split()
HEADS = {"bloom": ((0, 1), (1, 0), (1, 3)), "llama": ((0, 0), (1, 2), (1, 3))}


def documents(count: int, seed: int, words: int = 60) -> list[str]:
    """Texts of random words in three paragraphs each."""
    draw = np.random.Generator(np.random.PCG64(seed))
    return ["\n\n".join(" ".join(draw.choice(WORDS, words // 3)) for _ in range(3)) for _ in range(count)]


def change_frozen(model: torch.nn.Module) -> None:
    """What must never happen: a number that nobody trains becomes another."""
    with torch.no_grad():
        model.get_input_embeddings().weight[0, 0] += 1


class Bench:
    """What a worker brings: a loaded tiny model, settings, a watch, answers to other jobs; and texts to ask about."""

    def __init__(
        self,
        home: Path,
        case: str = "bloom",
        dtype: torch.dtype = torch.float32,
        at_once: int = 1,
        **changes: Any,
    ):
        self.settings = Settings(home=home, side_by_side=at_once)
        self.case, self.watch, self.threads = case, Silent(), 1
        self.taken: list[int] = []
        self.takes = self.taken.append
        self.answers: dict[str, Any] = {}
        model = tiny.build(case, dtype, vocab_size=330, **changes)
        name = str(dtype).removeprefix("torch.")
        self.ref = ModelRef(source="local", name="tiny", revision="0" * 64, dtype=name)
        self.loaded = Loaded(
            self.ref, model, tiny_tokenizer.make(), geometry(model.config), family_of(model.config), "cpu"
        )
        self.loaded.self_check = {}

    def model(self, _ref: ModelRef) -> Loaded:
        return self.loaded

    def answer(self, digest: str) -> Any:
        return self.answers.get(digest)

    def text(self, count: int, seed: int, tokens: int = 24, inputs: int = 12, words: int = 60) -> DataRef:
        rows = "\n".join(json.dumps({"text": text}) for text in documents(count, seed, words))
        kept = own_text.import_text(rows.encode(), "t.jsonl", settings=self.settings)
        return corpora.resolve(
            "own", revision=kept.revision, inputs=inputs, tokens=tokens, settings=self.settings
        )

    def plan(self, **changes: Any) -> RepairRequest:
        """Repair, untrained and no-reinit, two seeds, twelve steps with an evaluation every four."""
        made = RepairRequest(
            model=self.ref,
            heads=HEADS[self.case],
            recipe=Recipe(rate=2e-2, batch=2, accumulate=2, warmup=2),
            arms=("repair", "untrained", "no-reinit"),
            seeds=(0, 1),
            train=self.text(8, 1),
            held_out=self.text(6, 2),
            other=self.text(4, 3),
            diagnose=self.text(4, 4, inputs=6),
            steps=12,
            every=4,
        )
        return replace(made, **changes)
