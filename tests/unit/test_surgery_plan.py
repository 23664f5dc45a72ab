"""A plan: its defaults, what is refused, what it will take, what it warns of, and its file."""

import json
import re
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headviz import machine
from headviz.commands import repair_options
from headviz.data import corpora, own_text
from headviz.data.documents import Document, as_text, write_text
from headviz.errors import BadInput, UnknownName
from headviz.jobs.kinds import spec
from headviz.models import catalog
from headviz.settings import settings
from headviz.surgery import costs, plan
from headviz.surgery.layouts import trained_numbers, treat
from headviz.surgery.plan import (  # fmt: skip
    Facts,
    Measured,
    check,
    default_request,
    measured_speed,
    paper_request,
    read_plan,
    warnings,
    write_plan,
)
from headviz.types import DataRef, Geometry, ModelRef, Recipe
from tests import checkpoints
from tests.repairs import SMALL, THREE, repair_run, small_request

ABOUT = Facts(geometry=SMALL, bias=True, longest=None, numbers=100_000, bytes=400_000)
MODEL = small_request().model
GQA = Geometry(family="llama", layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32)


@pytest.fixture(autouse=True)
def pinned(monkeypatch):
    """Texts are pinned without being built."""

    def resolve(corpus, *, settings, **options):
        return DataRef(corpus=corpus, revision="c" * 64, **options)

    monkeypatch.setattr(corpora, "resolve", resolve)
    monkeypatch.setattr(machine, "cores", lambda: 4)


def made(**more):
    return default_request(MODEL, THREE, settings(), about=ABOUT, **more)


def test_the_default_plan_can_be_run_as_it_is():
    request = made()
    check(request, SMALL)
    assert request.arms == ("repair", "untrained", "no-reinit", "removed")
    assert request.seeds == (0, 1, 2)
    assert (request.train.corpus, request.train.part) == ("docstrings", "train")
    assert (request.held_out.part, request.diagnose.part) == ("held-out", "held-out")
    assert request.held_out.seed != request.diagnose.seed
    assert (request.other.corpus, request.other.part) == ("stdlib-code", "held-out")
    assert request.train.inputs == request.steps * request.recipe.batch * request.recipe.accumulate
    assert request.threads == 2
    assert request.recipe.rate == 2e-3, "a small model gets the scheme for small ones"


def test_larger_models_get_the_papers_recipe():
    big = replace(ABOUT, numbers=1_700_000_000, longest=256)
    request = default_request(MODEL, THREE, settings(), about=big)
    assert request.recipe == Recipe()
    assert request.train.tokens == 256, "never longer than the context"
    assert default_request(MODEL, THREE, settings(), about=ABOUT, scheme="paper").recipe == Recipe()
    with pytest.raises(UnknownName, match="training scheme"):
        made(scheme="fast")


def test_what_is_given_stands():
    own = DataRef(corpus="own", revision="d" * 64, part="all", inputs=9, tokens=9)
    request = made(arms=("no-reinit", "repair"), seeds=(7,), steps=5, held_out=own, other=None, threads=1)
    assert request.arms == ("repair", "no-reinit")
    assert (request.seeds, request.steps, request.every) == ((7,), 5, 5)
    assert request.held_out == own
    assert request.other is None


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": ()}, "No head is to be treated"),
        ({"heads": ((9, 0),)}, "names L09.H00"),
        ({"arms": ()}, "no arm"),
        ({"steps": 0}, "steps is 0; it must be 1 or more"),
        ({"threads": 99}, "this machine has 4 cores"),
        ({"recipe": Recipe(rate=0.0)}, "learning rate is 0"),
        ({"sink": 0.99}, "Thresholds"),
        ({"arms": ("repair", "healthy"), "healthy": ((0, 0),)}, "treats 1 heads where 3 are repaired"),
        ({"arms": ("repair", "healthy"), "healthy": ((0, 0), (0, 1), (1, 2))}, "L01.H02 is among"),
        ({"held_out": small_request().train}, "Training text and held-out text are the same"),
        ({"held_out": replace(small_request().train, part="all")}, "are the same"),
        ({"other": small_request().train}, "text of another domain are the same"),
        ({"held_out": replace(small_request().held_out, inputs=1)}, "parted in two"),
        ({"train": replace(small_request().train, tokens=1)}, "nothing to predict"),
    ],
)
def test_bad_plans_are_sentences(changes, says):
    with pytest.raises(BadInput, match=says) as error:
        check(small_request(**changes), SMALL)
    assert str(error.value).endswith(".")


