"""What a result carries about how it came to be."""

from __future__ import annotations

import platform
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import torch
import transformers

import headviz
from headviz.analysis.metrics import METHOD_VERSIONS
from headviz.types import Provenance, Request, digest, plain

if TYPE_CHECKING:
    from headviz.models.loading import Loaded


def provenance(request: Request, loaded: Loaded, started: float, notes: tuple[str, ...]) -> Provenance:
    """Provenance of an answer that is ready now; `started` is time.perf_counter() when work on it began."""
    return Provenance(
        request=plain(request),
        digest=digest(request, METHOD_VERSIONS[request.kind]),
        device=str(loaded.device),
        threads=torch.get_num_threads(),
        seconds=round(time.perf_counter() - started, 3),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        self_check=dict(loaded.self_check or {}),
        notes=notes,
    )


def versions() -> dict[str, str]:
    """Versions of what computed."""
    return {
        "headviz": getattr(headviz, "__version__", "from a checkout"),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
    }
