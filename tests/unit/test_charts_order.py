"""The strip, the maps and the chart of correlations: what is drawn, and that the gradient never reads as a number."""

import math

import numpy as np
import pytest

from headviz.analysis.order import Agreement
from headviz.charts import scales
from headviz.charts.delta import delta_map
from headviz.charts.order import agreement_chart, gradient_map
from tests.fakes import fake_geometry

GEOMETRY = fake_geometry(4, 3, 1)


def trace(figure, name):
    return next(t for t in figure.data if t.name == name)


def words(figure) -> str:
    return "\n".join(a.text for a in figure.layout.annotations)


def test_the_gradient_map_says_places_and_no_gradient():
    gradients = np.arange(12.0).reshape(4, 3) * 1.2345
    off = np.zeros((4, 3), bool)
    off[0, 0] = True
    figure = gradient_map(gradients, geometry=GEOMETRY, hatched=off)
    texts = trace(figure, "heads").text
    assert "place 1 of 12" in texts[0]
    assert figure.layout.shapes[0].path.count("M") == 1, "what is off is hatched"
    assert not any("1.23" in text or "nats" in text for text in texts)


def test_a_change_is_blue_below_zero_and_red_above_and_symmetric():
    values = np.linspace(-0.1, 0.3, 12).reshape(4, 3)
    values[3, 2] = np.nan
    low, high = values - 0.02, values + 0.02
    notes = np.full((4, 3), "", object)
    notes[0, 0] = "sure"
    figure = delta_map(
        values, "nats", low, high, geometry=GEOMETRY, title="Cost", notes=notes, reason="no text"
    )
    heat = trace(figure, "scores")
    assert heat.zmin == -heat.zmax
    assert next(stop[1] for stop in heat.colorscale) == scales.SCALES["change"].light[0]
    texts = trace(figure, "heads").text
    assert "−0.100 nats" in texts[0]
    assert "[−0.120, −0.0800]" in texts[0]
    assert "sure" in texts[0]
    assert "not defined: no text" in texts[-1]
    assert "not defined: 1" in words(figure)


def test_a_difference_without_an_interval():
    figure = delta_map(np.ones((4, 3)), "", geometry=GEOMETRY, title="Difference", what="difference")
    assert "difference +1.00" in trace(figure, "heads").text[0]
    assert "95%" not in trace(figure, "heads").text[0]


def test_one_massive_change_does_not_take_all_the_colours():
    values = np.append(np.linspace(-0.02, 0.02, 500), (0.9, -0.3))
    scale = scales.SCALES["change"]
    ends = scales.limits(scale, values)
    assert ends[0] == -ends[1]
    assert ends[1] < 0.1
    texts = scales.ticks(scale, ends, values)[1]
    assert texts[0].startswith("≤")
    assert texts[-1].startswith("≥")
    assert len(texts) >= 3
    inside = scales.ticks(scale, (-1.0, 1.0), values)[1]
    assert not any(text.startswith(("≤", "≥")) for text in inside)


def test_agreements_are_drawn_best_on_top_and_missing_ones_said():
    rows = [
        Agreement(name="gradient", rho=0.6, low=0.5, high=0.7, heads=12),
        Agreement(name="awft", rho=-0.1, low=math.nan, high=math.nan, heads=12),
        Agreement(name="aeqd", rho=math.nan, low=math.nan, high=math.nan, heads=0),
    ]
    figure = agreement_chart(rows, str.upper, ceiling=0.9, chosen="awft")
    dots = trace(figure, "agreement")
    assert list(dots.x) == [0.6, -0.1]
    assert list(dots.y) == [2, 1]
    assert dots.marker.symbol == ("diamond-open", "circle")
    assert dots.error_x.array == pytest.approx((0.1, 0))
    assert "one document: no interval" in dots.text[1]
    assert figure.layout.yaxis.ticktext == ("GRADIENT", "<b>AWFT</b>", "AEQD")
    assert "not defined" in words(figure)
    assert "most to expect" in words(figure)
