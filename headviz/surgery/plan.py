"""A plan of surgery: from a model and its heads to a request. The one module that pages and commands need for plans.

    about = facts(model, settings)
    heads = heads_by_rule("bos>0.5", Measured(geometry=about.geometry, bands=bands))
    request = default_request(model, heads, settings, about=about)
    check(request, about.geometry)                      # BadInput, a sentence
    seen = preview(request, about, settings)            # what it will take
    known = warnings(request, about, settings)          # sentences that forbid nothing
    text = write_plan(request, rule="bos>0.5")          # and read_plan

No torch: pages read this.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headviz import machine
from headviz.data import corpora
from headviz.errors import lookup
from headviz.settings import Settings
from headviz.surgery import paper
from headviz.surgery.about import Facts, facts
from headviz.surgery.arms import DEFAULT_ARMS, in_order
from headviz.surgery.checks import check
from headviz.surgery.healthy import matched_healthy
from headviz.surgery.planfile import read_plan, write_plan
from headviz.surgery.preview import Preview, measured_speed, preview, speed_here, warnings
from headviz.surgery.rules import EXAMPLES, QUANTITIES, Measured, heads_by_rule, needs
from headviz.types import Bos, DataRef, ModelRef, Recipe, RepairRequest
from headviz.types.repairs import Heads

__all__ = [
    "DEFAULT_ARMS",
    "EXAMPLES",
    "QUANTITIES",
    "SCHEMES",
    "Facts",
    "Measured",
    "Preview",
    "Scheme",
    "check",
    "chosen_on",
    "counted_on",
    "default_request",
    "facts",
    "heads_by_rule",
    "matched_healthy",
    "measured_speed",
    "needs",
    "paper_request",
    "preview",
    "read_plan",
    "scheme_for",
    "speed_here",
    "warnings",
    "write_plan",
]


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How to train, as one choice. tokens: of a window; steps, every: of a pass, and between two evaluations."""

    title: str
    help: str
    recipe: Recipe
    tokens: int
    steps: int
    every: int


SCHEMES: dict[str, Scheme] = {
    "paper": Scheme(
        title="The paper's recipe",
        help="Small steps (5e-5) of eight windows of 512 tokens, as the paper trained BLOOM-1b7; with float32 masters, where "
        "its runs were pure bf16.",
        recipe=paper.RECIPE,
        tokens=paper.TOKENS,
        steps=300,
        every=25,
    ),
    "small": Scheme(
        title="For small models",
        help="Larger steps (2e-3) of eight windows of 256 tokens: for models of a few million numbers, which learn little from "
        "the paper's small steps in minutes.",
        recipe=Recipe(rate=2e-3, batch=8, accumulate=1, warmup=50),
        tokens=256,
        steps=300,
        every=25,
    ),
}
SMALL = 50_000_000  # numbers of a model: below, the scheme for small ones is the default


def counted_on(chosen: DataRef) -> DataRef:
    """A plan's diagnostic text, where its heads are chosen by what is measured on this one: the same, drawn anew, for heads that
    pass a threshold on one text pass it there by chance too. A text of one's own is read from its start: it stays."""
    return chosen if chosen.corpus == "own" else replace(chosen, seed=chosen.seed + 1)


def chosen_on(counted: DataRef) -> DataRef:
    """The way back: the text on which the heads of a plan with this diagnostic text are chosen."""
    return counted if counted.corpus == "own" else replace(counted, seed=max(0, counted.seed - 1))


def scheme_for(about: Facts) -> str:
    """The row of SCHEMES that suits a model of this size; the paper's where the size is not known."""
    return "small" if about.numbers is not None and about.numbers < SMALL else "paper"


def default_request(
    model: ModelRef,
    heads: Heads,
    settings: Settings,
    *,
    about: Facts | None = None,
    scheme: str = "",
    arms: Iterable[str] = DEFAULT_ARMS,
    healthy: Heads = (),
    corpus: str = "docstrings",
    other: str | None = "stdlib-code",
    seed: int = 0,
    tokens: int = 0,
    windows: int = 0,
    held_out_windows: int = 64,
    diagnose_windows: int = 16,
    bos: Bos = "tokenizer",
    **changes: Any,
) -> RepairRequest:
    """A plan that can be run as it is. `changes`: fields of `RepairRequest` that are given instead.

    scheme:  row of SCHEMES; empty: by the size of the model
    corpus:  its `train` part is trained on, its `held-out` part judges and diagnoses. A corpus without parts (own text) serves
             for all, and the repair then refuses documents that are in both
    other:   another domain, only judged by; None for none
    seed:    draws which windows are taken; the diagnostic text is drawn with the next one
    tokens, windows: of a window, and how many are trained on; 0: the scheme's tokens, at most the model's context, and as many
             windows as the steps read, at most 20,000
    bos:     whether the tokenizer decides about a BOS token, or it is always or never put first, in all texts

    64 held-out windows give 32 documents to choose and 32 to report on, where each gives one: enough for a bootstrap over
    documents. The diagnostic text and the text on which heads are chosen are draws of the held-out part too and share
    documents with it: attention is measured on them, which decides what heads are treated, alike in every arm, and no loss.
    Raises BadInput, UnknownName, BadData.
    """
    about = about or facts(model, settings)
    row = lookup(SCHEMES, scheme or scheme_for(about), "training scheme")
    recipe, steps = changes.get("recipe", row.recipe), changes.get("steps", row.steps)
    tokens = tokens or min(row.tokens, about.longest or row.tokens)
    windows = windows or min(20_000, max(1, steps * recipe.batch * recipe.accumulate))

    def text(name: str, part: str, inputs: int) -> DataRef:
        parts = lookup(corpora.CORPORA, name, "corpus").parts
        return corpora.resolve(
            name,
            part=part if part in parts else parts[0],
            inputs=inputs,
            tokens=tokens,
            seed=seed,
            bos=bos,
            settings=settings,
        )

    fields: dict[str, Any] = {
        "model": model,
        "heads": tuple(sorted(heads)),
        "healthy": tuple(sorted(healthy)),
        "recipe": recipe,
        "arms": in_order(arms),
        "steps": steps,
        "every": min(row.every, max(1, steps)),
        "threads": max(1, machine.cores() // 2),
    } | changes
    for name, made in (
        ("train", lambda: text(corpus, "train", windows)),
        ("held_out", lambda: text(corpus, "held-out", held_out_windows)),
        ("other", lambda: None if other is None else text(other, "held-out", 32)),
        ("diagnose", lambda: counted_on(text(corpus, "held-out", diagnose_windows))),
    ):
        if name not in fields:
            fields[name] = made()
    return RepairRequest(**fields)


def paper_request(
    name: str,
    model: ModelRef,
    settings: Settings,
    measured: Measured | None = None,
    *,
    about: Facts | None = None,
    **changes: Any,
) -> RepairRequest:
    """A preset of the paper for a model of its shape; `measured` where the preset has a rule instead of heads.

    Its heads, recipe, steps and length of windows; arms, seeds and texts are ours, for the paper has none of them.
    Raises BadInput for another shape, or where the rule's heads were not measured.
    """
    about = about or facts(model, settings)
    row = paper.preset(name)
    heads = paper.heads_for(row, about.geometry)
    if row.rule:
        heads = heads_by_rule(row.rule, measured or Measured(geometry=about.geometry))
    given = {"recipe": row.recipe, "steps": row.steps, "every": row.every} | changes
    return default_request(model, heads, settings, about=about, scheme="paper", **given)
