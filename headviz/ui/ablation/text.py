"""Panel: one prompt as the model is, with heads off, with as many others off; and the loss by position."""

from __future__ import annotations

import math
from dataclasses import replace
from html import escape

import streamlit as st

from headviz import ui
from headviz.analysis import ablation
from headviz.analysis.side_by_side import (
    MOST_NEW,
    check_request,
    difference_sentence,
    first_difference,
    sides,
    with_ablation,
)
from headviz.charts import fmt, positions
from headviz.errors import BadInput
from headviz.jobs.kinds import job_digest
from headviz.types import Ablation, GenerateRequest, Generation, Provenance, ScoreTable
from headviz.ui.ablation.measurements import Measurements
from headviz.view import VIEW

_SIGNS = str.maketrans({"\n": "⏎", "\t": "⇥"})
_KINDS = {"uniform": "anywhere", "layer_matched": "as many in each layer"}


def panel(work: Measurements, table: ScoreTable) -> None:
    if work.plan.mode == "static":
        side_by_side(work)
    else:
        st.info(
            "Texts are written with a fixed set of heads off. A rule per input decides from the whole input, and while a "
            "text is written there is none yet.",
            icon=":material/info:",
        )
    by_position(work)


# -------------------------------------------------------------------------------------------------- side by side


def side_by_side(work: Measurements) -> None:
    pressed = _controls()
    asked = GenerateRequest(
        model=work.plan.model,
        prompt=ui.value("prompt"),
        chat=ui.value("turn"),
        bos=ui.value("bos"),
        new_tokens=ui.value("length"),
        ablation=Ablation(),
    )
    try:
        check_request(asked)
    except BadInput as error:
        st.error(str(error), icon=":material/error:")
        return
    key = job_digest(asked)
    if pressed:
        st.session_state.headviz_written = key
    start = st.session_state.get("headviz_written") == key or _by_itself(asked)
    plan = replace(work.plans[ui.value("instead")], draws=1)
    found = sides(plan, work.off)
    kinds = [kind for kind in ("stock", "off", ui.value("others")) if kind in found]
    requests = {kind: with_ablation(asked, found[kind][0]) for kind in kinds}
    there = ui.gather(list(requests.values()), start=start, group="text")
    texts = {kind: there.get(job_digest(request)) for kind, request in requests.items()}
    missing = tuple(dict.fromkeys(job_digest(requests[kind]) for kind in kinds if texts[kind] is None))
    if missing and start:
        ui.working_on(missing, group="text")
    elif missing:
        st.info(
            f"**Generate** lets the model go on from this prompt {len(missing)} times.",
            icon=":material/play_circle:",
        )
    _columns(work, texts, key)


def _by_itself(asked: GenerateRequest) -> bool:
    """The bundled model goes on from the prompt that stands there by itself; anything else waits for the button."""
    return asked.model.source == "bundled" and asked.prompt == VIEW["prompt"].default


def _controls() -> bool:
    """What stands side by side. Returns whether the button was pressed."""
    with st.form("side_by_side", border=False):
        st.text_area(
            "Prompt",
            height=80,
            max_chars=2_000,
            help="The model goes on from this text, three times: as it is, with these heads off, and with as many random "
            "heads off. Each time it takes the likeliest token, so that the same prompt always gives the same text.",
            **ui.keyed("prompt"),
        )
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.number_input(
                "New tokens",
                min_value=1,
                max_value=MOST_NEW,
                width=120,
                help="How many tokens are written at most. A token is a word or a part of one.",
                **ui.keyed("length"),
            )
            st.segmented_control(
                "In place of a head",
                ["zero", "mean"],
                format_func={"zero": "Zero", "mean": "Its mean"}.get,
                required=True,
                help="What stands in for the output of a head that is off: nothing at all, or what the head puts out on "
                "average, which spares the rest of the model a shock.",
                **ui.keyed("instead"),
            )
            st.segmented_control(
                "Random heads",
                list(_KINDS),
                format_func={"uniform": "Anywhere", "layer_matched": "As many in each layer"}.get,
                required=True,
                help="The third text: as many heads, drawn at random. With as many in each layer as the set has, the "
                "difference is not one of layers.",
                **ui.keyed("others"),
            )
            st.toggle(
                "Chat template",
                help="The prompt becomes a question to a model that was tuned for chat, in the model's own template. Off: "
                "the model goes on with the text itself. Models without a template can only do that.",
                **ui.keyed("turn"),
            )
            return st.form_submit_button("Generate", type="primary")


