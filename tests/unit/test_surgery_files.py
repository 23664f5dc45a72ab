"""Files of slices, and what a repair takes."""

import errno
from dataclasses import replace

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from headviz.errors import BadData, BadInput
from headviz.surgery import costs, slicefile
from headviz.surgery import meter as meters
from headviz.surgery.layouts import has_bias
from headviz.surgery.meter import Meter
from headviz.surgery.repair import run_repair
from headviz.surgery.slicefile import SliceFile, in_order, read_slices, save_slices
from headviz.types import Geometry, Silent, plain
from tests.tiny_repair import Bench

QUIET = Meter(Silent(), 0)


def note(request):
    return {
        "plan": plain(request), "arm": "repair", "seed": 1, "number": 2, "step": 7, "heads": [[0, 1]], "ended": ""
    }  # fmt: skip


def test_slices_come_back_with_their_plan(tmp_path):
    request = Bench(tmp_path).plan()
    tensors = {"0.dense.columns": torch.randn(4, 3).T, "0.dense.rows": torch.ones(2, dtype=torch.bfloat16)}
    save_slices(tmp_path / "x.safetensors", tensors, note(request), QUIET)
    found = read_slices(tmp_path / "x.safetensors")
    assert (found.arm, found.seed, found.number, found.step, found.heads) == ("repair", 1, 2, 7, ((0, 1),))
    assert found.plan == request
    assert all(torch.equal(found.tensors[name], tensor) for name, tensor in tensors.items())
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["x.safetensors"]


def passes(bench, *numbers, **changes):
    """Files of these passes of one run, without tensors."""
    one = {
        "plan": bench.plan(),
        "arm": "repair",
        "seed": 1,
        "step": 7,
        "heads": ((0, 1),),
        "ended": "all steps",
    } | changes
    return [SliceFile(number=number, tensors={}, **one) for number in numbers]  # fmt: skip


def test_passes_are_put_in_order_by_what_the_files_say(tmp_path):
    bench = Bench(tmp_path)
    files = passes(bench, 10, *range(1, 10))
    assert [file.number for file in in_order(files)] == list(range(1, 11))
    assert in_order(passes(bench, 1)) == passes(bench, 1)
    assert in_order([]) == []


def test_files_that_are_not_the_passes_of_one_run_are_refused(tmp_path):
    bench = Bench(tmp_path)
    for numbers, says in (
        ((2,), "Pass 1 of this run is missing, and pass 2 was trained on the model with it. Give the files of all"),
        ((5, 1, 2), "Passes 3, 4 of this run are missing, and pass 5 was trained on the model with them."),
        ((1, 2, 2), "Two of these files of slices are pass 2 of the same run. Give a single file for each pass."),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=says):
            in_order(passes(bench, *numbers))
    first = passes(bench, 1)
    for other in ({"arm": "no-reinit"}, {"seed": 0}, {"plan": bench.plan(steps=13)}):
        with pytest.raises(BadInput, match=r"belong to different runs.* such as arm 'repair', seed 1"):
            in_order(first + passes(bench, 2, **other))


def test_another_file_is_refused(tmp_path):
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    with pytest.raises(BadData, match="holds no slices"):
        read_slices(tmp_path / "x.safetensors")

    save_file({"a": torch.ones(1)}, tmp_path / "y.safetensors")
    with pytest.raises(BadData, match="holds no slices"):
        read_slices(tmp_path / "y.safetensors")
    with pytest.raises(FileNotFoundError):
        read_slices(tmp_path / "z.safetensors")


def test_slices_wait_for_room_too(tmp_path, monkeypatch):
    left, real = [f"I/O error: No space left on device (os error {errno.ENOSPC})"], slicefile.save_file

    def sometimes(tensors, where, metadata):
        if left:
            raise SafetensorError(left.pop())
        real(tensors, where, metadata=metadata)

    monkeypatch.setattr(slicefile, "save_file", sometimes)
    monkeypatch.setattr(meters, "LOOK_AGAIN", 0.01)
    request = Bench(tmp_path).plan()
    save_slices(tmp_path / "x.safetensors", {"a": torch.ones(2)}, note(request), QUIET)
    assert read_slices(tmp_path / "x.safetensors").tensors["a"].tolist() == [1, 1]
    left.append("something else (os error 5)")
    with pytest.raises(SafetensorError, match="something else"):
        save_slices(tmp_path / "x.safetensors", {"a": torch.ones(2)}, note(request), QUIET)


def test_what_a_killed_process_left_half_written_goes(tmp_path):
    left = tmp_path / ".x.safetensors.0123"
    left.write_bytes(b"half")
    meters.write_whole(tmp_path / "x.safetensors", b"whole", QUIET)
    assert not left.exists()


def test_costs_of_the_papers_plan(tmp_path):
    bench = Bench(tmp_path)
    shape = Geometry(family="bloom", layers=24, heads=16, kv_heads=16, head_dim=128, hidden=2048)
    heads = tuple((layer, head) for layer in range(5, 23) for head in range(9, 15))
    request = bench.plan(heads=heads, arms=("repair",), seeds=(0,))
    numbers = 108 * 1_048_960
    assert costs.disk(request, shape, True) == 4 * numbers * (2 + 6)
    need = costs.memory(request, shape, True)
    assert 16 * numbers < need < 16 * numbers + 3e9

    redone = replace(request, recipe=replace(request.recipe, checkpointing=True, batch=8))
    assert costs.memory(redone, shape, True) < costs.memory(
        replace(request, recipe=replace(request.recipe, batch=8)), shape, True
    )


def test_the_folder_is_not_larger_than_foreseen(tmp_path):

    bench = Bench(tmp_path)
    request = bench.plan(seeds=(0,), steps=2)
    run_repair(request, bench)
    files = list((tmp_path / "repairs").rglob("*st.safetensors"))
    assert len(files) == 6
    slack = 4096 * len(files)  # headers with the plan
    foreseen = costs.disk(request, bench.loaded.geometry, has_bias(bench.loaded.model.config))
    assert sum(path.stat().st_size for path in files) <= foreseen + slack
