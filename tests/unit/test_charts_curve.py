"""The cost curve: what is drawn is what was measured."""

from headviz.charts.curve import Draw, Point, cost_curve

POINTS = [
    Point(share=0.2, change=0.25, low=0.2, high=0.3, heads=54, replace="zero"),
    Point(share=0.1, change=0.1, low=0.05, high=0.2, heads=27, replace="zero"),
    Point(share=0.2, change=0.12, low=0.1, high=0.15, heads=54, replace="mean"),
]
DRAWS = [
    Draw(share=0.2, change=1.1, kind="uniform", replace="zero"),
    Draw(share=0.2, change=0.4, kind="layer_matched", replace="zero"),
]


def test_lines_start_at_nothing_off_and_go_by_share():
    figure = cost_curve(POINTS, DRAWS, unit="nats", what="change in loss", tolerance=0.05, now=0.2)
    zero = next(t for t in figure.data if t.name == "replaced by zero")
    assert list(zero.x) == [0.0, 0.1, 0.2]
    assert list(zero.y) == [0.0, 0.1, 0.25]
    assert [round(x, 3) for x in zero.error_y.array] == [0.0, 0.1, 0.05]
    assert [round(x, 3) for x in zero.error_y.arrayminus] == [0.0, 0.05, 0.05]
    assert "54 heads, 20.0%" in zero.text[2]


def test_random_draws_are_grey_and_told_apart_by_shape():
    figure = cost_curve(POINTS, DRAWS, unit="nats", what="change in loss")
    grey = {t.name: t.marker.symbol for t in figure.data if t.name.startswith("random")}
    assert grey == {"random heads": "circle-open", "random, layer by layer": "square-open"}


def test_without_points_there_are_axes_and_no_line():
    figure = cost_curve([], unit="points", what="change in accuracy", theme="dark")
    assert list(figure.data) == []
    assert figure.layout.xaxis.title.text == "share of heads off"
