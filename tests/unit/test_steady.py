"""glibc's thresholds, and their absence elsewhere."""

import ctypes
import subprocess
import sys
from types import SimpleNamespace

from headviz.models import steady


def test_nothing_happens_where_the_c_library_is_another_one(monkeypatch):
    monkeypatch.setattr(steady.sys, "platform", "darwin")
    assert steady.steady_memory() is False
    monkeypatch.setattr(steady.sys, "platform", "linux")
    monkeypatch.setattr(steady.ctypes, "CDLL", lambda _: SimpleNamespace())  # musl has no mallopt
    assert steady.steady_memory() is False


def test_both_thresholds_are_raised_and_a_refusal_is_met_with_the_ceiling(monkeypatch):
    calls = []

    def mallopt(which, size):
        calls.append((which, size))
        return int(which == -1 or size <= 32 << 20)

    monkeypatch.setattr(steady, "mallopt", lambda: mallopt)
    monkeypatch.setattr(steady.ctypes, "sizeof", lambda _: 8)
    assert steady.steady_memory() is True
    assert calls == [(-3, 1 << 30), (-3, 32 << 20), (-1, 1 << 30)]
    monkeypatch.setattr(steady, "mallopt", lambda: lambda which, size: 0)
    assert steady.steady_memory() is False


def test_it_works_where_glibc_is_and_imports_no_torch():
    code = (
        "import sys; from headviz.models.steady import steady_memory as s; print(s(), 'torch' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    glibc = sys.platform.startswith("linux") and hasattr(ctypes.CDLL(None), "gnu_get_libc_version")
    assert said == [str(glibc), "False"]