def test_inputs_longer_than_the_context_are_refused():
    with pytest.raises(BadInput, match="context is 32 tokens"):
        check(small_request(), SMALL, longest=32)


def test_preview_counts_what_is_trained():
    request = small_request(arms=("repair", "untrained", "no-reinit", "removed"), passes=2)
    seen = plan.preview(request, ABOUT, settings())
    D, M = SMALL.head_dim, SMALL.hidden
    assert seen.trained == 3 * (3 * D * (M + 1) + M * D)
    assert seen.whole == 2 * (3 * M * (M + 1) + M * M)
    assert seen.optimiser == 16 * seen.trained, "float32: the number, its gradient and two moments"
    assert seen.optimiser_whole == 16 * seen.whole
    assert seen.runs == 2 * 3, "untrained and removed train nothing"
    assert seen.steps == 2 * 3 * 2 * request.steps
    assert seen.tokens == seen.steps * 8 * request.train.tokens
    assert seen.epochs == 20 * 8 / 64
    assert seen.seconds is None, "nothing was measured yet"
    assert seen.disk > 0 < seen.disk_free
    assert seen.trained == trained_numbers(treat(THREE, SMALL), True)


def test_time_from_a_measured_speed():
    request = small_request()
    trained = 20 * 8 * 64
    looked = 3 * (24 * 64 / 2 + 8 * 64)
    a_pass = pytest.approx((trained + looked / 3) / 1000)
    for at_once, rounds in ((1, 6), (2, 3), (4, 2), (64, 1)):  # six runs
        seen = plan.preview(request, ABOUT, replace(settings(), side_by_side=at_once), speed=1000.0)
        assert seen.seconds / rounds == a_pass
    twice = small_request(passes=2, arms=("healthy", "repair", "removed"), healthy=((1, 0),), seeds=(0,))
    seen = plan.preview(twice, ABOUT, replace(settings(), side_by_side=2), speed=1000.0)
    assert seen.seconds / 2 == a_pass, "the two passes of a run wait for each other; healthy heads have one"
    order = replace(twice, arms=("healthy", "repair"), seeds=(0, 1))
    seen = plan.preview(order, ABOUT, replace(settings(), side_by_side=3), speed=1000.0)
    assert seen.seconds / 2 == a_pass, "repair is taken first: in the plan's order it would be three passes"
    run = replace(repair_run(), tokens_per_second=np.array([np.nan, 900.0, 910.0]))
    assert measured_speed([run, replace(run, seed=1)]) == pytest.approx(905.0)
    assert measured_speed([]) is None
    assert measured_speed([replace(run, tokens_per_second=np.full(3, np.nan))]) is None


