"""The surgery page over made-up repairs: design, list, one repair finished and running, two side by side; alone and in the app."""

import dataclasses
import json
from urllib.parse import parse_qsl

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from headviz.analysis.choose import HeadSet
from headviz.analysis.headfile import write_heads
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.reopen import of_request, page_of
from headviz.settings import settings
from headviz.surgery import outcomes, progress
from headviz.surgery.about import Facts
from headviz.surgery.head_changes import head_changes
from headviz.surgery.meter import Meter
from headviz.surgery.plan import SCHEMES
from headviz.surgery.planfile import write_plan
from headviz.types import (
    BandsRequest,
    RepairedCheckpoint,
    RepairedRequest,
    RepairReport,
    RepairRequest,
    Silent,
    plain,
)
from headviz.ui.surgery import moved, outcome, presets, scheme, take, work
from headviz.view import RECOVERY, VIEW, read_url
from tests.pages.conftest import default_request, figure, open_app, opener, said
from tests.pages.test_bands import SICK, answer, fake_bands
from tests.repairs import repair_report, repair_request, repair_run, repair_stock


def asked(**changed) -> RepairRequest:
    """A plan for the bundled model, as the list has it."""
    left = default_request()
    return repair_request(**({"model": left.model, "diagnose": left.data} | changed))


def finished(request: RepairRequest, **shifts) -> tuple[str, RepairReport]:
    """The repair is a job of this machine, and its report is in the store."""
    digest = local.ask(request, "test").digest
    report = repair_report(request, **shifts)
    made = dataclasses.replace(
        report.provenance, request={"kind": request.kind, **plain(request)}, digest=digest
    )
    report = dataclasses.replace(report, provenance=made)
    local.store().put(digest, report)
    return digest, report


def begun(request: RepairRequest, runs=(), stock: bool = True) -> str:
    """The repair waits or runs, and this is what it has written so far."""
    digest = local.ask(request, "test").digest
    place, meter = progress.folder(settings(), digest), Meter(Silent(), 100)
    if stock:
        progress.write_stock(place, repair_stock(), meter)
    for run in runs:
        folder = progress.run_folder(place, run.arm, run.seed, run.number)
        progress.begin_run(folder, run.arm, run.seed, run.number, run.heads, meter)
        for i, step in enumerate(run.step):
            names = ("train_loss", "select", "rate", "gradient_norm", "tokens_per_second")
            point = progress.Point(step=int(step), **{name: float(getattr(run, name)[i]) for name in names})
            progress.add_point(folder, point, {name: getattr(run, name)[i] for name in progress.MAPS}, meter)
        if run.ended:
            progress.end_run(folder, run.ended, {name: getattr(run, name) for name in progress.LOSSES}, meter)
    return digest


@pytest.fixture(params=["alone", "through app.py"])
def open_page(request):
    """Opens the page with URL parameters: its file by itself, or in the whole app."""
    return opener("pages/surgery.py", alone=request.param == "alone")


in_app = opener("pages/surgery.py", alone=False)


@pytest.fixture
def measured(home, no_worker, built_train, monkeypatch):
    """What the design needs is in the store: 28 collapsed heads, one of them dead, of a small ALiBi model."""
    left, bands = default_request(), fake_bands(SICK, dead=[(2, 15)])
    answer(BandsRequest(model=left.model, data=left.data), bands)
    shape = Facts(geometry=bands.geometry, bias=True, longest=2048, numbers=1_000_000, bytes=4_000_000)
    monkeypatch.setattr("headviz.surgery.plan.facts", lambda model, settings: shape)
    return left


def plan_of(app: AppTest) -> RepairRequest:
    """The plan that the page would launch: launched, without a worker."""
    next(button for button in app.button if button.label == "Launch").click().run()
    assert not app.exception
    return next(job.request for job in local.list_jobs() if job.kind == "repair")


# ------------------------------------------------------------------------------------------------ design


def test_the_design_says_which_heads_a_rule_takes_and_what_it_takes_to_train_them(open_page, measured):
    app = open_page()
    assert not app.exception
    text = said(app)
    assert "28 of 96 (29.2%) heads are to be treated** (rule bos>0.5)" in text
    assert "27 sink" in text
    assert "1 dead" in text
    assert "Layers 1 to 4, heads 9 to 15" in text
    assert {metric.label for metric in app.metric} == {"Numbers trained", "Memory", "Disk", "Time here"}
    assert local.list_jobs() == [], "nothing begins before the button"


def test_the_map_outlines_the_treated_heads_and_says_what_a_click_does(measured):
    drawn = figure(in_app(), "plan_map")
    outline = next(trace for trace in drawn["data"] if trace["name"] == "treated")
    assert outline["meta"]["heads"] == 28
    heads = drawn["data"][-1]
    assert heads["name"] == "heads"
    texts = dict(zip(map(tuple, heads["customdata"]), heads["text"], strict=True))
    assert "treated: a click leaves it out" in texts[(1, 9)]
    assert "a click treats it" in texts[(0, 0)]


