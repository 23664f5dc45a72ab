"""What may stand in the number boxes of a plan, and the sentence for what may not. No streamlit.

The boxes themselves have no ends: a box with ends silently keeps its last good number, and the plan would be another one than
what a person reads on the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headviz.charts import fmt
from headviz.errors import BadInput


@dataclass(frozen=True)
class Box:
    """title: of the box; low, high: the ends, both allowed; said: what a number below the lower end would mean, after its number;
    or_empty: what an empty box stands for, where it may be empty"""

    title: str
    low: float
    high: float
    said: str
    or_empty: str = ""


# Parameter of the view → its box.
BOXES: dict[str, Box] = {
    "passes": Box("Passes", 1, 9, "A repair of {} passes operates on nothing"),
    "train_tokens": Box("Tokens each", 2, 8_192, "Windows of {} tokens have nothing to predict", "the recipe's length"),
    "held_windows": Box("Held-out windows", 2, 2_000, "{} held-out windows cannot be parted into select and report"),
    "train_windows": Box("Training windows", 1, 1_000_000, "{} training windows train nothing", "as many as the steps read"),
    "repair_steps": Box("Steps", 1, 100_000, "A repair of {} steps trains nothing"),
    "every": Box("Evaluate every", 1, 100_000, "An evaluation every {} steps never comes"),
    "patience": Box("Early stop after", 1, 1_000, "An early stop after {} evaluations would come at once", "never"),
    "repair_threads": Box("Threads", 1, 1_024, "{} threads compute nothing", "half of the processor"),
    "rate": Box("Learning rate", 1e-7, 1.0, "A learning rate of {} moves nothing that numbers of 32 bits can hold"),
    "decay": Box("Weight decay", 0, 1.0, "A weight decay of {} would make weights grow"),
    "clip": Box("Clip", 0, 100.0, "A gradient cannot have a norm of {}"),
    "warmup": Box("Warm-up, steps", 0, 100_000, "A warm-up of {} steps cannot be"),
    "batch": Box("Windows at once", 1, 512, "A forward pass of {} windows reads nothing"),
    "accumulate": Box("Forward passes a step", 1, 512, "A step of {} forward passes trains nothing"),
}  # fmt: skip
OF_RECIPE = (
    "rate",
    "decay",
    "clip",
    "warmup",
    "batch",
    "accumulate",
)  # count only where the recipe is edited


def problem(name: str, value: float | None) -> str:
    """What is wrong with this number in that box, a sentence; empty where nothing is."""
    box = BOXES[name]
    if value is None:
        return "" if box.or_empty else f"{box.title} is empty. Type a number, {_ends(box)}."
    if box.low <= value <= box.high:
        return ""
    shown = _exact(value).replace("-", "−")
    said = box.said.format(shown) if value < box.low else f"{box.title} is {shown}, which is too much"
    return f"{said}. Under “{box.title}”, type a number {_ends(box)}" + (
        f", or leave it empty for {box.or_empty}." if box.or_empty else "."
    )


def check(value: Callable[[str], Any], *, edited: bool) -> None:
    """Raises BadInput for the first box whose number cannot be. value: gives a parameter of the view."""
    for name in BOXES:
        if (edited or name not in OF_RECIPE) and (said := problem(name, value(name))):
            raise BadInput(said)


def _ends(box: Box) -> str:
    return f"from {_exact(box.low)} to {_exact(box.high)}"


def _exact(number: float) -> str:
    """Whole numbers to the last digit: an end that is rounded would be another end."""
    return f"{number:,.0f}" if float(number).is_integer() else fmt.tick(number)
