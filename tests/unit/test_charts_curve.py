"""The cost curve: what is drawn is what was measured."""

import pytest

from headviz.charts.curve import Draw, Line, Point, cost_curve, score_curves, score_look

POINTS = [
    Point(share=0.2, change=0.25, low=0.2, high=0.3, heads=54, replace="zero"),
    Point(share=0.1, change=0.1, low=0.05, high=0.2, heads=27, replace="zero"),
    Point(share=0.2, change=0.12, low=0.1, high=0.15, heads=54, replace="mean"),
]
DRAWS = [
    Draw(share=0.2, change=1.1, kind="uniform", replace="zero"),
    Draw(share=0.2, change=0.9, kind="uniform", replace="zero"),
    Draw(share=0.2, change=0.4, kind="layer_matched", replace="zero"),
]
SAID = {"unit": "nats", "what": "change in loss"}


def named(figure):
    return {trace.name: trace for trace in figure.data}


def test_lines_start_at_nothing_off_and_go_by_share():
    figure = cost_curve(POINTS, DRAWS, tolerance=0.05, now=0.2, **SAID)
    zero = named(figure)["replaced by zero"]
    assert list(zero.x) == [0.0, 0.1, 0.2]
    assert list(zero.y) == [0.0, 0.1, 0.25]
    assert [round(x, 3) for x in zero.error_y.array] == [0.0, 0.1, 0.05]
    assert [round(x, 3) for x in zero.error_y.arrayminus] == [0.0, 0.05, 0.05]
    assert "54 heads, 20.0%" in zero.text[2]


def test_replacements_stand_side_by_side_on_one_scale():
    figure = cost_curve(POINTS, DRAWS, **SAID)
    mean = named(figure)["replaced by the mean"]
    assert (mean.xaxis, mean.yaxis) == ("x2", "y2")
    assert figure.layout.yaxis2.matches == "y"
    assert list(figure.layout.xaxis.range) == list(figure.layout.xaxis2.range)
    assert [a.text for a in figure.layout.annotations if a.name == "panel"] == [
        "zero in their place",
        "their mean in their place",
    ]
    alone = cost_curve([q for q in POINTS if q.replace == "mean"], **SAID)
    assert named(alone)["replaced by the mean"].xaxis == "x", "one replacement, one panel"
    assert not [a for a in alone.layout.annotations if a.name == "panel"]


def test_random_draws_are_grey_with_mean_and_range():
    figure = cost_curve(POINTS, DRAWS, **SAID)
    there = named(figure)
    mean = there["random heads"]
    assert (list(mean.x), list(mean.y)) == ([0.0, None, 0.2], [0.0, None, 1.0]), (
        "no line where nothing is known"
    )
    assert "mean of 2" in mean.text[2]
    assert "+0.900 to +1.10" in mean.text[2]
    assert (mean.error_y.array[2], mean.error_y.arrayminus[2]) == pytest.approx((0.1, 0.1))
    assert list(there["random heads: draws"].y) == [1.1, 0.9]
    assert there["random, layer by layer"].marker.symbol == "square-open"
    assert mean.marker.symbol == "circle-open"
    assert "random, layer by layer: draws" not in there, "one draw is its own mean"


def test_random_heads_are_joined_between_neighbours_only():
    draws = [Draw(share=x, change=x, kind="uniform", replace="zero") for x in (0.05, 0.1, 0.3)]
    assert list(named(cost_curve([], draws, **SAID))["random heads"].x) == [0.0, 0.05, 0.1, None, 0.3]
    lines = [
        Line(name=score, score=score, replace="zero", shares=(0.05, 0.3), changes=(0.1, 0.2))
        for score in ("uniform", "layer_matched:awft", "awft")
    ]
    drawn = named(score_curves(lines, **SAID))
    assert list(drawn["uniform"].x) == list(drawn["layer_matched:awft"].x) == [0.0, 0.05, None, 0.3]
    assert list(drawn["awft"].x) == [0.0, 0.05, 0.3]


