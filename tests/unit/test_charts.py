"""Figures: what is in them, read from the plotly objects."""

import time

import numpy as np
import pytest

from headviz.analysis.metrics import METRICS
from headviz.charts import cells, heatmap, multiples, pattern, scales, spread, tables
from headviz.errors import UnknownName
from headviz.types import Geometry
from tests.fakes import fake_geometry, fake_pattern, fake_table

TABLE = fake_table()
NOTE = tables.caption(TABLE.provenance, TABLE)


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def marks(figure, name) -> int:
    return sum(shape.path.count("M") for shape in figure.layout.shapes if shape.name == name)


def said(figure) -> str:
    return "\n".join(a.text.replace("<br>", " · ") for a in figure.layout.annotations)


def head_map(metric="awft", table=TABLE, **more):
    row = METRICS[metric]
    return heatmap.head_map(table.mean(metric), row, geometry=table.geometry, **more)


# ------------------------------------------------------------------------------------------------------ the map


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("metric", METRICS)
def test_every_score_has_a_map_in_both_themes(metric, theme):
    figure = head_map(metric, theme=theme, provenance=NOTE)
    assert figure.layout.paper_bgcolor == "rgba(0,0,0,0)"
    assert NOTE.replace(" ", "") in said(figure).replace(" ", "")
    assert METRICS[metric].name in said(figure)
    assert figure.layout.height == heatmap.map_size(TABLE.geometry, NOTE)[1]
    assert "template" not in figure.to_plotly_json()["layout"], "neither plotly's nor an empty one"


def test_the_overlay_covers_every_cell_and_carries_layer_and_head():
    clicks = trace(head_map(), "heads")
    assert [list(c) for c in clicks.customdata] == [[i, j] for i in range(30) for j in range(9)]
    assert list(clicks.x[:10]) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    assert (clicks.y[0], clicks.y[-1]) == (0, 29)
    assert clicks.marker.opacity == 0
    assert clicks.unselected.marker.opacity == 0
    assert clicks.marker.size <= min(cells.cell_size(30, 9))


def test_the_overlay_is_webgl_above_a_thousand_heads():
    assert trace(head_map(), "heads").type == "scatter"
    assert trace(head_map(table=fake_table(L=40, H=32, G=8, N=2)), "heads").type == "scattergl"


def test_axes_are_fixed_and_layer_0_is_at_the_bottom():
    layout = head_map().layout
    assert layout.yaxis.range == (-0.5, 29.5)
    assert layout.xaxis.range[0] == -0.5
    assert layout.xaxis.fixedrange
    assert layout.yaxis.fixedrange
    assert "head" in said(head_map()).split("\n")
    assert "layer" in said(head_map()).split("\n")


SHAPES = [(1, 1), (2, 4), (2, 12), (2, 32), (6, 8), (12, 12), (24, 16), (30, 9), (32, 32), (60, 8), (80, 64)]


@pytest.mark.parametrize(("L", "H"), SHAPES)
def test_cells_are_squarish_and_high_enough_and_the_map_is_not_too_tall(L, H):
    width, height = cells.cell_size(L, H)
    assert width <= 2 * height
    assert height * L <= cells.TALL
    assert 26 <= height <= 40 or L > 12
    most = cells.widest(L, H)
    wide = ((most or cells.WIDE) - cells.LEFT - cells.RIGHT) / (H + cells.STRIP)
    assert wide <= 2.2 * height, "squarish in a wide column, too"
    assert most is None or wide >= height
    geometry = Geometry(family="llama", layers=L, heads=H, kv_heads=H, head_dim=4, hidden=4 * H)
    layout = heatmap.head_map(np.full((L, H), 0.5), METRICS["awft"], geometry=geometry).layout
    assert layout.meta == most
    assert layout.xaxis.scaleanchor is None, "in a narrow column it would leave a gap below the map"


def test_the_hover_says_head_group_value_percentile_rank_and_class():
    off = TABLE.mean("awft") > 0.5
    text = trace(head_map(inactive=off, share=off.astype(float)), "heads").text
    where = int(np.argmax(TABLE.mean("awft").ravel()))
    for part in (
        "L29.H03",
        "KV group 1",
        "percentile 100",
        "rank 1 of 270",
        "inactive at this",
        "100% of",
    ):
        assert part in text[where]
    assert "inactive at this" not in text[int(np.argmin(TABLE.mean("awft").ravel()))]


