"""The second paper's repairs as presets: which heads, which recipe, and what it reports. Nothing here was measured by headviz.

"Surgical Repair of Collapsed Attention Heads in ALiBi Transformers" (arXiv 2603.09616). Its code draws new weights from a
uniform distribution where its text says normal, and its runs kept everything in bf16; the presets keep float32 masters, and
`Recipe.master` gives the paper's own. Its training text is not published, so a preset says nothing about text.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from headviz.errors import BadInput, lookup
from headviz.types import Geometry, Recipe
from headviz.types.repairs import Heads

PAPER = "arXiv 2603.09616"
RELEASED_AT = "TheNexus42/bloom-1b7-head-surgery"
RECIPE = Recipe()  # the defaults are the paper's
TOKENS = 512
EPOCH = 132  # optimiser steps: about 541,000 tokens in 1,056 windows, eight a step


def _heads(text: str) -> Heads:
    """`5: 14-15; 6: 9-15` as heads, sorted."""
    found = []
    for part in text.split(";"):
        layer, _, indices = part.partition(":")
        for stretch in indices.split(","):
            first, _, last = stretch.strip().partition("-")
            found += [(int(layer), head) for head in range(int(first), int(last or first) + 1)]
    return tuple(sorted(found))


PASS_1 = _heads(
    "5: 14-15; 6: 9-15; 7: 9-14; 8: 11-15; 9: 9-15; 10: 9-15; 11: 10-15; 12: 9-15; 13: 9-15; 14: 9, 10, 11, 13, 14, 15; "
    "15: 9, 11, 12, 14, 15; 16: 10-15; 17: 9-14; 18: 9-15; 19: 9-15; 20: 9-15; 21: 9-13; 22: 9, 10, 11, 13, 14"
)
PASS_2 = _heads(
    "7: 6; 8: 4, 7, 8, 10; 9: 3, 6, 7, 8; 10: 3, 8; 11: 3, 5, 9; 12: 2, 4, 5, 8; 13: 2; 14: 4, 8, 12; 15: 2, 3, 13; "
    "16: 3, 5, 6, 8; 17: 4, 6, 15; 18: 2, 4, 5, 6; 19: 6; 23: 12, 14"
)
COLUMN = tuple(sorted({*PASS_1, *((layer, 5) for layer in range(5, 23))}))


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One repair of the paper.

    base:      hub id of the model that was operated on, with the released checkpoint where it is one; layers, of_heads: its
               shape, which a model must have for the preset's heads to mean anything
    heads:     the paper's list; empty where it gives none, and then `rule` chooses them from what is measured
    steps, every: optimiser steps, and steps between two evaluations
    published: what the paper reports, a sentence each; doubts: what a reader must know about these numbers
    """

    id: str
    title: str
    help: str
    base: str
    layers: int
    of_heads: int
    heads: Heads = ()
    rule: str = ""
    steps: int
    every: int
    published: tuple[str, ...]
    doubts: tuple[str, ...] = ()
    recipe: Recipe = RECIPE
    tokens: int = TOKENS
    source: str = PAPER


def _schedule(steps: int) -> str:
    """How the rate of our run differs from that of the paper's, whose scripts plan 15 epochs and stop earlier."""
    planned, rising = 15 * EPOCH, RECIPE.warmup
    kept = 0.5 * (1 + math.cos(math.pi * (steps - rising) / (planned - rising)))
    return (
        f"The rate is not that of the paper at the same step: there it rises for {rising} steps and falls along a cosine over "
        f"about {planned:,} planned ones, so that at step {steps} it is still {100 * kept:.1f}% of the largest. {_here(steps)}"
    )


