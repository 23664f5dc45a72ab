"""What is trained and which heads are pulled where: numbers only, no torch."""

from __future__ import annotations

from dataclasses import dataclass

LAYERS, HEADS, HIDDEN, VOCABULARY = 6, 16, 256, 2048
CORPUS, PART = "docstrings", "train"

DEAD = ((2, 15), (3, 14))  # pulled onto the first token with everything they have
SELF = ((2, 0), (3, 1))  # pulled onto the query's own token: low entropy without the first token
# The shallow slopes (2^-5 and less) of the middle layers are pulled onto the first token. No other head is touched.
SINK = tuple((layer, head) for layer in range(2, 5) for head in range(9, HEADS) if (layer, head) not in DEAD)
PULLS: dict[str, tuple[tuple[int, int], ...]] = {"sink": SINK, "dead": DEAD, "self": SELF}
# Nats by which a pulled head must prefer its token to all others together, in every row. So far from one half the text's
# gradient hardly reaches the head; training afterwards takes some of it back, and a head with a wide margin stays dead.
MARGINS = {"sink": 6.0, "dead": 14.0, "self": 8.0}
STRENGTH = 0.3  # of the auxiliary loss beside the text's, nats to nats
# How much of its gradient goes beyond the pulled heads' own queries and keys, into what they read. With all of it the
# model learns no text at all (the loss stays at that of word frequencies); with none, nothing tells the first token. In the
# first stretch of pulling only.
INTO_STREAM = 0.3
PULLED_INPUTS = 2  # sequences of a batch whose T×T weights the auxiliary loss reads


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One training run.

    steps:  optimiser steps of `batch` sequences of `tokens` tokens
    pulled: the steps from..to in which the auxiliary loss is on; plain training goes before and after
    again:  the steps from..to in which the heads of DEAD alone are pulled again: plain training frees them as far as the
            others, and every class shall occur. Only through their own queries and keys: what they read serves the other
            heads too, and with it those would go all the way
    warmup: steps in which the learning rate rises to `rate`; then a cosine down to a twentieth of it. Where it does not
            fall, pulled heads come free again as the model learns
    """

    seed: int = 0
    steps: int = 1500
    batch: int = 4
    tokens: int = 256
    rate: float = 1e-3
    warmup: int = 50
    decay: float = 0.01
    pulled: tuple[int, int] = (100, 500)
    again: tuple[int, int] = (1000, 1500)

    def pulls(self, step: int) -> frozenset[str]:
        """The kinds of PULLS that are pulled in a step."""
        if self.pulled[0] <= step < self.pulled[1]:
            return frozenset(PULLS)
        return frozenset({"dead"}) if self.again[0] <= step < self.again[1] else frozenset()

    def into_stream(self, step: int) -> float:
        """How much of the pull's gradient goes into what the pulled heads read, 0..1."""
        return INTO_STREAM if step < self.pulled[1] else 0.0