def _columns(work: Measurements, texts: dict[str, Generation | None], key: str) -> None:
    """The texts; what is not there yet is shown as it was last, dimmed."""
    last = st.session_state.setdefault("headviz_texts", {})
    if last.get("prompt") != key:
        last.clear()
        last["prompt"] = key
    last |= {kind: text for kind, text in texts.items() if text is not None}
    stock = texts["stock"]
    if stock is not None:
        said = _sentence(work, stock, texts)
        if said:
            st.html(f"<div class='hv-said'>{escape(said)}</div>")
    for column, kind in zip(st.columns(len(texts)), texts, strict=True):
        with column:
            st.markdown(f"**{_title(work, kind)}**")
            text = texts[kind] or last.get(kind)
            if text is None:
                st.caption("Not written yet.")
                continue
            at = first_difference(stock, text) if stock is not None and kind != "stock" else None
            with st.container(key=f"{'stale_' if texts[kind] is None else 'text_'}{kind}"):
                ui.token_strip(text.pieces, told=_told(text), marked=at, start=False)
            st.caption(_ended(text))
    if stock is not None:
        with st.expander(f"The prompt as the model reads it: {len(stock.prompt)} tokens"):
            ui.token_strip(stock.prompt_pieces)
        ui.provenance(_provenance(stock.provenance, sum(text is not None for text in texts.values())))


def _title(work: Measurements, kind: str) -> str:
    if kind == "stock":
        return "As it is"
    count = work.off.count
    heads = "head" if count == 1 else "heads"
    return f"{count} {heads} off" if kind == "off" else f"{count} random {heads} off, {_KINDS[kind]}"


def _sentence(work: Measurements, stock: Generation, texts: dict[str, Generation | None]) -> str:
    """`54 heads off: the first difference is token 12: ' the' became ' a'.`, and the same for random heads."""
    parts = [
        f"{_title(work, kind)}: {difference_sentence(stock, text)}.".translate(_SIGNS)
        for kind, text in texts.items()
        if kind != "stock" and text is not None
    ]
    return " ".join(parts)


def _told(text: Generation) -> list[str]:
    return [
        f"token {i}: log-probability {fmt.number(log)} nats ({fmt.percent(math.exp(log))}), entropy "
        f"{fmt.number(spread)} nats"
        for i, (log, spread) in enumerate(zip(text.logprob, text.entropy, strict=True), 1)
    ]


def _ended(text: Generation) -> str:
    count = len(text.tokens)
    why = "the model ended the text" if text.stop == "end" else "as many as were asked for"
    mean = fmt.number(float(text.logprob.mean()))
    return f"{count} token{'s' if count > 1 else ''}, {why}. Mean log-probability {mean} nats a token."


def _provenance(made: Provenance, texts: int) -> str:
    model = made.request["model"]
    notes = "".join(f" · {note}" for note in made.notes)
    return escape(
        f"{model['name']}@{model['revision'][:7]} · {model['dtype']} · greedy · {texts} texts · "
        f"{fmt.duration(made.seconds)} for the first · {made.device}, {fmt.plural(made.threads, 'thread')} · request "
        f"{made.digest[:12]}{notes}"
    )


# ------------------------------------------------------------------------------------------------ loss by position


def by_position(work: Measurements) -> None:
    st.markdown("**Loss by position**: how well the next token is predicted, early and late in an input.")
    if work.plan.text is None:
        st.info(
            "Questions have no loss by position. Choose *Loss on the text at the left* under *Measured on*.",
            icon=":material/info:",
        )
        return
    if work.before is None:
        st.caption("The loss of the model as it is is being measured.")
        return
    after = {
        kind: measured
        for kind, plan in work.plans.items()
        if work.off.heads
        and (measured := work.there.get(job_digest(ablation.measuring(plan, work.off)))) is not None
    }
    drawn = ablation.controls(work.plans["zero"], work.off)
    random = {kind: [one for r in several if (one := ui.cached(r))] for kind, several in drawn.items()}
    ui.chart(
        positions.loss_by_position(
            work.before, after, random, theme=ui.theme(), provenance=ui.measured_text(work.before)
        ),
        key="positions",
        name="headviz-loss-by-position",
        alt="Mean loss against position in the input, and its change with heads off",
    )
    if not any(random.values()) and work.off.heads:
        st.caption("*Random heads* under *Curve* measures as many random heads; they appear here in grey.")
