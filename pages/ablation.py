"""Ablation: what does switching them off cost? A slider, the measured cost, the curve, random heads beside it."""

import json

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import savings
from headviz.analysis.headfile import write_heads
from headviz.analysis.metrics import METRICS
from headviz.analysis.paired import within_tolerance
from headviz.charts import curve, fmt, heatmap, tables
from headviz.data import corpora, questions
from headviz.jobs.kinds import job_digest
from headviz.settings import settings
from headviz.types import DataRef, ScoreTable
from headviz.ui.measurements import GRID, Measurements, change_of, change_text, sentence
from headviz.view import SHOTS, TARGETS

TOLERANCE = {"loss": 0.05, "questions": 0.01}  # nats; one point
OWN_WAY = {"quiz": ("text", 0), "mmlu": ("letter", 5)}  # how each set is asked unless somebody chooses
TITLES = {"loss": "Loss on the text at the left", "quiz": "The bundled quiz", "mmlu": "MMLU"}


def other_part(data: DataRef) -> DataRef:
    """Where heads are chosen: the other part of the same corpus, or the docstrings' training part."""
    parts = corpora.CORPORA[data.corpus].parts
    other = {"held-out": "train", "train": "held-out"}.get(data.part)
    names = ("dataset", "config", "split", "column", "inputs", "tokens", "seed", "bos", "chat")
    chosen = {name: getattr(data, name) for name in names}
    if data.corpus in ("own", "hub") or other not in parts:
        chosen |= {
            "corpus": "docstrings",
            "part": "train",
            "dataset": "",
            "config": "",
            "split": "",
            "column": "",
        }
    else:
        chosen |= {"corpus": data.corpus, "part": other}
    return corpora.resolve(settings=settings(), **chosen)


def plan_now() -> Plan:
    data = ui.data_ref()
    target, asked = ui.value("target"), None
    if target != "loss":
        scoring, shots = OWN_WAY[target]
        asked = questions.resolve_questions(
            target,
            per_subject=ui.value("each"),
            seed=ui.value("seed"),
            shots=shots if ui.value("shots") == "auto" else int(ui.value("shots")),
            scoring=scoring if ui.value("scoring") == "auto" else ui.value("scoring"),
            settings=settings(),
        )
    return Plan(
        model=ui.model_ref(),
        chosen_on=other_part(data),
        metric=ui.value("metric"),
        share=ui.value("off") / 100,
        by=ui.value("by"),
        per_layer=ui.value("even"),
        questions=asked,
        text=data if target == "loss" else None,
        draws=ui.value("draws"),
    )


# ---------------------------------------------------------------------------------------------------- controls


def controls(table: ScoreTable) -> None:
    score, share, target, more = st.columns([3, 3, 2.6, 1.4], vertical_alignment="top")
    score.selectbox(
        "Score that chooses",
        list(table.metrics),
        format_func=lambda name: METRICS[name].symbol,
        help=METRICS[ui.value("metric")].help,
        **ui.keyed("metric"),
    )
    share.slider(
        "Heads off, % of all",
        0.0,
        30.0 if ui.value("off") <= 30 else 100.0,
        step=0.5,
        format="%.1f%%",
        help="The most inactive heads by this score, on average over the text on which heads are chosen, are switched "
        "off on every input. Measuring starts when you let go.",
        **ui.keyed("off"),
    )
    target.selectbox(
        "Measured on",
        TARGETS,
        format_func=TITLES.get,
        help="Loss: how well the model predicts the next token of the text in the sidebar, in nats; lower is better. "
        "Questions: the share answered right. The bundled quiz is easy and our own; MMLU needs a model that can do it.",
        **ui.keyed("target"),
    )
    with more.popover("More", width="stretch"):
        st.segmented_control(
            "Switch off",
            ["head", "group"],
            format_func={"head": "Single heads", "group": "Whole KV groups"}.get,
            required=True,
            help="Query heads of one KV group share keys and values: only whole groups free memory.",
            **ui.keyed("by"),
        )
        st.toggle(
            "Same number in every layer",
            help="Instead of wherever the score is most extreme.",
            **ui.keyed("even"),
        )
        st.number_input(
            "Random draws",
            min_value=1,
            max_value=100,
            help="How many random sets of each kind stand beside the score: 20 or more for a figure that is quoted.",
            **ui.keyed("draws"),
        )
        if ui.value("target") != "loss":
            question_controls()


def question_controls() -> None:
    st.number_input(
        "Questions a subject",
        min_value=0,
        max_value=1_000,
        help="0 takes all. Fewer are quicker, and resolve less.",
        **ui.keyed("each"),
    )
    st.selectbox(
        "Worked examples (shots)",
        SHOTS,
        help="How many solved questions stand before each one.",
        **ui.keyed("shots"),
    )
    st.selectbox(
        "Scoring",
        ["auto", "letter", "text"],
        help="Letter: the likelier of A to D, as MMLU is scored. Text: the likelier answer text per token, which a small "
        "model can do.",
        **ui.keyed("scoring"),
    )


# ------------------------------------------------------------------------------------------------------ the page