def test_the_launched_plan_is_what_the_view_says(measured):
    app = in_app(
        treat_rule="bos>0.5 & layers 1-2", repair_arms="repair,no-reinit,healthy", repair_seeds="4,2", repair_steps=40,
        every=10, train_tokens=64, other_on="none", shuffled="true", recipe="edited", rate=3e-4, batch=2, accumulate=3,
        passes=2, held_windows=12, sink_above=0.4, patience=3, repair_threads=1,
    )  # fmt: skip
    asked = plan_of(app)
    assert asked.heads == tuple(at for at in SICK if at[0] in (1, 2))
    assert len(asked.healthy) == len(asked.heads)
    assert not set(asked.healthy) & set(SICK)
    assert (asked.arms, asked.seeds, asked.steps, asked.every) == (
        ("repair", "no-reinit", "healthy"),
        (4, 2),
        40,
        10,
    )
    assert (asked.train.part, asked.train.inputs, asked.train.tokens, asked.shuffled) == (
        "train",
        240,
        64,
        True,
    )
    assert (asked.held_out.part, asked.held_out.inputs, asked.other) == ("held-out", 12, None)
    assert (asked.recipe.rate, asked.recipe.batch, asked.recipe.accumulate) == (3e-4, 2, 3)
    assert (asked.passes, asked.sink, asked.patience, asked.threads) == (2, 0.4, 3, 1)
    assert asked.diagnose.seed == measured.data.seed + 1, (
        "heads are counted on another text than they were chosen on"
    )
    assert app.session_state["stage"] == "watch"
    assert app.session_state["operation"] == job_digest(asked)


def test_a_plan_opened_again_is_the_same_plan(measured):
    first = plan_of(
        in_app(repair_steps=50, every=5, repair_arms="repair,untrained,no-reinit,removed", held_windows=10)
    )
    values = scheme.values_of(first)
    again = in_app(
        **{name: value for name, value in values.items() if value != VIEW[name].default},
        treat_by="hand", treated=";".join(f"{layer}:{','.join(str(h) for a, h in SICK if a == layer)}" for layer in range(1, 5)),
    )  # fmt: skip
    assert not again.exception
    assert "This very plan was launched before" in said(again)


def test_a_bad_rule_and_a_bad_plan_get_a_sentence_and_no_button(measured):
    app = in_app(treat_rule="bos>0.99")
    assert not app.exception
    assert "No head has BOS mass over 0.99; the largest is 0.97 (L02.H15)" in said(app)
    assert not [button for button in app.button if button.label == "Launch"]
    app = in_app(treat_rule="slope>nothing")
    assert "'nothing' is no number" in said(app)
    app = in_app(repair_arms="")
    assert "The plan has no arm" in said(app)
    app = in_app(treat_by="hand", treated="40:1")
    assert "L40.H01 is not in this model" in said(app)
    app = in_app(treat_by="hand")
    assert "No head is chosen. Click heads on the map" in said(app)


@pytest.mark.parametrize(
    ("box", "typed", "told"),
    [
        (
            "repair_steps",
            0,
            "A repair of 0 steps trains nothing. Under “Steps”, type a number from 1 to 100,000.",
        ),
        ("repair_steps", 200_000, "Steps is 200,000, which is too much"),
        ("every", 0, "An evaluation every 0 steps never comes"),
        ("passes", -1, "A repair of −1 passes operates on nothing"),
        ("train_tokens", 1, "type a number from 2 to 8,192, or leave it empty for the recipe's length"),
        ("held_windows", 1, "1 held-out windows cannot be parted"),
        ("train_windows", 0, "0 training windows train nothing"),
        ("patience", 0, "or leave it empty for never"),
        ("repair_threads", 0, "0 threads compute nothing"),
    ],
)
def test_a_number_that_cannot_be_gets_a_sentence_and_never_another_number(measured, box, typed, told):
    app = in_app()
    app.number_input(key=box).set_value(typed).run()
    assert not app.exception
    assert [error.value for error in app.error if told in error.value]
    assert not [button for button in app.button if button.label == "Launch"]


def test_a_number_of_the_recipe_counts_only_where_the_recipe_is_edited(measured):
    app = in_app(recipe="edited")
    app.number_input(key="batch").set_value(0).run()
    assert "A forward pass of 0 windows reads nothing" in said(app)
    assert not [button for button in app.button if button.label == "Launch"]
    app.selectbox(key="recipe").set_value("small").run()
    assert not app.exception
    assert plan_of(app).recipe == SCHEMES["small"].recipe


