"""A file that somebody uploads: read in the callback of its field, or what is wrong with it, as a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import streamlit as st

from headviz.analysis.choose import HeadSet
from headviz.analysis.headfile import read_heads
from headviz.errors import HeadvizError
from headviz.types import Geometry, ModelRef

T = TypeVar("T")


def uploaded_heads(field: str, model: ModelRef, geometry: Geometry) -> tuple[HeadSet, Any] | None:
    """(the set, its file) of the uploader with the key `field`; None where there is none, or none that can be read."""
    return uploaded(
        field,
        lambda data: read_heads(data, model=model.name, revision=model.revision, geometry=geometry),
    )


def uploaded(field: str, read: Callable[[bytes], T]) -> tuple[T, Any] | None:
    """(what `read` makes of it, the file) of the uploader with the key `field`; None as above. What it raises of headviz's own
    errors is kept for `upload_problem`."""
    upload = st.session_state[field]
    st.session_state[_problem(field)] = ""
    if upload is None:
        return None
    try:
        return read(upload.getvalue()), upload
    except HeadvizError as error:
        st.session_state[_problem(field)] = str(error)
        return None


def upload_problem(field: str) -> str:
    """What was wrong with the last file of that uploader; "" for nothing."""
    return st.session_state.get(_problem(field), "")


def _problem(field: str) -> str:
    return f"headviz_{field}_problem"
