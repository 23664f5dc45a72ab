"""Figures of two scores: every head once, in its group's mark; lines where the thresholds are; chance beside agreement."""

import dataclasses
import json

import numpy as np
import pytest

from headviz.analysis import agreement as ag
from headviz.analysis.metrics import METRICS
from headviz.charts import agree, groups, quadrants
from headviz.charts.thumb import pattern_thumb, top_tokens
from tests.fakes import fake_pattern, fake_table

TABLE = fake_table(L=6, H=6, G=2, N=4)
A, B = ag.scored(TABLE, "awft"), ag.scored(TABLE, "ahon_ln")
GROUPS = ag.quadrants_of(A, B, 12)


def traces(figure):
    return {trace.meta["group"]: trace for trace in figure.data if trace.meta}


def test_every_head_stands_once_at_its_two_values():
    drawn = traces(quadrants.quadrant_scatter(A, B, GROUPS))
    for group, trace in drawn.items():
        assert [tuple(head) for head in trace.customdata] == GROUPS.heads(group)
        for (layer, head), x, y in zip(trace.customdata, trace.x, trace.y):
            assert (x, y) == (A.values[layer, head], np.log2(B.values[layer, head]))
    assert sum(len(trace.x) for trace in drawn.values()) == 36


def test_threshold_lines_and_corners_are_where_the_groups_part():
    figure = quadrants.quadrant_scatter(A, B, GROUPS)
    lines = [shape for shape in figure.layout.shapes if shape.name == "threshold"]
    assert lines[0].x0 == pytest.approx(GROUPS.thresholds[0])
    assert lines[1].y0 == pytest.approx(np.log2(GROUPS.thresholds[1]))
    corners = {
        note.name: (note.x > 0.5, note.y > 0.5)
        for note in figure.layout.annotations
        if "quadrant" in str(note.name)
    }
    # AWFT is inactive to the right, AHON (LN) below: sink but loud lies at the upper right
    assert corners["quadrant only_a"] == (True, True)
    assert corners["quadrant only_b"] == (False, False)
    assert corners["quadrant both"] == (True, False)


def test_a_head_without_a_value_is_told_and_not_drawn():
    values = B.values.copy()
    values[2] = np.nan
    b = dataclasses.replace(B, values=values)
    found = ag.quadrants_of(A, b, 8)
    figure = quadrants.quadrant_scatter(A, b, found, marked={(2, 1), (0, 0)})
    assert "unknown" not in traces(figure)
    assert any("not defined: 6" in note.text for note in figure.layout.annotations)
    assert len(next(trace for trace in figure.data if trace.name == "marked").x) == 1
    assert len(traces(quadrants.group_map(A, b, found, geometry=TABLE.geometry))["unknown"].x) == 6


def test_groups_differ_by_colour_and_by_shape_in_both_themes():
    for theme in ("light", "dark"):
        assert len({groups.colour(group, theme) for group in groups.LOOKS}) == len(groups.LOOKS)
    assert len({symbol for *_, symbol in groups.LOOKS.values()}) == len(groups.LOOKS)


def test_a_norm_of_zero_has_a_linear_axis():
    values = np.linspace(0, 3, 36).reshape(6, 6)
    place, axis = groups.axis_of(ag.Scored(row=METRICS["ahon"], values=values), "light")
    assert place(2.0) == 2.0
    assert axis["range"][0] < 0
    place, _ = groups.axis_of(ag.Scored(row=METRICS["ahon"], values=values + 0.1), "light")
    assert place(2.0) == 1.0


@pytest.mark.parametrize("measure", agree.MEASURES)
def test_the_curve_and_its_chance_are_the_numbers(measure):
    curve = ag.agreement(A, B)
    figure = agree.agreement_curve(curve, A, B, measure=measure, count=12)
    named = {trace.name: trace for trace in figure.data if trace.showlegend is not False}
    assert list(named["AWFT and AHON (LN)"].y) == list(getattr(curve, measure))
    assert list(named["by chance"].y) == list(getattr(curve, f"chance_{measure}"))
    low, high = np.array(named["by chance"].customdata).T
    assert (low <= named["by chance"].y).all()
    assert (high >= named["by chance"].y).all()


def test_the_matrix_stands_in_clustered_order():
    found = ag.matrices(TABLE, 1 / 3)
    figure = agree.score_matrix(found, "rho", chosen=("awft", "ahon_ln"))
    ids = [found.metrics[i] for i in found.order]
    assert list(figure.layout.yaxis.ticktext) == [METRICS[one].symbol for one in ids]
    i, j = ids.index("awft"), ids.index("ahon_ln")
    heat = next(trace for trace in figure.data if trace.type == "heatmap")
    expected, _ = ag.spearman(A.urgency, B.urgency)
    assert heat.z[i][j] == pytest.approx(expected)
    assert {(shape.x0 + 0.5, shape.y0 + 0.5) for shape in figure.layout.shapes} == {(i, j), (j, i)}
    json.loads(figure.to_json())


def test_what_a_head_looks_at_most():
    T = 16
    attention = np.tril(np.full((T, T), 0.01, np.float32))
    attention[:, 0] = 0.2
    attention[5:, 5] = 0.7
    attention[T - 1, T - 1] = 1.0  # a last token that looks at itself is no target
    pattern = dataclasses.replace(fake_pattern(T=T), attention=attention)
    assert [position for position, *_ in top_tokens(pattern)][:2] == [5, 0]
    assert top_tokens(pattern)[0][2] == pytest.approx(0.7, abs=1e-6)
    assert pattern_thumb(pattern, theme="dark").data[0].type == "heatmap"
