"""A repaired model as a checkpoint: plain transformers loads it, its weights are the slices, and it is in the list of models."""

import io
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForCausalLM

import headviz
from headviz.analysis import written
from headviz.analysis.metrics import METHOD_VERSIONS
from headviz.codec import pack, unpack
from headviz.errors import BadInput, Failure
from headviz.models import catalog, local
from headviz.models.attention import probe
from headviz.surgery import merge, progress
from headviz.surgery.merge import applied, finished_files, merged, run_repaired
from headviz.surgery.planfile import read_plan
from headviz.surgery.repair import run_repair
from headviz.surgery.restore import restored
from headviz.surgery.slicefile import read_slices
from headviz.types import RepairedRequest, digest
from tests.tiny_repair import HEADS, Bench

CASES = {"bloom": torch.float32, "llama": torch.float32, "bf16": torch.bfloat16}


class Kept(Bench):
    """A bench whose model lies in no folder: what is copied from there comes from `source`."""

    forgotten = False

    def forget(self):
        self.forgotten = True


@pytest.fixture(scope="module", params=CASES)
def done(request, tmp_path_factory):
    """(bench, plan, digest) of a finished repair with two passes."""
    case = "bloom" if request.param == "bf16" else request.param
    bench = Kept(tmp_path_factory.mktemp("home"), case, CASES[request.param])
    # as loading gives it, and as the reloaded checkpoint has it
    bench.loaded.model.set_attn_implementation("sdpa" if type(bench.loaded.model)._supports_sdpa else "eager")
    plan = bench.plan(arms=("repair", "no-reinit"), seeds=(0,), steps=8, passes=2, sink=0.1, dead=0.9)
    name = digest(plan, METHOD_VERSIONS["repair"])
    bench.answers[name] = run_repair(plan, bench)
    return bench, plan, name


@pytest.fixture(autouse=True)
def source(tmp_path, monkeypatch):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "LICENSE.txt").write_text("terms")
    monkeypatch.setattr(catalog, "locate", lambda *_: tmp_path / "source")


def test_the_checkpoint_is_the_jobs_model(done):
    bench, plan, name = done
    report = run_repaired(RepairedRequest(repair=name), bench)
    folder = local.checkpoints(bench.settings) / report.name
    bf16 = plan.model.dtype == "bfloat16"
    assert report.difference <= (0.5 if bf16 else 1e-4)
    assert report.loss_after == pytest.approx(report.loss_job, abs=1e-2 if bf16 else 1e-5)
    assert report.loss_job != report.loss_stock
    assert report.compared > 0
    assert unpack(pack(report)).heads == report.heads
    # to the last bit where the same code runs: the reloaded weights are those of the model with the slices written in
    dtype = bench.loaded.model.dtype
    plain = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    files = [read_slices(path) for path in finished_files(RepairedRequest(repair=name), bench.settings)]
    state = merged(bench.loaded, files)
    for key, weight in plain.state_dict().items():
        assert torch.equal(weight, state[key]), key
    other = Kept(bench.settings.home, bench.case, CASES["bf16"] if bf16 else torch.float32, seed=9)
    other.loaded.model.load_state_dict(state)
    other.loaded.model.set_attn_implementation(plain.config._attn_implementation)
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        assert torch.equal(plain(input_ids=ids).logits, other.loaded.model(input_ids=ids).logits)
        with restored(bench.loaded, files), probe(bench.loaded.model, want=()) as watching:
            job = watching.model(input_ids=ids).logits
    scale = job.abs().max()
    assert torch.allclose(plain(input_ids=ids).logits, job, atol=float(scale) * (0.05 if bf16 else 1e-5))


def test_every_slice_is_in_the_weights_and_nothing_else_changed(done):
    bench, _plan, name = done
    before = {key: weight.clone() for key, weight in bench.loaded.model.state_dict().items()}
    state = merged(
        bench.loaded,
        [read_slices(path) for path in finished_files(RepairedRequest(repair=name), bench.settings)],
    )
    for key, weight in bench.loaded.model.state_dict().items():
        assert torch.equal(weight, before[key]), "the model is only read"
    changed = {key for key in state if not torch.equal(state[key], before[key])}
    assert changed
    assert all(".0." in key or ".1." in key for key in changed)
    assert not any("mlp" in key or "norm" in key or "embed" in key for key in changed)


def test_it_is_in_the_list_of_models_with_plan_and_card(done, monkeypatch):
    bench, plan, name = done
    report = run_repaired(RepairedRequest(repair=name, point="last"), bench)
    folder = local.checkpoints(bench.settings) / report.name
    assert report.name in local.folders(bench.settings)
    assert report.name in [entry.name for entry in catalog.list_models(bench.settings)]
    assert {"README.md", "LICENSE.txt", "config.json", "tokenizer.json", written.PLAN_FILE} <= {file.name for file in report.files}  # fmt: skip
    assert read_plan((folder / written.PLAN_FILE).read_bytes())[0] == plan
    card = (folder / "README.md").read_text()
    assert "## Held-out loss of every arm" in card
    assert "**cannot be judged.**" in card, "one seed is no verdict"
    assert "| before surgery |" in card
    assert "from_pretrained" in card
    assert ("keys and values with heads that are not treated" in card) == (bench.case == "llama")
    assert f"{report.loss_after:.4f} of this checkpoint" in card
    assert report.step == plan.steps
    assert report.revision == local.known_revision(folder, bench.settings)


