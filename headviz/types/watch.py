"""How long work reports, and hears of a cancel."""

from __future__ import annotations

from typing import Protocol


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