def test_as_many_runs_at_once_as_cores_and_memory_hold(monkeypatch):
    def at_once(request=None, free=1 << 50, chains=9, **changes):
        monkeypatch.setattr(machine, "memory", lambda: (free, free))
        request = request or small_request(threads=1)
        return costs.at_once(request, SMALL, True, 400_000, replace(settings(), **changes), chains)

    assert at_once() == 4, "a core each"
    assert at_once(small_request(threads=2)) == 2
    assert at_once(small_request(threads=3)) == at_once(small_request(threads=9)) == 1
    assert at_once(chains=3) == 3
    assert at_once(chains=0) == 1
    assert at_once(side_by_side=1) == 1
    assert at_once(side_by_side=7) == 7, "who says how many is believed"
    training = costs.memory(small_request(), SMALL, True)
    assert at_once(free=training // 2) == 1
    another = training + 400_000 + costs._PROCESS
    assert at_once(free=training + another - 1) == 1
    assert at_once(free=training + another) == 2
    assert at_once(free=training + 2 * another) == 3


def test_preview_counts_the_memory_of_all_runs_at_once(monkeypatch):
    request, training = small_request(threads=1), costs.memory(small_request(), SMALL, True)
    another = training + ABOUT.bytes + costs._PROCESS

    def seen(free):
        monkeypatch.setattr(machine, "memory", lambda: (free, free))
        found = plan.preview(request, ABOUT, settings())
        return found.at_once, found.memory

    everything = ABOUT.bytes + training  # the model is not loaded yet when a plan is looked at
    assert seen(1 << 50) == (4, training + 3 * another)
    assert seen(everything + another) == (2, training + another)
    assert seen(everything + another - 1) == (1, training)


def test_heads_are_chosen_on_another_text_than_they_are_counted_on():
    text = made().diagnose
    assert (text.seed, plan.chosen_on(text).seed) == (1, 0)
    assert plan.chosen_on(text) == replace(text, seed=0)
    assert plan.counted_on(plan.chosen_on(text)) == text
    mine = replace(text, corpus="own", part="all", seed=3)
    assert plan.counted_on(mine) == plan.chosen_on(mine) == mine, "a text of one's own is read from its start"


def test_on_a_gpu_runs_go_one_after_the_other(monkeypatch):
    monkeypatch.setattr(machine, "gpus", lambda: ["NVIDIA H200"])
    for device, expected in (("cpu", 4), ("cuda", 1), ("auto", 1)):
        assert plan.preview(small_request(), ABOUT, replace(settings(), device=device)).at_once == expected


def test_time_is_guessed_before_a_speed_was_measured():
    request, none = small_request(threads=2), replace(ABOUT, numbers=None)
    counted = 5e10 * 2 / (4 * 100_000)
    assert plan.speed_here(request, ABOUT, ()) == (counted, False)
    assert plan.speed_here(request, none, ()) == (None, False)
    slow = SimpleNamespace(lengths=np.array([300, 300]), provenance=SimpleNamespace(seconds=2.0, threads=4))
    assert plan.speed_here(request, none, (), slow) == (pytest.approx(600 / 2 / 3 / 2), False)
    assert plan.speed_here(request, ABOUT, (), slow) == (counted, False), "both are too slow: the faster one"
    report = SimpleNamespace(runs=(repair_run(),))
    assert plan.speed_here(request, ABOUT, [SimpleNamespace(runs=()), report], slow) == (3500.0, True)


def test_warnings():
    known = replace(ABOUT, geometry=GQA, bias=False)
    request = small_request(heads=((0, 0),), seeds=(0,), arms=("repair",))
    said = " ".join(warnings(request, known, settings()))
    assert "One head shares keys and values" in said
    assert "each is read about 2.5 times" in said
    assert "fewer than 3 seeds" in said
    assert "“Training, old weights” there is no verdict" in said
    assert "bf16" not in said
    pure = replace(
        request,
        model=replace(request.model, dtype="bfloat16"),
        recipe=replace(request.recipe, master="model"),
    )
    assert "68.5% of the new weights exactly as they are" in " ".join(warnings(pure, known, settings()))
    quiet = small_request(train=replace(small_request().train, inputs=10_000))
    assert warnings(quiet, ABOUT, settings()) == ()


def test_healthy_heads_of_other_slopes_are_warned_of():
    request = small_request(
        train=replace(small_request().train, inputs=10_000),
        arms=("repair", "untrained", "no-reinit", "healthy"),
        healthy=((0, 2), (0, 3), (2, 3)),
    )
    assert warnings(request, ABOUT, settings()) == ()
    said = warnings(replace(request, healthy=((0, 2), (0, 3), (2, 1))), ABOUT, settings())
    assert said[0].startswith("1 of 3 healthy heads has another slope than the treated heads")
    assert warnings(replace(request, healthy=()), ABOUT, settings()) == ()


def test_too_little_room_is_warned_of(monkeypatch):
    monkeypatch.setattr(machine, "memory", lambda: (10**9, 10**6))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 10))
    said = " ".join(warnings(small_request(), ABOUT, settings()))
    assert "GB of memory with the model" in said
    assert "GB of disk" in said