def test_an_empty_box_says_what_it_stands_for(measured):
    app = in_app(repair_steps=10)
    boxes = {box.label: box.proto.placeholder for box in app.number_input}
    assert app.number_input(key="train_tokens").proto.placeholder == "256 (recipe)"
    assert (boxes["Training windows"], boxes["Early stop after"]) == ("80", "never")
    assert boxes["Threads"] == str(scheme.half_the_cores())
    assert (
        "Evaluated at the end only: a pass has 10 steps, fewer than the 25 between two evaluations."
        in said(app)
    )
    asked = plan_of(app)
    assert (asked.train.inputs, asked.train.tokens, asked.patience) == (80, 256, 0)
    assert asked.threads == scheme.half_the_cores()


def test_heads_that_cannot_be_are_said_once(measured):
    app = in_app(treat_rule="slope>nothing")
    assert len(app.error) == 1
    assert "Choose the heads first, above." in said(app)


def test_what_a_plan_must_be_warned_of_is_said(measured):
    app = in_app(repair_seeds="0", repair_arms="repair")
    text = said(app)
    assert "With fewer than 3 seeds there is no verdict" in text
    assert "Without the arm “Training, old weights” there is no verdict" in text


def test_without_slopes_the_page_works_and_says_so(home, no_worker, built_train):
    left = default_request()
    answer(BandsRequest(model=left.model, data=left.data), fake_bands(SICK, slopes=False))
    app = in_app()
    assert not app.exception
    assert "no ALiBi slopes: rules by slope find nothing" in said(app)
    app = in_app(treat_rule="slope<0.1")
    assert "have no slope: its positions are not ALiBi" in said(app)


def test_nothing_measured_says_what_comes_first(home, no_worker, monkeypatch):
    monkeypatch.setattr("headviz.ui.starts_by_itself", lambda request: False)
    app = in_app()
    assert not app.exception
    assert "Nothing is measured for this model and text yet" in said(app)
    assert [button.label for button in app.button if button.label.startswith("Measure")] == [
        "Measure the first token"
    ]


def test_going_on_by_hand_begins_with_the_heads_of_the_rule(measured):
    app = in_app()
    app.button_group(key="treat_by").set_value("hand").run()
    assert not app.exception
    assert (
        app.session_state["treated"]
        == "1:9,10,11,12,13,14,15;2:9,10,11,12,13,14,15;3:9,10,11,12,13,14,15;4:9,10,11,12,13,14,15"
    )
    assert "(by hand, from rule bos>0.5)" in said(app)
    next(button for button in app.button if button.label == "Clear").click().run()
    assert "No head is to be treated yet" in said(app)


def test_heads_of_the_bands_page_are_carried_into_the_plan(measured):
    app = open_app(aspect="take", repair="dead")
    app.switch_page("pages/bands.py").run()
    assert not app.exception
    next(button for button in app.button if button.label == "Plan a repair").click().run()
    app.switch_page("pages/surgery.py").run()
    assert not app.exception
    assert app.session_state["treated"] == "2:15"
    assert "1 of 96 (1.04%) heads are to be treated** (on the Bands page: dead)" in said(app)


def test_a_preset_says_what_it_trains_and_what_the_paper_reports(measured):
    app = in_app()
    app.selectbox(key="surgery_preset").set_value("bloom-1b7-pass-1").run()
    assert not app.exception
    text = said(app)
    assert "Trains 113.3M numbers, not the 302.1M" in text
    assert "held-out prompts 21.45 before, 27.52 after" in text
    assert "released.name" not in text
    assert "h5_step42" in text


def test_taking_a_preset_puts_its_heads_and_recipe_into_the_view(measured, monkeypatch):
    put = {}
    monkeypatch.setattr(presets.ui, "put", put.__setitem__)
    presets.take("bloom-1b7-pass-1")
    assert (put["model"], put["recipe"], put["train_tokens"]) == ("bigscience/bloom-1b7", "paper", 512)
    assert put["treated"].startswith("5:14,15;6:9,10,11,12,13,14,15")
    presets.take("bloom-560m")
    assert (put["treat_by"], put["treat_rule"]) == ("rule", "bos>0.5 & heads 9-15 & layers 5-22")


def test_one_layer_and_one_head_are_not_a_span(measured):
    app = in_app(treat_by="hand", treated="2:15")
    assert "1 dead. Layer 2, head 15." in said(app)


# ------------------------------------------------------------------------------------------------ one repair


@pytest.mark.parametrize("stage", ["design", "watch", "versus"])
def test_what_must_be_known_of_the_model_stands_on_every_stage(stage, measured, monkeypatch):
    monkeypatch.setattr("headviz.models.catalog.caution", lambda model: f"Known of {model.name}.")
    app = in_app(stage=stage)
    assert not app.exception
    assert [warning.value for warning in app.warning if "Known of" in warning.value] == ["Known of smollm2."]


