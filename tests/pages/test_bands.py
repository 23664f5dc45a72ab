"""The bands page over a stored measurement: map, scatter, sentence, thresholds, panels, downloads."""

import base64
import csv
import dataclasses
import io
import json

import numpy as np
import pytest

from headviz.analysis import headfile
from headviz.analysis.bands import Thresholds, lab, sweep
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models.slopes import alibi_slopes
from headviz.types import AttentionByDistance, Bands, BandsRequest, DistanceRequest, Geometry, plain
from headviz.ui.bands import take, words
from headviz.ui.bands.work import Work
from tests.fakes import fake_provenance
from tests.pages.conftest import default_request, figure, open_app, said

L, H, N, T = 6, 16, 4, 64


def fake_bands(sick, *, slopes=True, heads=H, tokens=T, columns=False, dead=()) -> Bands:
    """Mass 0.1 everywhere, 0.7 for `sick`, 0.97 for `dead`; a little spread over the inputs."""
    mass = np.full((N, L, heads), 0.1, np.float32)
    for at in sick:
        mass[:, *at] = 0.7
    for at in dead:
        mass[:, *at] = 0.97
    mass += np.linspace(-0.01, 0.01, N, dtype=np.float32)[:, None, None]
    more = {}
    if columns:
        more = {
            "strongest": mass,
            "strongest_at": np.zeros(mass.shape, np.int32),
            "at_bos": np.full(mass.shape, np.nan, np.float32),
        }
    return Bands(
        mass=mass,
        entropy=np.full(mass.shape, 2.0, np.float32),
        lengths=np.full(N, tokens, np.int32),
        cluster=np.arange(N, dtype=np.int32),
        documents=tuple(f"d{i}" for i in range(N)),
        first_is_bos=np.zeros(N, bool),
        first=("The",) * N,
        geometry=Geometry(
            family="bloom" if slopes else "llama",
            layers=L,
            heads=heads,
            kv_heads=heads,
            head_dim=8,
            hidden=8 * heads,
            slopes=alibi_slopes(heads) if slopes else None,
        ),
        provenance=fake_provenance("bands"),
        **more,
    )


def answer(request, result):
    made = dataclasses.replace(
        result.provenance, request={"kind": request.kind, **plain(request)}, digest=job_digest(request)
    )
    result = dataclasses.replace(result, provenance=made)
    local.store().put(job_digest(request), result)
    return result


SICK = tuple((layer, head) for layer in range(1, 5) for head in range(9, 16))


def first_request() -> BandsRequest:
    left = default_request()
    return BandsRequest(model=left.model, data=left.data)


@pytest.fixture
def measured(home):
    """What a first visit asks for is in the store: 28 collapsed heads, one of them dead."""
    request = first_request()
    answer(request, fake_bands(SICK, dead=[(2, 15)]))
    return request


def open_page(**parameters):
    app = open_app(**parameters)
    app.switch_page("pages/bands.py")
    return app.run()


def work_of(bands, request=None, at=None, later=False) -> Work:
    return Work(request or first_request(), bands, at or Thresholds(), 0.3, later)


def heads_trace(drawn):
    return next(trace for trace in drawn["data"] if trace["name"] == "heads")


def test_the_sentence_counts_classes_and_names_the_band_and_its_slopes(measured, no_worker):
    app = open_page()
    assert not app.exception
    told = app.markdown[0].value
    assert "28 of 96 (29.2%) heads are collapsed onto the first token" in told
    assert "27 sinks, 1 dead; 0 of low entropy, 68 healthy" in told
    assert (
        "H09 to H15 collapsed in more than 30.0% of the layers, slopes 0.0312 to 0.00391 nats a token" in told
    )
    assert "0% of the heads lie between 0.4 and 0.6" in told
    assert "no BOS stands there" in "\n".join(element.proto.body for element in app.get("html"))
    assert local.list_jobs() == []


def test_the_map_in_slope_order_still_names_and_picks_the_heads_of_the_model(home, no_worker):
    request = first_request()
    six = alibi_slopes(6)
    found = fake_bands([(1, 5)], heads=6)
    answer(request, dataclasses.replace(found, geometry=dataclasses.replace(found.geometry, slopes=six)))
    order = sorted(range(6), key=lambda head: -six[head])
    assert order != list(range(6)), "six heads are not in order of their slopes"
    app = open_page(order="slope")
    assert not app.exception
    trace = heads_trace(figure(app, "bands_map"))
    place = trace["customdata"].index([1, 5])
    assert trace["x"][place] == order.index(5)
    assert "L01.H05" in trace["text"][place]
    trace = heads_trace(figure(open_page(order="index"), "bands_map"))
    assert trace["x"][trace["customdata"].index([1, 5])] == 5


def test_the_outlined_head_is_named_and_whether_somebody_picked_it(measured, no_worker):
    most = "Outlined: L04.H11, the head with the most attention on the first token, while none is picked."
    work = work_of(local.store().get(job_digest(first_request())))
    layer, head = np.unravel_index(int(np.argmax(work.mass)), work.mass.shape)
    most = most.replace("L04.H11", f"L{layer:02}.H{head:02}")
    assert most in said(open_page())
    assert "Outlined: L02.H03, the picked head." in said(open_page(head="L02.H03"))
    assert most in said(open_page(head="L40.H03")), "a head of another model is none of this one"


