"""A whole repair of a tiny model, what its report says, and how it ends when something is wrong."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headviz.analysis.metrics import METHOD_VERSIONS
from headviz.errors import BadInput, Cancelled, Failure, NotEnoughMemory
from headviz.models.attention import probe
from headviz.surgery import chains, evaluate, progress, repair, runs
from headviz.surgery.kept import slice_files
from headviz.surgery.layouts import treat
from headviz.surgery.meter import Meter
from headviz.surgery.repair import run_repair
from headviz.surgery.restore import restored
from headviz.surgery.slicefile import read_slices
from headviz.surgery.slices import frozen_hash, sliced, written
from headviz.surgery.texts import read_texts
from headviz.surgery.turns import chains_of
from headviz.types import Recipe, Silent, digest
from tests.checkpoints import Recorder
from tests.tiny_repair import HEADS, Bench, change_frozen, documents

NO_HASH = "No hash shows that frozen numbers stayed as they were"
ALL = ("repair", "untrained", "no-reinit", "healthy", "removed")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """(bench, request, report) of a plan with all arms."""
    bench = Bench(tmp_path_factory.mktemp("home"))
    bench.watch = Recorder()
    request = bench.plan(arms=ALL, healthy=((0, 0), (1, 1), (1, 2)))
    bench.before = frozen_hash(bench.loaded.model)
    bench.modules = dict(bench.loaded.model.named_modules())
    return bench, request, run_repair(request, bench)


def place_of(bench, request):
    return progress.folder(bench.settings, digest(request, METHOD_VERSIONS["repair"]))


def run_of(report, arm, seed=0, number=1):
    return next(r for r in report.runs if (r.arm, r.seed, r.number) == (arm, seed, number))


def test_the_report_has_every_run_in_order(done):
    _, request, report = done
    assert [(run.arm, run.seed) for run in report.runs] == [(arm, seed) for arm in ALL for seed in (0, 1)]
    for run in report.runs:
        trained = run.arm not in ("untrained", "removed")
        assert run.step.tolist() == ([0, 4, 8, 12] if trained else [0])
        assert run.ended == "steps"
        assert run.heads == (request.healthy if run.arm == "healthy" else request.heads)
        assert run.mass.shape == (len(run.step), 2, 4)
        assert np.isnan(run.train_loss).tolist() == [step == 0 for step in run.step]
        assert len(run.report_best) == len(run.report_last) == len(report.stock.report)
        assert len(run.other_best) == len(report.stock.other) > 0
        assert run.best == run.step[np.argmin(run.select)]
    assert run_of(report, "repair").train_loss[3] < run_of(report, "repair").train_loss[1]


def test_the_frozen_model_is_the_same_to_the_last_bit(done):
    bench, _, report = done
    assert report.frozen_identical
    assert report.frozen_before == bench.before == frozen_hash(bench.loaded.model)
    assert not any(note.startswith(NO_HASH) for note in report.provenance.notes)
    assert dict(bench.loaded.model.named_modules()) == bench.modules
    assert report.trained == 3 * (24 * 33 + 8 * 32)
    assert report.whole == 2 * (96 * 33 + 32 * 32)


def test_a_frozen_number_that_changed_in_an_earlier_attempt_is_in_the_report(tmp_path, monkeypatch):
    broken, fine = Bench(tmp_path), Bench(tmp_path)
    request = fine.plan(arms=("untrained", "no-reinit"), seeds=(0,))
    before, real = frozen_hash(fine.loaded.model), chains.run_pass

    def changing(work, slices, which):
        if which.arm == "no-reinit":
            raise Cancelled("stopped")
        found = real(work, slices, which)
        change_frozen(work.loaded.model)
        return found

    monkeypatch.setattr(chains, "run_pass", changing)
    with pytest.raises(Cancelled):
        run_repair(request, broken)
    monkeypatch.undo()
    report = run_repair(request, fine)
    assert report.frozen_before == frozen_hash(fine.loaded.model) == before
    assert report.frozen_after == frozen_hash(broken.loaded.model) != before
    assert not report.frozen_identical
    place = place_of(fine, request)
    assert progress.read_frozen(place, "untrained", 0) == report.frozen_after, "who ran it is heard"
    assert progress.read_frozen(place, "no-reinit", 0) == before


def test_every_chain_keeps_the_hash_of_what_was_frozen(tmp_path):
    bench = Bench(tmp_path)
    request = bench.plan(passes=2, arms=("repair", "untrained"), seeds=(0,), sink=0.2, dead=0.9)
    before = run_repair(request, bench).frozen_before
    place = place_of(bench, request)
    files = {path.parent.name: path for path in place.rglob("frozen.json")}
    assert set(files) == {"repair-0-1", "untrained-0-1"}
    kept = {path.read_bytes() for path in files.values()}
    assert kept == {b'{"sha256": "%s"}' % before.encode()}
    files["untrained-0-1"].unlink()
    report = run_repair(request, bench)
    assert report.frozen_identical
    assert report.provenance.notes[-1].startswith(NO_HASH)
    assert "process that ended untrained, seed 0:" in report.provenance.notes[-1]
    assert not files["untrained-0-1"].exists(), "who did nothing of it does not vouch for it"


def test_a_repair_that_is_stopped_while_the_hash_is_taken_is_finished_without_it(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    request = bench.plan(arms=("untrained", "no-reinit"), seeds=(0,))

    def stopped(*_):
        raise Cancelled("stopped")

    monkeypatch.setattr(chains, "frozen_hash", stopped)
    with pytest.raises(Cancelled):
        run_repair(request, bench)
    monkeypatch.undo()
    place = place_of(bench, request)
    assert [chains.finished(place, request, chain) for chain in chains_of(request)] == [True, False]
    report = run_repair(request, bench)
    assert {run.ended for run in report.runs} == {"steps"}
    assert report.frozen_identical
    assert "process that ended untrained, seed 0:" in report.provenance.notes[-1], "of no-reinit there is one"


def test_the_removed_arm_has_the_untrained_arms_losses(done):
    report = done[2]
    for seed in (0, 1):
        untrained, removed = run_of(report, "untrained", seed), run_of(report, "removed", seed)
        assert np.array_equal(untrained.report_best, removed.report_best)
        assert np.array_equal(untrained.other_last, removed.other_last)
        assert untrained.select.tolist() == removed.select.tolist()
        assert not np.array_equal(untrained.mass, removed.mass)  # it looks elsewhere, and says nothing
        assert not untrained.full_norm[0][tuple(np.transpose(untrained.heads))].any()
        assert untrained.output_norm[0][tuple(np.transpose(untrained.heads))].all()


def test_the_untrained_arm_is_the_repair_before_its_first_step(done):
    report = done[2]
    for seed in (0, 1):
        untrained, repaired = run_of(report, "untrained", seed), run_of(report, "repair", seed)
        assert untrained.select[0] == repaired.select[0]
        assert np.array_equal(untrained.mass[0], repaired.mass[0])
    assert not np.array_equal(run_of(report, "repair", 0).mass[0], run_of(report, "repair", 1).mass[0])


def test_without_new_weights_step_0_is_the_stock_model(done):
    report = done[2]
    run = run_of(report, "no-reinit")
    assert run.select[0] == pytest.approx(report.stock.select, rel=1e-6)
    assert np.allclose(run.mass[0], report.stock.mass, atol=1e-5)


def test_untouched_heads_do_not_drift_up_to_the_first_treated_layer(tmp_path):
    bench = Bench(tmp_path, num_hidden_layers=4)
    report = run_repair(bench.plan(heads=((2, 1), (3, 0)), seeds=(0,), arms=("repair", "no-reinit")), bench)
    for run in report.runs:
        drift = np.abs(run.mass - report.stock.mass)
        entropy = np.abs(run.entropy - report.stock.entropy)
        for numbers in (drift, entropy):
            assert not numbers[:, :2].any()
            assert not numbers[:, 2, [0, 2, 3]].any()
        assert drift[-1, 2, 1] > 0
        assert drift[-1, 3, 1:].all()


def test_zeroing_all_treated_heads_of_the_repaired_model_gives_the_removed_arm(done):
    bench, request, report = done
    loaded = bench.loaded
    texts = read_texts(request, loaded.tokenizer, bench.settings, Silent(), None)
    files = [read_slices(path) for path in slice_files(place_of(bench, request), "repair", 0, "last")]
    assert [(file.step, file.ended, file.heads) for file in files] == [(12, "steps", request.heads)]
    with restored(loaded, files) as (slices,):
        last = evaluate.losses(loaded, texts.report, Silent())
        assert np.array_equal(last, run_of(report, "repair").report_last)
        slices.silence()
        off = evaluate.losses(loaded, texts.report, Silent())
    assert np.array_equal(off, run_of(report, "removed").report_best)
    assert not np.array_equal(last, off)


def test_a_run_written_into_the_weights_is_the_run(done):
    bench, request, report = done
    run = run_of(report, "repair", 1)
    (file,) = (read_slices(path) for path in slice_files(place_of(bench, request), "repair", 1, "last"))
    merged = written(bench.loaded.model.state_dict(), file.tensors, treat(file.heads, report.geometry))
    other = Bench(bench.settings.home, seed=9)
    other.loaded.model.load_state_dict(merged)
    texts = read_texts(request, bench.loaded.tokenizer, bench.settings, Silent(), None)
    assert np.allclose(evaluate.losses(other.loaded, texts.report, Silent()), run.report_last, rtol=1e-5)


def test_single_heads_are_tested_one_by_one(done):
    bench, request, report = done
    assert [(one.layer, one.head) for one in report.tests] == list(request.heads)
    texts = read_texts(request, bench.loaded.tokenizer, bench.settings, Silent(), None)
    files = [read_slices(path) for path in slice_files(place_of(bench, request), "repair", 0)]
    weights = texts.report.lengths - 1
    with restored(bench.loaded, files) as (slices,):
        before = evaluate.losses(bench.loaded, texts.report, Silent())
        state = slices.state()
        for one in report.tests:
            name = f"{one.layer}.dense.columns"
            at = [head for layer, head in request.heads if layer == one.layer].index(one.head)
            changed = state[name].clone()
            changed[:, 8 * at : 8 * (at + 1)] = 0
            slices.load(state | {name: changed})
            after = evaluate.losses(bench.loaded, texts.report, Silent())
            assert one.change == pytest.approx(np.average(after - before, weights=weights), abs=1e-6)
            assert one.low <= one.change <= one.high
            assert one.p <= one.p_holm <= 1


def test_progress_counts_steps_over_all_runs(done):
    bench = done[0]
    told = [step for step in bench.watch.steps if step[3] == "steps"]
    assert {step[2] for step in told} == {3 * 2 * 12}
    assert ("arm repair, seed 0 · step 12", 12, 72, "steps") in told
    assert ("arm no-reinit, seed 1 · step 1", 37, 72, "steps") in told
    counts = [step[1] for step in told]
    assert counts == sorted(counts)


def test_files_of_the_report_are_there(done):
    bench, request, report = done
    assert len(report.files) == 2 * len(report.runs)
    for file in report.files:
        path = place_of(bench, request) / file.name
        assert path.stat().st_size == file.bytes
        assert not any(name.startswith(("first.", "second.")) for name in read_slices(path).tensors)


def test_asked_again_a_finished_repair_is_read_and_not_run(done, monkeypatch):
    bench, request, report = done
    monkeypatch.setattr(runs.Trainer, "train_until", None)
    monkeypatch.setattr(evaluate, "losses_without", None)
    again = run_repair(request, bench)
    for one, other in zip(report.runs, again.runs):
        assert np.array_equal(one.select, other.select)
        assert np.array_equal(one.mass, other.mass)
        assert np.array_equal(one.report_best, other.report_best)
    assert again.tests == report.tests


def test_single_heads_are_kept_and_tested_again_where_they_are_other_heads(done):
    bench, request, report = done
    place = place_of(bench, request)
    assert progress.so_far(bench.settings, place.name, request).tests == report.tests
    kept = (place / "tests.json").read_bytes()
    quiet = Meter(Silent(), 1)
    for wrong in (report.tests[:-1], tuple(replace(one, layer=9) for one in report.tests)):
        progress.write_tests(place, wrong, quiet)
        assert run_repair(request, bench).tests == report.tests
        assert (place / "tests.json").read_bytes() == kept


def same(one, other):
    """Whether two runs are the same to the last bit, but for how long they took."""
    names = ("step", "select", "rate", "gradient_norm", "train_loss", "mass", "entropy", "output_norm", "full_norm",
             "report_best", "report_last", "other_best", "other_last")  # fmt: skip
    return one.best == other.best and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in names
    )


@pytest.mark.parametrize("case", ["bloom", "llama"])
def test_a_cancelled_repair_goes_on_to_the_same_bits(tmp_path, case):
    class Cancelling(Recorder):
        def __init__(self, after):
            super().__init__()
            self.left = after

        def check(self):
            self.left -= 1
            if self.left < 0:
                raise Cancelled("stopped")

    plan = {"arms": ("repair", "no-reinit"), "seeds": (0,)}
    undisturbed, broken = Bench(tmp_path / "one", case), Bench(tmp_path / "two", case)
    expected = run_repair(undisturbed.plan(**plan), undisturbed)
    request, cancelled = broken.plan(**plan), 0
    while True:
        broken.watch = Cancelling(60 + 25 * cancelled)
        try:
            report = run_repair(request, broken)
            break
        except Cancelled:
            cancelled += 1
            assert frozen_hash(broken.loaded.model) == expected.frozen_before
    assert cancelled > 3
    assert all(same(*pair) for pair in zip(expected.runs, report.runs, strict=True))
    for name, file in ((one.name, one) for one in report.files):
        ours = read_slices(place_of(broken, request) / name)
        theirs = read_slices(place_of(undisturbed, undisturbed.plan(**plan)) / name)
        assert all(torch.equal(theirs.tensors[key], value) for key, value in ours.tensors.items())
        assert file.bytes > 0


def test_a_second_pass_treats_what_is_collapsed_then(tmp_path):
    bench = Bench(tmp_path)
    request = bench.plan(passes=2, arms=("repair", "untrained"), seeds=(0,), sink=0.2, dead=0.9)
    report = run_repair(request, bench)
    first, second = (run_of(report, "repair", 0, number) for number in (1, 2))
    sick = first.mass[first.step.tolist().index(first.best)] > request.sink
    assert second.heads == tuple(map(tuple, np.argwhere(sick).tolist()))
    assert second.heads
    assert second.step.tolist() == [0, 4, 8, 12]
    assert report.frozen_identical
    assert len(slice_files(place_of(bench, request), "repair", 0)) == 2
    assert {(one.layer, one.head) for one in report.tests} == set(first.heads) | set(second.heads)
    again = run_repair(request, bench)
    assert [(run.arm, run.number) for run in again.runs] == [(run.arm, run.number) for run in report.runs]
    calm = run_repair(replace(request, sink=0.99, dead=0.99), bench)
    assert [run.number for run in calm.runs] == [1, 1]


def test_a_bf16_model_trains_with_float32_masters(tmp_path):
    bench = Bench(tmp_path, "llama", torch.bfloat16)
    report = run_repair(bench.plan(seeds=(0,)), bench)
    assert report.frozen_identical
    assert run_of(report, "repair").train_loss[-1] < run_of(report, "repair").train_loss[1]
    (path,) = slice_files(place_of(bench, bench.plan(seeds=(0,))), "repair", 0, "last")
    assert {tensor.dtype for tensor in read_slices(path).tensors.values()} == {torch.float32}


def test_patience_ends_a_run(tmp_path):
    bench = Bench(tmp_path)
    request = bench.plan(
        arms=("no-reinit",), seeds=(0,), patience=3, steps=160
    )  # twelve windows, read many times
    report = run_repair(request, bench)
    (run,) = report.runs
    assert run.ended == "patience"
    assert run.step[-1] == run.best + 3 * request.every < 160
    assert not np.array_equal(run.report_best, run.report_last)
    assert report.tests == ()


def broken_at(step, arm):
    """A `one_step` that finds no finite loss in that step of that arm."""
    real = runs.Trainer.one_step

    def one_step(self, watching, meter):
        if self.step == step - 1 and meter._label.startswith(f"arm {arm},"):
            raise runs.NotFiniteError("The loss", step)
        return real(self, watching, meter)

    return one_step


def test_a_control_whose_loss_is_not_finite_keeps_its_last_good_state_and_the_others_go_on(
    tmp_path, monkeypatch
):
    bench = Bench(tmp_path)
    monkeypatch.setattr(runs.Trainer, "one_step", broken_at(7, "no-reinit"))
    request = bench.plan(arms=("no-reinit", "repair"), seeds=(0,))
    report = run_repair(request, bench)
    bad, fine = report.runs
    assert bad.ended.startswith("The loss was not finite at step 7")
    assert "step 4" in bad.ended
    assert bad.step.tolist() == [0, 4]
    assert len(bad.report_last) == len(report.stock.report)
    (path,) = slice_files(place_of(bench, request), "no-reinit", 0, "last")
    assert read_slices(path).step == 4
    assert fine.ended == "steps"


def test_a_repair_whose_loss_is_not_finite_fails_at_once_and_names_the_step(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    monkeypatch.setattr(runs.Trainer, "one_step", broken_at(7, "repair"))
    request = bench.plan(arms=("repair", "no-reinit"), seeds=(0,))
    with pytest.raises(Failure, match=r"not finite at step 7.*step 4.*arm repair, seed 0"):
        run_repair(request, bench)
    monkeypatch.undo()
    seen = progress.so_far(bench.settings, digest(request, METHOD_VERSIONS["repair"]), request)
    assert [run.ended[:8] for run in seen.runs] == ["The loss"]
    assert seen.running == ()
    with pytest.raises(Failure, match="not finite at step 7"):
        run_repair(request, bench)  # asked again, it says so again
    assert frozen_hash(bench.loaded.model) == frozen_hash(Bench(tmp_path).loaded.model)


def test_a_broken_number_in_the_model_ends_a_run_that_way(tmp_path):
    """The embedding of a word that only the training text has is not finite."""
    bench = Bench(tmp_path, "llama")
    train, held_out = bench.text(8, 1), bench.text(6, 2)
    words = {token for text in documents(6, 2) + documents(4, 4) for token in ids(bench, text)}
    rare = next(token for text in documents(8, 1) for token in ids(bench, text) if token not in words)
    with torch.no_grad():
        bench.loaded.model.get_input_embeddings().weight[rare] = torch.nan
    with pytest.raises(Failure, match="The loss was not finite at step"):
        run_repair(bench.plan(train=train, held_out=held_out, other=None, seeds=(0,)), bench)


def ids(bench, text):
    return bench.loaded.tokenizer(text)["input_ids"]


def test_threads_are_the_plans_and_put_back(tmp_path, monkeypatch):
    bench, seen = Bench(tmp_path), []
    real = runs.Trainer.one_step

    def noting(self, watching, meter):
        seen.append(torch.get_num_threads())
        return real(self, watching, meter)

    monkeypatch.setattr(runs.Trainer, "one_step", noting)
    before = torch.get_num_threads()
    report = run_repair(bench.plan(arms=("repair",), seeds=(0,), steps=2, threads=2), bench)
    assert set(seen) == {2}
    assert report.provenance.threads == 2
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": ()}, "No head is to be treated"),
        ({"heads": ((7, 0),)}, r"L07\.H00.*2 layers of 4 heads"),
        ({"arms": ()}, "no arm"),
        ({"arms": ("repair", "repair")}, "stands twice"),
        ({"arms": ("healthy",)}, "healthy heads has no heads"),
        ({"healthy": HEADS["bloom"]}, r"L00\.H01 is among"),
        ({"seeds": ()}, "no seed"),
        ({"seeds": (1, 1)}, "different whole numbers"),
        ({"steps": 0}, "number of steps is 0"),
        ({"every": 0}, "two evaluations is 0"),
        ({"passes": 0}, "passes is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"recipe": Recipe(rate=0.0)}, "learning rate is 0"),
        ({"recipe": Recipe(rate=11.0)}, "learning rate is 11"),
        ({"recipe": Recipe(batch=0)}, r"batch\) is 0"),
        ({"recipe": Recipe(clip=-1.0)}, "gradient norm is -1"),
        ({"recipe": Recipe(batch=4, accumulate=8)}, "too short: it gives 12 windows of 24 tokens.*reads 32"),
        ({"sink": 0.97}, "sink is 0.97"),
    ],
)
def test_bad_plans_get_a_sentence(tmp_path, changes, says):
    bench = Bench(tmp_path)
    with pytest.raises(BadInput, match=says):
        run_repair(bench.plan(**changes), bench)


def test_training_and_held_out_text_must_be_disjoint(tmp_path):
    bench = Bench(tmp_path)
    for changes in ({"held_out": bench.text(8, 1)}, {"other": bench.text(8, 1)}):
        with pytest.raises(BadInput, match="must be disjoint"):
            run_repair(bench.plan(**changes), bench)
    with pytest.raises(BadInput, match="one document"):
        run_repair(bench.plan(held_out=bench.text(1, 2)), bench)


def test_memory_and_disk_are_checked_before(tmp_path, monkeypatch):
    bench = Bench(tmp_path)
    monkeypatch.setattr(repair.memory, "available", lambda device: 1 << 20)
    with pytest.raises(NotEnoughMemory, match=r"0\.0 GB are free"):
        run_repair(bench.plan(), bench)
    monkeypatch.undo()
    monkeypatch.setattr(repair.costs, "disk", lambda *_: 1 << 62)
    with pytest.raises(Failure, match="HEADVIZ_HOME"):
        run_repair(bench.plan(), bench)


def test_the_training_runs_under_the_probe_of_every_family_hook(tmp_path):
    """Slices stand in the modules that the probe takes its projections from."""
    bench = Bench(tmp_path)
    shape = bench.loaded.geometry
    with sliced(bench.loaded.model, treat(((0, 1),), shape)), probe(bench.loaded.model, want=()):
        block = bench.loaded.model.transformer.h[0].self_attention
        assert type(block).__name__ == "BloomAttention"
        assert type(block.dense).__name__ == "SlicedOutput"