def test_inactive_heads_get_one_stroke_each_and_the_count_is_said():
    off = TABLE.mean("awft") > 0.5
    figure = head_map(inactive=off)
    assert marks(figure, "inactive") == off.sum() > 0
    assert f"{off.sum()} of 270" in said(figure)
    strokes = [shape for shape in figure.layout.shapes if shape.name == "inactive"]
    # dark on light cells, light on dark ones
    assert {shape.line.color for shape in strokes} == {"#14171d", "#ffffff"}
    middles = set()
    for stroke in "".join(shape.path for shape in strokes).split("M")[1:]:
        ends = np.array([point.split(",") for point in stroke.split("L")], float)
        middles.add(tuple(ends.mean(0).round().astype(int)[::-1]))
    assert middles == {tuple(at) for at in np.argwhere(off)}


def test_the_same_cells_are_not_drawn_twice_and_other_cells_are():
    """Streamlit hands the figure to plotly twice; only another `datarevision` makes plotly look at the cells again."""
    off = TABLE.mean("awft") > 0.5
    plain, hatched = head_map(marked="off", inactive=~off), head_map(marked="off", inactive=off)
    assert plain.layout.datarevision == hatched.layout.datarevision != head_map("ahon").layout.datarevision
    assert [t.to_json() for t in plain.data] == [t.to_json() for t in hatched.data]
    assert head_map(inactive=off).layout.datarevision != plain.layout.datarevision, "the hover says it"
    assert plain.layout.datarevision != head_map(theme="dark").layout.datarevision
    assert (plain.layout.clickmode, plain.layout.dragmode) == ("event+select", "pan")


def test_nan_is_a_hollow_cell_whose_hover_says_why():
    table = fake_table(nan=True)
    figure = head_map("aeqd_ln", table, reason="the <layer> has no entropy", inactive=np.zeros((30, 9), bool))
    assert marks(figure, "not defined") == 9
    assert np.isnan(trace(figure, "scores").z[0]).all()
    assert "not defined: the &lt;layer&gt; has no entropy" in trace(figure, "heads").text[0]
    assert "not defined" not in trace(figure, "heads").text[9]
    assert "of 261" in trace(figure, "heads").text[9]
    assert "not defined: 9" in said(figure)


def test_kv_groups_are_hairlines_and_the_selected_head_is_framed():
    figure = head_map(selected=(3, 7))
    assert [s.x0 for s in figure.layout.shapes if s.name == "KV group"] == [2.5, 5.5]
    frames = [s for s in figure.layout.shapes if s.name == "selected"]
    assert [(s.x0, s.y1) for s in frames] == [(6.5, 3.5), (6.6, 3.4)]
    ungrouped = head_map(table=fake_table(H=8, G=8, L=2))
    assert not [s for s in ungrouped.layout.shapes if s.name == "KV group"]


def test_the_mean_of_each_head_is_shown_for_alibi_only():
    assert not [t for t in head_map().data if t.name == "head means"]
    table = fake_table(L=4, H=8, G=8, slopes=True)
    figure = head_map(table=table)
    np.testing.assert_allclose(trace(figure, "head means").z[0], table.mean("awft").mean(0))
    np.testing.assert_allclose(trace(figure, "layer means").z[:, 0], table.mean("awft").mean(1))


def test_a_given_range_of_colours_is_kept():
    figure = head_map("ahon", limits=(0, 20))
    assert (trace(figure, "scores").zmin, trace(figure, "scores").zmax) == (0, 20)


def test_the_largest_map_is_built_quickly(record_property):
    table = fake_table(L=80, H=64, G=8, N=1)
    began = time.perf_counter()
    size = len(head_map("ahon", table, inactive=table.mean("ahon") < 1, theme="dark").to_json())
    seconds = time.perf_counter() - began
    record_property("seconds", seconds)
    assert seconds < 10  # 0.2 s on an idle machine; this only catches the absurd
    assert size < 2e6


def test_share_map_tells_always_sometimes_and_never_apart_without_colour():
    share = np.zeros((30, 9))
    share[0] = 1
    share[1, :4] = 0.001
    share[2, 0] = np.nan
    figure = heatmap.inactive_share_map(share, METRICS["awft"], geometry=TABLE.geometry, inputs=1000)
    assert (marks(figure, "inactive"), marks(figure, "sometimes"), marks(figure, "not defined")) == (9, 4, 1)
    for text in ("always: 9", "sometimes: 4", "never: 256"):
        assert text in said(figure)
    assert "0.100% of 1,000 inputs" in trace(figure, "heads").text[9]
    assert (trace(figure, "scores").zmin, trace(figure, "scores").zmax) == (0, 1)


