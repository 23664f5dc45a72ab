"""The design of a repair: which heads, on the map of attention on the first token, by rule, by clicks, from a file."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from headviz import ui
from headviz.analysis import bands as of
from headviz.charts import fmt, tables
from headviz.charts.treated_map import treated_map
from headviz.errors import BadInput
from headviz.readers import parse_heads, write_heads
from headviz.surgery import rules
from headviz.surgery.rules import Measured
from headviz.types import Bands, BandsRequest, RepairRequest, ScoreRequest, head_name
from headviz.ui.bands.controls import thresholds
from headviz.ui.surgery import launch, presets, scheme
from headviz.ui.uploads import upload_problem, uploaded_heads


@dataclass(frozen=True)
class Chosen:
    """The heads of the view, or why there are none. how: in words; rule: what chose them, empty by hand."""

    heads: tuple[tuple[int, int], ...]
    how: str
    problem: str = ""
    rule: str = ""


def panel(said) -> None:
    """The stage Design, from heads to the button."""
    asked = ui.score_request()
    request = BandsRequest(model=asked.model, data=asked.data)
    with said:
        ui.caution(asked.model)
    bands = ui.answer(
        request,
        start=ui.starts_by_itself(request),
        button="Measure the first token",
        empty="Heads are chosen by how much attention they give the first token, which one run over the texts at the left finds. "
        "Nothing is measured for this model and text yet.",
    )
    if bands is None:
        return
    left, right = st.columns([5, 4], gap="medium")
    with right:
        measured = Measured(geometry=bands.geometry, bands=bands, scores=_scores(asked), at=thresholds())
        chosen = choose(measured)
        controls(measured, chosen)
    with left:
        draw_map(measured, bands, chosen)
    made = launch.planned(asked, measured, chosen)
    with said:
        ui.say(launch.sentence(made, measured, chosen))
    launch.panel(made)


def _scores(asked: ScoreRequest):
    """The scores of the heads, where the rule asks for one; None while it does not, or they are not there."""
    if by_hand():
        return None
    try:
        wanted = "scores" in rules.needs(ui.value("treat_rule"))
    except BadInput:
        return None  # its sentence comes with the heads
    if not wanted:
        return None
    return ui.answer(
        asked,
        start=ui.starts_by_itself(asked),
        button="Score the heads",
        empty="This rule asks for a score, and the heads have none yet on this text.",
        key="surgery_scores",
    )


def by_hand() -> bool:
    return ui.value("treat_by") == "hand"


def choose(measured: Measured) -> Chosen:
    """The heads of the view."""
    if not by_hand():
        rule = ui.value("treat_rule").strip()
        try:
            return Chosen(rules.heads_by_rule(rule, measured), f"rule {rule}", rule=rule)
        except BadInput as error:
            return Chosen((), f"rule {rule}", str(error))
    heads, shape = parse_heads(ui.value("treated")), measured.geometry
    outside = [at for at in heads if at[0] >= shape.layers or at[1] >= shape.heads]
    how = ui.value("treated_from") or "by hand"
    if outside:
        return Chosen(
            (),
            how,
            f"{head_name(*outside[0])} is not in this model, which has layers 0 to {shape.layers - 1} and heads 0 to "
            f"{shape.heads - 1}: the heads were chosen for another one. Clear them, or choose that model at the left.",
        )
    problem = "" if heads else "No head is chosen. Click heads on the map, take a rule, or open a file."
    return Chosen(heads, how, problem)


# ------------------------------------------------------------------------------------------------ the map


def draw_map(measured: Measured, bands: Bands, chosen: Chosen) -> None:
    named = measured.classes()
    figure = treated_map(
        bands.mean_mass(),
        named,
        hovers(measured, set(chosen.heads)),
        of.counts(named),
        chosen.heads,
        geometry=bands.geometry,
        theme=ui.theme(),
        provenance=tables.caption(bands.provenance),
    )
    boxes = st.session_state.get("surgery_box", False)
    if boxes:
        figure.update_layout(dragmode="select")
    ui.chart(
        figure,
        key="plan_map",
        on_select=lambda: clicked(chosen),
        box=boxes,
        name="headviz-plan",
        alt="Map of attention on the first token, heads to treat outlined",
    )
    if bands.geometry.slopes is None:
        st.caption(
            "This model has no ALiBi slopes: rules by slope find nothing, everything else works the same."
        )


def hovers(measured: Measured, chosen: set) -> list[list[str]]:
    """(L, H) texts: head, class, mass, entropy, slope, and whether it is treated."""
    mass, entropy, named = measured.values("bos"), measured.values("entropy"), measured.classes()
    slopes = measured.geometry.slopes
    return [
        [
            f"<b>{head_name(i, j)}</b> · {named[i, j]}<br>mass {fmt.number(mass[i, j])}, entropy {fmt.number(entropy[i, j])} nats"
            + (f"<br>slope {fmt.number(slopes[j])} nats a token" if slopes else "")
            + ("<br>treated: a click leaves it out" if (i, j) in chosen else "<br>a click treats it")
            for j in range(mass.shape[1])
        ]
        for i in range(mass.shape[0])
    ]


def clicked(chosen: Chosen) -> None:
    """A callback of the map: a click treats a head or leaves it out; a box does so with all in it. By a rule, the rule's set is
    what the clicks change. A redrawn chart sends an empty selection: that is none."""
    points = st.session_state.plan_map["selection"]["points"]
    heads = {
        (int(place["0"]), int(place["1"])) if isinstance(place, dict) else (int(place[0]), int(place[1]))
        for point in points
        if (place := point.get("customdata"))
    }
    if not heads:
        return
    now = set(chosen.heads)
    whom = chosen.how if chosen.how.startswith("by hand") else f"by hand, from {chosen.how}"
    take_heads(now - heads if heads <= now else now | heads, whom)


def take_heads(heads, whom: str = "") -> None:
    """A callback: these heads by hand; whom: where they come from."""
    ui.put("treat_by", "hand")
    ui.put("treated", write_heads(heads))
    ui.put("treated_from", whom[:200])
    if not heads:
        ui.put("treated_from", "")


# ------------------------------------------------------------------------------------------------ controls


def controls(measured: Measured, chosen: Chosen) -> None:
    st.segmented_control(
        "Heads to treat",
        ["rule", "hand"],
        format_func={"rule": "By a rule", "hand": "By hand"}.get,
        required=True,
        on_change=_by_changed,
        args=(chosen,),
        help="A rule reads numbers of each head and can be repeated on another model. By hand, clicks on the map add and remove heads, "
        "beginning with what the rule chose.",
        **ui.keyed("treat_by"),
    )
    if not by_hand():
        st.text_input(
            "Rule",
            help="Conditions, joined with &. "
            + "; ".join(f"`{one}`" for one in rules.EXAMPLES)
            + ". bos is attention on the first token (0 to 1), slope the ALiBi slope; any score of the Heads page works too.",
            **ui.keyed("treat_rule"),
        )
    else:
        st.caption(f"Chosen {chosen.how}. Click a head to add or remove it.")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if by_hand():
            st.button("Clear", on_click=take_heads, args=((),), help="Treat no head.")
        with st.popover("File"):
            _file(measured)
        with st.popover("Presets of the paper"):
            presets.menu()
        st.toggle(
            "Box",
            key="surgery_box",
            help="Drag a box over the map to treat every head in it; over heads that are all treated, to leave them out. Clicks do "
            "nothing meanwhile.",
        )
    if chosen.problem:
        st.error(chosen.problem, icon=":material/error:")
        return
    st.markdown(class_words(measured, chosen))


def class_words(measured: Measured, chosen: Chosen) -> str:
    """How many, of which class, in which layers and heads."""
    named = measured.classes()
    counts = of.counts(named[tuple(zip(*chosen.heads))])
    there = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    layers, heads = {layer for layer, _ in chosen.heads}, {head for _, head in chosen.heads}
    return (
        f"**{fmt.count(len(chosen.heads), named.size)} heads**: {there}. {_span('Layer', layers)}, {_span('head', heads)}."
        + (" Healthy heads are among them: they will be taken apart too." if counts["healthy"] else "")
    )


def _span(what: str, indices: set[int]) -> str:
    """`Layer 3`, or `Layers 2 to 4`."""
    first, last = min(indices), max(indices)
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def _by_changed(chosen: Chosen) -> None:
    """A callback: who goes on by hand for the first time begins with what the rule chose."""
    if ui.value("treat_by") == "hand" and not ui.value("treated") and chosen.heads:
        take_heads(chosen.heads, f"by hand, from {chosen.how}")


def _file(measured: Measured) -> None:
    st.file_uploader(
        "Head set (JSON)",
        type=["json"],
        key="surgery_file",
        on_change=_load_file,
        args=(measured,),
        help="A head set as the Bands and Ablation pages write it under “Take it away”. It must be for the model at the left.",
    )
    if problem := upload_problem("surgery_file"):
        st.error(problem)


def _load_file(measured: Measured) -> None:
    """A callback: the uploaded head set, or the sentence of what is wrong with it."""
    if found := uploaded_heads("surgery_file", ui.model_ref(), measured.geometry):
        read, upload = found
        take_heads(read.heads, f"from {upload.name[:100]}")


def clone(request: RepairRequest, whom: str = "as in an earlier plan") -> None:
    """A callback: a plan into the view, to change it."""
    ui.put("stage", "design")
    scheme.put_plan(request)
    take_heads(request.heads, whom)
