"""Which runs of a repair are to be done, which are done in a process beside, and how far those are. No torch here.

A chain is one arm with one seed, all its passes: each pass builds on the one before, and two chains know nothing of each
other, so they may be done in any order and at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from headviz.errors import HeadvizError
from headviz.surgery.arms import arm, heads_of
from headviz.types import RepairRequest


@dataclass(frozen=True)
class Chain:
    """One arm with one seed."""

    arm: str
    seed: int


def chains_of(request: RepairRequest) -> tuple[Chain, ...]:
    """By arm in the plan's order, then seed."""
    return tuple(Chain(name, seed) for name in request.arms for seed in request.seeds)


def passes_of(request: RepairRequest, chain: Chain) -> int:
    """How many passes a chain has at most."""
    return request.passes if arm(chain.arm).again else 1


def steps_of(request: RepairRequest, chain: Chain) -> int:
    """Optimiser steps of a chain, all passes."""
    return request.steps * passes_of(request, chain) if arm(chain.arm).trains else 0


def all_steps(request: RepairRequest) -> int:
    return sum(steps_of(request, chain) for chain in chains_of(request))


def longest_first(request: RepairRequest, chains: Iterable[Chain]) -> list[Chain]:
    """The order for several takers: the arm `repair` first, for its failure ends everything; of the others those that take
    longest, so that no taker is left with a long one at the end. Else as they come."""

    def order(chain: Chain) -> tuple[bool, int, int]:
        first = min((layer for layer, _ in heads_of(request, chain.arm)), default=0)
        # layers below the first need no way back
        return chain.arm != "repair", -steps_of(request, chain), first

    return sorted(chains, key=order)


class Turns:
    """Hands out chains, each to one taker. Safe to share between threads.

    A chain that ended early counts with all its steps. One that is being done in this process is counted by its meter.
    """

    def __init__(self, request: RepairRequest) -> None:
        self._request, self._mutex = request, threading.Lock()
        self._left = list(chains_of(request))
        self._done = 0
        self._beside: dict[Chain, tuple[int, str]] = {}  # steps, and what is being done
        self._failed: HeadvizError | None = None

    def longest_first(self) -> None:
        """For several takers: what is left, in the order of the function of that name."""
        with self._mutex:
            self._left = longest_first(self._request, self._left)

    def take(self, *, beside: bool = False) -> Chain | None:
        """The next chain that nobody has; None where there is none. beside: it is done in another process."""
        with self._mutex:
            if not self._left:
                return None
            chain = self._left.pop(0)
            if beside:
                self._beside[chain] = (0, "")
            return chain

    def over(self, chain: Chain) -> None:
        """Whoever took it is done with it."""
        with self._mutex:
            self._beside.pop(chain, None)
            self._done += steps_of(self._request, chain)

    def back(self, chain: Chain) -> None:
        """The process that took it is gone: it is the next to be taken, and goes on where it was."""
        with self._mutex:
            del self._beside[chain]
            self._left.insert(0, chain)

    def open(self) -> bool:
        """Whether there is a chain that nobody took, or that is being done beside."""
        with self._mutex:
            return bool(self._left or self._beside)

    def tell(self, chain: Chain, steps: int, words: str) -> None:
        """How far a chain is that is done beside, and what is being done for it."""
        with self._mutex:
            if chain in self._beside:
                self._beside[chain] = (steps, words)

    def fail(self, error: HeadvizError) -> None:
        """Something that ends the whole repair was met beside."""
        self._failed = error

    # ---------------------------------------------------------------------------------- what the meter asks

    def check(self) -> None:
        """Raises what was met beside."""
        if self._failed is not None:
            raise self._failed

    def steps(self) -> int:
        """Steps of all chains but the one that is being done here."""
        with self._mutex:
            return self._done + sum(steps for steps, _ in self._beside.values())

    def words(self) -> list[str]:
        """What is being done beside."""
        with self._mutex:
            return [words for _, words in self._beside.values() if words]