def test_an_unknown_theme_is_refused():
    with pytest.raises(UnknownName, match="theme"):
        head_map(theme="blue")


# ------------------------------------------------------------------------------------------------- other figures


def test_small_multiples_show_the_twelve_with_the_chosen_one_framed():
    means = {m: TABLE.mean(m) for m in TABLE.metrics}
    for width in (900, 500):
        figure = multiples.small_multiples(means, METRICS, selected="ahon_ln", width=width, provenance=NOTE)
        twelve = [m for m, row in METRICS.items() if not row.extra]
        assert [t.name for t in figure.data if t.type == "heatmap"] == twelve
        clicks = [t for t in figure.data if t.name == "choose"]
        assert [t.customdata[0][0] for t in clicks] == twelve
        assert all(t.marker.opacity == 0 for t in clicks)
        framed = [k for k in range(1, 13) if figure.layout[f"xaxis{'' if k == 1 else k}"].linewidth > 1]
        assert framed == [12]
        assert "<b>AHON (LN)</b>" in said(figure)
        assert "SmolLM2" in said(figure)
    assert trace(figure, "awft").zmax == 1


@pytest.mark.parametrize("metric", ["awft", "ahon", "ahon_ln", "aeqd"])
def test_no_bar_of_the_distribution_is_half_inactive(metric):
    row, means, per_input = METRICS[metric], TABLE.mean(metric), TABLE.per_input(metric)
    threshold = float(np.median(means))
    figure = spread.distribution(means, per_input, row, threshold=threshold, provenance=NOTE)
    for name, values in (("heads", means), ("input × head pairs", per_input)):
        bars = trace(figure, name)
        hatched = np.array(bars.marker.pattern.shape) == "/"
        assert bars.y.sum() == values.size
        assert bars.y[hatched].sum() == tables.inactive_mask(values, row, threshold).sum()
    assert len([s for s in figure.layout.shapes if s.name == "threshold"]) == 2
    assert "SmolLM2" in said(figure)


def test_a_value_on_the_threshold_is_not_inactive_in_the_bars():
    for metric in ("awft", "ahon"):
        figure = spread.distribution(
            np.full((2, 2), 0.5), np.full((3, 2, 2), 0.5), METRICS[metric], threshold=0.5
        )
        bars = trace(figure, "heads")
        assert bars.y[np.array(bars.marker.pattern.shape) == "/"].sum() == 0


def test_without_any_value_charts_say_so_and_draw_no_threshold():
    row, nothing = METRICS["aeqd_ln"], np.full((30, 9), np.nan)
    none = {"threshold": float("nan"), "provenance": NOTE}
    for figure, words in (
        (spread.distribution(nothing, nothing[None], row, **none), "heads: no value is defined"),
        (spread.layer_profile(nothing, row, **none), "no value is defined"),
        (spread.head_inputs(nothing[0], row, **none), "not defined on these inputs"),
    ):
        assert words in said(figure)
        assert "inactive" not in said(figure)
        assert not [s for s in figure.layout.shapes if s.name in ("threshold", "inactive side")]


def test_a_threshold_that_is_not_a_number_is_none():
    row, means = METRICS["awft"], TABLE.mean("awft")
    nan = float("nan")
    for make in (
        lambda at: spread.distribution(means, TABLE.per_input("awft"), row, threshold=at),
        lambda at: spread.layer_profile(means, row, threshold=at),
        lambda at: spread.head_inputs(means[0], row, threshold=at),
    ):
        assert make(nan).to_json() == make(None).to_json()


def test_a_small_map_without_values_is_crossed_and_says_so():
    means = {"awft": TABLE.mean("awft"), "aeqd_ln": np.full((30, 9), np.nan)}
    figure = multiples.small_multiples(means, METRICS)
    assert trace(figure, "not defined").meta["cells"] == 270
    assert "not defined" in said(figure)
    assert "1/3" not in said(figure)


def test_the_provenance_wraps_to_the_width_and_adds_its_own_height():
    row, values = METRICS["awft"], TABLE.per_input("awft")[:, 3, 2]
    bare = spread.head_inputs(values, row)
    for width, lines in ((300, 4), (900, 1)):
        figure = spread.head_inputs(values, row, provenance=NOTE, width=width)
        note = next(a.text for a in figure.layout.annotations if a.name == "provenance")
        assert len(note.split("<br>")) == lines
        more = figure.layout.height - bare.layout.height
        assert more == figure.layout.margin.b - bare.layout.margin.b > 14 * lines


