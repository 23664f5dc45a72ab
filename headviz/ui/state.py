"""The view: one value a parameter, in the session and in the URL; and the model and data it names."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager
from streamlit.runtime.scriptrunner import get_script_run_ctx

from headviz import view
from headviz.data import corpora
from headviz.errors import HeadvizError
from headviz.models import catalog
from headviz.reopen import of_request
from headviz.settings import settings
from headviz.types import DataRef, ModelRef, Request, ScoreRequest

ROUTER = Path(__file__).resolve().parents[2] / "app.py"

_STYLE = """
<style>
  .block-container {{padding-top: 2.6rem; padding-bottom: 3rem; max-width: 1600px}}
  .st-key-say, .stDataFrame, [data-testid="stMetricValue"] {{font-variant-numeric: tabular-nums}}
  .st-key-say {{border-left: 4px solid {accent}; background: {panel}; padding: .55rem .9rem; border-radius: .25rem}}
  .hv-prov {{color: {muted}; font-size: .8rem; overflow-wrap: anywhere}}
  .hv-tokens {{line-height: 2; padding: 4px; font-size: .84rem; font-family: monospace; max-height: 26rem; overflow-y: auto}}
  .hv-token {{display: inline-block; line-height: 1.35; border: 1px solid {line}; border-radius: .2rem; padding: 0 .12rem; margin: 0 1px; white-space: pre}}
  .hv-started .hv-token:first-child {{background: {first}}}
  .hv-token.hv-marked {{outline: 3px solid {accent}; outline-offset: 1px; font-weight: 700}}
  [data-testid="stElementContainer"]:has(.stPlotlyChart) {{max-width: round(down, 100%, 1px) !important}}
  [class*="st-key-stale_"] {{opacity: .4}}
  .st-key-stale {{opacity: .4; pointer-events: none}}
  @media (max-width: 640px) {{ .block-container {{padding-left: 1rem; padding-right: 1rem}} }}
</style>
"""
_COLOURS = {
    "light": {
        "accent": "#0f6e84",
        "panel": "#f3f5f7",
        "muted": "#5b6270",
        "line": "#c9ced6",
        "first": "#fdd9ac",
    },
    "dark": {
        "accent": "#4fb3c8",
        "panel": "#1d242a",
        "muted": "#a9b0bd",
        "line": "#3d4650",
        "first": "#7a4512",
    },
}


def start() -> None:
    """Once a run, before any widget: style, and the URL read into the session the first time it is seen."""
    st.html(_STYLE.format(**_COLOURS[theme()]))
    if "headviz_ignored" not in st.session_state:
        values, ignored = view.read_url(st.query_params.to_dict())
        for name, parameter in view.VIEW.items():
            st.session_state.setdefault(name, values.get(name, parameter.default))
        st.session_state.headviz_ignored = ignored
    if st.session_state.headviz_ignored:
        with st.container(key="ignored", border=True):
            st.markdown(
                "**The link held what headviz does not know:**\n"
                + "".join(f"\n* {s}" for s in st.session_state.headviz_ignored)
            )
            st.button("Dismiss", on_click=st.session_state.headviz_ignored.clear)


def through_router() -> None:
    """First line of every page: make sure that app.py ran.

    A server that sees a pages/ folder runs the page of a deep link by itself, until app.py has called st.navigation
    once: no sidebar, no view from the URL, and the URL is overwritten. So run app.py from here. (A rerun would lose the click
    that led here.) What tells is that the session has no view yet: of several that open on a fresh server at once, as tabs do
    after a restart, only the first would still find Streamlit's own mark.
    """
    main = get_script_run_ctx().main_script_path
    if "headviz_ignored" not in st.session_state and Path(main).resolve() == ROUTER:
        PagesManager.uses_pages_directory = False
        exec(
            compile(ROUTER.read_bytes(), str(ROUTER), "exec"),
            {"__name__": "__main__", "__file__": str(ROUTER)},
        )
        st.stop()


def value(name: str) -> Any:
    """The current value of one parameter of the view."""
    return st.session_state.get(name, view.VIEW[name].default)


def values() -> dict[str, Any]:
    return {name: value(name) for name in view.VIEW}


def put(name: str, new: Any) -> None:
    """Set a parameter from a callback."""
    st.session_state[name] = new


def show(request: Request) -> None:
    """Put a request into the view, so that the next page shows it."""
    for name, wanted in of_request(request).items():
        put(name, wanted)
    pick_head(value("head"))


def pick_head(name: str) -> None:
    """Choose a head for every page that shows one, and in the box in which it can be typed."""
    put("head", name)
    put("head_box", name)
    put("head_problem", "")


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
    if chosen["part"] not in corpora.CORPORA[chosen["corpus"]].parts:
        chosen["part"] = ""  # the corpus' own
    source = corpora.CORPORA[value("corpus")].source
    if source == "own":
        chosen["revision"] = value("text")
    elif source == "hub":
        chosen["revision"] = value("data_revision").strip()
    return _data(**chosen)


def pins() -> dict[str, str]:
    """The commits behind the names in the view, so that a link means the same later; {} where they are not known."""
    try:
        request = score_request()
    except HeadvizError:
        return {}
    return view.written(of_request(request), "", defaults=False)


def score_request() -> ScoreRequest:
    """What the sidebar stands for. Raises a HeadvizError, also for inputs longer than the model can read."""
    request = ScoreRequest(model=model_ref(), data=data_ref())
    corpora.check_length(request.data, catalog.context_length(request.model, settings()))
    return request


def starts_by_itself(request: ScoreRequest) -> bool:
    """The bundled model is small and already here; any other waits for a click."""
    if request.model.source != "bundled":
        return False
    data = getattr(request, "data", None)  # prompts of questions: who asks knows how many they are
    return data is None or data.inputs * data.tokens <= 64 * 1024
