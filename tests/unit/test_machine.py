"""What a machine can do, on machines that the tests pretend to be."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from headviz import machine, python_version


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    """No answer is remembered, and nothing of the real machine is seen unless a test asks for it."""
    machine.gpus.cache_clear()
    machine.has_bf16.cache_clear()
    monkeypatch.setattr(machine.platform, "system", lambda: "Linux")
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(machine, "_NVIDIA", tmp_path / "gpus")
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    yield
    machine.gpus.cache_clear()
    machine.has_bf16.cache_clear()


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ("fpu avx512f avx512_bf16 amx_bf16 amx_tile", "bfloat16"),
        ("fpu avx512f avx512_bf16", "float32"),  # measured slower than float32
        ("fpu avx2", "float32"),
        ("", "float32"),
    ],
)
def test_auto_dtype_reads_the_processor(tmp_path, flags, dtype):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: {flags}\nbugs : amx_bf16\n")
    assert machine.auto_dtype() == dtype


def test_no_cpuinfo_is_float32():
    assert machine.auto_dtype() == "float32"


@pytest.mark.parametrize(("answer", "fast"), [("1", True), ("0", False), ("", False)])
def test_apple_silicon_is_asked_through_sysctl(monkeypatch, answer, fast):
    monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(machine.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(machine.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout=answer + "\n"))
    assert machine.has_bf16() is fast


def test_sysctl_missing_is_no_bf16(monkeypatch):
    def missing(*args, **kwargs):
        raise FileNotFoundError("sysctl")

    monkeypatch.setattr(machine.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(machine.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(machine.subprocess, "run", missing)
    assert machine.has_bf16() is False


def test_gpus_are_named_by_nvidia_smi(monkeypatch):
    monkeypatch.setattr(machine.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(
        machine.subprocess, "run", lambda *a, **k: SimpleNamespace(stdout="NVIDIA H200\nNVIDIA L4\n\n")
    )
    assert machine.gpus() == ["NVIDIA H200", "NVIDIA L4"]
    assert machine.auto_dtype() == "bfloat16"
    assert machine.auto_dtype("cpu") == "float32"


def test_gpus_are_named_by_the_kernel_where_nvidia_smi_fails(monkeypatch, tmp_path):
    def broken(*args, **kwargs):
        raise subprocess.CalledProcessError(9, "nvidia-smi")

    monkeypatch.setattr(machine.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(machine.subprocess, "run", broken)
    card = tmp_path / "gpus" / "0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA L4\nIRQ: 1\n")
    assert machine.gpus() == ["NVIDIA L4"]


def test_no_gpu():
    assert machine.gpus() == []
    assert machine.has_bf16("cuda") is False


def test_memory_and_cores_are_plausible():
    total, available = machine.memory()
    assert 0 < available <= total
    assert machine.cores() >= 1


@pytest.mark.parametrize(("limit", "used", "left"), [(1000, 400, 600), (1000, 1500, 0)])
def test_a_containers_limit_counts(tmp_path, limit, used, left):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert machine.memory() == (limit, left)


def test_no_limit_is_the_machines_memory(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("5\n")
    assert machine.memory()[0] == machine.psutil.virtual_memory().total


def test_cores_where_affinity_is_unknown(monkeypatch):
    monkeypatch.delattr(machine.os, "sched_getaffinity", raising=False)
    assert machine.cores() == machine.os.cpu_count()


@pytest.mark.parametrize(("version", "fine"), [((3, 10, 9), False), ((3, 11, 0), True), ((4, 0, 0), True)])
def test_python_version(version, fine):
    sentence = python_version.sentence(version)
    assert (sentence == "") is fine
    if not fine:
        assert "3.10.9" in sentence
        assert "3.11" in sentence
