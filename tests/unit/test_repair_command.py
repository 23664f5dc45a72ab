"""`headviz repair` and `headviz export` on a model with a planted collapse, nothing faked but the length of the training."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from headviz.analysis.choose import HeadSet
from headviz.analysis.headfile import write_heads
from headviz.cli import main
from headviz.commands import repair as command
from headviz.jobs import local
from headviz.models.architectures import geometry
from headviz.settings import settings
from headviz.surgery.meter import Meter
from headviz.surgery.planfile import read_plan
from headviz.surgery.slicefile import read_slices, save_slices
from headviz.types import Silent, plain
from tests import checkpoints, planted
from tests.repairs import small_request

SICK = [(layer, head) for layer in (1, 2, 3) for head in (10, 11, 12)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model in which L01 to L03 sink on the first token in H10 to H12."""
    folder = tmp_path_factory.mktemp("models") / "planted"
    planted.model(dict.fromkeys(SICK, 0.75), 24).save_pretrained(folder)
    checkpoints.letters().save_pretrained(folder)
    return folder


def designed(folder, *more):
    return [
        "repair", "--model", str(folder), "--dtype", "float32", "--rule", "bos>0.5", "--corpus", "stdlib-code", "--other",
        "none", "--tokens", "24", "--windows", "8", "--held-out-windows", "4", "--diagnose-windows", "3", "--steps", "2",
        "--batch", "2", "--accumulate", "1", "--bos", "always", "--threads", "1", "--arms", "no-reinit,repair", "--seeds", "0", "--quiet", *more,
    ]  # fmt: skip


