"""Attention statistics from fused attention, which returns each row's log-sum-exp and never holds T×T.

For query i with logits s_ij and log-sum-exp ℓ_i, exactly:

* weight on the first token: exp(s_i0 − ℓ_i), one dot product a row;
* entropy: ℓ_i − E_p[s_ij] = ℓ_i − scale·q_i·E_p[k], and E_p[k] is a second fused call with the keys as values.

The public `scaled_dot_product_attention` drops ℓ; the operations under it, named in KERNELS, return it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from headviz.models.alibi import widened, with_coordinates
from headviz.models.blocks import Attended, Attention, exact

_LOW = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Kernel:
    """A fused operation of torch. `dtypes` it computes in, `shares_kv`: whether it takes G < H keys and values,
    `multiple`: head sizes must be a multiple of it, `largest`: the largest head size."""

    operation: str  # under torch.ops.aten
    device: str
    dtypes: tuple[torch.dtype, ...]
    call: Callable[[Callable, Tensor, Tensor, Tensor, float, bool], tuple[Tensor, Tensor]]
    shares_kv: bool = False
    multiple: int = 1
    largest: int = 1 << 30


KERNELS: dict[str, Kernel] = {
    "cpu-flash": Kernel(
        operation="_scaled_dot_product_flash_attention_for_cpu",
        device="cpu",
        dtypes=(*_LOW, torch.float32, torch.float64),
        call=lambda op, q, k, v, scale, causal: op(q, k, v, 0.0, causal, scale=scale),
        shares_kv=True,
    ),
    "cuda-flash": Kernel(
        operation="_scaled_dot_product_flash_attention",
        device="cuda",
        dtypes=_LOW,
        call=lambda op, q, k, v, scale, causal: op(q, k, v, 0.0, causal, False, scale=scale)[:2],
        multiple=8,
        largest=256,
    ),
    "cuda-efficient": Kernel(
        operation="_scaled_dot_product_efficient_attention",
        device="cuda",
        dtypes=(torch.float32, *_LOW),
        call=lambda op, q, k, v, scale, causal: op(q, k, v, None, True, 0.0, causal, scale=scale)[:2],
        multiple=8,
    ),
}


class KernelUnavailableError(RuntimeError):
    """The fused operation refused these tensors on this device; query blocks take over and the notes say so."""


def choose(q: Tensor, k: Tensor, ask: Attention, refused: Collection[str] = ()) -> str | None:
    """Name of the kernel for q (B, H, T, D) over k (B, G, K, D), or None where only query blocks are right.

    refused: kernels that this machine has turned down before.
    """
    K = k.shape[2]
    if q.shape[2] != K:
        return None  # with a cache the CPU operation aligns its causal triangle top left, which is wrong
    if ask.softcap is not None or (ask.window is not None and ask.window < K):
        return None
    return kernel_for(q.device.type, q.dtype, q.shape[-1], refused)


def kernel_for(device: str, dtype: torch.dtype, head_dim: int, refused: Collection[str] = ()) -> str | None:
    """The first kernel of the table that fits."""
    for name, kernel in KERNELS.items():
        fits = kernel.device == device and dtype in kernel.dtypes and head_dim <= kernel.largest
        if fits and name not in refused and hasattr(torch.ops.aten, kernel.operation):
            return name
    return None


@cache
def low_precision_pays() -> bool:
    """Whether this CPU multiplies bf16 matrices in hardware (AMX).

    Where it does not, torch's fused attention is about 1.7 times slower in bf16 than in float32, so the statistics
    are computed in float32: faster and closer to exact.
    """
    probe = getattr(torch.cpu, "_is_amx_tile_supported", None)
    return bool(probe and probe())


def quick(tensor: Tensor) -> Tensor:
    """`tensor` in the precision in which fused attention is fastest here."""
    if tensor.dtype in _LOW and tensor.device.type == "cpu" and not low_precision_pays():
        return exact(tensor)
    return tensor


def attend(name: str, q: Tensor, k: Tensor, v: Tensor, ask: Attention, want: frozenset[str]) -> Attended:
    """Causal attention of q (B, H, T, D) over k, v (B, G, T, D) with the statistics of `want`.

    Raises KernelUnavailableError when the operation refuses.
    """
    q, k, v = (quick(x) for x in (q, k, v))
    D = v.shape[-1]
    if ask.slopes is not None:
        q, k = with_coordinates(q, k, ask.slopes, ask.scale)
        v = widened(v, k.shape[-1])
    output, normaliser = run(name, q, k, v, ask.scale)  # (B, H, T, D'), (B, H, T) nats
    sink = entropy = None
    wide = exact(q) if {"sink", "entropy"} & want else None
    if "sink" in want:
        sink = _first_weight(wide, k, normaliser, ask.scale)
    if "entropy" in want:
        entropy = _entropy(name, q, k, wide, normaliser, ask)
    return Attended(output[..., :D], sink, entropy, normaliser)


def _first_weight(q: Tensor, k: Tensor, normaliser: Tensor, scale: float) -> Tensor:
    """(B, H, T) softmax weight of key 0. The first query has no other key, so its weight is 1 by definition."""
    first = exact(k[:, :, :1])  # (B, G, 1, D)
    first = first.repeat_interleave(q.shape[1] // k.shape[1], 1)  # (B, H, 1, D)
    sink = torch.exp(scale * (q * first).sum(-1) - normaliser).clamp(max=1.0)
    sink[..., 0] = 1.0
    return sink


def _entropy(name: str, q: Tensor, k: Tensor, wide: Tensor, normaliser: Tensor, ask: Attention) -> Tensor:
    """(B, H, T) entropy in nats. Rounding can put a row of zero entropy below 0, so it is clamped."""
    if ask.slopes is not None and q.dtype in _LOW:
        # the expected position would be rounded to 8 bits, and a steep slope would turn that into whole nats
        q, k = exact(q), exact(k)
        name = kernel_for(q.device.type, q.dtype, q.shape[-1]) or name
    expected, _ = run(name, q, k, k, ask.scale)  # (B, H, T, D) mean key under the weights
    entropy = (normaliser - ask.scale * (wide * exact(expected)).sum(-1)).clamp_(min=0.0)
    entropy[..., 0] = 0.0
    return entropy


def run(
    name: str, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool = True
) -> tuple[Tensor, Tensor]:
    """Output (B, H, T, D) and log-sum-exp (B, H, T) in float32 (float64 for float64) of one fused call."""
    kernel = KERNELS[name]
    T, D = q.shape[2], q.shape[-1]
    if not kernel.shares_kv and q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))  # (B, H, T, D)
    width = -(-D // kernel.multiple) * kernel.multiple
    if width != D:
        q, k, v = (widened(x, width) for x in (q, k, v))
    try:
        output, normaliser = kernel.call(getattr(torch.ops.aten, kernel.operation), q, k, v, scale, causal)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError) as error:
        raise KernelUnavailableError(f"{kernel.operation}: {error}") from error
    return output[..., :D], normaliser[..., :T]  # some kernels round T up to a multiple of 32 in the second
