"""Numbers, colour scales and tables."""

import json

import numpy as np
import pytest

from headviz.analysis.metrics import METRICS
from headviz.charts import fmt, scales, tables
from tests.fakes import fake_pattern, fake_table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.51234, "0.512"), (12.345, "12.3"), (1234.5, "1,230"), (0, "0"), (-0.0, "0"), (1, "1.00"),
        (0.000012, "1.20×10⁻⁵"), (0.00012, "0.000120"), (-0.5, "−0.500"), (9.996, "10.0"), (float("nan"), "not defined"),
        (float("inf"), "∞"), (2.5e12, "2.50×10¹²"), (-2.5e-9, "−2.50×10⁻⁹"), (999.6, "1,000"),
    ],
)  # fmt: skip
def test_three_significant_digits(value, text):
    assert fmt.number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (1, "100%"),
        (0.2, "20.0%"),
        (0.000123, "0.0123%"),
        (0.99996, "99.996%"),
        (1e-9, "1.00×10⁻⁷%"),
    ],
)
def test_percent_never_rounds_to_none_or_all(share, text):
    assert fmt.percent(share) == text


def test_no_small_share_prints_as_zero_and_no_large_one_as_all():
    for share in 10.0 ** -np.arange(1, 12):
        assert fmt.percent(share).strip("%") not in ("0", "0.0", "0.00")
        assert fmt.percent(1 - share) != "100%" or share < 1e-9


def test_words_around_numbers():
    assert fmt.count(54, 270) == "54 of 270 (20.0%)"
    assert fmt.count(0, 0) == "0 of 0"
    assert [fmt.plural(n, "head") for n in (0, 1, 1230)] == ["0 heads", "1 head", "1,230 heads"]
    assert fmt.interval(0.23, 0.2, 0.26, "nats") == "0.230 nats [0.200, 0.260]"
    rough = [
        fmt.roughly(seconds)
        for seconds in (12, 59.9, 60, 125, 3569, 3600, 4320, 35_900, 36_000, 100_000, 400_000)
    ]
    assert [said.replace("\u00a0", " ") for said in rough] == [
        "a minute or less", "a minute or less", "1 min", "2 min", "59 min", "1 h", "1 h 10 min", "10 h", "10 h", "28 h", "5 days",
    ]  # fmt: skip
    assert (fmt.duration(1.8), fmt.duration(125), fmt.duration(4320)) == (
        "1.80\u00a0s",
        "2\u00a0min 5\u00a0s",
        "1\u00a0h 12\u00a0min",
    )
    assert (fmt.signed(0.23), fmt.signed(-0.1), fmt.signed(0)) == ("+0.230", "−0.100", "0")
    assert (fmt.size(0), fmt.size(512), fmt.size(1.234e9), fmt.size(5e15)) == (
        "0 B",
        "512 B",
        "1.23 GB",
        "5,000 TB",
    )
    assert fmt.with_unit(float("nan"), "nats") == "not defined"
    assert fmt.wrap("a · b · c", 5) == ["a · b", "c"]


# ------------------------------------------------------------------------------------------------------- scales

# Machado, Oliveira and Fernandes 2009, severity 1
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
}  # fmt: skip


def lightness(scale, theme, vision) -> np.ndarray:
    colour = scales.rgb(scale, theme, np.linspace(0, 1, 41), 0, 1)
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ VISION[vision].T, 0, 1) @ np.array([0.2126, 0.7152, 0.0722])
    return np.where(seen > 0.008856, 116 * np.cbrt(seen) - 16, 903.3 * seen)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("scale", scales.SCALES.values(), ids=lambda s: s.id)
def test_lightness_is_monotone_for_everybody(scale, theme, vision):
    steps = np.diff(lightness(scale, theme, vision))
    if scale.id in ("ratio", "change"):  # diverging: monotone away from the middle
        assert (steps[:20] * steps[0] > 0).all()
        assert (steps[20:] * steps[-1] > 0).all()
        assert steps[0] * steps[-1] < 0
    else:
        assert (steps * steps[0] > 0).all()


def test_limits_are_fixed_from_zero_or_symmetric():
    rng = np.random.default_rng(0)
    assert scales.limits(scales.SCALES["sink"], rng.random(9) / 9) == (0, 1)
    assert scales.limits(scales.SCALES["entropy"], np.array([1.0, 2.0])) == (0, 2)
    assert scales.limits(scales.SCALES["change"], np.array([-3.0, 2.0])) == (-3, 3)
    for values in ([1.0, 1.1], [0.0, 1e9], [np.nan]):  # the same colour is the same ratio on every map
        assert scales.limits(scales.SCALES["ratio"], np.array(values)) == (1 / 3, 3)
    assert scales.limits(scales.SCALES["norm"], np.array([np.nan])) == (0, 1)
    assert scales.limits(scales.SCALES["norm"], np.zeros(4)) == (0, 1)


def test_a_massive_head_does_not_take_all_the_colours_and_the_end_says_so():
    values = np.append(np.linspace(1, 2, 500), 1000)
    ends = scales.limits(scales.SCALES["norm"], values)
    assert ends[1] < 3
    assert scales.ticks(scales.SCALES["norm"], ends, values)[1][-1].startswith("≥")