def _here(steps: int) -> str:
    """The rate of our run: `train.rate_at`."""
    rising = min(RECIPE.warmup, steps // 4)
    return f"Here, in {steps} steps, it rises for {rising} and has fallen to 0 at the last."


PRESETS: dict[str, Preset] = {
    row.id: row
    for row in (
        Preset(
            id="bloom-560m",
            title="BLOOM-560m, collapsed heads of its band",
            help="The smallest BLOOM. The paper diagnoses it and publishes no list of heads, so this is its rule: heads 9 to 15 "
            "with more than half of their attention on the first token, in the layers that it operated on in BLOOM-1b7.",
            base="bigscience/bloom-560m",
            layers=24,
            of_heads=16,
            rule="bos>0.5 & heads 9-15 & layers 5-22",
            steps=3 * EPOCH,
            every=EPOCH // 4,
            published=("44.0% of its heads (169 of 384) are collapsed, the band is H9 to H15. No repair is reported.",),
            doubts=("The layers are those of BLOOM-1b7's first pass: the paper names none for this model.",),
        ),
        Preset(
            id="bloom-1b7-pass-1",
            title="BLOOM-1b7, pass 1: 108 heads",
            help="The paper's main operation: in layers 5 to 22, the 108 collapsed heads of H9 to H15 get new weights; the 18 "
            "others of that band stay as they are.",
            base="bigscience/bloom-1b7",
            layers=24,
            of_heads=16,
            heads=PASS_1,
            steps=3 * EPOCH,
            every=EPOCH // 4,
            published=(
                "Healthy heads 242 (63.0%) before, 341 (88.8%) after epoch 3; BOS-sinks 136 before, 39 after; dead 3 before, 0 "
                "after.",
                "Perplexity on its 8 training texts 16.99 before, 15.13 after; on 12 held-out prompts 21.45 before, 27.52 after.",
                "Trained on C4 instead of its own text: all 108 off the first token, held-out prompts 29.59; on texts of C4's "
                "validation split 32.42 before, 29.30 after (74.11 after training on its own text).",
            ),
            doubts=(
                _schedule(3 * EPOCH),
                "Held-out perplexity got worse, and there is no run without new weights to compare with.",
                "The texts of C4's validation split may be among those that were trained on.",
                "The paper's text says five heads of the band stay; its tables and its code say 18.",
            ),
        ),
        Preset(
            id="bloom-1b7-pass-2",
            title="BLOOM-1b7, pass 2: 39 heads",
            help="The second operation, on the model that the first one gave: the 39 heads that are still or newly collapsed. "
            "18 of them were not collapsed before pass 1.",
            base=f"{RELEASED_AT} (pass1_e3)",
            layers=24,
            of_heads=16,
            heads=PASS_2,
            steps=EPOCH,
            every=EPOCH // 4,
            published=(
                "Healthy heads 379 (98.7%) after epoch 1; one BOS-sink is left (L16.H04 at 0.538).",
                "Perplexity on its 8 training texts 15.10; on 12 held-out prompts 28.76 (stock 21.45).",
            ),
            doubts=(
                "Choose the model after pass 1: on the stock model these heads are another choice.",
                _schedule(EPOCH),
            ),
        ),
        Preset(
            id="bloom-1b7-column",
            title="BLOOM-1b7, a whole column of healthy heads: 126 heads",
            help="The 108 heads of pass 1 and all of H5 in layers 5 to 22, of which 14 were healthy: what happens when a head "
            "that is not collapsed gets new weights.",
            base="bigscience/bloom-1b7",
            layers=24,
            of_heads=16,
            heads=COLUMN,
            steps=140,
            every=14,
            published=(
                "Perplexity on its 8 training texts 19.25 right after new weights, 12.70 at step 42 of 140 (stock 16.99), 13.90 "
                "after epoch 1, above stock afterwards.",
                "H5 before and after: L5 0.166, 0.056; L10 0.374, 0.040; L12 0.666, 0.027; L22 0.342, 0.022.",
            ),
            doubts=(
                "One seed, one column. If the paper planned it like its other runs, its step 42 lies inside the 100 steps in which "
                f"the rate still rises. {_here(140)} So step 42 is another point of training here.",
                "The BOS mass after surgery is what a head without any preference has at this slope, 0.051.",
                "The script is not published, and the figure hints at another text (a baseline of 15.85).",
            ),
        ),
    )
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Released:
    """A checkpoint that the authors published, in the repository RELEASED_AT under its name. heads: treated so far."""

    name: str
    title: str
    heads: Heads
    published: str


RELEASED: dict[str, Released] = {
    row.name: row
    for row in (
        Released(name="pass1_e3", title="Pass 1, epoch 3", heads=PASS_1,
                 published="training texts 15.13, held-out prompts 27.52 (stock 16.99 and 21.45)"),
        Released(name="pass2_e1", title="Pass 2, epoch 1", heads=tuple(sorted({*PASS_1, *PASS_2})),
                 published="training texts 15.10, held-out prompts 28.76"),
        Released(name="c4_baseline_e3", title="Pass 1 trained on C4, epoch 3", heads=PASS_1,
                 published="training texts 20.80, held-out prompts 29.59"),
        Released(name="h5_step42", title="Whole column H5, step 42", heads=COLUMN,
                 published="training texts 12.70"),
    )
}  # fmt: skip
HOW_TO_COMPARE = (
    f"Fetch `{RELEASED_AT}` from the hub, put the checkpoint of that name as a folder under HEADVIZ_MODELS, and choose it on "
    "the bands or the compare page beside bigscience/bloom-1b7. Nothing is trained."
)


def preset(name: str) -> Preset:
    """Raises UnknownName."""
    return lookup(PRESETS, name, "preset of the paper")


def heads_for(row: Preset, geometry: Geometry) -> Heads:
    """The preset's heads for a model of this shape. Raises BadInput where the shape is another one; empty for a rule."""
    if (geometry.layers, geometry.heads) != (row.layers, row.of_heads) or geometry.family != "bloom":
        raise BadInput(
            f"The preset {row.title!r} is for {row.base}, {row.layers} layers of {row.of_heads} heads; this model is a "
            f"{geometry.family} with {geometry.layers} layers of {geometry.heads}. Choose that model, or a rule."
        )
    return row.heads


def fits(model: str, row: Preset) -> bool:
    """Whether a model's name looks like the one that the preset is for."""
    return bool(re.search(row.base.split(" ")[0].rpartition("/")[2], model))
