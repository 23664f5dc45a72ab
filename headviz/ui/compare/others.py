"""Which models are compared: the one at the left, and the others, each pinned and with a name that tells it apart."""

from __future__ import annotations

import dataclasses

import streamlit as st

from headviz.data import corpora
from headviz.errors import HeadvizError
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import DataRef, ModelRef, ScoreRequest
from headviz.ui.state import keyed, put, score_request, value
from headviz.view import OTHER_DATA

SWAPPED = {"float32": "bfloat16", "bfloat16": "float32", "float16": "float32"}
DTYPE_NAMES = {"auto": "Auto"}
MOST = 8


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the model …")
def _found(name: str, revision: str, dtype: str, quantization: str) -> ModelRef:
    return catalog.resolve(
        name, revision=revision, dtype=dtype, quantization=quantization, settings=settings()
    )


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the data …")
def _text(corpus: str, inputs: int, tokens: int, seed: int, bos: str, chat: bool) -> DataRef:
    return corpora.resolve(
        corpus, inputs=inputs, tokens=tokens, seed=seed, bos=bos, chat=chat, settings=settings()
    )


def compared() -> tuple[dict[str, ScoreRequest], list[str]]:
    """(name → request, the model at the left first; why others that are wanted cannot be had).

    Raises a HeadvizError for the model at the left, or for a text that cannot be had.
    """
    left = score_request()
    data = other_text(left.data)
    requests, problems = [left], []
    for name in wanted() or [value("model").strip() + _at(value("revision").strip())]:
        try:
            request = ScoreRequest(model=_other(name, left, data), data=data)
            corpora.check_length(request.data, catalog.context_length(request.model, settings()))
        except HeadvizError as error:
            problems.append(f"{name} is left out: {error}")
        else:
            requests.append(request)
    return dict(zip(labels(requests), requests, strict=True)), problems


def pinned() -> dict[str, str]:
    """What a link writes instead of the names of the others: models of the hub at the commits that are looked at."""
    names = []
    for name in wanted():
        try:
            found = _resolved(name, "auto", "none")
        except HeadvizError:
            names.append(name)  # the page says why it cannot be had
        else:
            names.append(f"{found.name}@{found.revision}" if found.source == "hub" else name)
    return {"against": ",".join(names)} if names else {}


def wanted() -> list[str]:
    """Names of the others, as they stand in the view; none means the model at the left."""
    return [name for name in value("against").split(",") if name][:MOST]


def _at(revision: str) -> str:
    return f"@{revision}" if revision else ""


def _resolved(name: str, dtype: str, quantization: str) -> ModelRef:
    """The pinned model of `name` or `name@revision`."""
    whole, at, revision = name.rpartition("@")
    if not at or any(entry.name == name for entry in catalog.list_models(settings())):
        whole, revision = name, ""
    return _found(whole, revision, dtype, quantization)


def _other(name: str, left: ScoreRequest, data: DataRef) -> ModelRef:
    """The number format `auto` is that at the left; for the very model at the
    left on the very same text it is the other of float32 and bfloat16, since there would be nothing to compare."""
    quantization = value("other_quantization")
    quantization = left.model.quantization if quantization == "left" else quantization
    dtype = value("other_dtype")
    found = _resolved(name, left.model.dtype if dtype == "auto" else dtype, quantization)
    if dtype == "auto" and found == left.model and data == left.data:
        found = dataclasses.replace(found, dtype=SWAPPED[found.dtype])
    return found


def other_text(left: DataRef) -> DataRef:
    """The text on which the others are scored: that at the left, unless the view says otherwise."""
    bos = left.bos if value("other_bos") == "left" else value("other_bos")
    if value("other_data") == "left":
        return dataclasses.replace(left, bos=bos)
    return _text(value("other_data"), left.inputs, left.tokens, value("seed"), bos, left.chat)


def labels(requests: list[ScoreRequest]) -> list[str]:
    """A name for each: its model, and whatever tells it from the rest: revision, number format, text; else a number."""
    names = []
    for request in requests:
        name = catalog.short(request.model)
        alike = [one for one in requests if catalog.short(one.model) == name]
        if len({one.model.revision for one in alike}) > 1:
            name += f"@{request.model.revision[:7]}"
        more = [
            said
            for said, every in (
                (request.model.dtype, {one.model.dtype for one in requests}),
                (request.model.quantization, {one.model.quantization for one in requests}),
                (request.data.corpus, {one.data.corpus for one in requests}),
                (f"BOS {request.data.bos}", {one.data.bos for one in requests}),
            )
            if len(every) > 1
        ]
        names.append(", ".join([name, *more]))
    return [
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})"
        for i, name in enumerate(names)
    ]


# ---------------------------------------------------------------------------------------------------- controls


def pick_others(where) -> None:
    entries = {entry.name: entry.label for entry in catalog.list_models(settings())}
    several(
        where,
        "against",
        "Compared with",
        [*entries, *(name for name in wanted() if name not in entries)],
        names=entries,
        placeholder="the same model in another number format",
        accept_new_options=True,
        max_selections=MOST,
        help="One or more other models: bundled, a folder of HEADVIZ_MODELS, one already downloaded, or any hub id, typed, such "
        "as `Qwen/Qwen2.5-0.5B-Instruct`; `ID@REVISION` takes a branch, tag or commit. Left empty, the model at the left is "
        "compared with itself in the other number format: what does rounding change?",
    )


def pick_more() -> None:
    """How the others are read, where that is not as at the left."""
    st.selectbox(
        "Number format of the others",
        VIEW_DTYPES,
        format_func=lambda name: DTYPE_NAMES.get(name, name),
        help="Auto: as the model at the left. For that very model it is the other of float32 and bfloat16. Choose the same format "
        "as at the left to see a model against itself: everything must be 0.",
        **keyed("other_dtype"),
    )
    st.selectbox(
        "Quantisation of the others",
        ("left", "none", "8bit", "4bit"),
        format_func=lambda name: "as at the left" if name == "left" else name,
        help="8 or 4 bits need a GPU and bitsandbytes. Use it to see what compressing the weights does to the heads.",
        **keyed("other_quantization"),
    )
    st.selectbox(
        "Text of the others",
        OTHER_DATA,
        format_func=lambda name: "as at the left" if name == "left" else corpora.CORPORA[name].title,
        help="Models are compared on the same text. Another text here shows how much of a difference the text alone makes; the "
        "intervals are wider then, since inputs are not paired.",
        **keyed("other_data"),
    )
    st.selectbox(
        "BOS token of the others",
        ("left", "tokenizer", "always", "never"),
        format_func=lambda name: "as at the left" if name == "left" else name,
        help="Whether the others read a beginning-of-sequence token first. Set it to `always` with the same model to see "
        "what one token in front does to the sink.",
        **keyed("other_bos"),
    )


VIEW_DTYPES = ("auto", "float32", "bfloat16", "float16")


def several(where, name: str, label: str, options: list[str], *, names=None, **more) -> None:
    """A choice of several, which the view holds as one comma-separated text."""
    box = f"{name}_box"
    st.session_state.setdefault(box, [one for one in value(name).split(",") if one])

    def keep() -> None:
        put(name, ",".join(str(one).strip().replace(",", "") for one in st.session_state[box]))
        st.session_state.headviz_repin = True

    where.multiselect(
        label,
        options,
        key=box,
        persist_state="session",
        format_func=lambda one: (names or {}).get(one, one),
        on_change=keep,
        **more,
    )