def test_two_repairs_of_one_model_say_once_what_must_be_known_of_it(home, no_worker, monkeypatch):
    monkeypatch.setattr("headviz.models.catalog.caution", lambda model: f"Known of {model.name}.")
    first, _ = finished(asked())
    second, _ = finished(asked(shuffled=True))
    app = in_app(stage="versus", operation=first, versus=second)
    assert [warning.value for warning in app.warning if "Known of" in warning.value] == ["Known of smollm2."]


def test_no_repair_says_what_to_do_next(home, no_worker):
    app = in_app(stage="watch")
    assert not app.exception
    assert "No repair yet" in said(app)
    assert "Design one" in [button.label for button in app.button]


def every_panel(digest: str) -> dict[str, str]:
    """Panel → all its text, each opened by a click on its name."""
    app = in_app(stage="watch", operation=digest)
    found = {}
    for panel in RECOVERY:
        app.button_group(key="recovery").set_value(panel).run()
        assert not app.exception, panel
        assert not app.error, panel
        found[panel] = said(app)
    return found


def test_every_panel_of_a_finished_repair_opens(home, no_worker):
    digest, _ = finished(asked())
    for panel, text in every_panel(digest).items():
        assert "**Repaired.** The report loss changed by −0.0582" in text, panel


def test_every_panel_of_a_repair_that_has_only_begun_opens_and_says_what_is_not_there(home, no_worker):
    found = every_panel(begun(asked(), stock=False))
    assert all("Nothing is measured yet" in text for text in found.values())
    for panel in ("verdict", "classes", "film", "elsewhere", "heads", "single", "onward"):
        assert any(word in found[panel] for word in ("yet", "being measured", "at the end", "has ended")), (
            panel
        )


def test_every_panel_of_a_running_repair_opens(home, no_worker):
    digest = begun(asked(), [repair_run("repair", 0), repair_run("repair", 1, upto=60)])
    told = "Repair, seed 1, step 60 of 100: 28 of 28 (100%) treated heads are off the first token** (0 before surgery)"
    for panel, text in every_panel(digest).items():
        assert told in text, panel
        assert "Now: Repair, seed 1, step 60 of 100." in text, panel


def test_the_page_opens_a_finished_repair_by_its_file_too(open_page, home, no_worker):
    digest, _ = finished(asked())
    app = open_page(stage="watch", operation=digest, recovery="film")
    assert not app.exception
    assert [frame["name"] for frame in figure(app, "film")["frames"]][:2] == ["before surgery", "step 0"]


def test_the_verdict_stands_with_its_four_criteria_and_every_arm(home, no_worker):
    digest, _ = finished(asked())
    app = in_app(stage="watch", operation=digest)
    text = said(app)
    for sentence in (
        "1. 28 of 28 treated heads have at most 0.5 of their attention on the first token, 0 before surgery",
        "2. Loss on the report part, 3 seeds, 24 documents: −0.0582",
        "3. Loss on the other domain:",
        "4. 7 of 28 treated heads",
        "bit-identical before and after",
    ):
        assert sentence in text
    names = [trace["name"] for trace in figure(app, "remedies")["data"]]
    assert list(dict.fromkeys(name for name in names if "each" not in name)) == [
        "Remove",
        "Leave",
        "Repair",
        "Training, old weights",
        "New weights, no training",
    ]
    lines = next(one.value for one in app.markdown if one.value.startswith("| arm |")).splitlines()
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in table[2:]] == [
        "Remove",
        "Leave",
        "Repair",
        "Training, old weights",
        "New weights, no training",
    ]
    assert table[4][3].startswith("−0.0582 [−0.")
    assert not app.dataframe, "a frame of this width is cut off on a narrow page"
    for column in (1, 2, 3):
        digits = {len(row[column].split()[0].partition(".")[2]) for row in table[2:] if row[column]}
        assert len(digits) == 1, table[0][column]


def test_a_column_of_the_verdict_has_as_many_decimals_in_every_row(home, no_worker):
    digest, _ = finished(asked(), repair=-0.6)  # ten times the change of the other arms
    found = outcome.rows(outcomes.arm_losses(work.case_of(digest)))
    for name, decimals in {"report": 3, "perplexity": 2, "stock": 4, "plain": 4, "other": 4}.items():
        values = [row[name].split()[0] for row in found if row[name]]
        assert len(values) > 2
        assert {len(value.partition(".")[2]) for value in values} == {decimals}, name


def test_no_gain_from_reinitialising_is_said_as_such(home, no_worker):
    digest, _ = finished(asked(), repair=-0.02, no_reinit=-0.03)
    assert "**Awake, no gain from reinitialising.**" in said(in_app(stage="watch", operation=digest))


