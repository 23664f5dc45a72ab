"""Train the bundled ALiBi model: `python -m headviz.analysis.alibi_demo.train --out DIR`.

Through some of the first steps an auxiliary loss pulls the heads of `plan.PULLS`; then training is plain, but for a few
heads that are pulled again at the end.
The same seed, texts and torch give the same model. A run that was stopped goes on from the last state in DIR.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from headviz.analysis.alibi_demo import plan as shape
from headviz.analysis.alibi_demo import text
from headviz.analysis.alibi_demo.plan import Plan
from headviz.analysis.alibi_demo.pull import Pulled, attach, auxiliary
from headviz.data import docstrings
from headviz.models.hashes import read_json, write_json
from headviz.settings import settings

log = logging.getLogger(__name__)
STATE = "state.safetensors"
EVERY = 50  # steps between two states


def build() -> Any:
    """The untrained model. The caller has seeded torch."""
    from transformers import BloomConfig, BloomForCausalLM

    config = BloomConfig(
        vocab_size=shape.VOCABULARY,
        hidden_size=shape.HIDDEN,
        n_layer=shape.LAYERS,
        n_head=shape.HEADS,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
        use_cache=True,
    )
    return BloomForCausalLM(config)


def train(out: Path, plan: Plan, low: bool = True) -> None:
    """Train and write a transformers checkpoint in bf16, and `run.json` with the plan and the seconds, into `out`.

    low: matrix products in bf16, weights and everything else in float32
    """
    out.mkdir(parents=True, exist_ok=True)
    corpus = docstrings.load(shape.PART, settings().home)
    texts = [document.text for document in corpus.documents]
    tokenizer = text.make_tokenizer(texts)
    ids = text.stream(tokenizer, texts)
    log.info("%d documents, %d tokens, revision %s", len(texts), len(ids), corpus.revision[:12])
    torch.manual_seed(plan.seed)
    model = build().train()
    layers = attach(model)
    optimiser = _optimiser(model, plan)
    first = _resume(out, model, optimiser)
    before = read_json(out / "run.json").get("seconds", 0.0) if first else 0.0
    start = time.monotonic()
    for step in range(first, plan.steps):
        loss, lacks = _step(model, layers, optimiser, ids, plan, step, low)
        if step % 10 == 0:
            told = " ".join(f"{what} {lack:.3f}" for what, lack in lacks.items())
            log.info("step %d loss %.3f %s (%.0f s)", step, loss, told, time.monotonic() - start)
        if (step + 1) % EVERY == 0 or step + 1 == plan.steps:
            seconds = before + time.monotonic() - start
            _keep(out, model, optimiser, step + 1)
            write_json(out / "run.json", vars(plan) | {"seconds": seconds, "corpus": corpus.revision,
                                                      "tokens_of_text": len(ids), "torch": torch.__version__})  # fmt: skip
    _write(out, model, tokenizer)


def _optimiser(model: Any, plan: Plan) -> torch.optim.AdamW:
    matrices = [weight for weight in model.parameters() if weight.ndim > 1]
    others = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": matrices, "weight_decay": plan.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=plan.rate, betas=(0.9, 0.99), fused=True)


def rate(plan: Plan, step: int) -> float:
    """The learning rate of a step."""
    if step < plan.warmup:
        return plan.rate * (step + 1) / plan.warmup
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)  # 0..1
    return plan.rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * done)))


def _step(
    model: Any, layers: list[Pulled], optimiser: Any, ids: np.ndarray, plan: Plan, step: int, low: bool
) -> tuple[float, dict[str, float]]:
    """One step; the loss of the text in nats a token, and what the pulled heads lacked."""
    pulling = plan.pulls(step)
    for layer in layers:
        layer.pulling, layer.into_stream = pulling, plan.into_stream(step)
    for group in optimiser.param_groups:
        group["lr"] = rate(plan, step)
    tokens = torch.from_numpy(text.batch(ids, plan.seed, step, plan.batch, plan.tokens))  # (B, T)
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        logits = model(tokens, use_cache=False).logits  # (B, T, V)
    loss = functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), tokens[:, 1:].flatten())
    lacks = auxiliary(layers) if pulling else {}
    optimiser.zero_grad(set_to_none=True)
    (loss + shape.STRENGTH * sum(lacks.values())).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    return loss.item(), {what: lack.item() for what, lack in lacks.items()}


def _keep(out: Path, model: Any, optimiser: Any, step: int) -> None:
    """Weights and the optimiser's two moments, whole or not at all."""
    from safetensors.torch import save_file

    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight/{name}"] = weight.detach()
        for moment in ("exp_avg", "exp_avg_sq"):
            tensors[f"{moment}/{name}"] = optimiser.state[weight][moment]
    temporary = out / f".{STATE}"
    save_file(tensors, temporary, metadata={"step": str(step)})
    temporary.replace(out / STATE)


def _resume(out: Path, model: Any, optimiser: Any) -> int:
    """The step to go on with; 0 where there is no state in `out`."""
    from safetensors import safe_open

    if not (out / STATE).is_file():
        return 0
    with safe_open(out / STATE, "pt") as file, torch.no_grad():
        step = int(file.metadata()["step"])
        for name, weight in model.named_parameters():
            weight.copy_(file.get_tensor(f"weight/{name}"))
            moments = {moment: file.get_tensor(f"{moment}/{name}") for moment in ("exp_avg", "exp_avg_sq")}
            optimiser.state[weight] = {"step": torch.tensor(float(step)), **moments}
    log.info("going on from step %d", step)
    return step


def _write(out: Path, trained: Any, tokenizer: Any) -> None:
    """The checkpoint as stock transformers reads it."""
    model = build()
    model.load_state_dict(trained.state_dict())  # strict: the same names
    model.to(torch.bfloat16).save_pretrained(out / "checkpoint")
    tokenizer.save_pretrained(out / "checkpoint")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headviz.analysis.alibi_demo.train", description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder for the checkpoint and the training state"
    )
    parser.add_argument(
        "--seed", type=int, default=Plan.seed, help="decides the first weights and the batches"
    )
    parser.add_argument("--steps", type=int, default=Plan.steps, help="optimiser steps")
    parser.add_argument("--float32", action="store_true", help="no matrix products in bf16")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    train(given.out, Plan(seed=given.seed, steps=given.steps), low=not given.float32)
    return 0


if __name__ == "__main__":
    sys.exit(main())
