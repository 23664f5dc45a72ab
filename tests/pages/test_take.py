"""What is taken away from the ablation page: files that are read back, code, and checkpoints."""

import csv
import dataclasses
import io
import json
import shutil
from types import SimpleNamespace

import pytest

from headviz.analysis import ablation, changes
from headviz.analysis.ablation import Plan
from headviz.analysis.choose import HeadSet
from headviz.analysis.tolerance import tolerance_rows
from headviz.jobs import local
from headviz.jobs.kinds import job_digest
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import CheckpointReport, CheckpointRequest, Geometry, SavedFile, Speed
from headviz.ui.ablation import take
from headviz.ui.ablation.traces import Traces
from tests.fakes import fake_geometry, fake_provenance
from tests.pages.conftest import said
from tests.pages.test_ablation import built_train, open_page, plan, put  # noqa: F401
from tests.pages.test_curves import quiz, quizzed  # noqa: F401


def report(request: CheckpointRequest) -> CheckpointReport:
    return CheckpointReport(
        name=catalog.checkpoint_folder(request, settings()).name,
        revision="e" * 64,
        smaller=request.smaller,
        off=len(request.heads),
        files=(SavedFile(name="model.safetensors", sha256="f" * 64, bytes=538_090_408),),
        parameters_before=134_515_008,
        parameters_after=120_000_000 if request.smaller else 134_515_008,
        difference=0.000213,
        rounding=0.000187,
        same_next=1.0,
        compared=508,
        loss_before=3.716,
        loss_off=4.167,
        loss_after=4.167,
        speeds=(
            Speed(doing="reading", tokens=128, before=(200.0, 210.0, 190.0), after=(220.0, 230.0, 215.0)),
            Speed(doing="writing", tokens=16, before=(10.0, 11.0, 10.5), after=(12.0, 12.5, 13.0)),
        ),
        geometry=fake_geometry(),
        provenance=fake_provenance("checkpoint"),
    )


def wanted(plan, table, small=False, **changes) -> CheckpointRequest:  # noqa: F811
    off = ablation.chosen(dataclasses.replace(plan, **changes), table)
    data = dataclasses.replace(plan.text, inputs=4, tokens=128)
    return CheckpointRequest(model=plan.model, heads=off.heads, smaller=small, data=data)


def test_the_panel_offers_files_code_and_checkpoints(plan, table, no_worker):  # noqa: F811
    app = open_page(look="take")
    assert not app.exception
    labels = [button.proto.label for button in app.get("download_button")]
    assert {"Head set (JSON)", "Measurements (JSON)", "Curve points (CSV)"} <= set(labels)
    assert [b.label for b in app.button if b.label.startswith("Write")] == [
        "Write checkpoint",
        "Write smaller checkpoint",
    ]


def test_a_smaller_one_says_what_is_in_the_way(plan, table, no_worker):  # noqa: F811
    app = open_page(look="take")
    small = next(b for b in app.button if b.label == "Write smaller checkpoint")
    assert small.disabled
    assert "leaves out whole KV groups" in said(app)
    assert '"Whole KV groups" and "Same number in every layer"' in said(app)


def test_a_set_of_whole_groups_can_be_written_smaller(plan, table, no_worker):  # noqa: F811
    app = open_page(look="take", by="group", even="true", off="40.0")
    assert not app.exception
    small = next(b for b in app.button if b.label == "Write smaller checkpoint")
    assert not small.disabled
    small.click().run()
    assert not app.exception
    asked = wanted(plan, table, small=True, by="group", per_layer=True, share=0.4)
    assert job_digest(asked) in {job.digest for job in local.list_jobs()}
    assert "Waiting" in str([p.proto for p in app.get("progress")])


