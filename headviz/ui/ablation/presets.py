"""Two protocols, each a handful of values of the view: as the paper measured, and as heads would be left out in use."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import streamlit as st

from headviz import ui
from headviz.errors import HeadvizError
from headviz.models import catalog

YOURS = "yours"
_TUNED = re.compile(
    r"-(instruct|chat|sft|dpo)", re.IGNORECASE
)  # names that the paper's code asks with their template


@dataclass(frozen=True)
class Preset:
    """title and help; values: what it sets in the view."""

    title: str
    help: str
    values: Callable[[], dict[str, Any]]


def chat_model() -> bool:
    """Whether the chosen model's name says that it was tuned for chat, as the paper's code tells."""
    try:
        name = catalog.label(ui.model_ref())
    except HeadvizError:  # its sentence stands in the page already
        name = ui.value("model")
    return _TUNED.search(name) is not None


def _paper() -> dict[str, Any]:
    return {
        "mode": "per-input",
        "pick": "score",
        "strict": "share",
        "turned": False,
        "chosen": "measured",
        "target": "mmlu",
        "subjects": "",
        "each": 0,
        "half": "all",
        "shots": "auto",
        "scoring": "auto",
        "template": chat_model(),
    }


def _deployed() -> dict[str, Any]:
    return {"mode": "static", "pick": "score", "turned": False, "chosen": "auto"}


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        "As in the paper",
        "Heads are chosen anew for each input, by a threshold that comes from the very questions that are measured; all of "
        "MMLU with five worked examples, zero in the heads' place, no BOS for base models and the chat template for tuned "
        "ones. Comparable with the paper's table; nothing could be saved by it, since the scores need the whole pass.",
        _paper,
    ),
    "deployed": Preset(
        "As deployed",
        "One set of heads for all inputs, chosen on other text than it is measured on, with zero and with the mean in their "
        "place: what leaving heads out would really cost.",
        _deployed,
    ),
}


def preset_now() -> str:
    """Which preset the view is, whatever else it says."""
    for name, preset in PRESETS.items():
        if all(ui.value(key) == wanted for key, wanted in preset.values().items()):
            return name
    return YOURS


def _chosen() -> None:
    preset = PRESETS.get(st.session_state.protocol)
    for key, wanted in (preset.values() if preset else {}).items():
        ui.put(key, wanted)


def protocol(where) -> None:
    """The select box of presets; it shows which one the other controls make up."""
    st.session_state.protocol = now = preset_now()
    names = [*PRESETS, *([YOURS] if now == YOURS else [])]
    where.selectbox(
        "Protocol",
        names,
        format_func=lambda name: PRESETS[name].title if name in PRESETS else "Your own",
        key="protocol",
        on_change=_chosen,
        help="\n\n".join(f"**{preset.title}**: {preset.help}" for preset in PRESETS.values()),
    )
