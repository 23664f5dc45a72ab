"""What this machine can do, found without torch: cores, memory, GPUs, and whether bf16 is worth choosing.

Everything that only Linux or NVIDIA has is guarded: elsewhere the answer is the careful one, not an error.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Literal

import psutil

_CPUINFO = Path("/proc/cpuinfo")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_CGROUP = Path("/sys/fs/cgroup")


def cores() -> int:
    """Cores this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):  # Linux; containers and batch systems set it
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def memory() -> tuple[int, int]:
    """(total, available) bytes of main memory; the limit of a container counts where there is one."""
    seen = psutil.virtual_memory()
    total, available = seen.total, seen.available
    limit, used = _number(_CGROUP / "memory.max"), _number(_CGROUP / "memory.current")
    if limit is not None and used is not None and limit < total:
        return limit, max(0, min(available, limit - used))
    return total, available


@cache
def gpus() -> list[str]:
    """Names of the NVIDIA GPUs, in the driver's order; empty where there is none."""
    if shutil.which("nvidia-smi"):
        try:
            answer = subprocess.run(
                ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            )
        except (OSError, subprocess.SubprocessError):
            pass  # installed, but no driver or no device: ask the kernel
        else:
            return [line.strip() for line in answer.stdout.splitlines() if line.strip()]
    try:
        return [_model(card / "information") for card in sorted(_NVIDIA.iterdir())]
    except OSError:
        return []


@cache
def has_bf16(device: str = "auto") -> bool:
    """Whether bf16 is faster than float32 on `device` (auto, cpu, cuda…).

    A processor needs AMX or Apple's FEAT_BF16. AVX512-BF16 alone does not count: torch 2.13 on such a processor
    took 41 ms in bf16 for what took 24 ms in float32 (4096×576 by 576×1536, two cores).
    """
    if device != "cpu" and gpus():
        return True
    if device.startswith("cuda"):
        return False
    if platform.system() == "Darwin":
        return platform.machine() == "arm64" and _sysctl("hw.optional.arm.FEAT_BF16") == "1"
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return "amx_bf16" in flags.split()


def auto_dtype(device: str = "auto") -> Literal["float32", "bfloat16"]:
    """What dtype "auto" means on this machine: bfloat16 where that is fast, else float32."""
    return "bfloat16" if has_bf16(device) else "float32"


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # no such file, or the word "max"
        return None


def _model(information: Path) -> str:
    for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("Model:"):
            return line.partition(":")[2].strip()
    return "NVIDIA GPU"


def _sysctl(name: str) -> str:
    try:
        answer = subprocess.run(
            ["sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout.strip()