def test_report_and_pictures_lie_beside_the_card_and_are_no_part_of_the_model(done):
    bench, _plan, name = done
    report = run_repaired(RepairedRequest(repair=name), bench)
    folder = local.checkpoints(bench.settings) / report.name
    assert {"report.json", "recovery.gif", "losses.png"} <= {file.name for file in report.files}
    card = (folder / "README.md").read_text()
    linked = re.findall(r"\]\(([^)]+)\)", card)
    assert {"report.json", "recovery.gif", "losses.png", written.PLAN_FILE} == set(linked)
    assert all((folder / file).is_file() for file in linked)
    tree = json.loads((folder / "report.json").read_text())
    assert (tree["job"], tree["frozen_identical"], tree["point"]) == (name, True, "best")
    tests = bench.answers[name].tests
    assert len(tree["single_heads"]) == len(tests) == card.split("## Single heads")[1].count("\n| L")
    film = Image.open(io.BytesIO((folder / "recovery.gif").read_bytes()))
    last = [run for run in bench.answers[name].runs if run.arm == "repair"][-1]
    assert film.n_frames == 1 + len(last.step)
    assert (", pass 2" in film.info["comment"].decode()) == (last.number == 2)
    for file in ("report.json", "recovery.gif", "losses.png", "README.md"):
        (folder / file).unlink()
    assert local.pin(folder, bench.settings) == report.revision


def test_without_the_report_the_card_is_of_what_the_repairs_folder_holds(done, monkeypatch):
    bench, _plan, name = done
    with_report = run_repaired(RepairedRequest(repair=name), bench)
    told = (local.checkpoints(bench.settings) / with_report.name / "README.md").read_text()
    monkeypatch.setattr(bench, "answers", {})
    report = run_repaired(RepairedRequest(repair=name), bench)
    assert report.revision == with_report.revision
    names = {file.name for file in report.files}
    assert {"recovery.gif", "losses.png"} <= names
    assert "report.json" not in names
    card = (local.checkpoints(bench.settings) / report.name / "README.md").read_text()
    assert card == "\n\n".join(part for part in told.split("\n\n") if "report.json" not in part)
    assert "## Single heads" in card


def test_another_arm_has_its_own_film(done):
    bench, _plan, name = done
    report = run_repaired(RepairedRequest(repair=name, arm="no-reinit"), bench)
    folder = local.checkpoints(bench.settings) / report.name
    film = Image.open(io.BytesIO((folder / "recovery.gif").read_bytes()))
    assert film.info["comment"].decode().partition(" · arm ")[2].startswith("no-reinit")


def test_best_and_last_and_arms_have_folders_of_their_own(done):
    bench, _, name = done
    made = [
        RepairedRequest(repair=name),
        RepairedRequest(repair=name, point="last"),
        RepairedRequest(repair=name, arm="no-reinit"),
    ]
    folders = {
        merge.checkpoint_folder(
            one, [read_slices(p) for p in finished_files(one, bench.settings)], bench.settings
        )
        for one in made
    }
    assert len(folders) == 3
    assert all(path.name.startswith("tiny-") for path in folders)


def test_a_run_that_has_not_ended_is_a_sentence(done):
    bench, _plan, name = done
    for wrong in (
        RepairedRequest(repair=name, seed=7),
        RepairedRequest(repair=name, arm="removed"),
        RepairedRequest(repair="f" * 64),
    ):
        with pytest.raises(BadInput, match="has no finished run"):
            run_repaired(wrong, bench)
    end = progress.run_folder(progress.folder(bench.settings, name), "no-reinit", 0, 1)
    numbers = sorted(path for path in end.parent.glob("no-reinit-0-*"))
    kept = numbers[-1] / "end.json"
    kept.rename(kept.with_suffix(".aside"))
    try:
        with pytest.raises(BadInput, match="wait until it has ended"):
            run_repaired(RepairedRequest(repair=name, arm="no-reinit"), bench)
    finally:
        kept.with_suffix(".aside").rename(kept)