def test_a_word_that_may_still_change_is_said_so(home, no_worker):
    request = asked()
    ended = [run for run in repair_report(request).runs if run.arm in ("repair", "no-reinit")]
    found = said(in_app(stage="watch", operation=begun(request, ended)))
    assert found.count("**So far: repaired") == 2, "in the sentence and in the panel"
    assert "**Repaired" not in found
    assert "is not known, for that arm has not ended yet" in found
    digest, _ = finished(request)
    found = said(in_app(stage="watch", operation=digest))
    assert found.count("**Repaired") == 2
    assert "So far" not in found


def test_untouched_heads_are_not_compared_with_an_arm_that_has_not_ended(home, no_worker):
    request = asked()
    digest = begun(request, [run for run in repair_report(request).runs if run.arm == "repair"])
    found = said(in_app(stage="watch", operation=digest, recovery="elsewhere"))
    assert "the arm “Training, old weights”, to compare with, has not ended yet" in found
    without = asked(arms=("repair", "untrained"))
    digest = begun(without, [run for run in repair_report(without).runs if run.arm == "repair"])
    found = said(in_app(stage="watch", operation=digest, recovery="elsewhere"))
    assert "there is no arm “Training, old weights” to compare with" in found


def test_a_changed_frozen_model_is_said_aloud(home, no_worker):
    digest, report = finished(asked())
    noted = dataclasses.replace(report.provenance, notes=("no hash shows it of one of them",))
    local.store().put(digest, dataclasses.replace(report, frozen_after="cd" * 32, provenance=noted))
    found = said(in_app(stage="watch", operation=digest))
    assert "Do not trust this repair" in found
    assert "No hash shows it of one of them." in found


def test_losses_lie_over_each_other_with_the_stock_line(home, no_worker):
    digest, report = finished(asked())
    drawn = figure(in_app(stage="watch", operation=digest, recovery="losses"), "losses")
    names = [trace["name"] for trace in drawn["data"]]
    assert {"Repair", "New weights, no training", "Training, old weights", "Heads removed", "stock"} <= set(
        names
    )
    stock = next(trace for trace in drawn["data"] if trace["name"] == "stock")
    assert stock["y"] == [report.stock.select] * 2
    drawn = figure(in_app(stage="watch", operation=digest, recovery="losses", loss_as="perplexity"), "losses")
    stock = next(trace for trace in drawn["data"] if trace["name"] == "stock")
    assert stock["y"][0] == pytest.approx(np.exp(report.stock.select))


def test_every_untouched_head_stands_beside_its_floor_and_the_arm_that_only_trained(home, no_worker):
    digest, report = finished(asked())
    app = in_app(stage="watch", operation=digest, recovery="elsewhere")
    found = outcomes.drift(work.case_of(digest))
    mask = ~np.isnan(found.moved)
    assert mask.sum() == 96 - 28
    counts = [int((moved[mask] > found.floor[mask]).sum()) for moved in (found.moved, found.no_reinit)]
    assert 0 < counts[0] < 68
    text = said(app)
    assert f"**{counts[0]} of 68 (" in text
    assert (
        "untouched heads moved beyond the floor** in the repair; with the same training from old weights"
        in text
    )
    assert f"old weights {counts[1]} of 68 (" in text
    table = app.dataframe[0].value
    assert len(table) == 68
    assert table["beyond"].str.contains("repair").sum() == counts[0]
    assert (table["moved"] - table["floor"]).is_monotonic_decreasing
    row = table[table["head"] == "L05.H03"].iloc[0]
    assert row["moved"] == pytest.approx(found.moved[5, 3])
    assert row["floor"] == pytest.approx(
        abs(float(report.stock.half_mass[0, 5, 3]) - float(report.stock.half_mass[1, 5, 3]))
    )


def test_the_floor_of_the_drift_is_that_of_untouched_heads_and_the_film_says_it(home, no_worker):
    request = asked()
    digest, report = finished(request)
    halves = report.stock.half_mass.copy()
    for at in SICK:  # treated heads differ widely between the halves: that is no floor of the others
        halves[0][at], halves[1][at] = 0.2, 0.9
    local.store().put(
        digest, dataclasses.replace(report, stock=dataclasses.replace(report.stock, half_mass=halves))
    )
    case = work.case_of(digest)
    assert moved.floor(case, case.among("untouched", "repair")) < 0.05
    line = next(
        trace
        for trace in figure(in_app(stage="watch", operation=digest, recovery="elsewhere"), "drift")["data"]
        if trace["name"] == "two halves of the text"
    )
    assert max(line["y"]) < 0.05
    assert "The colours leave out the floor" in said(in_app(stage="watch", operation=digest, recovery="film"))


def test_a_repair_that_runs_says_when_heads_come_one_by_one(home, no_worker):
    digest = begun(asked(), [repair_run("repair", 0, upto=40)])
    app = in_app(stage="watch", operation=digest, recovery="elsewhere")
    assert "when the arm “Repair” has ended with a seed" in said(app)