def test_a_written_checkpoint_is_shown_with_its_path_and_speeds(plan, table, no_worker):  # noqa: F811
    asked = wanted(plan, table)
    local.store().put(job_digest(asked), report(asked))
    folder = catalog.checkpoint_folder(asked, settings())
    folder.mkdir(parents=True)
    app = open_page(look="take")
    assert not app.exception
    assert str(folder) in [block.value for block in app.code]
    assert "538 MB, 134,515,008 parameters" in said(app)
    assert "3.716 → 4.167 nats" in said(app)
    speeds = next(frame.value for frame in app.dataframe if "" in frame.value)
    assert list(speeds["after"]) == ["220 [215, 230]", "12.5 [12.0, 13.0]"]
    (link,) = app.get("link_button")
    assert link.proto.url == f"heads?model={folder.name}&dtype=bfloat16"
    shutil.rmtree(folder)
    app = open_page(look="take")
    assert "its folder was removed since" in said(app)
    next(b for b in app.button if b.label == "Write it again").click().run()
    assert not app.exception
    assert local.view(job_digest(asked)).state == "queued"


def test_nothing_off_has_nothing_to_take(plan, table, no_worker):  # noqa: F811
    app = open_page(look="take", off="0.0")
    assert not app.exception
    assert "No head is off" in said(app)
    assert all(b.disabled for b in app.button if b.label.startswith("Write"))


def test_the_curve_as_csv_comes_back_through_tolerance(quizzed, table, no_worker, tmp_path):  # noqa: F811
    """Zero and mean are apart, and every measured share is in it, the page's slider or not."""
    quiz(quizzed, table, {0.123: 0.6, 0.3: 0.5}, 0.75)
    quiz(dataclasses.replace(quizzed, replace="mean"), table, {0.123: 0.75, 0.3: 0.5}, 0.75)
    before = local.result(ablation.measuring(quizzed, None))
    traces = Traces(quizzed, table, before)
    rows = [one for kind in ("zero", "mean") for one in traces.points(quizzed.metric, kind)]
    text = take.points_csv(traces, rows)
    read = list(csv.DictReader(io.StringIO(text)))
    assert [row["replace"] for row in read] == ["zero"] * 3 + ["mean"] * 3
    assert [int(row["heads"]) for row in read] == [0, 33, 81, 0, 33, 81]
    assert float(read[0]["acc"]) == pytest.approx(changes.headline(quizzed, before, before)[0])
    (tmp_path / "curve.csv").write_text(text)
    found = {row["score"]: row for row in tolerance_rows(tmp_path / "curve.csv", 1.0)}
    assert list(found) == ["ahon_ln", "ahon_ln, mean"]
    for kind, name in (("zero", "ahon_ln"), ("mean", "ahon_ln, mean")):
        edge = traces.trace(quizzed.metric, kind).within(traces.yard, 0.01)
        assert found[name]["share_within"] == pytest.approx(100 * edge.share)
        assert found[name]["bracket"] == pytest.approx([edge.inside, edge.outside])
    assert found["ahon_ln"]["share_within"] < 5 < found["ahon_ln, mean"]["share_within"]


def test_a_set_from_the_page_gives_the_same_number_on_the_command_line(tmp_path):
    """What the button saves goes through `ablate --heads` to the very same measurement."""
    from headviz.cli import main
    from tests.checkpoints import save

    text = tmp_path / "t.txt"
    text.write_text("attention heads differ. some of them do nothing at all.\n" * 8)
    out, heads = tmp_path / "r.json", tmp_path / "heads.json"
    asked = [
        "ablate", "--model", str(save(tmp_path / "tiny")), "--dtype", "float32", "--text", str(text), "--inputs", "3",
        "--tokens", "24", "--chosen-on", "stdlib-code", "--chosen-inputs", "2", "--chosen-tokens", "24", "--quiet",
        "--out", str(out),
    ]  # fmt: skip
    assert main([*asked, "--share", "0.25"]) == 0
    first = json.loads(out.read_text())
    made = next(job.request for job in local.list_jobs() if job.kind == "measure")
    shape = Geometry(family="llama", layers=2, heads=4, kv_heads=2, head_dim=12, hidden=48)
    off = HeadSet(heads=tuple(map(tuple, first["heads"])), geometry=shape)
    plan_ = Plan(model=made.model, metric="ahon_ln", share=0.25, chosen_on=made.text, text=made.text)
    heads.write_text(take.head_set_text(SimpleNamespace(plan=plan_, off=off)))
    assert main([*asked, "--heads", str(heads)]) == 0
    again = json.loads(out.read_text())
    assert again["ablated"] == first["ablated"]
    assert again["heads"] == first["heads"]
