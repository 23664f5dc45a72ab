"""The self-check: the fast statistics against the slow ones, on the activations of one real input.

On first use of a model on a device every layer's queries, keys and values go both through the path that scoring
takes and through float32 blocks of queries. The worst errors are stored and printed with every figure.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from headviz.errors import SelfCheckFailed
from headviz.models import blocks
from headviz.models.attention import probe
from headviz.models.blocks import Attended, Attention, exact
from headviz.models.statistics import Rows, reduce
from headviz.types import Silent, Watch

LONGEST = 512  # tokens: enough for a mean, quick for any model
_WANT = frozenset({"sink", "entropy", "value_mean", "output_mean"})
_LOW = {"awft": 0.005, "entropy": 0.02, "value_norm": 0.02, "output_norm": 0.02}
_FULL = {"awft": 1e-3, "entropy": 5e-3, "value_norm": 1e-4, "output_norm": 1e-3}
# how far the worst head's mean may be off: probability, nats, and relative errors of the two norms
TOLERANCES: dict[torch.dtype, dict[str, float]] = {
    torch.bfloat16: _LOW,
    torch.float16: _LOW,
    torch.float32: _FULL,
    torch.float64: _FULL,
}


class NotFiniteError(ArithmeticError):
    """Activations of a layer are not finite, so there is nothing to compare."""

    def __init__(self, layer: int) -> None:
        super().__init__(f"activations are not finite in layer {layer}")
        self.layer = layer


def self_check(model: nn.Module, tokens: Tensor, watch: Watch | None = None) -> dict[str, float]:
    """Worst error over layers and heads on one input, tokens (T,) of which the first 512 are used.

    Returns {"awft": probability, "entropy": nats, "value_norm": relative, "output_norm": relative}, each the error of
    a head's mean over tokens. Raises SelfCheckFailed with the numbers when one is over the tolerance of the model's
    precision (see `tolerances`), and NotFiniteError when the activations themselves are broken.
    """
    errors = dict.fromkeys(_FULL, 0.0)

    def compare(layer: int, q: Tensor, k: Tensor, v: Tensor, ask: Attention, fast: Attended) -> None:
        ours = any(
            math.isnan(error) for error in errors.values()
        )  # then the fast path broke an earlier layer
        if not ours and not all(bool(x.isfinite().all()) for x in (q, k, v)):
            raise NotFiniteError(layer)
        for name, error in _errors(q, k, v, ask, fast).items():
            # NaN must not slip through a comparison
            errors[name] = error if math.isnan(error) else max(errors[name], error)

    ids = tokens[None, :LONGEST]  # (1, T)
    with (
        torch.inference_mode(),
        probe(model, want=_WANT, observe=compare, watch=watch or Silent()) as watching,
    ):
        watching.run(ids)
    allowed = tolerances(next(model.parameters()).dtype, ids.shape[1])
    over = [name for name, error in errors.items() if not error <= allowed[name]]
    if over:
        numbers = ", ".join(f"{name} {errors[name]:.2g} (at most {allowed[name]:.2g})" for name in over)
        raise SelfCheckFailed(
            f"The fast attention statistics disagree with the slow ones for this model on {ids.device}: {numbers}. "
            "No score is given. Try dtype float32, or another device; if it stays, please report it."
        )
    return errors


def tolerances(dtype: torch.dtype, T: int) -> dict[str, float]:
    """The largest error allowed in `dtype` for an input of T tokens.

    Rounding errors of single rows average out over tokens, so inputs under 64 tokens are allowed more.
    """
    short = max(1.0, math.sqrt(64 / T))
    return {name: value * short for name, value in TOLERANCES.get(dtype, _LOW).items()}


def _errors(q: Tensor, k: Tensor, v: Tensor, ask: Attention, fast: Attended) -> dict[str, float]:
    slow = blocks.attend(q, k, v, ask, _WANT)
    rows = Rows(None, q.shape[0], q.shape[2], q.device)
    mine = reduce(fast, v, rows, _WANT, None)  # (B, H) each
    heads = q.shape[1] // v.shape[1]
    value = rows.mean(exact(v).square().sum(-1).sqrt()).repeat_interleave(heads, 1)
    output = rows.mean(exact(slow.output).square().sum(-1).sqrt())
    return {
        "awft": (mine["sink"] - rows.mean(slow.sink)).abs().max().item(),
        "entropy": (mine["entropy"] - rows.mean(slow.entropy)).abs().max().item(),
        "value_norm": _relative(mine["value_mean"], value),
        "output_norm": _relative(mine["output_mean"], output),
    }


def _relative(number: Tensor, reference: Tensor) -> float:
    """Worst |number − reference| / reference; two zeros agree."""
    return ((number - reference).abs() / reference.clamp(min=torch.finfo(reference.dtype).tiny)).max().item()