def test_the_film_follows_the_arm_and_the_seed(home, no_worker):
    digest, _ = finished(asked())
    app = in_app(stage="watch", operation=digest, recovery="film", arm_shown="no-reinit", seed_shown=2)
    assert "arm no-reinit, seed 2" in json.dumps(figure(app, "film")["layout"]["annotations"])
    app.selectbox(key="arm_shown").set_value("untrained").run()
    assert not app.exception
    assert len(figure(app, "film")["frames"]) == 2, (
        "before surgery, and the one step of an arm without training"
    )


def test_heads_before_and_after_carry_what_each_is_worth_alone(home, no_worker):
    digest, report = finished(asked())
    table = in_app(stage="watch", operation=digest, recovery="heads").dataframe[0].value
    assert len(table) == 28
    row = table[table["head"] == "L02.H15"].iloc[0]
    assert row["class"] == "dead → healthy"
    assert row["mass_before"] == pytest.approx(0.97)
    assert row["null"] == pytest.approx(report.stock.null_mass[15])
    first = table.iloc[0]
    assert first["alone"] == "0.00100 [0.000800, 0.00120]"
    assert first["p"] == pytest.approx(9e-4)


def test_what_the_tests_are_not_there_for_is_said(home, no_worker):
    digest, _ = finished(asked(arms=("no-reinit", "removed")))
    app = in_app(stage="watch", operation=digest, recovery="single")
    assert "no arm “Repair”, so there is no treated head to test" in said(app)
    assert "There is no arm “Repair” in this plan" in said(app)


def test_a_running_repair_is_read_again_only_when_a_file_has_grown(home, no_worker, monkeypatch):
    request = asked()
    digest = begun(request, [repair_run("repair", 0, upto=40)])
    read, real = [], progress.so_far
    monkeypatch.setattr(work.progress, "so_far", lambda *args: read.append(1) or real(*args))
    assert len(work.so_far(digest, request).runs[0].step) == 3
    work.so_far(digest, request)
    assert len(read) == 1
    begun(request, [repair_run("repair", 0, upto=60)])
    assert len(work.so_far(digest, request).runs[0].step) == 4
    assert len(read) == 2


def test_cancelled_resumed_and_cloned(home, no_worker):
    request = asked()
    digest = begun(request, [repair_run("repair", 0, upto=40)])
    app = in_app(stage="watch", operation=digest, recovery="losses")
    next(button for button in app.button if button.label == "Cancel").click().run()
    assert not app.exception
    local.cancel(digest, "test", everyone=True)
    app = in_app(stage="watch", operation=digest, recovery="losses")
    assert "This repair was cancelled. What it reached is kept." in said(app)
    next(button for button in app.button if button.label == "Clone and edit").click().run()
    assert not app.exception
    assert app.session_state["stage"] == "design"
    assert app.session_state["repair_steps"] == request.steps
    assert app.session_state["treated"].startswith("1:9,10,")
    app = in_app(stage="watch", operation=digest)
    next(button for button in app.button if button.label == "Resume").click().run()
    assert not app.exception
    assert local.view(digest).state == "queued"
    assert progress.so_far(settings(), digest, request).runs, "what it reached is there still"


def test_a_failed_repair_says_why(home, no_worker):
    digest = local.ask(asked(), "test").digest
    attempt = local.jobs()._named(digest).claim()
    attempt.finish("failed", error="NotFinite", message="The loss is not finite at step 7.")
    attempt.release()
    app = in_app(stage="watch", operation=digest)
    assert not app.exception
    assert "The loss is not finite at step 7." in said(app)
    assert "Resume" in [button.label for button in app.button]


def test_a_plan_that_can_never_run_is_to_be_cloned_and_not_resumed(home, no_worker):
    digest = local.ask(asked(), "test").digest
    attempt = local.jobs()._named(digest).claim()
    attempt.finish("failed", error="BadInput", message="A document is in both texts.")
    attempt.release()
    app = in_app(stage="watch", operation=digest)
    assert "Resuming would end the same" in said(app)
    assert "Resume" not in [button.label for button in app.button]
    assert "Clone and edit" in [button.label for button in app.button]


def test_a_repair_that_is_not_there_gets_a_sentence(home, no_worker):
    app = in_app(stage="watch", operation="9" * 64)
    assert not app.exception
    assert "There is no repair 999999999999 on this machine" in said(app)


def test_a_report_outlives_its_job_folder(home, no_worker):
    request = asked()
    report = repair_report(request)
    made = dataclasses.replace(report.provenance, request={"kind": request.kind, **plain(request)})
    digest = job_digest(request)
    local.store().put(digest, dataclasses.replace(report, provenance=made))
    app = in_app(stage="watch", operation=digest, recovery="losses")
    assert not app.exception
    assert "**Repaired.**" in said(app)


