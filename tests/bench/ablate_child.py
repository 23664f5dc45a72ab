"""The measurements of the ablation benchmark, in a process of their own; prints JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from headviz.models import steady

if __name__ == "__main__":
    steady.steady_memory()  # before torch, as the worker does

import numpy as np
import torch

from headviz.analysis.measure import run_measure
from headviz.data.prompts import build_rows
from headviz.data.questions import read_questions, resolve_questions
from headviz.jobs.resources import Resources
from headviz.models import catalog
from headviz.settings import settings
from headviz.types import Ablation, MeasureRequest, QuestionsRef, Silent
from tests import harness
from tests.bench.ablate import HARNESS, PLAIN
from tests.bench.rows import ROOT

SUBJECTS = ("abstract_algebra", "anatomy", "astronomy", "business_ethics", "marketing", "world_religions")


def setting() -> Any:
    here = settings()
    folder = here.mmlu or ROOT.parent / "shared" / "data" / "mmlu"
    if not folder.is_dir():
        raise SystemExit("MMLU is not on this machine: name its folder in HEADVIZ_MMLU.")
    return replace(here, mmlu=folder, device="cpu")


def plain_loop(loaded: Any, ref: QuestionsRef, here: Any) -> np.ndarray:
    """(Q, 4): whole prompts, longest first, four at a time; only the last position goes through the LM head."""
    rows = build_rows(read_questions(ref, here, Silent()), ref, loaded.tokenizer)
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number].tokens))
    found = np.zeros((len(rows), 4))
    for start in range(0, len(order), 4):
        batch = order[start : start + 4]
        lengths = torch.tensor([len(rows[number].tokens) for number in batch])
        ids = torch.zeros(len(batch), int(lengths.max()), dtype=torch.long)
        for row, number in zip(ids, batch, strict=True):
            row[: len(rows[number].tokens)] = torch.tensor(rows[number].tokens)
        hidden = loaded.model.base_model(ids, use_cache=False).last_hidden_state
        scores = loaded.model.lm_head(hidden[torch.arange(len(batch)), lengths - 1]).float().log_softmax(-1)
        for row, number in zip(scores, batch, strict=True):
            found[number] = [row[read.targets[0]].item() for read in rows[number].reads]
    return found


def by_harness(loaded: Any, ref: QuestionsRef, here: Any) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        asked = harness.requests(read_questions(ref, here, Silent()), ref.shots, Path(folder))
    peer = harness.model(loaded.model, loaded.tokenizer, 4)
    return np.array([one[0] for one in peer.loglikelihood(asked, disable_tqdm=True)]).reshape(-1, 4)


def main(dtype: str, repeats: str) -> dict[str, list[float]]:
    torch.set_num_threads(1)
    here = setting()
    resources = Resources(here, 1)
    ref = catalog.resolve("smollm2", dtype=dtype, settings=here)
    loaded = resources.model(ref)
    off = tuple((layer, head) for layer in range(30) for head in range(9) if (layer * 9 + head) % 5 == 0)

    def ours(questions: QuestionsRef, ablation: Ablation) -> np.ndarray:
        return run_measure(
            MeasureRequest(model=ref, questions=questions, ablation=ablation), resources
        ).logprob

    runs: dict[str, Callable[[QuestionsRef], np.ndarray]] = {
        "ours": lambda questions: ours(questions, Ablation()),
        "ours, heads off": lambda questions: ours(questions, Ablation(mode="static", heads=off)),
        PLAIN: lambda questions: plain_loop(loaded, questions, here),
    }
    if harness.INSTALLED:
        runs[HARNESS] = lambda questions: by_harness(loaded, questions, here)

    def asked(subject: str, count: int) -> QuestionsRef:
        return resolve_questions("mmlu", subjects=(subject,), per_subject=count, settings=here)

    for run in runs.values():  # what is loaded on first use
        run(asked(SUBJECTS[0], 2))
    times: dict[str, list[float]] = {name: [0.0] * int(repeats) for name in runs}
    answers: dict[str, list[np.ndarray]] = {name: [] for name in runs}
    for turn in range(int(repeats)):
        for subject in SUBJECTS:  # short turns: whatever else the machine does hits all alike
            for name, run in runs.items():
                started = time.process_time()
                found = run(asked(subject, 20))
                times[name][turn] += time.process_time() - started
                answers[name].append(found)
    for name in {PLAIN, HARNESS} & set(answers):
        far = np.abs(np.concatenate(answers[name]) - np.concatenate(answers["ours"])).max()
        print(f"… {name} is at most {far:.2g} nats from ours in {dtype}", file=sys.stderr)
        if dtype == "float32" and far > 1e-3:
            raise SystemExit(f"{name} and ours do not agree: a benchmark of different things")
    return times


if __name__ == "__main__":
    with torch.inference_mode():
        print(json.dumps(main(*sys.argv[1:])))