def test_classes_are_marked_by_shape_and_the_hover_tells_the_spread(measured, no_worker):
    drawn = figure(open_page(), "bands_map")
    marks = {trace["name"]: trace["marker"] for trace in drawn["data"] if trace.get("mode") == "markers"}
    assert {marks[name]["symbol"] for name in ("healthy", "sink", "dead")} == {"circle", "square", "x"}
    hover = heads_trace(drawn)["text"][2 * H + 15]
    assert "dead" in hover
    assert "over 4 texts: 0.960 to 0.980, sd 0.00745" in hover


def test_other_thresholds_give_other_classes_and_bad_ones_a_sentence(measured, no_worker):
    app = open_page(dead_above=0.99, sink_above=0.65)
    assert "28 sinks, 0 dead" in app.markdown[0].value
    app = open_page(dead_above=0.4)
    assert not app.exception
    assert any("0 ≤ sink ≤ dead ≤ 1" in error.value for error in app.error)
    assert not app.get("plotly_chart")


def test_the_summary_preset_moves_the_threshold_of_dead_heads(measured, no_worker):
    app = open_page()
    app.button_group(key="bands_preset").set_value("summary").run()
    assert not app.exception
    assert app.session_state["dead_above"] == 0.8


def test_without_the_first_row_the_mass_and_its_null_are_those_of_the_other_rows(measured):
    all_rows, later = work_of(fake_bands(SICK)), work_of(fake_bands(SICK), later=True)
    assert later.mass == pytest.approx((all_rows.mass * T - 1) / (T - 1), abs=1e-6)
    assert later.null == pytest.approx((all_rows.null * T - 1) / (T - 1), abs=1e-9)


def test_a_band_at_no_index_is_said_and_a_model_without_slopes_says_so(home, no_worker):
    answer(first_request(), fake_bands([], slopes=False))
    app = open_page()
    assert not app.exception
    assert "No head index is collapsed" in app.markdown[0].value
    assert "no ALiBi slopes" in said(app)
    assert "even attention, 64 tokens" in [trace["name"] for trace in figure(app, "by_slope")["data"]]
    assert "head index" in json.dumps(figure(app, "by_slope")["layout"]["xaxis"]["title"])


@pytest.mark.parametrize(
    ("aspect", "words_there"),
    [
        ("spread", "about 90 of 384 heads lie between 0.4 and 0.6"),
        ("slopes", "a longer text moves the band"),
        ("published", "The explanation is backwards"),
        ("take", "python -m headviz bands"),
    ],
)
def test_every_panel_of_the_measurement_opens(measured, no_worker, aspect, words_there):
    app = open_page(aspect=aspect)
    assert not app.exception
    assert words_there in said(app) + "".join(code.value for code in app.code)
    assert local.list_jobs() == []


def test_the_lead_and_the_null_of_each_index_are_the_closed_form(measured, no_worker):
    rows = open_page(aspect="slopes").dataframe[0].value
    assert rows["head"].tolist() == list(range(H))
    assert rows["layers"].max() == pytest.approx(100 * 4 / 6)
    assert (np.diff(rows["needed"]) < 0).all(), "steeper slopes need a larger lead"
    assert (np.diff(rows["null"]) > 0).all()


def test_the_published_rows_stand_beside_the_measured_one(measured, no_worker):
    rows = open_page(aspect="published").dataframe[0].value
    assert rows["collapsed"].tolist()[1:] == [
        "169 of 384 (44.0%)",
        "139 of 384 (36.2%)",
        "365 of 960 (38.0%)",
        "296 of 960 (30.8%)",
    ]
    assert rows["edge"].tolist()[:2] == [-5.0, -5.0], "H9 of 16 has slope 2^-5"


def test_one_head_is_measured_by_distance(measured, no_worker):
    layer, head = 1, 9
    request = DistanceRequest(model=measured.model, data=measured.data, layer=layer, head=head)
    answer(
        request,
        AttentionByDistance(
            layer=layer,
            head=head,
            mean=np.full(T, 0.1),
            without_first=np.concatenate([np.full(T - 1, 0.05), [np.nan]]),
            queries=np.arange(T, 0, -1),
            geometry=fake_bands(SICK).geometry,
            provenance=fake_provenance("distance"),
        ),
    )
    app = open_page(aspect="kernel", head="L01.H09")
    assert not app.exception
    assert len(figure(app, "kernel")["data"]) == 3
    assert "Its slope is 0.0312 nats a token, a window of 32.0 tokens" in said(app)


