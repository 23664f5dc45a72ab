"""The view: one value a parameter, in the session and in the URL; and the model and data it names."""

from __future__ import annotations

import uuid
from typing import Any

import streamlit as st

from headviz import view
from headviz.data import corpora
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import DataRef, ModelRef, ScoreRequest

_STYLE = """
<style>
  .block-container {padding-top: 2.6rem; padding-bottom: 3rem; max-width: 1600px}
  [data-testid="stMetricValue"], .st-key-say, .stDataFrame {font-variant-numeric: tabular-nums}
  .hv-prov {color: color-mix(in srgb, var(--st-text-color) 68%, transparent); font-size: .8rem; overflow-wrap: anywhere}
  .hv-tokens {line-height: 1.9; font-size: .86rem; font-family: var(--st-code-font); max-height: 26rem; overflow-y: auto}
  .hv-token {border: 1px solid var(--st-border-color); border-radius: .2rem; padding: 0 .12rem; margin: 0 1px; white-space: pre}
  .hv-token:first-child {background: color-mix(in srgb, #f5852f 45%, transparent)}
  .st-key-say {border-left: 4px solid var(--st-primary-color); background: var(--st-secondary-background-color);
               padding: .55rem .9rem; border-radius: .25rem; font-size: 1.04rem}
  .st-key-stale {opacity: .4; pointer-events: none}
  @media (max-width: 640px) { .block-container {padding-left: 1rem; padding-right: 1rem} }
</style>
"""


def start() -> None:
    """Once a run, before any widget: style, and the URL read into the session the first time it is seen."""
    st.html(_STYLE)
    if "headviz_ignored" not in st.session_state:
        values, ignored = view.read_url(st.query_params.to_dict())
        for name, parameter in view.VIEW.items():
            st.session_state.setdefault(name, values.get(name, parameter.default))
        st.session_state.headviz_ignored = ignored
    for sentence in st.session_state.headviz_ignored:
        st.warning(sentence, icon=":material/link_off:")


def value(name: str) -> Any:
    """The current value of one parameter of the view."""
    return st.session_state.get(name, view.VIEW[name].default)


def values() -> dict[str, Any]:
    return {name: value(name) for name in view.VIEW}


def put(name: str, new: Any) -> None:
    """Set a parameter from a callback."""
    st.session_state[name] = new


def keyed(name: str) -> dict[str, Any]:
    """Keyword arguments that tie a widget to a parameter: kept across pages, seeded from the URL."""
    st.session_state.setdefault(name, view.VIEW[name].default)
    return {"key": name, "persist_state": "session"}


def sync_url(page: str) -> None:
    """Write the view into the address bar: only what differs from the defaults."""
    wanted = view.written(values(), page, defaults=False)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def theme() -> str:
    """`light` or `dark`, as the browser shows it."""
    return "dark" if getattr(st.context.theme, "type", None) == "dark" else "light"


def holder() -> str:
    """This browser session's name towards the jobs it watches."""
    return st.session_state.setdefault("headviz_holder", uuid.uuid4().hex)


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the model …")
def _model(name: str, revision: str, dtype: str, quantization: str) -> ModelRef:
    return catalog.resolve(
        name, revision=revision, dtype=dtype, quantization=quantization, settings=settings()
    )


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the data …")
def _data(**chosen: Any) -> DataRef:
    return corpora.resolve(settings=settings(), **chosen)


def model_ref() -> ModelRef:
    """The chosen model, pinned. Raises a HeadvizError whose sentence says what is wrong with it."""
    return _model(value("model").strip(), value("revision").strip(), value("dtype"), value("quantization"))


def data_ref() -> DataRef:
    """The chosen data, pinned. Raises a HeadvizError whose sentence says what is wrong with it."""
    names = ["corpus", "part", "inputs", "tokens", "seed", "bos", "chat"]
    if value("corpus") == "hub":
        names += ["dataset", "config", "split", "column"]
    chosen = {name: value(name) for name in names}
    if value("corpus") == "own":
        chosen["revision"] = value("text")
    return _data(**chosen)


def score_request() -> ScoreRequest:
    return ScoreRequest(model=model_ref(), data=data_ref())


def starts_by_itself(request: ScoreRequest) -> bool:
    """The bundled model is small and already here; any other waits for a click."""
    return request.model.source == "bundled" and request.data.inputs * request.data.tokens <= 64 * 1024