def test_ratio_ticks_are_log_spaced_about_one():
    at, texts = scales.ticks(scales.SCALES["ratio"], (0.25, 4))
    assert at == [-2, -1, 0, 1, 2]
    assert texts == ["1/4", "1/2", "1", "2", "4"]
    drawn, low, high = scales.paint(scales.SCALES["ratio"], np.array([0, 0.5, 1, 99, np.nan]), (0.25, 4))
    np.testing.assert_array_equal(drawn, [-2, -1, 0, 2, np.nan])
    assert (low, high) == (-2, 2)
    assert scales.ticks(scales.SCALES["ratio"], (0.25, 4), np.array([0.1, 9]))[1] == [
        "≤1/4",
        "1/2",
        "1",
        "2",
        "≥4",
    ]


def test_ratio_ticks_write_the_ends_of_the_colours():
    scale, ends = scales.SCALES["ratio"], scales.RATIO_ENDS
    assert scales.ticks(scale, ends)[1] == ["1/3", "1/2", "1", "2", "3"]
    at, texts = scales.ticks(scale, ends, np.array([0.0, 3.1]))
    assert (texts[0], texts[-1]) == ("≤1/3", "≥3")
    np.testing.assert_allclose((at[0], at[-1]), (-np.log2(3), np.log2(3)))


# ------------------------------------------------------------------------------------------------------- tables


def test_percentiles_and_ranks():
    values = np.array([[0.1, 0.3], [0.3, np.nan]])
    np.testing.assert_allclose(tables.percentiles(values), [[100 / 6, 400 / 6], [400 / 6, np.nan]])
    np.testing.assert_array_equal(tables.ranks(values, METRICS["ahon"]), [[1, 2], [3, np.nan]])
    np.testing.assert_array_equal(tables.ranks(values, METRICS["awft"]), [[3, 1], [2, np.nan]])


def test_ranking_starts_with_the_most_inactive_head_and_ends_with_the_undefined():
    table = fake_table(nan=True)
    frame = tables.ranking(table, METRICS["awft"], 0.5)
    assert frame["value"].is_monotonic_decreasing
    assert list(frame.columns[:7]) == ["name", "layer", "head", "kv_group", "value", "percentile", "rank"]
    assert frame["inactive"].sum() == (table.mean("awft") > 0.5).sum()
    first = frame.iloc[0]
    assert first["name"] == f"L{first['layer']:02d}.H{first['head']:02d}"
    assert first["inactive_share"] == (table.per_input("awft")[:, first["layer"], first["head"]] > 0.5).mean()
    assert first["kv_group"] == first["head"] // 3
    last = tables.ranking(table, METRICS["aeqd_ln"], 0.5).tail(9)
    assert last["value"].isna().all()
    assert not last["inactive"].any()
    assert last["inactive_share"].isna().all()


def test_long_frame_holds_the_statistics_over_inputs():
    table = fake_table(L=3, H=4, G=2, N=7, nan=True)
    frame = tables.long_frame(table)
    assert tuple(frame.columns) == tables.LONG_COLUMNS
    assert len(frame) == len(table.metrics) * 12
    line = frame.query("metric == 'ahon' and layer == 2 and head == 1").iloc[0]
    values = table.per_input("ahon")[:, 2, 1].astype(np.float64)
    np.testing.assert_allclose(
        [line["mean"], line["std"], line["p05"], line["p50"], line["p95"]],
        [values.mean(), values.std(), *np.percentile(values, (5, 50, 95))],
    )
    assert frame.query("metric == 'aeqd_ln' and layer == 0")["mean"].isna().all()


def test_csv_starts_with_the_provenance():
    table = fake_table(L=2, H=2, G=1, N=2)
    first, second, *_ = tables.long_csv(table).split("\n")
    assert first == f"# {tables.caption(table.provenance, table)}"
    assert second == ",".join(tables.LONG_COLUMNS)
    assert tables.long_csv(table, provenance=False).startswith("layer,")


def test_caption_holds_everything_and_what_was_really_scored():
    table = fake_table()
    assert tables.caption(table.provenance, table) == (
        "SmolLM2-135M-Instruct@5a13957 · bfloat16 · docstrings@9c1f9c1 (held-out), 16 × 32–64 tokens · seed 0 · 1.83\u00a0s · "
        "headviz 0.1.0 · request 0123456789ab"
    )
    found = fake_pattern(12)
    assert "input 0, 12 tokens" in tables.caption(found.provenance, found)
    request = json.loads(json.dumps(table.provenance.request))
    request["model"]["quantization"] = "8bit"
    request["data"] |= {
        "corpus": "hub",
        "dataset": "a/b",
        "split": "test",
        "column": "text",
        "chat": True,
        "bos": "never",
    }
    changed = tables.caption(type(table.provenance)(**{**vars(table.provenance), "request": request}))
    for part in ("bfloat16, 8bit", "a/b/test/text@", "BOS never", "chat template", "16 × 64 tokens"):
        assert part in changed
