"""Token by token with heads off: keys and values are kept, so that each new token is one short pass.

    with decoding(model, gates=…, watch=watch) as watching:
        hidden = watching.read(prompt)          # (M,) what goes into the LM head after the last token
        hidden = watching.read([token])         # goes on from there

Queries are fewer than keys then: the probe computes such a pass in blocks of queries, in float32, where the last query
stands at the last key. Layers with a sliding window drop keys that no later query sees; the places of the others are
counted from the end, so that stays exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headviz.models import gate
from headviz.models.attention import Probe, attached
from headviz.models.prefix import elastic
from headviz.types import Watch


class Decoder(Probe):
    """A probe over one text that grows. It measures nothing: `want` is empty.

    whole: the text is run from its start for every token, because the rotation of positions depends on its length, so
           that kept keys would be those of a shorter text
    """

    def __init__(
        self, model: nn.Module, gates: gate.Gate | None, watch: Watch, means: Tensor | None = None
    ) -> None:
        from transformers import DynamicCache

        super().__init__(model, (), gates, watch, None, means)
        self.whole = elastic(getattr(model.config, "rope_parameters", None))
        self._kept = None if self.whole else DynamicCache(config=model.base_model.config)
        self._before: list[int] = []  # tokens that were read already
        self._start = 0  # position of the first token of the running pass

    def read(self, tokens: Sequence[int]) -> Tensor:
        """(M,) what goes into the LM head after the last of `tokens` (at least one), which go on where the last ended."""
        row = [*self._before, *tokens] if self.whole else list(tokens)
        self._start = 0 if self.whole else len(self._before)
        device = self.model.get_input_embeddings().weight.device
        ids = torch.tensor([row], device=device)  # (1, T)
        kept = {"use_cache": False} if self.whole else {"use_cache": True, "cache": self._kept}
        hidden = self.model.base_model(input_ids=ids, **kept).last_hidden_state[0, -1]
        self._before += tokens
        return hidden

    def _first(self, T: int, device: torch.device) -> Tensor:
        return torch.arange(self._start, self._start + T, device=device) == 0


@contextmanager
def decoding(
    model: nn.Module, *, gates: gate.Gate | None = None, watch: Watch, means: Tensor | None = None
) -> Iterator[Decoder]:
    """Put `model` under a `Decoder` for one text; `gates` must give factors (H,)."""
    watching = Decoder(model, gates, watch, means)
    with attached(watching):
        yield watching