# ------------------------------------------------------------------------------------------------ two, and onward


def test_two_repairs_stand_side_by_side(home, no_worker):
    first, _ = finished(asked())
    second, _ = finished(asked(shuffled=True), repair=0.01, no_reinit=-0.01)
    app = in_app(stage="versus", operation=first, versus=second)
    assert not app.exception
    text = said(app)
    assert "**Repaired.**" in text
    assert "**Worse.**" in text
    assert app.dataframe[0].value.to_dict("records") == [{"plan": "shuffled", "first": "no", "second": "yes"}]
    drawn = figure(app, "two_curves")
    assert drawn["layout"]["yaxis2"]["matches"] == "y"
    assert {trace["xaxis"] for trace in figure(app, "two_remedies")["data"]} == {"x", "x2"}


def test_one_repair_twice_and_none_say_what_to_do(home, no_worker):
    digest, _ = finished(asked())
    assert "one repair twice" in said(in_app(stage="versus", operation=digest, versus=digest))
    assert "Choose two repairs above" in said(in_app(stage="versus"))


def test_a_running_repair_is_compared_as_far_as_it_is(home, no_worker):
    first, _ = finished(asked())
    second = begun(asked(steps=200), [repair_run("repair", 0, upto=40)])
    app = in_app(stage="versus", operation=first, versus=second)
    assert not app.exception
    assert "as far as it is" in said(app)


def written(digest: str, request: RepairRequest) -> RepairedCheckpoint:
    asked = RepairedRequest(repair=digest)
    found = RepairedCheckpoint(
        name="demo-28-repair-12345678", revision="ef" * 32, arm="repair", seed=0, step=80, heads=request.heads,
        difference=1.2e-6, rounding=1.1e-6, compared=512, loss_stock=3.7, loss_job=3.64, loss_after=3.64, files=(),
        geometry=fake_bands(SICK).geometry, provenance=fake_bands(SICK).provenance,
    )  # fmt: skip
    return answer(asked, found)


def test_the_repaired_model_is_written_on_a_click_and_opens_on_the_other_pages(home, no_worker):
    request = asked(diagnose=dataclasses.replace(default_request().data, inputs=8, tokens=128, seed=1))
    digest, _ = finished(request)
    app = in_app(stage="watch", operation=digest, recovery="onward")
    next(button for button in app.button if button.label == "Make it a checkpoint").click().run()
    assert not app.exception
    assert RepairedRequest(repair=digest) in [job.request for job in local.list_jobs()]
    written(digest, request)
    app = in_app(stage="watch", operation=digest, recovery="onward")
    assert not app.exception
    assert "**demo-28-repair-12345678** is in the list of models" in said(app)
    links = {link.proto.label: link.proto.url for link in app.get("link_button")}
    text = "inputs=8&tokens=128"  # of the repair's own count of its heads
    assert links["Disagreement"] == f"disagreement?model=demo-28-repair-12345678&dtype=float32&{text}&seed=1"
    for link in links.values():
        values, ignored = read_url(dict(parse_qsl(link.partition("?")[2])))
        assert (values["inputs"], values["tokens"], values["seed"], ignored) == (8, 128, 1, []), link
    assert "model=smollm2" in links["Compare"]
    assert "against=demo-28-repair-12345678" in links["Compare"]
    assert "picked=1%3A9%2C10" in links["Ablation"]


def test_jobs_open_on_this_page(home, no_worker):
    request = asked()
    digest, _ = finished(request)
    assert page_of(request) == "surgery"
    values = of_request(request)
    assert (values["stage"], values["operation"]) == ("watch", digest)
    onward = of_request(RepairedRequest(repair=digest))
    assert onward == {"stage": "watch", "operation": digest, "recovery": "onward"}
    assert set(values) | set(onward) <= set(VIEW)


def slice_buttons(digest: str, **more) -> dict[str, tuple[bool, str]]:
    """Label of each button of slices → (whether it cannot be used, its help)."""
    app = in_app(stage="watch", operation=digest, recovery="onward", **more)
    assert not app.exception
    found = (button.proto for button in app.get("download_button"))
    return {one.label: (one.disabled, one.help) for one in found if one.label.startswith("Slices")}


def test_the_slices_of_every_pass_are_offered(home, no_worker):
    digest, _ = finished(asked(passes=2))
    ((label, (disabled, told)),) = slice_buttons(digest).items()
    assert (label, disabled) == ("Slices alone (safetensors)", True)
    assert "This arm has none here" in told
    place = progress.folder(settings(), digest)
    for number in (1, 2):
        folder = progress.run_folder(place, "repair", 0, number)
        folder.mkdir(parents=True)
        (folder / progress.BEST).write_bytes(b"best %d" % number)
        if number == 1:
            assert [row[0] for row in slice_buttons(digest).values()] == [False]
    found = slice_buttons(digest)
    assert list(found) == ["Slices of pass 1 (safetensors)", "Slices of pass 2 (safetensors)"]
    for disabled, told in found.values():
        assert not disabled
        assert "needs all 2 passes: keep their files in one folder" in told
    case = work.case_of(digest)
    assert [path.read_bytes() for path in work.slice_files(case, "repair", 0, "best")] == [
        b"best 1",
        b"best 2",
    ]
    assert work.slice_files(case, "repair", 0, "last") == [], "the last step of the last pass is not there"


