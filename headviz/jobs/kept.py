"""Finished batches of a job, so that a worker that is killed costs the batch in flight and not the whole job.

A file a batch, named by what the batch is: the inputs in it and the device that computed it. A batch that is cut
differently after the restart is another one and is computed again, so a resumed answer is the very answer that an
undisturbed run gives.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from headviz.jobs.files import write_whole

log = logging.getLogger(__name__)


class Kept:
    """The batches in one job's folder. Whoever claimed the job writes and reads; the folder goes when the job ends."""

    def __init__(self, folder: Path, device: str) -> None:
        self._folder = folder
        self._device = device

    def get(self, numbers: Sequence[int] | np.ndarray) -> dict[str, np.ndarray] | None:
        """What `put` was given for the batch of these inputs, in this order; None where it is to be computed."""
        try:
            return load(self._file(numbers).read_bytes())
        except FileNotFoundError:
            return None
        except SafetensorError:  # a crash of the whole machine can leave a file empty
            log.warning("a kept batch could not be read and is computed again", exc_info=True)
            return None

    def put(self, numbers: Sequence[int] | np.ndarray, **arrays: np.ndarray) -> None:
        """Keep what was computed for a batch. A full disk costs the copy, not the job."""
        try:
            self._folder.mkdir(exist_ok=True)
            blob = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
            write_whole(self._file(numbers), blob)
        except OSError:
            log.warning("a finished batch could not be kept", exc_info=True)

    def _file(self, numbers: Sequence[int] | np.ndarray) -> Path:
        batch = np.asarray(numbers, np.int64).tobytes()
        return self._folder / f"{hashlib.sha256(self._device.encode() + batch).hexdigest()[:32]}.safetensors"
