"""`headviz repair` and `headviz export` on a model with a planted collapse, nothing faked but the length of the training."""

import json
import shutil

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from headviz.cli import main
from headviz.jobs import local
from headviz.settings import settings
from headviz.surgery.planfile import read_plan
from tests import checkpoints, planted

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
