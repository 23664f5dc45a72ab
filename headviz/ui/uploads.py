"""A head set that somebody uploads: read in the callback of its field, or what is wrong with it, as a sentence."""

from __future__ import annotations

from typing import Any

import streamlit as st

from headviz.analysis.choose import HeadSet
from headviz.analysis.headfile import read_heads
from headviz.errors import BadInput
from headviz.types import Geometry, ModelRef


def uploaded_heads(field: str, model: ModelRef, geometry: Geometry) -> tuple[HeadSet, Any] | None:
    """(the set, its file) of the uploader with the key `field`; None where there is none, or none that can be read."""
    upload = st.session_state[field]
    st.session_state[_problem(field)] = ""
    if upload is None:
        return None
    try:
        read = read_heads(upload.getvalue(), model=model.name, revision=model.revision, geometry=geometry)
    except BadInput as error:
        st.session_state[_problem(field)] = str(error)
        return None
    return read, upload


def upload_problem(field: str) -> str:
    """What was wrong with the last file of that uploader; "" for nothing."""
    return st.session_state.get(_problem(field), "")


def _problem(field: str) -> str:
    return f"headviz_{field}_problem"
