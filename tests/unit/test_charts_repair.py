"""Charts of a repair over made-up runs: the film and its GIF, lines by arm, classes over steps, rows with intervals."""

import io
import math

import numpy as np
import pytest
from PIL import Image

from headviz.analysis.bands import CLASSES, classify, counts
from headviz.charts import arms, class_steps, classes, film, forest, treated_map
from headviz.surgery.arms import ARMS
from headviz.types.repairs import Arm
from tests.repairs import SICK, H, L, repair_geometry, repair_request, repair_run, repair_stock


@pytest.fixture(scope="module")
def run():
    return repair_run("repair")


@pytest.fixture(scope="module")
def drawn(run):
    return film.film(
        run.step, run.mass, repair_stock().mass, run.heads, told=["x"] * len(run.step), before="y"
    )


def named(figure, name):
    return [trace for trace in figure.data if trace.name == name]


def test_the_film_begins_before_surgery_and_has_a_frame_an_evaluation(drawn, run):
    assert [frame.name for frame in drawn.frames] == [
        "before surgery",
        *(f"step {step}" for step in run.step),
    ]
    assert np.array(drawn.frames[0].data[0].z, float) == pytest.approx(repair_stock().mass, abs=6e-4)
    assert np.array(drawn.frames[-1].data[0].z, float) == pytest.approx(run.mass[-1], abs=6e-4)
    slider = drawn.layout.sliders[0]
    assert slider.active == len(run.step), "the last evaluation stands"
    assert slider.steps[0].label == "before surgery: y"
    assert [step.args[0][0] for step in slider.steps] == [frame.name for frame in drawn.frames]


def test_a_frame_moves_the_two_maps_and_nothing_else(drawn):
    assert {drawn.data[i].name for i in (0, 1)} == {"mass", "drift"}
    for frame in drawn.frames:
        assert tuple(frame.traces) == (0, 1)
        assert set(frame.data[0].to_plotly_json()) == {"type", "z"}


def test_treated_heads_are_outlined_in_both_maps_and_are_no_drift(drawn):
    outlines = named(drawn, "treated")
    assert [trace.xaxis for trace in outlines] == ["x", "x2"]
    assert {trace.meta["heads"] for trace in outlines} == {len(SICK)}
    drift = np.array(drawn.frames[-1].data[1].z, float)
    assert {tuple(at) for at in np.argwhere(np.isnan(drift)).tolist()} == set(SICK)
    assert "no drift" in named(drawn, "no drift")[0].text[0]


def test_the_drift_has_the_same_colours_in_every_frame_and_shows_the_papers_line(run):
    stock = repair_stock().mass
    assert film.drift_ends(film.drift_of(np.stack([stock] * 3), stock, SICK)) == (-0.05, 0.05)
    moved = run.mass.copy()
    moved[-1, 5] += 0.3
    low, high = film.drift_ends(film.drift_of(moved, stock, SICK))
    assert -low == high == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 500])
def test_a_long_film_keeps_the_first_and_the_last_evaluation(count):
    kept = film.frames_of(count)
    assert kept[0] == 0
    assert kept[-1] == count - 1
    assert len(kept) <= film.MOST_FRAMES + 1
    assert len(set(np.diff(kept[:-1]).tolist())) <= 1


def test_a_large_film_stays_small():
    rng = np.random.default_rng(0)
    mass = rng.uniform(0, 1, (100, 24, 16))
    treated = [(layer, head) for layer in range(5, 23) for head in range(9, 15)]
    figure = film.film(np.arange(100) * 10, mass, mass[0], treated)
    assert len(figure.to_json()) < 700_000


def test_the_gif_has_the_frames_and_carries_its_provenance(run):
    from headviz.charts.film_gif import LAST, PACE, film_gif

    made = film_gif(run.step, run.mass, repair_stock().mass, run.heads, provenance="model@1 · docstrings")
    picture = Image.open(io.BytesIO(made))
    assert picture.n_frames == 1 + len(run.step)
    assert picture.info["comment"] == "model@1 · docstrings".encode()
    assert picture.info["duration"] == PACE
    picture.seek(picture.n_frames - 1)
    assert picture.info["duration"] == LAST
    assert made == film_gif(
        run.step, run.mass, repair_stock().mass, run.heads, provenance="model@1 · docstrings"
    )


def course(arm: str, values, step=None) -> arms.Course:
    values = np.asarray(values, float)
    step = np.arange(values.shape[1]) * 20 if step is None else np.asarray(step)
    return arms.Course(arm=arm, name=arm, step=step, each=values)


def test_a_line_is_the_mean_over_seeds_and_nan_is_a_gap():
    panel = arms.Panel(
        title="t",
        unit="nats",
        courses=(course("repair", [[np.nan, 2, 4], [np.nan, 4, 4]]),),
        level=3.0,
        band=0.1,
    )
    figure = arms.over_steps([panel], steps=100)
    line = named(figure, "repair")[0]
    assert list(line.y) == [None, 3.0, 4.0]
    assert "mean of 2 seeds" in line.text[1]
    assert "not measured" in line.text[0]
    assert list(named(figure, "stock")[0].y) == [3.0, 3.0]
    assert [shape.name for shape in figure.layout.shapes] == ["floor"]
    assert tuple(figure.layout.xaxis.range) == (-3.0, 103.0), "the axis stays while steps come in"


