"""The figures of the compare page: what they draw is what was computed, and what is not known is said or left out."""

import dataclasses
import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest

from headviz.analysis.distance import Distance, Distances, HeadChanges, Yardstick
from headviz.analysis.metrics import METRICS
from headviz.charts import frame, scales
from headviz.charts.cells import HOME
from headviz.charts.delta import delta_map
from headviz.charts.distances import PALE, against_yardstick, distance_matrix, layer_distances
from headviz.charts.movers import movers_chart, told
from headviz.charts.stable import stability_chart
from tests.fakes import fake_geometry

ROW = METRICS["ahon_ln"]
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])
NAN = math.nan


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def words(figure, name="") -> list[str]:
    return [note.text for note in figure.layout.annotations if not name or note.name == name]


def changes(change, p=None, reach=0.05) -> HeadChanges:
    change = np.array(change, float)
    p = np.full(change.shape, NAN) if p is None else np.array(p, float)
    return HeadChanges(
        change=change, low=change - reach, high=change + reach, p_holm=p, how="paired", method="t"
    )


def distance(scaled, low=NAN, high=NAN, spread=0.5) -> Distance:
    return Distance(
        value=scaled * spread, low=low * spread, high=high * spread, spread=spread, scaled=scaled, scaled_low=low,
        scaled_high=high,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------- delta map


@THEMES
def test_no_change_anywhere_is_neutral_in_every_cell(theme):
    """Equal models give an all-zero map: one colour, and it is the one of the middle."""
    figure = delta_map(np.zeros((4, 3)), "", geometry=fake_geometry(4, 3, 1), title="Change", theme=theme)
    heat = trace(figure, "scores")
    assert set(np.unique(heat.z)) == {0.0}
    assert heat.zmin == -heat.zmax
    assert heat.zmax > 0
    assert all(
        "+" not in text and "−" not in text.split("percentile")[0] for text in trace(figure, "heads").text
    )


def test_ends_that_are_given_are_kept_so_that_two_maps_share_their_colours():
    values = np.full((4, 3), 0.1)
    figure = delta_map(values, "nats", geometry=fake_geometry(4, 3, 1), title="Change", limits=(-0.5, 0.5))
    heat = trace(figure, "scores")
    assert (heat.zmin, heat.zmax) == (-0.5, 0.5)


def test_what_is_marked_is_counted_above_the_map_and_said_in_the_hover():
    off = np.zeros((4, 3), bool)
    off[1, 2] = True
    figure = delta_map(
        np.ones((4, 3)), "", geometry=fake_geometry(4, 3, 1), title="Change", hatched=off, marked="treated"
    )
    assert any("treated: 1 of 12" in text for text in words(figure, "key"))
    texts = trace(figure, "heads").text
    assert [i for i, text in enumerate(texts) if text.endswith("treated")] == [5]


# ---------------------------------------------------------------------------------------------------------- movers


@THEMES
def test_the_largest_change_is_on_top_and_each_bar_has_its_interval(theme):
    figure = movers_chart(changes([[0.1, -0.4], [0.2, 0.0]]), ROW, most=3, theme=theme)
    bars = trace(figure, "movers")
    assert [tuple(at) for at in bars.customdata] == [(0, 1), (1, 0), (0, 0)]
    assert list(bars.x) == [-0.4, 0.2, 0.1]
    assert list(bars.y) == [2, 1, 0]
    np.testing.assert_allclose(bars.error_x.array, 0.05)
    np.testing.assert_allclose(bars.error_x.arrayminus, 0.05)
    colours = scales.colours(scales.SCALES["change"], theme)
    assert list(bars.marker.color) == [colours[1], colours[7], colours[7]], "blue below 0, red above"


@pytest.mark.parametrize(
    ("p", "opacity"),
    [
        ([[0.2, 0.01], [0.049, 1.0]], [1.0, 1.0, 0.4]),  # by p over all heads
        (None, [1.0, 1.0, 1.0]),  # where that is not known, by the interval of each
    ],
)
def test_what_chance_can_explain_is_pale(p, opacity):
    figure = movers_chart(changes([[0.1, -0.4], [0.2, 0.0]], p), ROW, most=3)
    assert list(trace(figure, "movers").marker.opacity) == opacity


def test_without_an_interval_a_bar_is_pale_and_says_so():
    found = changes([[0.1, -0.4]], reach=NAN)
    figure = movers_chart(found, ROW)
    bars = trace(figure, "movers")
    assert list(bars.marker.opacity) == [0.4, 0.4]
    assert list(bars.error_x.array) == [0, 0]
    assert told(found, (0, 1), "") == "<b>L00.H01</b><br>−0.400<br>no interval"


def test_the_picked_head_is_bold():
    ticks = movers_chart(changes([[0.1, -0.4]]), ROW, selected=(0, 0)).layout.yaxis.ticktext
    assert ticks == ("L00.H01", "<b>L00.H00</b>")


@pytest.mark.parametrize("change", [[[NAN, NAN]], np.empty((0, 2))])
def test_no_head_with_a_change_is_a_sentence_and_no_empty_axis(change):
    figure = movers_chart(changes(change), ROW)
    assert not figure.data
    assert any("no head has a change" in text for text in words(figure))


def test_equal_models_have_bars_of_no_length_and_an_axis():
    figure = movers_chart(changes([[0.0, 0.0]], reach=0.0), ROW)
    assert list(trace(figure, "movers").x) == [0, 0]
    assert tuple(figure.layout.xaxis.range) == (-1, 1)


# ------------------------------------------------------------------------------------------------------- distances


def matrix(scaled) -> Distances:
    scaled = np.array(scaled, float)
    labels = tuple("abcdef"[: len(scaled)])
    return Distances(metric="ahon_ln", labels=labels, value=0.5 * scaled, scaled=scaled, spread=0.5)


@THEMES
def test_every_pair_has_its_number_on_a_colour_that_is_neutral_at_0(theme):
    figure = distance_matrix(matrix([[0, 1.5, 0.2], [1.5, 0, NAN], [0.2, NAN, 0]]), ROW, theme=theme)
    heat = trace(figure, "distances")
    assert (heat.zmin, heat.zmax) == (-1.5, 1.5)
    assert words(figure, "distance") == [
        "0",
        "1.50",
        "0.200",
        "1.50",
        "0",
        "not defined",
        "0.200",
        "not defined",
        "0",
    ]
    assert "a and b" in heat.text[0][1]
    assert "1.50 spreads" in heat.text[0][1]


def test_next_to_nothing_looks_like_it():
    heat = trace(distance_matrix(matrix([[0, 0.01], [0.01, 0]]), ROW), "distances")
    assert heat.zmax == PALE


def test_a_layers_bar_never_has_an_interval_that_turns_round():
    """Noise only adds to W1: resamples may lie above the estimate."""
    layers = [distance(0.1, 0.2, 0.3), distance(0.5, 0.4, 0.6), distance(0.2)]
    figure = layer_distances(layers, ROW)
    bars = trace(figure, "layers")
    assert list(bars.y) == [0.1, 0.5, 0.2]
    np.testing.assert_allclose(bars.error_y.array, [0.2, 0.1, 0])
    np.testing.assert_allclose(bars.error_y.arrayminus, [0, 0.1, 0], atol=1e-12)
    assert "layer 1" in bars.text[1]


def test_layers_that_are_equal_still_have_an_axis():
    assert tuple(layer_distances([distance(0.0), distance(0.0)], ROW).layout.yaxis.range) == (0, 1)


YARD = Yardstick(
    same=0.02, same_high=0.05, between=0.04, scaled_same=0.04, scaled_same_high=0.1, scaled_between=0.08, inputs=8, splits=20
)  # fmt: skip


@THEMES
def test_a_distance_stands_beside_what_no_change_gives(theme):
    figure = against_yardstick(distance(0.3, 0.25, 0.4), YARD, theme=theme)
    band = next(shape for shape in figure.layout.shapes if shape.name == "no change")
    assert (band.x0, band.x1) == (0, 0.1)
    assert list(trace(figure, "all inputs").x) == [0.3]
    assert list(trace(figure, "all inputs, 95%").x) == [0.25, 0.4]
    assert list(trace(figure, "a half of one against a half of the other").x) == [0.08]
    assert figure.layout.xaxis.range[1] > 0.4


def test_without_a_yardstick_only_the_distance_is_drawn():
    none = dataclasses.replace(
        YARD, same_high=NAN, scaled_same_high=NAN, scaled_between=NAN, note="one input"
    )
    figure = against_yardstick(distance(0.0), none)
    assert [t.name for t in figure.data] == ["all inputs"]
    assert not figure.layout.shapes
    assert figure.layout.xaxis.range[1] > 0


def test_every_figure_fits_the_width_it_is_told():
    """The provenance is wrapped at the width of the chart, so nothing runs out of it."""
    note = "model@0123456 · float32 · docstrings@0123456 (held-out), 16 × 512 tokens · seed 0 · 1.8 s · headviz · request 1"
    for figure in (
        movers_chart(changes([[0.1]]), ROW, width=HOME // 2, provenance=note),
        layer_distances([distance(0.1)], ROW, width=HOME // 2, provenance=note),
        distance_matrix(matrix([[0, 1], [1, 0]]), ROW, width=HOME // 2, provenance=note),
    ):
        (told_,) = words(figure, "provenance")
        assert max(map(len, told_.split("<br>"))) <= frame.fitting(HOME // 2)


# ------------------------------------------------------------------------------------------------------- stability


def test_no_name_of_a_score_lies_over_the_axis_nor_over_another():
    """Twelve scores whose thresholds hardly move: all points are at the left end, and close together."""
    names = (
        "awft",
        "aeqd",
        "ftvvn",
        "avvn",
        "lthon",
        "ahon",
        "awft_ln",
        "aeqd_ln",
        "ftvvn_ln",
        "avvn_ln",
        "lthon_ln",
        "ahon_ln",
    )
    ratios = (1.43, 1.84, 1.05, 1.05, 1.12, 1.17, 1.03, 1.05, 1.01, 1.01, 1.13, 1.02)
    overlaps = (0.572, 0.563, 1.0, 0.849, 0.719, 0.758, 0.483, 0.626, 0.821, 0.733, 0.484, 0.562)
    found = [
        SimpleNamespace(
            metric=name, ratio=ratio, mean_jaccard=overlap, least_jaccard=overlap - 0.1, chance=0.11, count=54,
            thresholds={"a": 1.0, "b": ratio},
        )
        for name, ratio, overlap in zip(names, ratios, overlaps, strict=True)
    ]  # fmt: skip
    width = 340
    figure = stability_chart(found, METRICS, width=width)
    low, high = figure.layout.xaxis.range
    across, up = (width - 84) / (high - low), 326 / 1.04
    boxes = {}
    for note in figure.layout.annotations:
        if note.name == "score":
            long = 7 * len(note.text)
            left = note.x * across + note.xshift - (0 if note.xanchor == "left" else long)
            boxes[note.text] = (left, left + long, note.y * up + note.yshift)
    assert len(boxes) == 12
    assert min(left for left, _, _ in boxes.values()) >= across * low, "the axis and its numbers stay free"
    for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
        assert a[1] <= b[0] or b[1] <= a[0] or abs(a[2] - b[2]) >= 13, (one, other)
