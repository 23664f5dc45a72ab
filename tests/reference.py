"""Every score, the slow and obvious way: loops in float64 over attention matrices that the stock model materialises.

Nothing here is shared with headviz. One input at a time, never padded. Formulas: "Identifying and Evaluating Inactive
Heads in Pretrained LLMs" (arXiv 2504.03889).
"""

from __future__ import annotations

import math

import numpy as np
import torch

# model_type → (where the layers are, the module whose output holds the values, how they lie in it, W_O)
_PLACES = {
    "gpt2": ("transformer.h", "attn.c_attn", "blocks", "attn.c_proj"),
    "gpt_neox": ("gpt_neox.layers", "attention.query_key_value", "per head", "attention.dense"),
    "bloom": ("transformer.h", "self_attention.query_key_value", "per head", "self_attention.dense"),
    "opt": ("model.decoder.layers", "self_attn.v_proj", "alone", "self_attn.out_proj"),
    "mpt": ("transformer.blocks", "attn.Wqkv", "blocks", "attn.out_proj"),
    "falcon": ("transformer.h", "self_attention.query_key_value", "groups", "self_attention.dense"),
    "phi3": ("model.layers", "self_attn.qkv_proj", "blocks", "self_attn.o_proj"),
}
_USUAL = ("model.layers", "self_attn.v_proj", "alone", "self_attn.o_proj")


def run(model: torch.nn.Module, ids: torch.Tensor) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """For each layer: attention (H, T, T), values (H, T, D), and the heads' slices of W_O (H, D, M), in float64.

    model: a stock model in float64 with eager attention. ids: (T,) one input.
    """
    layers_at, values_at, lie, output_at = _PLACES.get(model.config.model_type, _USUAL)
    caught: list[torch.Tensor] = []
    handles = [
        layer.get_submodule(values_at).register_forward_hook(lambda _m, _i, out: caught.append(out[0]))
        for layer in model.get_submodule(layers_at)
    ]
    with torch.no_grad():
        if lie == "groups":  # its stock attention matrices are wrong: computed here
            model(ids[None], use_cache=False)
            attentions = [_falcon(raw.double().numpy(), model)[None] for raw in caught]
        else:
            attentions = model(ids[None], output_attentions=True, use_cache=False).attentions
    for handle in handles:
        handle.remove()

    found = []
    for layer, attention, raw in zip(model.get_submodule(layers_at), attentions, caught, strict=True):
        A = np.asarray(attention[0], dtype=np.float64)  # (H, T, T)
        H = A.shape[0]
        weight = layer.get_submodule(output_at).weight.double().numpy()
        W = weight if model.config.model_type == "gpt2" else weight.T  # (H·D, M)
        D = W.shape[0] // H
        x = raw.double().numpy()  # (T, something)
        if lie == "per head":
            V = [x[:, (3 * h + 2) * D : (3 * h + 3) * D] for h in range(H)]
        elif lie == "groups":
            Q, _, values = _falcon_parts(x, model)
            V = [values[h * len(values) // len(Q)] for h in range(H)]
        else:
            if (clip := getattr(getattr(model.config, "attn_config", None), "clip_qkv", None)) is not None:
                x = np.clip(x, -clip, clip)  # MPT
            G = model.config.num_key_value_heads if hasattr(model.config, "num_key_value_heads") else H
            x = x[:, -G * D :] if lie == "blocks" else x
            V = [x[:, (h * G // H) * D : (h * G // H + 1) * D] for h in range(H)]
        found.append((A, np.stack(V), W.reshape(H, D, -1)))
    return found


def _falcon_parts(x: np.ndarray, model: torch.nn.Module) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries (H, T, D), keys and values (G, T, D) from Falcon's one projection x (T, something)."""
    H, D = model.config.num_attention_heads, model.config.head_dim
    G = (x.shape[1] // D - H) // 2
    parts = x.reshape(len(x), G, H // G + 2, D).transpose(1, 2, 0, 3)  # (G, H/G + 2, T, D)
    return parts[:, :-2].reshape(H, len(x), D), parts[:, -2], parts[:, -1]


def _falcon(x: np.ndarray, model: torch.nn.Module) -> np.ndarray:
    """(H, T, T) attention: the bias of transformers' builder is added to q·k, then all is divided by √D."""
    from transformers.models.falcon.modeling_falcon import build_alibi_tensor

    Q, K, _ = _falcon_parts(x, model)
    H, T, D = Q.shape
    bias = build_alibi_tensor(torch.ones(1, T, dtype=torch.long), H, torch.float64).numpy()  # (H, 1, T)
    found = np.zeros((H, T, T))
    for h in range(H):
        for i in range(T):
            k = K[h * len(K) // H, : i + 1]
            s = [(Q[h, i] @ k[j] + bias[h, 0, j]) / math.sqrt(D) for j in range(i + 1)]
            e = [math.exp(x - max(s)) for x in s]
            found[h, i, : i + 1] = np.array(e) / math.fsum(e)
    return found


def scores(model: torch.nn.Module, ids: torch.Tensor) -> dict[str, np.ndarray]:
    """All fifteen scores of one input: metric id → (L, H)."""
    rows: dict[str, list[list[float]]] = {}
    for A, V, W in run(model, ids):
        base = [_head(A[h], V[h], W[h]) for h in range(A.shape[0])]
        layer = {name: [head[name] for head in base] for name in base[0]}
        for name in ("awft", "aeqd", "ftvvn", "avvn", "ahon", "fullout"):
            layer[name + "_ln"] = [_ratio(x, _mean(layer[name])) for x in layer[name]]
        layer["lthon_ln"] = [_ratio(x, _mean(layer["ahon"])) for x in layer["lthon"]]
        layer["lthon_hn"] = [_ratio(x, y) for x, y in zip(layer["lthon"], layer["ahon"], strict=True)]
        for name, numbers in layer.items():
            rows.setdefault(name, []).append(numbers)
    return {name: np.array(numbers) for name, numbers in rows.items()}


def _head(A: np.ndarray, V: np.ndarray, W: np.ndarray) -> dict[str, float]:
    T = A.shape[0]
    sinks, entropies, value_norms, output_norms, full_norms = [], [], [], [], []
    for i in range(T):
        sinks.append(A[i, 0])
        entropies.append(-sum(p * math.log(p) for p in A[i, : i + 1] if p > 0))
        output = sum(A[i, j] * V[j] for j in range(i + 1))
        value_norms.append(math.sqrt(sum(x * x for x in V[i])))
        output_norms.append(math.sqrt(sum(x * x for x in output)))
        full_norms.append(math.sqrt(sum(x * x for x in output @ W)))
    return {
        "awft": _mean(sinks),
        "aeqd": _mean(entropies) if T > 1 else 0.0,
        "ftvvn": value_norms[0],
        "avvn": _mean(value_norms),
        "lthon": output_norms[T - 1],
        "ahon": _mean(output_norms),
        "fullout": _mean(full_norms),
    }


def _mean(numbers: list[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _ratio(a: float, b: float) -> float:
    return math.nan if b == 0 else a / b
