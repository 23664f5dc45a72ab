"""The sidebar: which model, and which text. Every control is a parameter of the view."""

from __future__ import annotations

import streamlit as st

from headviz.data import own_text
from headviz.data.corpora import CORPORA
from headviz.errors import HeadvizError
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import BOS_POLICIES, DTYPES, QUANTIZATIONS
from headviz.ui.state import keyed, put, value


def pick_model() -> None:
    entries = offered()
    chosen = value("model")
    st.selectbox(
        "Model",
        list(entries) if chosen in entries else [*entries, chosen],
        format_func=lambda name: entries.get(name, name),
        accept_new_options=True,
        help="The bundled model, a folder of HEADVIZ_MODELS, a model already downloaded, or any hub id: type it, "
        "such as `Qwen/Qwen2.5-0.5B`. Weights are read from safetensors only; code from the hub is never run.",
        **keyed("model"),
    )
    if left_out := catalog.unusable(settings()):
        with st.expander(f"{len(left_out)} folders are not offered"):
            for name, sentence in left_out:
                st.caption(f"**{name}**: {sentence}")
    with st.popover("Revision, dtype, quantisation", width="stretch"):
        st.text_input(
            "Revision",
            placeholder="main",
            help="Branch, tag or commit on the hub. It is pinned to a commit before anything is computed, so that "
            "a result can be repeated later. Leave empty for the newest.",
            **keyed("revision"),
        )
        st.selectbox(
            "Number format (dtype)",
            ["auto", *DTYPES],
            help="How numbers are stored while the model runs. bfloat16 is faster where the machine supports it; "
            "float32 is exact to about seven digits. auto takes what this machine is fast at.",
            **keyed("dtype"),
        )
        st.selectbox(
            "Quantisation",
            QUANTIZATIONS,
            help="Load the weights in 8 or 4 bits to fit a large model on a GPU (needs bitsandbytes). "
            "Scores then describe the quantised model.",
            **keyed("quantization"),
        )


def offered() -> dict[str, str]:
    """Name → what the menu says. A local model's never changes: once it is pinned its label says to what, and the browser
    would take the text it shows for the id of another model."""
    return {
        entry.name: f"{entry.name} (local)" if entry.source == "local" else entry.label
        for entry in catalog.list_models(settings())
    }


def pick_data() -> None:
    st.selectbox(
        "Data",
        list(CORPORA),
        format_func=lambda name: CORPORA[name].title,
        help="The text on which heads are scored. " + CORPORA[value("corpus")].help,
        on_change=lambda: put("data_revision", ""),  # a commit of another data set
        **keyed("corpus"),
    )
    if value("corpus") == "hub":
        pick_hub_data()
    if value("corpus") == "own":
        pick_own_text()
    how_much()
    with st.popover("Part, seed, BOS, chat template", width="stretch"):
        how_cut()


def how_much() -> None:
    left, right = st.columns(2)
    left.number_input(
        "Inputs",
        min_value=1,
        max_value=2_000,
        help="How many pieces of text are scored. More inputs give steadier averages and take longer.",
        **keyed("inputs"),
    )
    right.number_input(
        "Tokens each",
        min_value=1,
        max_value=131_072,
        help="Length of each input in tokens, a BOS token included. A model cannot read more than its context.",
        **keyed("tokens"),
    )


def how_cut() -> None:
    parts = CORPORA[value("corpus")].parts
    if value("part") not in parts:
        put("part", parts[0])
    st.selectbox(
        "Part",
        parts,
        help="Which part of the corpus. Held-out and train share no package, document or split, so what is "
        "trained on one can be judged on the other.",
        **keyed("part"),
    )
    st.number_input(
        "Seed",
        min_value=0,
        max_value=999_999,
        help="Decides which documents are taken. The same seed takes the same text again.",
        **keyed("seed"),
    )
    st.selectbox(
        "BOS token",
        BOS_POLICIES,
        help="Whether a beginning-of-sequence token stands first: as the model's tokenizer does it, always, or "
        "never. Many models park attention on the first token, so this changes the sink scores.",
        **keyed("bos"),
    )
    st.toggle(
        "Chat template",
        help="Wrap each input as a user's turn of a conversation, in the form that a chat model was trained on.",
        **keyed("chat"),
    )


def pick_hub_data() -> None:
    st.text_input(
        "Data set id",
        placeholder="owner/name",
        help="A data set on the Hugging Face hub in parquet, JSON or CSV. Code from the hub is never run.",
        **keyed("dataset"),
    )
    left, right = st.columns(2)
    left.text_input(
        "Configuration", help="Named variant of the data set, if it has several.", **keyed("config")
    )
    right.text_input(
        "Split", placeholder="train", help="Such as train, validation or test.", **keyed("split")
    )
    st.text_input("Column", placeholder="text", help="The column that holds the text.", **keyed("column"))


@st.cache_resource(max_entries=32, show_spinner=False)
def _summary(revision: str) -> own_text.Summary:
    return own_text.summary(revision, settings())


def pick_own_text() -> None:
    """Pasted or uploaded text; what is kept is named by its sha256, which is all that the URL holds."""
    kept = value("text")
    if kept:
        told = _summary(kept)
        st.caption(f"{told.documents:,} documents, {told.characters:,} characters: “{told.start} …”")
        for note in told.notes:
            st.caption(note)
    with st.popover("Give a text" if not kept else "Give another text", width="stretch"):
        pasted = st.text_area(
            "Paste text", height=160, help="It is cut into inputs of the chosen length, from its start."
        )
        upload = st.file_uploader(
            "or upload a file",
            type=["txt", "jsonl", "csv", "parquet"],
            help="txt is one document; the other formats hold one document a row. The text stays on this machine.",
        )
        try:
            column = ""
            if upload is not None and (columns := own_text.columns(upload.getvalue(), upload.name)):
                best = own_text.best_column(upload.getvalue(), upload.name)
                column = st.selectbox(
                    "Column with the text",
                    columns,
                    index=columns.index(best) if best in columns else None,
                    placeholder="choose one",
                    help="Each row of it becomes a document.",
                )
            if st.button("Use this text", type="primary", disabled=not (pasted or upload) or column is None):
                name, data = (upload.name, upload.getvalue()) if upload else ("pasted.txt", pasted.encode())
                text = own_text.import_text(data, name, column=column, settings=settings())
                put("text", text.revision)
                st.rerun()
        except HeadvizError as error:
            st.error(str(error))
