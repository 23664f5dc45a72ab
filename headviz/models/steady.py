"""Large blocks of memory that stay with the process, where the C library is glibc. No torch here."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # malloc.h: M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
_GIBIBYTE = 1 << 30


def steady_memory() -> bool:
    """Keep freed memory in this process instead of returning it to the system at each free.

    glibc gives every large activation back and faults its pages in again at the next layer, which costs 1.3 times in
    inference on a CPU. Raises both thresholds; call it before torch starts. Returns whether it had an effect: on
    other C libraries (macOS, musl) nothing happens and nothing is needed.
    """
    set_option = mallopt()
    if set_option is None:
        return False
    # older versions of glibc refuse more than a ceiling (32 MiB on 64 bits) with 0
    ceiling = 4 * 1024 * 1024 * ctypes.sizeof(ctypes.c_long)
    kept = set_option(MMAP_THRESHOLD, _GIBIBYTE) or set_option(MMAP_THRESHOLD, ceiling)
    return bool(kept) and bool(set_option(TRIM_THRESHOLD, _GIBIBYTE))


def mallopt() -> Callable[[int, int], int] | None:
    """glibc's function of that name, or None where the C library is another one."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return None
    library.mallopt.argtypes, library.mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    return library.mallopt