def test_longer_texts_wait_for_a_click_and_show_what_is_there(measured, no_worker):
    asked = sweep(measured.model, measured.data, 2048)
    for request, heads in zip(asked, (16, 14, 12, 10, 9, 9), strict=True):
        sick = [(layer, head) for layer in range(1, 5) for head in range(20 - heads, 16)]
        if request.data.tokens in (64, 128, 512):
            answer(request, fake_bands(sick, tokens=request.data.tokens))
    app = open_page(aspect="lengths")
    assert not app.exception
    assert "From 64 to 512 tokens, collapsed heads go from" in said(app)
    assert "That is the shallower side" in said(app)
    button = next(one for one in app.button if one.label.startswith("Measure all lengths"))
    assert "3 runs, about" in button.label
    assert local.list_jobs() == []
    button.click().run()
    assert {job.request.data.tokens for job in local.list_jobs()} == {256, 1024, 2048}


def test_the_lab_says_where_attention_goes_with_each_beginning(measured, no_worker):
    for name, request in lab(measured.model, measured.data, "The").items():
        if name != "two":
            answer(request, fake_bands(SICK if name == "always" else [], columns=True))
    app = open_page(aspect="beginnings")
    assert not app.exception
    rows = app.dataframe[0].value
    assert rows["first"].tolist() == ["The", "The", "The", "not measured", "The"]
    assert rows["same"].dropna().tolist() == [100.0] * 4
    assert "Mean mass at position 0: with BOS first 0.275; without BOS 0.100" in said(app)
    assert any(one.label.startswith("Measure the beginnings: 1 run") for one in app.button)


def test_downloads_are_what_the_command_line_writes_and_a_head_set(measured):
    bands = answer(measured, fake_bands(SICK, dead=[(2, 15)]))
    work = work_of(bands, measured)
    tree = json.loads(take.as_json(work))
    assert tree["counts"] == {"dead": 1, "sink": 27, "low entropy": 0, "healthy": 68}
    assert tree["band"]["heads"] == list(range(9, 16))
    text = take.as_csv(work)
    assert text.startswith("# ")
    assert len(list(csv.DictReader(io.StringIO(text.split("\n", 1)[1])))) == L * H
    back = headfile.read_heads(
        take.as_heads(work, "collapsed"),
        model=measured.model.name,
        revision=measured.model.revision,
        geometry=bands.geometry,
    )
    assert back.heads == tuple(sorted(SICK))
    assert work.heads("dead") == ((2, 15),)


def test_words_of_a_band_name_its_gaps():
    bands = fake_bands([at for at in SICK if at[1] != 11])
    assert "H09 to H15 collapsed in more than 30.0% of the layers (without H11)" in words.band_words(
        work_of(bands, request=object()).band
    )


def test_models_with_other_head_counts_align_on_the_slope_and_not_on_the_index(
    measured, no_worker, monkeypatch
):
    other = dataclasses.replace(measured, model=dataclasses.replace(measured.model, name="thirty-two"))
    wide = [(layer, head) for layer in range(1, 5) for head in range(19, 32)]
    answer(other, fake_bands(wide, heads=32))
    monkeypatch.setattr("headviz.ui.bands.others._found", lambda name, dtype: other.model)
    monkeypatch.setattr("headviz.models.catalog.context_length", lambda *_: None)
    edges = {}
    for order in ("slope", "index"):
        app = open_page(overlaid="thirty-two", order=order)
        assert not app.exception
        drawn = {trace["name"]: trace for trace in figure(app, "by_slope")["data"]}
        names = [name for name in drawn if name in ("SmolLM2-135M-Instruct", "thirty-two")]
        assert len(names) == 2
        places = [
            [x for x, y in zip(numbers(drawn[name]["x"]), numbers(drawn[name]["y"]), strict=True) if y > 0.5]
            for name in names
        ]
        edges[order] = [(max if order == "slope" else min)(some) for some in places]
    assert edges == {"slope": [-5.0, -5.0], "index": [9, 19]}


def numbers(packed):
    """plotly writes arrays as base64 where it can."""
    if isinstance(packed, dict):
        return np.frombuffer(base64.b64decode(packed["bdata"]), np.dtype(packed["dtype"])).tolist()
    return packed


def test_blooms_published_bands_stand_beside_what_is_measured_and_can_be_switched_off(measured, no_worker):
    app = open_page(order="slope", aspect="spread")
    drawn = {trace["name"]: trace for trace in figure(app, "by_slope")["data"]}
    assert drawn["BLOOM 560m"]["x"] == [-5.0, -8.0]  # H09 and H15 of 16
    assert drawn["BLOOM 3b"]["x"] == [-5.25, -7.75]  # H20 and H30 of 32
    assert "44.0% of its heads" in drawn["BLOOM 560m"]["hovertemplate"]
    crosses = next(t for t in figure(app, "mass_spread")["data"] if t.get("name") == "as published")
    assert numbers(crosses["x"]) == [0.5] * 4
    assert numbers(crosses["y"])[0] == pytest.approx(169 / 384 * L * H)
    app.checkbox(key="reported").uncheck().run()
    assert not {trace["name"] for trace in figure(app, "by_slope")["data"]} & {"BLOOM 560m", "BLOOM 3b"}
    assert "as published" not in {trace.get("name") for trace in figure(app, "mass_spread")["data"]}