def costs(work: Measurements) -> None:
    """The numbers beside the map: before, after, change, and whether it is within tolerance."""
    on_text = work.plan.text is not None
    margin = TOLERANCE["loss" if on_text else "questions"]
    rows = []
    for kind in ("zero", "mean"):
        tree = work.report(kind)
        if tree is None:
            rows.append({"instead": kind, "before": "…", "after": "…", "change": "measuring", "within": ""})
            continue
        after = work.there[job_digest(ablation.measuring(work.plans[kind], work.off))]
        said = within_tolerance(
            change_of(work.plan, work.before, after), margin=margin, worse="higher" if on_text else "lower"
        )
        rows.append(
            {
                "instead": kind,
                "was": f"{fmt.number(tree['baseline'])} → {fmt.number(tree['ablated'])}",
                "change": change_text(tree),
                "within": said.answer,
            }
        )
    limit = f"{margin:g} nats" if on_text else "1 point"
    st.dataframe(
        rows,
        hide_index=True,
        column_config={
            "instead": st.column_config.TextColumn(
                "instead", help="What stands in for the output of a head that is off."
            ),
            "was": st.column_config.TextColumn("loss" if on_text else "accuracy", width="small"),
            "change": st.column_config.TextColumn("change [95%]"),
            "within": st.column_config.TextColumn(
                f"≤ {limit}?",
                width="small",
                help="Yes: even the unlucky end of the 95% interval stays inside. Cannot tell: it would take more text or "
                "questions; that is not the same as no effect.",
            ),
        },
    )
    if work.off.heads:
        freed = savings(work.off, context=512)
        st.caption(
            f"A runtime that skips whole KV groups could save {freed.groups} of {freed.groups_total} "
            f"({fmt.percent(freed.share)} of KV-cache bytes and attention FLOPs). headviz itself saves nothing: it zeroes."
        )
    flagged = "the same inputs: flagged" if ablation.same_inputs(work.plan) else "other text than is measured"
    st.caption(f"Heads are chosen on {corpora.describe(work.plan.chosen_on)}: {flagged}.")


def buttons(work: Measurements) -> None:
    runs = 2 * len(GRID)
    seconds = work.before.provenance.seconds if work.before is not None else 0.0
    left, right = st.columns(2)
    took = f", about {fmt.duration(runs * seconds)}" if seconds else ""
    if left.button(
        "Whole curve",
        width="stretch",
        help=f"At most {runs} runs{took}; what is measured is kept.",
    ):
        base = ablation.measuring(work.plan, None)
        st.session_state.headviz_curve = (work.plan.metric, job_digest(base))
        st.rerun()
    draws = 2 * work.plan.draws
    took = f", about {fmt.duration(draws * seconds)}" if seconds else ""
    if right.button(
        "Random heads",
        width="stretch",
        disabled=not work.off.heads,
        help=f"As many random heads, {work.plan.draws} times anywhere and {work.plan.draws} times with as many in each "
        f"layer: {draws} runs{took}.",
    ):
        st.session_state.headviz_random = work.key()
        st.rerun()


def take_away(work: Measurements) -> None:
    how = {
        "metric": work.plan.metric,
        "share_asked": work.plan.share,
        "chosen_on": corpora.describe(work.plan.chosen_on),
    }
    text = write_heads(work.off, model=work.plan.model.name, revision=work.plan.model.revision, how=how)
    left, right = st.columns(2)
    left.download_button(
        "Head set (JSON)",
        text,
        file_name="headviz-heads.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        help="Which heads are off; `python -m headviz ablate --heads FILE` reads it back.",
    )
    trees = [tree for kind in ("zero", "mean") if (tree := work.report(kind))]
    right.download_button(
        "Measurements (JSON)",
        json.dumps(trees, indent=1, default=str),
        file_name="headviz-ablation.json",
        mime="application/json",
        on_click="ignore",
        width="stretch",
        disabled=not trees,
        help="Change, interval, random heads, and where heads were chosen and measured.",
    )


def subjects(work: Measurements) -> None:
    tree = work.report("zero")
    if tree is None or "subjects" not in tree:
        return
    st.markdown(
        "**By subject**, zero in their place. p is exact McNemar, corrected by Holm over the subjects."
    )
    st.dataframe(
        [
            {
                name: row[name]
                for name in ("subject", "n", "baseline", "ablated", "change", "lost", "gained", "p_holm")
            }
            for row in tree["subjects"]
        ],
        hide_index=True,
    )


@st.fragment
def body(table: ScoreTable) -> None:
    ui.sync_url("ablation")
    with ui.sentences():
        work = Measurements(plan_now(), table)
        zero, mean = work.report("zero"), work.report("mean")
        ui.say(sentence(work.off, zero, mean))
        controls(table)
        if missing := work.missing():
            ui.working_on(missing)
        row = METRICS[work.plan.metric]
        left, right = st.columns([5, 4], gap="medium")
        with left:
            figure = heatmap.head_map(
                table.mean(row.id),
                row,
                geometry=table.geometry,
                theme=ui.theme(),
                inactive=work.off.mask(),
                marked="off",
                provenance=tables.caption(table.provenance, table),
            )
            ui.chart(
                figure,
                key="map",
                name=f"headviz-off-{row.id}",
                alt="Map of the score, heads that are off hatched",
            )
        with right:
            costs(work)
            draw_curve(work)
            buttons(work)
        subjects(work)
        take_away(work)
        if work.before is not None:
            ui.provenance(ui.measured_text(work.before))


def draw_curve(work: Measurements) -> None:
    on_text = work.plan.text is not None
    figure = curve.cost_curve(
        work.points(),
        work.draws(),
        unit="nats" if on_text else "accuracy",
        what="change in loss" if on_text else "change in accuracy",
        tolerance=TOLERANCE["loss"] if on_text else -TOLERANCE["questions"],
        now=work.off.share,
        theme=ui.theme(),
    )
    ui.chart(figure, key="curve", name=f"headviz-cost-{work.plan.metric}")


ui.page_head("Ablation", "What does switching them off cost?", "ablation")
with ui.sentences():
    asked = ablation.scoring(plan_now())
    scores = ui.answer(
        asked,
        start=ui.starts_by_itself(asked),
        button="Score and measure",
        empty="Heads are chosen by their scores, and this model has none yet on the text on which they are chosen.",
    )
    if scores is not None:
        body(scores)
