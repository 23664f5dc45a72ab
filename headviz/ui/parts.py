"""Parts that every page has: head, the computed sentence, charts, provenance, errors as sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

import streamlit as st

from headviz import view
from headviz.charts import fmt, tables
from headviz.errors import HeadvizError
from headviz.models import catalog
from headviz.types import (
    HeadPattern,
    ModelRef,
    QuestionScores,
    ScoreTable,
    TextLosses,
)
from headviz.ui.state import keyed, pins, sync_url, through_router, value

_COPY = """
export default function (component) {
  const { parentElement, data } = component
  const button = parentElement.querySelector("button")
  button.onclick = async () => {
    const all = new URLSearchParams(data.defaults)   // the address bar leaves defaults out; a link must not
    for (const [name, value] of new URLSearchParams(window.location.search)) all.set(name, value)
    for (const [name, [typed, pinned]] of Object.entries(data.pinned))   // a branch can move, a commit cannot
      if (all.get(name) === typed) all.set(name, pinned)
    const url = window.location.origin + window.location.pathname + "?" + all
    let copied = true
    try { await navigator.clipboard.writeText(url) }
    catch {                     // no clipboard without https: select the text instead
      const area = document.createElement("textarea")
      area.value = url; document.body.appendChild(area); area.select()
      copied = document.execCommand("copy"); area.remove()
    }
    button.dataset.url = url
    button.textContent = copied ? "Copied" : "Copy failed"
    setTimeout(() => { button.textContent = "Copy link" }, 1600)
  }
}
"""
_COPY_STYLE = """
button {font: inherit; font-size: .9rem; color: var(--st-text-color); background: transparent; cursor: pointer;
        border: 1px solid var(--st-border-color); border-radius: var(--st-base-radius); padding: .35rem .7rem; width: 100%}
button:hover, button:focus-visible {border-color: var(--st-primary-color); color: var(--st-primary-color)}
"""


def page_head(title: str, question: str, page: str, pinned: Callable[[], Mapping[str, str]] = dict) -> None:
    """Title, question and the copy-link button; and the view into the address bar, also where no answer is there yet.

    pinned: gives the parameters that a link writes otherwise than the view: names of models with their commits
    """
    through_router()
    sync_url(page)
    left, right = st.columns([5, 2], vertical_alignment="bottom")
    with left:
        st.title(title, anchor=False)
        st.caption(question)
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        copy_link(page, pinned())


def copy_link(page: str, pinned: Mapping[str, str]) -> None:
    """The link writes every value, and a commit in the place of a name that stands for one."""
    known = pins()
    moved = {name: known[name] for name in ("revision", "data_revision") if known.get(name)} | dict(pinned)
    button = st.components.v2.component(
        "headviz_copy_link", html="<button type='button'>Copy link</button>", css=_COPY_STYLE, js=_COPY
    )
    button(
        data={
            "defaults": view.query(known, page),
            "pinned": {name: [value(name), new] for name, new in moved.items()},
        },
        key="copy_link",
        width=104,
        height="content",
    )


def look_at(panels: Mapping[str, tuple], name: str, help: str) -> None:
    """Which panel stands below. panels: name in the URL → (title, …); name: the parameter that holds the choice."""
    st.segmented_control(
        "Look at",
        list(panels),
        format_func=lambda panel: panels[panel][0],
        required=True,
        label_visibility="collapsed",
        help=help,
        **keyed(name),
    )


def say(sentence: str) -> None:
    """The computed sentence under the title: what a person would quote. Markdown."""
    with st.container(key="say"):
        st.markdown(sentence)


def provenance(text: str) -> None:
    st.html(f"<div class='hv-prov'>{text}</div>")


@contextmanager
def sentences():
    """Turns an error of ours into its sentence on the page, and stops there."""
    try:
        yield
    except HeadvizError as error:
        st.error(str(error), icon=":material/error:")
        st.stop()


def caution(model: ModelRef) -> None:
    """What must be known of this model before its figures are read."""
    if said := catalog.caution(model):
        st.warning(said, icon=":material/info:")


def chart(
    figure: Any, *, key: str, name: str, on_select: Any = "ignore", alt: str = "", box: bool = False
) -> None:
    """A plotly figure with its own colours; its camera saves an SVG or PNG named `name`. box: a box selects too.

    It fills its column, up to so many px as the figure's meta says.
    """
    st.plotly_chart(
        figure,
        key=key,
        width=figure.layout.meta or "stretch",
        theme=None,
        on_select=on_select,
        selection_mode=("points", "box") if box else "points",
        alt=alt or name,
        config={
            "displaylogo": False,
            "displayModeBar": "hover",
            "modeBarButtonsToRemove": ["lasso2d", "autoScale2d", *([] if box else ["select2d"])],
            "toImageButtonOptions": {
                "format": value("picture"),
                "filename": name,
                "scale": 1 if value("picture") == "svg" else 3,
            },
        },
    )


def provenance_text(result: ScoreTable | HeadPattern) -> str:
    """The caption, where it ran, and how far the fast statistics are from the slow ones on this machine."""
    made = result.provenance
    checked = ", ".join(
        f"{name.replace('_', ' ')} {fmt.number(error)}" for name, error in made.self_check.items()
    )
    return f"{tables.caption(made, result)} · {made.device}, {fmt.plural(made.threads, 'thread')} · self-check, worst error: {checked}"


def measured_text(result: QuestionScores | TextLosses) -> str:
    """One line for measurements: model, number format, what was measured, where, how long."""
    made = result.provenance
    model = made.request["model"]
    if isinstance(result, TextLosses):
        what = f"{fmt.plural(len(result.loss), 'input')} of {fmt.plural(len(set(result.cluster.tolist())), 'document')}"
    else:
        what = (
            f"{fmt.plural(len(result.answer), 'question')} in {fmt.plural(len(result.subjects), 'subject')}"
        )
    return (
        f"{model['name']}@{model['revision'][:7]} · {model['dtype']} · {what} · {fmt.duration(made.seconds)} a run · "
        f"{made.device}, {fmt.plural(made.threads, 'thread')} · request {made.digest[:12]}"
    )


def token_strip(
    pieces: Sequence[str], *, told: Sequence[str] | None = None, marked: int | None = None, start: bool = True
) -> None:
    """Tokens one after another, borders visible, spaces and newlines as signs.

    told: what the hover says of each; marked: the number of one that gets an outline; start: whether the first one is the
    first that the model reads, which has a colour
    """
    signs = str.maketrans({" ": "·", "\n": "⏎", "\t": "⇥"})
    told = told if told is not None else [f"token {i}" for i in range(len(pieces))]
    spans = "".join(
        f"<span class='hv-token{' hv-marked' if i == marked else ''}' title='{escape(said)}'>"
        f"{escape(piece.translate(signs)) or '∅'}</span>"
        for i, (piece, said) in enumerate(zip(pieces, told, strict=True))
    )
    st.html(f"<div class='hv-tokens{' hv-started' if start else ''}'>{spans}</div>")