def test_the_axis_ends_where_it_is_told():
    far = Point(share=1.0, change=7.0, low=6.9, high=7.1, heads=270, replace="zero")
    figure = cost_curve([*POINTS, far], DRAWS, until=0.35, **SAID)
    assert max(named(figure)["replaced by zero"].x) == 0.2
    assert figure.layout.xaxis.range[1] < 0.35
    whole = cost_curve([*POINTS, far], DRAWS, now=1.0, until=0.35, **SAID)
    assert max(named(whole)["replaced by zero"].x) == 1.0, "what the page shows is always on it"
    (short,) = score_curves([line("awft")], until=0.15, **SAID).data
    assert list(short.x) == [0.0, 0.1]


def test_a_set_of_ones_own_is_a_star_with_its_name():
    own = Point(share=0.4, change=0.5, low=0.4, high=0.6, heads=108, replace="zero")
    figure = cost_curve(POINTS, own=[own], own_name="this set, <b>.json", until=0.35, **SAID)
    star = named(figure)["this set, &lt;b&gt;.json"]
    assert (list(star.x), list(star.y), star.mode, star.marker.symbol) == ([0.4], [0.5], "markers", "star")
    assert "108 heads" in star.text[0]
    assert figure.layout.xaxis.range[1] > 0.4


def test_twenty_draws_are_a_band_and_no_dots():
    draws = [Draw(share=0.2, change=i / 20, kind="uniform", replace="zero") for i in range(20)]
    assert "random heads: draws" not in named(cost_curve(POINTS, draws, **SAID))
    assert "random heads: draws" in named(cost_curve(POINTS, draws[1:], **SAID))


def test_tolerance_is_a_line_in_each_panel():
    figure = cost_curve(POINTS, tolerance=-1, now=0.1, unit="points", what="change in accuracy")
    assert [s.name for s in figure.layout.shapes] == ["tolerance", "now", "tolerance", "now"]
    assert {s.y0 for s in figure.layout.shapes if s.name == "tolerance"} == {-1}
    assert sum(trace.name == "tolerance −1 points" for trace in figure.data) == 1, "named once, in the legend"


def test_without_points_there_are_axes_and_no_line():
    figure = cost_curve([], unit="points", what="change in accuracy", theme="dark")
    assert list(figure.data) == []
    assert figure.layout.xaxis.title.text == "share of heads off"


def line(score, replace="zero", **more):
    return Line(name=score, score=score, replace=replace, shares=(0.2, 0.1), changes=(0.4, 0.1), **more)


def test_scores_have_the_same_colour_everywhere_and_never_colour_alone():
    lines = [line("ahon_ln"), line("ahon_ln", "mean"), line("ahon"), line("awft"), line("uniform")]
    figure = score_curves(lines, **SAID)
    assert [t.showlegend for t in figure.data] == [True, True, True, True, False]
    looks = [(t.line.color, t.line.dash, t.marker.symbol) for t in figure.data[:4]]
    assert len(set(looks)) == 4
    assert list(figure.data[0].x) == [0.0, 0.1, 0.2]
    assert score_look("ahon_ln", "light")["color"] == score_look("ahon", "light")["color"]
    assert score_look("layer_matched:awft", "light")["dash"] != score_look("uniform", "light")["dash"]
    assert score_look("made up", "dark")["color"] == score_look("uniform", "dark")["color"]


def test_what_was_not_measured_here_is_dashed():
    figure = cost_curve(POINTS[:2], lines=[line("ahon_ln", dashed=True)], **SAID)
    assert named(figure)["ahon_ln"].line.dash == "dash"


def test_a_long_legend_gets_rows_above_the_panels():
    short = score_curves([line("ahon_ln")], **SAID).layout
    many = score_curves(
        [line(name) for name in ("ahon_ln", "awft_ln", "aeqd_ln", "avvn_ln", "ftvvn_ln", "lthon_ln")], **SAID
    ).layout
    assert many.height - short.height == many.margin.t - short.margin.t == 19
