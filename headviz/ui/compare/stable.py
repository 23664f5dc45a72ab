"""Panel: does a threshold carry over from one text to another, and does it select the same heads?"""

from __future__ import annotations

import streamlit as st

from headviz import ui
from headviz.analysis import stability
from headviz.analysis.metrics import METRICS
from headviz.analysis.stability import Stability
from headviz.charts import fmt
from headviz.charts.stable import stability_chart
from headviz.data import corpora
from headviz.data.corpora import CORPORA
from headviz.errors import HeadvizError
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import ScoreRequest, ScoreTable
from headviz.ui.compare.others import several
from headviz.ui.compare.published import published
from headviz.ui.within import share_here
from headviz.view import STABLE_DATA

SHARE_BY = {"auto": "Auto", "share": "Share"}
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
NO_EVIDENCE = (
    "A stable threshold alone is no evidence of a good score: a score that is nearly the same for every head and text has one too. "
    "In the first paper AVVN (LN) has the most stable thresholds and is a poor choice. So read both: the threshold, and whether "
    "the same heads are selected."
)


def panel() -> None:
    """Of the model at the left; it needs no other model."""
    share, why = _controls()
    if why:
        st.caption(why)
    left = ui.score_request()
    requests, problems = wanted(left)
    for problem in problems:
        st.warning(problem)
    if len(requests) < 2:
        st.info("Choose two data sets, or two lengths: stability is between texts.", icon=":material/info:")
    else:
        tables = _gathered(requests)
        if len(tables) >= 2:
            _drawn(requests, tables, share)
    st.divider()
    published()


def wanted(left: ScoreRequest) -> tuple[dict[str, ScoreRequest], list[str]]:
    """(label → request of each data set at each length, sentences of those that cannot be had)."""
    found, problems = {}, []
    longest = catalog.context_length(left.model, settings())
    for corpus in [one for one in ui.value("texts").split(",") if one]:
        for tokens in [int(one) for one in ui.value("lengths").split(",") if one]:
            try:
                data = _text(corpus, left.data.inputs, tokens, ui.value("seed"), left.data.bos)
                corpora.check_length(data, longest)
            except HeadvizError as error:
                problems.append(f"{CORPORA[corpus].title}, {tokens} tokens, is left out: {error}")
                continue
            found[f"{CORPORA[corpus].title}, {tokens}"] = ScoreRequest(model=left.model, data=data)
    return found, list(dict.fromkeys(problems))


@st.cache_resource(ttl=600, max_entries=64, show_spinner="Looking up the data …")
def _text(corpus: str, inputs: int, tokens: int, seed: int, bos: str):
    return corpora.resolve(corpus, inputs=inputs, tokens=tokens, seed=seed, bos=bos, settings=settings())


def _controls() -> tuple[float, str]:
    """Draws the row; the share of heads, 0..1, and why it is that share, are given back."""
    texts, lengths, share = st.columns([3, 2, 1.6])
    several(
        texts, "texts", "Data sets", list(STABLE_DATA), names={name: CORPORA[name].title for name in STABLE_DATA},
        help="The model at the left is scored on each of them. Those from the hub need a network, or a local copy.",
    )  # fmt: skip
    there = [int(one) for one in ui.value("lengths").split(",") if one]
    several(
        lengths, "lengths", "Tokens each", [str(one) for one in sorted({*LENGTHS, *there})],
        help="Input lengths: each data set is cut at each of them.",
    )  # fmt: skip
    with share:
        return _share()


def _share() -> tuple[float, str]:
    """(how many heads, 0..1; why): the largest share within tolerance, or one that is typed."""
    st.segmented_control(
        "Share of heads",
        list(SHARE_BY),
        format_func=SHARE_BY.get,
        required=True,
        help="Thresholds are those that call this share of all heads, on all inputs, inactive. Auto: the largest share that one of "
        "the twelve scores keeps within tolerance on the Ablation page, where that is measured, else 20%.",
        **ui.keyed("share_by"),
    )
    if ui.value("share_by") == "auto":
        share, why = share_within()
        st.markdown(f"**{fmt.percent(share)}**", help=why)
        return share, why
    st.number_input(
        "Share, %",
        min_value=0.0,
        max_value=100.0,
        step=5.0,
        label_visibility="collapsed",
        help="In percent of all heads, on all inputs. It is the share of the Heads page.",
        **ui.keyed("share"),
    )
    return ui.value("share") / 100, ""


def share_within() -> tuple[float, str]:
    """The largest share that one of the twelve scores keeps within tolerance, of the model and text at the left; and why."""
    return share_here(stability.TWELVE)[:2]