def test_design_preview_run_resume_and_export(folder, tmp_path, capsys, monkeypatch):
    plan, out = tmp_path / "plan.json", tmp_path / "report.json"
    assert main(designed(folder, "--preview", "--save-plan", str(plan))) == 0
    said = capsys.readouterr().out
    assert "Treated: 9 heads in 3 layers: L01.H10" in said
    assert "Time: very roughly a minute or less, guessed before a speed was measured here" in said
    assert "fewer than 3 seeds" in said
    assert "2 of training (repair, no-reinit; seeds 0); 4 steps" in said
    request, rule = read_plan(plan.read_bytes())
    assert (request.heads, rule, request.arms) == (tuple(SICK), "bos>0.5", ("repair", "no-reinit"))
    assert (request.steps, request.every, request.recipe.batch, request.train.inputs) == (2, 2, 2, 8)
    assert not [job for job in local.list_jobs() if job.kind == "repair"], "a preview runs nothing"
    (looked,) = [job.request.data for job in local.list_jobs() if job.kind == "bands"]
    assert (looked.seed, request.diagnose.seed) == (0, 1), "chosen on another text than counted on"

    assert main(["repair", str(plan), "--out", str(out), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "Frozen numbers: identical." in said
    assert "Verdict: cannot be judged." in said
    tree = json.loads(out.read_text())
    assert tree["frozen_identical"] is True
    assert tree["heads_per_class"]["before"]["sink"] == 9
    assert {row["arm"] for row in tree["heads_per_class"]["after"]} == {"repair", "no-reinit"}
    assert len(tree["held_out"]["repair"]["report"]["interval"]) == 2
    assert len(tree["single_heads"]) == 9
    assert [curve["step"] for curve in tree["curves"]] == [[0, 2], [0, 2]]
    assert tree["verdict"]["word"] == "cannot be judged"

    # job and result are gone: what was done is read and not run again
    job = next(view for view in local.list_jobs() if view.kind == "repair")
    local.store().prune(digests=[job.digest])
    shutil.rmtree(settings().home / "jobs" / job.digest)
    monkeypatch.setattr("headviz.surgery.runs._Run.to_the_end", lambda self: pytest.fail("it trained again"))
    assert main(["repair", "--resume", job.digest[:10], "--quiet", "--out", str(out)]) == 0
    again = json.loads(out.read_text())
    assert again["held_out"] == tree["held_out"]
    monkeypatch.undo()

    checkpoint, slices = tmp_path / "repaired", tmp_path / "slices"
    assert main(["export", job.digest[:10], str(checkpoint), "--quiet"]) == 0
    assert main(["export", job.digest[:10], str(slices), "--slices", "--quiet"]) == 0
    assert [path.name for path in slices.iterdir()] == ["pass-1.safetensors"]
    assert main(["export", str(slices), str(tmp_path / "from slices"), "--quiet"]) == 0
    both = [AutoModelForCausalLM.from_pretrained(tmp_path / name) for name in ("repaired", "from slices")]
    for one, two in zip(both[0].parameters(), both[1].parameters(), strict=True):
        assert torch.equal(one, two)
    assert main(["export", job.digest[:10], str(slices), "--slices", "--quiet"]) == 0, (
        "what is there is the same"
    )
    shutil.copyfile(slices / "pass-1.safetensors", slices / "pass-2.safetensors")
    assert main(["export", job.digest[:10], str(slices), "--slices", "--quiet"]) == 2
    assert "is there already and holds other files: it is left alone" in capsys.readouterr().err
    assert len(list(slices.iterdir())) == 2
    assert main(["export", str(slices), str(tmp_path / "twice"), "--quiet"]) == 2
    assert "Two of these files of slices are pass 1 of the same run" in capsys.readouterr().err
    stock = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.arange(5, 25)[None]
    assert not np.allclose(both[0](ids).logits.detach(), stock(ids).logits.detach())
    assert (checkpoint / "README.md").read_text().startswith("# planted@")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["--rule", "bos>0.99"], "No head has BOS mass over 0.99; the largest is 0."),
        (["--rule", "boss>0.5"], "Did you mean 'bos'"),
        (["--heads", "x.json"], "both say which heads"),
        (["--preset", "bloom-1b7-pass-1"], "both say which heads"),
        (["--steps", "0"], "steps is 0; it must be 1 or more"),
        (["--seeds", "0,a"], "whole numbers with commas"),
        (["--arms", "repair,fix"], "Unknown arm 'fix'"),
        (["--rate", "0"], "learning rate is 0"),
        (["--threads", "9999"], "cores"),
        (["--out", "report.txt"], "end the name in .json"),
    ],
)
def test_bad_plans_are_one_sentence(folder, capsys, changes, says):
    assert main(designed(folder, *changes)) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_what_excludes_each_other(folder, tmp_path, capsys):
    plan = tmp_path / "plan.json"
    plan.write_text("{}")
    small = [
        "--model",
        str(folder),
        "--corpus",
        "stdlib-code",
        "--other",
        "none",
    ]  # the docstrings take a while to build
    for arguments, says in (
        (["repair"], "Say which heads"),
        (["repair", str(plan), "--steps", "3"], "is the whole plan, with which --steps"),
        (["repair", "--resume", "abc", "--steps", "3"], "leave out --steps"),
        (["repair", str(plan)], "no plan of a repair"),
        (["repair", str(tmp_path / "none.json")], "cannot be read"),
        (["repair", "--resume", "abc"], "No repair's id begins"),
        (["repair", *small, "--preset", "bloom-1b7-pass-1"], "Choose that model, or a rule"),
        (
            ["repair", *small, "--preset", "bloom-560m", "--scheme", "small"],
            "leave out --scheme",
        ),
        (["export", "abc", str(tmp_path / "x")], "No repair's id begins"),
    ):
        assert main(arguments) == 2
        assert says in capsys.readouterr().err, arguments
    assert not (settings().home / "jobs").exists() or not local.list_jobs()


