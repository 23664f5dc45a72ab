"""Loss by position: bins hold what a loop over tokens gives, and what is drawn is what was measured."""

import numpy as np
import pytest

from headviz.charts.positions import bins_of, loss_by_position
from headviz.types import TextLosses
from tests.fakes import fake_provenance

LENGTHS = [90, 90, 40, 7, 1]


def measured(shift=0.0, lengths=LENGTHS, seed=0):
    """(a measurement, its (N, T−1) losses) of inputs that predict so many tokens."""
    table = np.full((len(lengths), max(lengths) + 3), np.nan)
    draw = np.random.default_rng(seed)
    for row, n in zip(table, lengths, strict=True):
        row[:n] = draw.normal(4, 1, n) + shift * np.arange(n)
    count = (~np.isnan(table)).sum(0)
    by_position = np.divide(np.nansum(table, 0), count, out=np.full(len(count), np.nan), where=count > 0)
    return TextLosses(
        loss=np.nansum(table, 1),
        predicted=np.array(lengths, np.int32),
        by_position=by_position,
        cluster=np.arange(len(lengths), dtype=np.int32),
        documents=tuple("abcde"[: len(lengths)]),
        off_share=np.zeros(len(lengths), np.float32),
        off_sets={},
        provenance=fake_provenance(),
    ), table


def test_bins_are_a_loop_over_tokens():
    losses, table = measured()
    bins = bins_of(losses)
    assert bins.first[0] == 1
    assert bins.last[-1] == 90
    assert (bins.first[1:] == bins.last[:-1] + 1).all(), "no gap and no overlap"
    for a, b, mean, inputs, tokens in zip(
        bins.first, bins.last, bins.mean(losses.by_position), bins.inputs, bins.tokens, strict=True
    ):
        inside = table[:, a - 1 : b]
        assert mean == pytest.approx(np.nanmean(inside))
        assert tokens == (~np.isnan(inside)).sum()
        assert inputs == (~np.isnan(inside)).any(1).sum()


def test_short_inputs_have_a_bin_a_position():
    losses, _ = measured(lengths=[1])
    assert bins_of(losses).tokens.tolist() == [1]
    losses, _ = measured(lengths=[3, 2])
    assert bins_of(losses).inputs.tolist() == [2, 2, 1]


def lines(figure, axis):
    return {t.name: t for t in figure.data if t.name and t.yaxis == axis}


def test_the_change_is_drawn_below():
    before, _ = measured()
    after, _ = measured(shift=0.01)
    figure = loss_by_position(before, {"zero": after}, theme="dark")
    above, below = lines(figure, "y"), lines(figure, "y2")
    assert list(above) == ["as it is", "replaced by zero"]
    change = np.array(above["replaced by zero"].y) - np.array(above["as it is"].y)
    np.testing.assert_allclose(below["replaced by zero"].y, change)
    assert change[-1] > change[0]
    assert "4 inputs" in above["as it is"].text[1]
    assert "5 inputs" in above["as it is"].text[0]
    assert figure.layout.xaxis.title.text == "position: tokens that stand before it"
    assert figure.layout.yaxis.title.text == "loss, nats"


def test_random_draws_are_a_grey_band():
    before, _ = measured()
    draws = [measured(shift=0.01, seed=seed)[0] for seed in (1, 2, 3)]
    figure = loss_by_position(before, {}, {"uniform": draws, "layer_matched": draws[:1]})
    above = lines(figure, "y")
    assert set(above) == {"as it is", "random heads (3 draws)", "random, layer by layer (1 draw)"}
    bins = bins_of(before)
    means = np.stack([bins.mean(one.by_position) for one in draws])
    np.testing.assert_allclose(above["random heads (3 draws)"].y, means.mean(0))
    filled = next(t for t in figure.data if t.fill == "tonexty" and t.yaxis == "y")
    np.testing.assert_allclose(filled.y, means.max(0))
    assert {t.line.color for t in figure.data if t.name != "as it is"} == {"#9aa0aa"}