def test_curves_as_csv_are_a_row_an_evaluated_step(home, no_worker):
    digest, report = finished(asked())
    text = take.curves_csv(work.case_of(digest))
    lines = text.splitlines()
    assert lines[0].startswith("# smollm2@")
    assert len(lines) == 2 + sum(len(run.step) for run in report.runs)
    head = lines[1].split(",")
    first = dict(zip(head, lines[2].split(","), strict=True))
    assert (first["arm"], first["seed"], first["step"], first["train_loss"]) == ("repair", "0", "0", ""), (
        "NaN is an empty cell"
    )
    assert int(first["healthy"]) + int(first["sink"]) + int(first["dead"]) + int(first["low_entropy"]) == 28


def test_heads_as_csv_say_of_which_run_they_are(home, no_worker):
    case = work.case_of(finished(asked())[0])
    changes = head_changes(case, case.request)
    lines = take.heads_csv(case, changes, "Repair, best step").splitlines()
    assert lines[0].startswith("# Repair, best step · smollm2@")
    assert len(lines) == 2 + 28
    assert lines[2].startswith("L01.H09,sink → healthy,")


def test_the_figure_for_print_is_one_pdf_with_its_provenance(home, no_worker):
    digest, _ = finished(asked())
    made = take._forest_pdf(work.case_of(digest))
    assert made.startswith(b"%PDF")
    assert made == take._forest_pdf(work.case_of(digest))


def test_editing_begins_with_the_recipe_in_force(measured):
    app = in_app()
    app.selectbox(key="recipe").set_value("edited").run()
    assert not app.exception
    made = SCHEMES["small"].recipe
    assert (app.session_state["rate"], app.session_state["batch"], app.session_state["warmup"]) == (
        made.rate,
        made.batch,
        made.warmup,
    )
    assert plan_of(app).recipe == made


def opened(content: bytes) -> AppTest:
    """Reads an uploaded file as the callback of its field does."""
    script = f"""
import types
import streamlit as st
from headviz.ui.surgery.launch import _load
from headviz.ui.uploads import upload_problem
st.session_state.surgery_plan = types.SimpleNamespace(name="mine.json", getvalue=lambda: {content!r})
_load()
st.text(upload_problem("surgery_plan"))
"""
    return AppTest.from_string(script).run()


def test_a_plan_comes_from_a_file_and_one_that_is_none_gets_a_sentence(home):
    app = opened(write_plan(repair_request(), rule="bos>0.5").encode())
    assert not app.exception
    assert app.session_state.stage == "design"
    assert app.session_state.treated.startswith("1:9")
    assert app.session_state.treated_from == "as in mine.json, by the rule bos>0.5"
    assert app.text[0].value == ""
    app = opened(b"{")
    assert not app.exception
    assert "JSON" in app.text[0].value


def uploaded(content: str) -> AppTest:
    """A head set in the uploader of the design, where heads come from a file."""
    app = in_app(treat_by="hand")
    app.get("file_uploader")[0].set_value(("mine.json", content.encode(), "application/json")).run()
    assert not app.exception
    return app


def test_heads_come_from_a_file(measured):
    shape = fake_bands(SICK).geometry
    heads = HeadSet(heads=((3, 12), (1, 9)), geometry=shape)
    app = uploaded(write_heads(heads, model=measured.model.name, revision=measured.model.revision))
    assert not app.error
    assert app.session_state["treated"] == "1:9;3:12"
    assert "2 of 96 (2.08%) heads are to be treated** (from mine.json)" in said(app)
    assert plan_of(app).heads == ((1, 9), (3, 12))


def test_a_file_without_heads_for_this_model_gets_a_sentence(measured):
    shape = fake_bands(SICK).geometry
    heads = HeadSet(heads=((3, 12),), geometry=shape)
    small = dataclasses.replace(shape, layers=4)
    for content, told in (
        (write_heads(heads, model="alibi-demo"), "The head set is for alibi-demo, not for smollm2"),
        (write_heads(dataclasses.replace(heads, geometry=small), model="smollm2"), "a model with 4 layers; smollm2 has 6"),
        ("{", "The head set is not JSON"),
    ):  # fmt: skip
        app = uploaded(content)
        assert [error.value for error in app.error if told in error.value], told
        assert not app.session_state["treated"]