def test_slices_of_ten_passes_are_copied_in_order_or_refused(tmp_path, capsys):
    source, target = tmp_path / "source", tmp_path / "target"
    for number in range(1, 11):
        note = {"plan": plain(small_request()), "arm": "repair", "seed": 0, "number": number, "step": 9, "heads": [[0, 1]], "ended": "all steps"}  # fmt: skip
        save_slices(
            source / f"{11 - number}.safetensors", {"x": torch.ones(number)}, note, Meter(Silent(), 0)
        )
    arguments = ["export", str(source), str(target), "--slices", "--quiet"]
    assert main(arguments) == 0
    printed = [f"pass-{number}.safetensors" for number in range(1, 11)]
    assert [line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()] == printed
    assert [read_slices(target / name).number for name in printed] == list(range(1, 11))
    before = (target / "pass-1.safetensors").read_bytes()
    (target / "pass-1.safetensors").write_bytes(b"of another run")
    assert main(arguments) == 2
    assert "holds other files: it is left alone" in capsys.readouterr().err
    assert (target / "pass-1.safetensors").read_bytes() == b"of another run"
    (target / "pass-1.safetensors").write_bytes(before)
    (target / "pass-4.safetensors").unlink()
    assert main(arguments) == 0, "what is missing is written"
    assert len(list(target.iterdir())) == 10
    (source / "8.safetensors").unlink()
    assert main([*arguments[:2], str(tmp_path / "new"), "--slices"]) == 2
    assert "Pass 3 of this run is missing" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_heads_from_a_file(folder, tmp_path, capsys):
    file, plan = tmp_path / "heads.json", tmp_path / "plan.json"
    shape = geometry(AutoModelForCausalLM.from_pretrained(folder).config)
    chosen = HeadSet(heads=((2, 11), (1, 10)), geometry=shape)
    file.write_text(write_heads(chosen, model="planted"))
    arguments = designed(folder, "--heads", str(file), "--preview", "--save-plan", str(plan))
    at = arguments.index("--rule")
    del arguments[at : at + 2]
    assert main(arguments) == 0
    assert "Treated: 2 heads in 2 layers: L01.H10, L02.H11" in capsys.readouterr().out
    request, rule = read_plan(plan.read_bytes())
    assert (request.heads, rule) == (((1, 10), (2, 11)), "")
    assert not local.list_jobs(), "nothing is measured for heads that are known"
    assert main([*arguments, "--arms", "repair,healthy"]) == 0
    healthy = read_plan(plan.read_bytes())[0].healthy
    assert len(healthy) == 2
    assert not set(healthy) & set(SICK)
    capsys.readouterr()
    wrong = write_heads(chosen, model="another")
    for text, says in ((wrong, "The head set is for another, not for"), ("{", "is not JSON"), ("{}", "no head set")):  # fmt: skip
        file.write_text(text)
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
    file.unlink()
    assert main(arguments) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_a_preset_says_what_to_know_of_the_papers_numbers(tmp_path, capsys):
    folder = checkpoints.save(tmp_path / "model", "bloom", num_hidden_layers=24, n_head=16, hidden_size=64)
    asked = ["repair", "--model", str(folder), "--corpus", "stdlib-code", "--other", "none", "--tokens", "24", "--preview"]  # fmt: skip
    assert main([*asked, "--preset", "bloom-1b7-column"]) == 0
    said = capsys.readouterr().out
    assert "Treated: 126 heads in 18 layers" in said
    assert "Note: One seed, one column. If the paper planned it like its other runs" in said
    assert "Here, in 140 steps, it rises for 35 and has fallen to 0 at the last." in said


def test_off_a_terminal_every_run_has_a_line_also_those_beside(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: False, write=print))
    watch = command.Steps()
    for doing in (
        "loading the model",
        "reading every frozen number",
        "",
        "arm repair, seed 0 · step 1",
        "arm repair, seed 0 · step 2; arm repair, seed 1 · step 1; arm no-reinit, seed 0 · starting",
        "arm repair, seed 0 · waiting: the disk is full; free some space and it goes on",
        "arm repair, seed 0, pass 2 · step 3; arm repair, seed 1 · step 2",
        "arm no-reinit, seed 1 · step 1; arm repair, seed 1 · step 3",
        "reading every frozen number again",
        "testing single heads",
    ):
        watch.step(doing, 1, 9, "steps")
    watch.close()
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines == [
        "loading the model",
        "reading every frozen number",
        "arm repair, seed 0",
        "arm repair, seed 1",
        "arm no-reinit, seed 0",
        "arm repair, seed 0, pass 2",
        "arm no-reinit, seed 1",
        "reading every frozen number again",
        "testing single heads",
    ]


def test_on_a_terminal_the_line_is_whole(monkeypatch):
    said = []
    stream = SimpleNamespace(isatty=lambda: True, write=said.append, flush=lambda: None)
    monkeypatch.setattr("sys.stderr", stream)
    command.Steps().step("arm repair, seed 0 · step 2; arm repair, seed 1 · step 1", 3, 9, "steps")
    assert said == ["\r\033[Karm repair, seed 0 · step 2; arm repair, seed 1 · step 1 3/9 steps"]