def test_layer_profile_survives_layers_without_a_value():
    table = fake_table(nan=True)
    figure = spread.layer_profile(table.mean("aeqd_ln"), METRICS["aeqd_ln"], threshold=0.5, provenance=NOTE)
    mean = trace(figure, "mean").y
    assert np.isnan(mean[0])
    np.testing.assert_allclose(mean[1:], 1, atol=1e-6)
    assert figure.layout.yaxis.range[1] > 1


def test_head_inputs_names_documents_and_counts_what_is_missing():
    values = np.array([0.1, 0.6, np.nan, 0.7])
    figure = spread.head_inputs(values, METRICS["awft"], threshold=0.5, documents=["a", "b", "c", "<d>"])
    assert list(trace(figure, "inputs").x) == [0.1, 0.6, 0.7]
    assert "input 3 · &lt;d&gt;" in trace(figure, "inputs").text[2]
    for text in ("3 inputs, inactive in 2; mean 0.467", "not defined in 1"):
        assert text in said(figure)


def test_head_scores_are_percentiles_with_the_value_beside():
    figure = spread.head_scores(TABLE, METRICS, layer=29, head=3, selected="awft")
    dots = trace(figure, "percentile")
    np.testing.assert_allclose(dots.x[0], tables.percentiles(TABLE.mean("awft"))[29, 3])
    assert len(dots.x) == len(METRICS)
    ends = [a for a in figure.layout.annotations if a.name == "inactive end"]
    assert [(a.text, a.x) for a in ends[:2]] == [("▸", 100), ("◂", 0)]
    assert " nats" in said(figure)


def test_pattern_figures_carry_the_tokens_and_leave_the_future_empty():
    found = fake_pattern(24)
    figure = pattern.attention_map(found, provenance=NOTE)
    shown = trace(figure, "attention")
    assert len(set(shown.x)) == 24
    assert shown.x[7] == "7 ‹↵›"
    assert shown.x[8] == "8 ‹·&lt;b&gt;›"
    assert np.isnan(shown.z[0, 1:]).all()
    np.testing.assert_allclose(shown.customdata[5, :6], found.attention[5, :6])
    assert (shown.zmin, shown.zmax) == (0, 1)
    tracks = pattern.attention_tracks(found, provenance=NOTE)
    assert [t.name for t in tracks.data] == ["sink", "entropy", "output_norm", "value_norm"]
    assert tracks.data[0].text[0] == "0 ‹The›"
    for made in (figure, tracks):
        assert "SmolLM2" in said(made)


@pytest.mark.parametrize("pool", ["max", "mean"])
def test_pooled_pattern_equals_a_plain_loop(pool):
    found = fake_pattern(23)
    shown, starts, block = pattern.pooled(found.attention, most=8, pool=pool)
    assert (block, list(starts)) == (3, [0, 3, 6, 9, 12, 15, 18, 21])
    for a in range(8):
        for b in range(8):
            real = [
                found.attention[i, j]
                for i in range(3 * a, min(3 * a + 3, 23))
                for j in range(3 * b, min(3 * b + 3, 23))
                if j <= i
            ]
            if real:
                np.testing.assert_allclose(
                    shown[a, b], max(real) if pool == "max" else np.mean(real), rtol=1e-5
                )
            else:
                assert np.isnan(shown[a, b])


def test_a_pooled_pattern_says_so():
    assert "largest of 2 × 2" in said(pattern.attention_map(fake_pattern(40), most=20))
    assert "largest" not in said(pattern.attention_map(fake_pattern(40)))
    long = trace(pattern.attention_map(fake_pattern(40), most=20, spacing="log"), "attention")
    assert long.x[1].startswith("2–3 ‹")
    assert long.zmin == -4


def test_one_layer_and_one_head_is_a_map_too():
    geometry = Geometry(family="llama", layers=1, heads=1, kv_heads=1, head_dim=4, hidden=4)
    figure = heatmap.head_map(np.array([[0.2]]), METRICS["awft"], geometry=geometry)
    assert trace(figure, "heads").customdata.tolist() == [[0, 0]]
    assert fake_geometry(slopes=True).slopes is not None


@pytest.mark.parametrize("metric", ["awft", "ahon", "aeqd", "ahon_ln"])
def test_colours_keep_their_meaning(metric):
    kind = {"awft": "sink", "ahon": "norm", "aeqd": "entropy", "ahon_ln": "ratio"}[metric]
    assert scales.scale_for(METRICS[metric]).id == kind
    low, high = scales.limits(scales.SCALES[kind], TABLE.mean(metric))
    assert {"sink": (low, high) == (0, 1), "ratio": low * high == pytest.approx(1)}.get(kind, low == 0)