def test_an_arm_without_training_is_a_level_and_every_arm_is_in_the_legend_once():
    still = course("removed", [[3.5]], [0])
    gone = course("removed", [[np.nan]], [0])
    figure = arms.over_steps(
        [arms.Panel(title="a", unit="n", courses=(gone,)), arms.Panel(title="b", unit="n", courses=(still,))],
        steps=100,
    )
    lines = named(figure, "removed")
    assert [list(line.x) for line in lines] == [[0, 100]]
    assert lines[0].showlegend
    assert [label.text for label in figure.layout.annotations if label.name == "nothing"] == [
        "nothing measured yet"
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_arm_has_a_colour_and_a_marker_of_its_own_and_none_of_a_class(theme):
    known = Arm.__args__
    assert set(arms.LOOKS) == set(known)
    colours = {arms.colour(arm, theme) for arm in known}
    assert len(colours) == len({arms.symbol(arm) for arm in known}) == len(known)
    assert not colours & {classes.colour(name, theme) for name in CLASSES}


def test_classes_over_steps_tell_the_stock_model_beside(run):
    where = tuple(np.array(SICK).T)
    each = [counts(classify(m, e)[where]) for m, e in zip(run.mass, run.entropy, strict=True)]
    stock = repair_stock()
    before = counts(classify(stock.mass, stock.entropy)[where])
    panel = class_steps.Counted(
        name="Repair",
        step=run.step,
        before=before,
        counts={c: np.array([one[c] for one in each]) for c in CLASSES},
    )
    figure = class_steps.classes_over_steps([panel, panel, panel, panel], steps=100, total=28)
    line, stock_mark = named(figure, "sink")[0], named(figure, "sink, stock")[0]
    assert list(line.y) == [0] * len(run.step)
    assert list(stock_mark.y) == [27]
    assert stock_mark.marker.symbol.endswith("-open")
    assert not named(figure, "low entropy"), "a class that never occurs is not drawn"
    assert sum(bool(trace.showlegend) for trace in figure.data) == 3


def test_rows_have_their_interval_and_what_is_missing_says_so():
    rows = [
        forest.Row(name="Repair", arm="repair", values=((-0.06, -0.07, -0.05), None)),
        forest.Row(name="One document", arm="removed", values=((0.1, math.nan, math.nan), (0.2, 0.1, 0.3))),
    ]
    figure = forest.forest(rows, ["Report", "Other domain"])
    first = named(figure, "Repair")[0]
    assert first.x[0] - first.error_x.arrayminus[0] == pytest.approx(-0.07)
    assert "[−0.0700, −0.0500]" in first.text[0]
    assert "(no interval)" in named(figure, "One document")[0].text[0]
    assert [label.text for label in figure.layout.annotations if label.name == "missing"] == ["not measured"]


@pytest.mark.parametrize("slopes", [True, False])
def test_the_map_of_a_plan_outlines_what_is_treated_and_takes_clicks_on_top(slopes):
    stock, request = repair_stock(), repair_request()
    named_heads = classify(stock.mass, stock.entropy)
    hover = [[f"{i}.{j}" for j in range(H)] for i in range(L)]
    figure = treated_map.treated_map(
        stock.mass, named_heads, hover, counts(named_heads), request.heads, geometry=repair_geometry(slopes)
    )
    outline = named(figure, "treated")[0]
    assert outline.meta["heads"] == len(request.heads)
    assert len(outline.x) == 6 * len(request.heads), "four sides, back to the first corner, and a gap"
    assert figure.data[-1].name == "heads"
    assert "treated: 28" in next(label.text for label in figure.layout.annotations if label.name == "key")


def test_two_repairs_are_drawn_on_one_range_of_changes():
    rows = [forest.Row(name="Repair", arm="repair", values=((-0.06, -0.07, -0.05), (0.5, 0.4, 0.6)))]
    apart, together = (forest.forest(rows, ["First", "Second"], same=same) for same in (False, True))
    assert apart.layout.xaxis.range != apart.layout.xaxis2.range
    assert together.layout.xaxis.range == together.layout.xaxis2.range
    assert together.layout.xaxis.range[0] < -0.07 < 0.6 < together.layout.xaxis.range[1]


def test_a_legend_of_many_arms_has_room_above_the_panels():
    few = [course("repair", [[3.0, 2.9]])]
    many = [
        arms.Course(
            arm=arm, name="Healthy heads treated the same way", step=np.arange(2) * 20, each=np.ones((1, 2))
        )
        for arm in arms.LOOKS
    ]
    low, high = (
        arms.over_steps([arms.Panel(title="t", unit="n", courses=tuple(some))], steps=100)
        for some in (few, many)
    )
    assert high.layout.margin.t >= low.layout.margin.t + 19
    assert high.layout.height - high.layout.margin.t == low.layout.height - low.layout.margin.t


@pytest.mark.parametrize("format", ["pdf", "png"])
def test_the_figure_for_print_carries_its_provenance_and_is_the_same_again(format):
    from headviz.charts.forest_print import print_forest

    rows = [forest.Row(name="Repair", arm="repair", values=((-0.06, -0.07, -0.05),))]
    made = print_forest(rows, ["Report"], provenance="model@1", format=format)
    assert made == print_forest(rows, ["Report"], provenance="model@1", format=format)
    assert made.startswith({"pdf": b"%PDF", "png": b"\x89PNG"}[format])
    if format == "png":
        picture = Image.open(io.BytesIO(made))
        assert picture.info["Description"] == "model@1"
        assert picture.size[0] == 650, "3.25 inches at 200 dots"


@pytest.mark.parametrize(
    "name", ["Repair", *(row.title for row in ARMS.values()), "A name that is longer still by far"]
)
def test_the_names_of_rows_are_not_cut_off(name):
    from headviz.charts.forest_print import print_forest

    rows = [forest.Row(name=name, arm="untrained", values=((0.1, 0.05, 0.2), (0.1, 0.05, 0.2)))]
    picture = Image.open(io.BytesIO(print_forest(rows, ["Report", "Other"], format="png"))).convert("L")
    assert np.asarray(picture)[:, :4].min() == 255
