"""What takes a while to make and is shown again at many clicks, made once for each key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st


@st.cache_resource(max_entries=512, show_spinner=False)
def _made(key: tuple, _make: Callable[[], Any]) -> Any:
    return _make()


def once(make: Callable[[], Any], *key: Any) -> Any:
    """What `make` returns, remembered for all sessions under `key`, which must say all that it depends on.

    Nobody may change what comes back: a figure is finished inside `make`. key: text, numbers, and tuples of them.
    """
    return _made(key, make)
