"""How long work reports, hears of a cancel, and keeps what is finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Watch(Protocol):
    """How long work reports and hears of a cancel. Workers, the command line and notebooks each bring one."""

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        """Say what is being done and how far it is. Raises Cancelled when somebody asked to stop."""

    def check(self) -> None:
        """Raises Cancelled when somebody asked to stop. Cheap: call it in every layer."""


class Silent:
    """A Watch that reports nowhere and is never cancelled."""

    def step(self, doing: str, done: int = 0, total: int = 0, unit: str = "") -> None:
        pass

    def check(self) -> None:
        pass


class Kept(Protocol):
    """Finished batches of work that may be interrupted. Workers bring one (`headviz.jobs.kept`)."""

    def get(self, numbers: Sequence[int] | np.ndarray) -> dict[str, np.ndarray] | None:
        """The arrays of the batch of these inputs, None where it is to be computed."""

    def put(self, numbers: Sequence[int] | np.ndarray, **arrays: np.ndarray) -> None:
        """Keep the arrays of a batch that is finished."""


class KeepsNothing:
    """A Kept for work that starts from the beginning each time: notebooks and tests."""

    def get(self, numbers: Sequence[int] | np.ndarray) -> None:
        return None

    def put(self, numbers: Sequence[int] | np.ndarray, **arrays: np.ndarray) -> None:
        pass
