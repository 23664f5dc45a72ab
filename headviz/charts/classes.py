"""Classes of heads as colour, shape and words: healthy, sink, dead, low entropy. Never colour alone."""

from __future__ import annotations

from collections.abc import Mapping

from headviz.charts.scales import CLASSES

_SIGNS = {"circle": "●", "square": "■", "x": "✕", "diamond": "◆"}


def colour(name: str, theme: str) -> str:
    """The colour of a class on "light" or "dark"."""
    light, dark, _ = CLASSES[name]
    return dark if theme == "dark" else light


def symbol(name: str) -> str:
    """plotly's marker of a class."""
    return CLASSES[name][2]


def sign(name: str) -> str:
    """The marker of a class as a letter, for tables and keys."""
    return _SIGNS[symbol(name)]


def key(counts: Mapping[str, int], theme: str) -> list[str]:
    """One piece of legend a class that occurs, with how many heads are of it."""
    return [
        f"<span style='color:{colour(name, theme)}'>{sign(name)}</span> {name}: {count:,}"
        for name, count in counts.items()
        if count
    ]