def test_a_text_that_is_too_short_for_the_steps_is_warned_of(home):
    text = own_text.import_text(b"word " * 399 + b"word", "t.txt", settings=settings())
    train = DataRef(corpus="own", revision=text.revision, part="all", inputs=20_000, tokens=50)
    request = small_request(train=train)
    assert plan.preview(request, ABOUT, settings()).windows == 9, (
        "2,000 characters, 200 a window, the last one short"
    )
    assert "about 9 of this length: each is read about 17.8 times" in " ".join(
        warnings(request, ABOUT, settings())
    )
    built = as_text([Document("a", "x" * 1000), Document("b", "x" * 100), Document("c", "x" * 450)])
    write_text(home / "corpora" / "docstrings-train-0123.json", built)
    installed = replace(small_request().train, revision=built.revision, tokens=100)
    seen = plan.preview(small_request(train=installed), ABOUT, settings())
    assert seen.windows == 3, "full windows of 400 characters"
    gone = replace(request, train=replace(train, revision="0" * 64))
    assert plan.preview(gone, ABOUT, settings()).windows == 20_000, "not known: what the plan asks for"


def own(text: str, **more) -> DataRef:
    kept = own_text.import_text(text.encode(), "t.txt", settings=settings())
    return DataRef(
        **({"corpus": "own", "revision": kept.revision, "part": "all", "inputs": 20_000, "tokens": 64} | more)
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("A sentence is all there is.", "it gives 1 window of 64 tokens, and one optimiser step reads 8 (1 pass of 8). Take"),
        ("x" * 300, "it gives at most 5 windows of 64 tokens"),
    ],
)  # fmt: skip
def test_a_text_that_cannot_give_the_windows_of_one_step_is_refused(home, text, says):
    request = small_request(train=own(text))
    with pytest.raises(BadInput, match=re.escape(f"The training text is too short: {says}")):
        check(request, SMALL, None, settings())
    check(request, SMALL)  # without looking for the text


def test_a_text_of_which_only_a_tokenizer_can_tell_is_not_refused_but_warned_of(home):
    request = small_request(
        train=own("字" * 300)
    )  # 900 bytes: 15 windows at most, and 1 by the rule for English
    check(request, SMALL, None, settings())
    assert "about 1 window of this length, and one optimiser step reads 8" in " ".join(
        warnings(request, ABOUT, settings())
    )
    gone = replace(request, train=replace(request.train, revision="0" * 64))
    check(gone, SMALL, None, settings())
    check(replace(request, train=own("short", chat=True)), SMALL, None, settings())


def test_full_windows_of_a_corpus_are_counted_by_document(home):
    built = as_text([Document(str(i), "x" * 120) for i in range(9)])
    write_text(home / "corpora" / "docstrings-train-0123.json", built)
    train = replace(small_request().train, revision=built.revision)
    check(small_request(train=replace(train, tokens=64)), SMALL, None, settings())  # 2 of each
    with pytest.raises(BadInput, match="it gives at most 0 windows of 256 tokens"):
        check(small_request(train=replace(train, tokens=256)), SMALL, None, settings())


def test_fewer_windows_than_a_step_reads_are_refused_whatever_the_text():
    few = replace(small_request().train, inputs=7)
    with pytest.raises(
        BadInput, match="gives at most 7 windows of 64 tokens, and one optimiser step reads 8"
    ):
        check(small_request(train=few), SMALL)