def test_a_strangers_folder_is_left_alone(done, tmp_path):
    bench, _, name = done
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    files = [read_slices(path) for path in finished_files(RepairedRequest(repair=name), bench.settings)]
    with pytest.raises(BadInput, match="is left alone"):
        merge.write_repaired(RepairedRequest(repair=name), files, bench, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_a_checkpoint_needs_every_pass_and_takes_them_in_any_order(done, tmp_path):
    bench, _, name = done
    files = [read_slices(path) for path in finished_files(RepairedRequest(repair=name), bench.settings)]
    asked = RepairedRequest(repair=name)
    with pytest.raises(BadInput, match="Pass 1 of this run is missing"):
        merge.write_repaired(asked, files[1:], bench, tmp_path / "half")
    assert not (tmp_path / "half").exists()
    made = [
        merge.write_repaired(asked, given, bench, tmp_path / str(number))
        for number, given in enumerate((files, files[::-1]))
    ]
    assert made[0].revision == made[1].revision
    assert made[1].step == files[-1].step


def test_what_does_not_give_the_models_numbers_is_not_kept(done, tmp_path, monkeypatch):
    bench, _, name = done
    files = [read_slices(path) for path in finished_files(RepairedRequest(repair=name), bench.settings)]
    monkeypatch.setattr(merge, "merged", lambda loaded, files: dict(loaded.model.state_dict()))
    # slices large enough to be told from rounding
    loud = [replace(file, tensors={k: 3 * v for k, v in file.tensors.items()}) for file in files]
    with pytest.raises(Failure, match="was not kept"):
        merge.write_repaired(RepairedRequest(repair=name), loud, bench, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob(".new*"))


def test_slices_alone_are_applied_and_taken_off_again(done, tmp_path):
    bench, plan, name = done
    paths = finished_files(RepairedRequest(repair=name), bench.settings)
    taken = [shutil.copy2(path, tmp_path / f"{number}.safetensors") for number, path in enumerate(paths)]
    ids = torch.arange(5, 25)[None]
    with torch.inference_mode():
        stock = bench.loaded.model(input_ids=ids).logits
        with headviz.with_slices(bench.loaded, *taken) as loaded:
            changed = loaded.model(input_ids=ids).logits
        assert torch.equal(bench.loaded.model(input_ids=ids).logits, stock)
    assert not torch.equal(changed, stock)
    assert len(taken) == 2
    with torch.inference_mode(), applied(bench.loaded, taken[::-1]) as loaded:
        assert torch.equal(loaded.model(input_ids=ids).logits, changed), "in whatever order they are given"
    with pytest.raises(BadInput, match="Pass 1 of this run is missing"), applied(bench.loaded, taken[1:]):
        pass
    note = json.loads(_metadata(taken[0])["headviz"])
    assert note["plan"]["steps"] == plan.steps
    stranger = Kept(bench.settings.home, bench.case)
    stranger.loaded.ref = replace(stranger.loaded.ref, revision="1" * 64)
    with pytest.raises(BadInput, match="Load that model"), applied(stranger.loaded, taken):
        pass
    with (
        pytest.raises(BadInput, match="no file 'gone"),
        applied(bench.loaded, [tmp_path / "gone.safetensors"]),
    ):
        pass


def _metadata(path):
    from safetensors import safe_open

    with safe_open(path, framework="np") as file:
        return file.metadata()


def test_over_a_quantised_model_both_losses_are_told(tmp_path):
    """The job's model is another one (here: with rounded weights) than the one that the slices are written into."""
    bench = Kept(tmp_path, "bloom")
    plan = bench.plan(arms=("repair",), seeds=(0,), steps=4)
    run_repair(plan, bench)
    name = digest(plan, METHOD_VERSIONS["repair"])
    rounded = Kept(tmp_path, "bloom")
    with torch.no_grad():
        for weight in rounded.loaded.model.parameters():
            weight.copy_((weight * 4).round() / 4)
    files = [read_slices(path) for path in finished_files(RepairedRequest(repair=name), bench.settings)]
    quantised = replace(plan, model=replace(plan.model, quantization="8bit"))
    asked = []

    def model(ref):
        asked.append(ref.quantization)
        return rounded.loaded if ref.quantization == "8bit" else Bench.model(bench, ref)

    bench.model = model
    report = merge.write_repaired(
        RepairedRequest(repair=name),
        [replace(file, plan=quantised) for file in files],
        bench,
        tmp_path / "out",
    )
    assert asked[0] == "8bit"
    assert set(asked[1:]) == {"none"}
    assert abs(report.loss_job - report.loss_after) > 1e-4
    assert "in 8bit, over which the slices were trained" in (tmp_path / "out" / "README.md").read_text()


def test_where_two_models_do_not_fit_the_first_one_goes(done, monkeypatch):
    bench, _, name = done
    bench.forgotten = False
    monkeypatch.setattr(merge.memory, "available", lambda _device: 1000)
    run_repaired(RepairedRequest(repair=name), bench)
    assert bench.forgotten


def test_treated_heads_are_those_of_all_passes(done):
    bench, _plan, name = done
    report = run_repaired(RepairedRequest(repair=name), bench)
    assert set(HEADS[bench.case]) <= set(report.heads)
    assert np.all(np.diff([layer for layer, _ in report.heads]) >= 0)
