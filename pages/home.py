"""Home: what to do now, what is already there, and what this machine can do."""

import streamlit as st

from headviz import machine, ui
from headviz.charts.fmt import size
from headviz.jobs import local
from headviz.ui.disagreement import demo


def three_things() -> None:
    for column, (title, text, page, label) in zip(
        st.columns(3, border=True),
        [
            (
                "See which heads do nothing",
                "Twelve scores of every head of the model in the sidebar. With the bundled model the first map takes "
                "under a minute, and nothing has to be downloaded.",
                "pages/heads.py",
                "Open the map of heads",
            ),
            (
                "See what switching them off costs",
                "A slider over the share of heads, the measured loss with its interval, and random heads beside it. "
                "Heads are chosen on other text than is measured.",
                "pages/ablation.py",
                "Open the slider",
            ),
            (
                "Ask which score is right",
                "A head can stare at the first token and still speak. Four steps with the bundled model, in which the heads that "
                "two scores dispute are switched off.",
                "pages/disagreement.py",
                "Take the four steps",
            ),
        ],
        strict=True,
    ):
        with column:
            st.markdown(f"**{title}**")
            st.markdown(text)
            if page == "pages/disagreement.py":
                if st.button(label, key="demo", icon=":material/play_arrow:", on_click=demo.begin):
                    st.switch_page(page)
            else:
                st.page_link(page, label=label, icon=":material/arrow_forward:")
    st.caption(
        "Your own model: type a hub id under **Model** in the sidebar, or set `HEADVIZ_MODELS` to a folder of checkpoints. Your "
        "own text: choose it under **Data**, to paste or upload what your heads should read."
    )


def kept_results() -> None:
    st.subheader("Already computed", anchor=False)
    done = [job for job in local.list_jobs() if job.state == "done" and job.request is not None]
    if not done:
        st.caption("Nothing yet. Open **Heads**: the bundled model is scored at once.")
    for job in done[:8]:
        what, when, button = st.columns([8, 2, 1.2], vertical_alignment="center")
        what.markdown(f"{job.title}: {ui.describe(job.request)}")
        when.caption(f"{job.created:%Y-%m-%d %H:%M}")
        if button.button("Open", key=f"open_{job.digest}", width="stretch"):
            ui.show(job.request)
            st.switch_page("pages/ablation.py" if job.kind == "measure" else "pages/heads.py")
    if len(done) > 8:
        st.page_link(
            "pages/jobs.py", label=f"{len(done) - 8} more on the Jobs page", icon=":material/arrow_forward:"
        )


def this_machine() -> None:
    st.subheader("This machine", anchor=False)
    total, free = machine.memory()
    gpus = machine.gpus()
    left, middle, right = st.columns(3)
    left.metric(
        "Cores",
        machine.cores(),
        help="A worker computes with all of them unless HEADVIZ_THREADS says otherwise.",
    )
    middle.metric("Memory free", size(free), help=f"Of {size(total)}. A model that would not fit is refused.")
    right.metric("GPUs", len(gpus) or "none", help=", ".join(gpus) or "Models run on the processor.")
    st.caption(
        f"`auto` means {machine.auto_dtype()} here. "
        + (
            "bfloat16 is fast on this machine."
            if machine.has_bf16()
            else "This machine is not fast at bfloat16."
        )
    )


ui.page_head(
    "headviz", "Which attention heads of a language model do nothing, and how would you know?", "home"
)
with ui.sentences():
    three_things()
    kept_results()
    this_machine()