def test_olmo2_is_warned_of():
    spans = Geometry(family="olmo2", layers=2, heads=4, kv_heads=4, head_dim=8, hidden=32)
    request = small_request(heads=((0, 0),))
    assert "one norm spans the queries" in warnings(request, replace(ABOUT, geometry=spans), settings())[0]


# --------------------------------------------------------------------------------------------------------- file


def test_a_plan_file_is_readable_and_comes_back():
    request = small_request(healthy=((0, 1), (0, 2), (0, 3)), arms=("repair", "no-reinit", "healthy"))
    text = write_plan(request, rule="bos>0.5", note="first try")
    assert '"L01.H02", "L01.H03", "L02.H03"' in text
    assert read_plan(text) == (request, "bos>0.5")
    assert read_plan(text.encode())[0] == request
    assert json.loads(text)["note"] == "first try"


def test_a_jobs_spec_is_a_plan_too():
    assert read_plan({"kind": "repair", "request": spec(small_request())["request"]})[0] == small_request()


def test_heads_may_be_written_either_way():
    tree = json.loads(write_plan(small_request()))
    tree["request"]["heads"] = [[2, 3], "l1.h2", "L01.H03"]
    assert read_plan(tree)[0].heads == THREE


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("{", "not JSON"),
        ("[]", "no plan of a repair"),
        ('{"request": 1}', "no plan of a repair"),
        ({"format": "headviz head set"}, "was expected"),
        ({"version": 2}, "version 2"),
        ({"kind": "score"}, "is no repair"),
    ],
)
def test_bad_files_are_sentences(change, says):
    tree = json.loads(write_plan(small_request()))
    with pytest.raises(BadInput, match=says):
        read_plan(change if isinstance(change, str) else tree | change)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("steps", "many", "RepairRequest.steps"),
        ("heads", [7], "written L03.H07"),
        ("heads", ["L03"], "written L03.H07"),
        ("arms", ["fix"], "must be one of repair"),
        ("stepz", 1, "no field 'stepz'"),
    ],
)
def test_bad_fields_are_named(field, value, says):
    tree = json.loads(write_plan(small_request()))
    tree["request"][field] = value
    with pytest.raises(BadInput, match=says):
        read_plan(tree)


# ---------------------------------------------------------------------------------------------- models, presets


def test_facts_of_a_local_model(home, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADVIZ_MODELS", str(tmp_path))
    settings.cache_clear()
    checkpoints.save(tmp_path / "tiny-bloom", "bloom")
    model = catalog.resolve("tiny-bloom", dtype="float32", settings=settings())
    known = plan.facts(model, settings())
    assert (known.geometry.family, known.bias, known.longest) == ("bloom", True, None)
    assert known.bytes == 4 * known.numbers > 0
    assert known.geometry.slopes is not None
    with pytest.raises(BadInput, match="not on this machine yet"):
        plan.facts(ModelRef(source="hub", name="a/b", revision="f" * 40, dtype="float32"), settings())


def test_a_preset_becomes_a_plan():
    shape = Geometry(
        family="bloom", layers=24, heads=16, kv_heads=16, head_dim=128, hidden=2048, slopes=(0.5,) * 16
    )
    known = Facts(geometry=shape, bias=True, longest=None, numbers=1_700_000_000, bytes=None)
    request = paper_request("bloom-1b7-pass-1", MODEL, settings(), about=known, seeds=(0,))
    assert len(request.heads) == 108
    assert (request.recipe, request.train.tokens, request.seeds) == (Recipe(), 512, (0,))
    assert plan.preview(request, known, settings()).trained == 113_287_680
    with pytest.raises(BadInput, match="not measured"):
        paper_request("bloom-560m", MODEL, settings(), Measured(geometry=shape), about=known)
    with pytest.raises(BadInput, match="Choose that model, or a rule"):
        paper_request("bloom-1b7-pass-1", MODEL, settings(), about=ABOUT)


def test_the_command_line_offers_every_scheme():
    assert tuple(plan.SCHEMES) == repair_options.SCHEMES
