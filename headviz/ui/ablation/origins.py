"""Where head sets were chosen, as long as this server runs: a measurement does not say, and its job can be opened again."""

from __future__ import annotations

import streamlit as st

from headviz.analysis.ablation import Plan
from headviz.analysis.metrics import METRICS
from headviz.readers import parse_heads, write_heads
from headviz.types import ModelRef
from headviz.ui.ablation.hand import HAND, Places, put_set

MOST = 4_000  # sets; the oldest are forgotten


@st.cache_resource(show_spinner=False)
def _known() -> dict[tuple[ModelRef, str], tuple[Places, str]]:
    """(model, heads as the URL writes them) → (every place by whose numbers somebody chose them, by whom)."""
    return {}


def chooser(plan: Plan) -> str:
    """Who chose the heads of a plan, as the page writes it."""
    return f"the set of {METRICS[plan.metric].symbol}" if plan.by_score else plan.origin


def remember(model: ModelRef, heads, places: Places, whom: str) -> None:
    """Somebody measures these heads, which were chosen there. Of places that nobody knows there is nothing to remember."""
    if not heads or not any(place is not None for place in places):
        return
    known, key = _known(), (model, write_heads(heads))
    before, first = known.pop(key, ((), whom))
    known[key] = (tuple(dict.fromkeys((*before, *places))), first)
    while len(known) > MOST:
        known.pop(next(iter(known)))


def carry(model: ModelRef, picked: str) -> None:
    """Into the view: where its set by hand was chosen, if that is remembered. picked: the heads, as the URL writes them."""
    found = _known().get((model, write_heads(parse_heads(picked))))
    if found is not None:
        places, whom = found
        put_set(parse_heads(picked), places, whom if whom.startswith(HAND) else f"{HAND}, from {whom}")