def _gathered(requests: dict[str, ScoreRequest]) -> dict[str, ScoreTable]:
    digests = {label: job_digest(request) for label, request in requests.items()}
    key = tuple(digests.values())
    started = st.session_state.get("headviz_stable") == key
    started = started or all(ui.starts_by_itself(request) for request in requests.values())
    there = ui.gather(tuple(requests.values()), start=started, group="stable")
    missing = tuple(dict.fromkeys(digest for digest in key if digest not in there))
    if missing and started:
        ui.working_on(missing, "stable")
    elif missing:
        st.button(
            f"Score on {len(missing)} texts",
            type="primary",
            on_click=lambda: st.session_state.update(headviz_stable=key),
            help="One after another; each is kept.",
        )
    return {label: there[digest] for label, digest in digests.items() if digest in there}


@st.cache_resource(max_entries=32, show_spinner=False)
def _found(digests: tuple[str, ...], labels: tuple[str, ...], share: float, _tables) -> tuple[Stability, ...]:
    metrics = [one for one in stability.TWELVE if all(one in table.metrics for table in _tables.values())]
    return stability.stabilities(_tables, share, metrics)


def _drawn(requests: dict[str, ScoreRequest], tables: dict[str, ScoreTable], share: float) -> None:
    digests = tuple(job_digest(requests[label]) for label in tables)
    found = _found(digests, tuple(tables), share, tables)
    if len(tables) < len(requests):
        st.caption(f"So far {len(tables)} of {len(requests)} texts.")
    st.markdown(sentence(found, ui.value("metric")))
    left, right = st.columns([3, 4], gap="medium")
    with left:
        ui.chart(
            stability_chart(found, METRICS, chosen=ui.value("metric"), theme=ui.theme(), width=340),
            key="stability",
            name="headviz-stability",
            alt="Thresholds across, overlap of the selected heads up, a point a score",
        )
    with right:
        _table(found)
    if left_out := [one for one in found if one.reason]:
        st.caption(
            "No ratio: " + " ".join(f"{METRICS[one.metric].symbol}: {one.reason}" for one in left_out[:3])
        )
    st.caption(NO_EVIDENCE)


def sentence(found: tuple[Stability, ...], metric: str) -> str:
    """The chosen score, then the one whose threshold is most stable and the one whose heads agree most."""
    known = [one for one in found if one.ratio == one.ratio and one.mean_jaccard == one.mean_jaccard]
    if not known:
        return "No score has a ratio of thresholds at this share."
    mine = next((one for one in known if one.metric == metric), None)
    steady, same = min(known, key=lambda one: one.ratio), max(known, key=lambda one: one.mean_jaccard)
    said = f"To select {fmt.percent(found[0].share)} on {len(found[0].labels)} texts, "
    told = [_words(mine)] if mine else []
    if steady is not mine:
        told.append(f"the most stable threshold has {_words(steady)}")
    if same is not mine and same is not steady:
        told.append(f"the most stable choice of heads {_words(same)}")
    return f"{said}{'; '.join(told)}. Two random sets: {fmt.number(found[0].chance)}."


def _words(one: Stability) -> str:
    return (
        f"**{METRICS[one.metric].symbol}**: threshold × {fmt.number(one.ratio)}, same heads {fmt.number(one.mean_jaccard)} "
        "(Jaccard)"
    )


def _table(found: tuple[Stability, ...]) -> None:
    labels = found[0].labels
    rows = [
        {
            "score": METRICS[one.metric].symbol,
            "ratio": one.ratio,
            "jaccard": one.mean_jaccard,
            "least": one.least_jaccard,
            "everywhere": f"{one.everywhere} of {one.count}",
            **one.thresholds,
        }
        for one in found
    ]
    number = {"format": "%.3g", "width": "small"}
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        column_config={
            "score": st.column_config.TextColumn(width="small"),
            "ratio": st.column_config.NumberColumn(
                "max/min", help="Largest over smallest threshold: 1 carries over unchanged.", **number
            ),
            "jaccard": st.column_config.NumberColumn(
                "same heads",
                help="Jaccard: heads selected on both texts over heads selected on either, mean over pairs of texts.",
                **number,
            ),
            "least": st.column_config.NumberColumn("at least", help="The pair that agrees least.", **number),
            "everywhere": st.column_config.TextColumn(
                "on all", help="Heads selected on every text.", width="small"
            ),
            **{
                label: st.column_config.NumberColumn(label, help="Threshold on this text.", **number)
                for label in labels
            },
        },
    )
