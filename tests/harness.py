"""lm-evaluation-harness on questions of ours: its own task file, its own HF model class. Needs requirements-bench.txt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from headviz.data.items import Item
from headviz.data.questions import Questions

INSTALLED = find_spec("lm_eval") is not None
_TEMPLATE = "tasks/mmlu/default/_default_template_yaml"


def requests(questions: Questions, shots: int, folder: Path) -> list[Any]:
    """The harness's requests for all choices of all questions, in their order: as its task `mmlu_<subject>` builds them,
    with its data set swapped for files of our questions."""
    import lm_eval
    import yaml
    from lm_eval.api.task import ConfigurableTask

    template = yaml.safe_load((Path(lm_eval.__file__).parent / _TEMPLATE).read_text())
    found = []
    for subject in dict.fromkeys(one.subject for one in questions.items):
        tests = [one for one in questions.items if one.subject == subject]
        files = {
            "test": _write(folder / f"{subject}-test.jsonl", tests),
            "dev": _write(folder / f"{subject}-dev.jsonl", questions.examples[subject]),
        }
        about = subject.replace("_", " ")
        changes = {
            "task": f"mmlu_{subject}",
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "cache")},
            "num_fewshot": shots,
            "description": f"The following are multiple choice questions (with answers) about {about}.\n\n",
        }
        task = ConfigurableTask(config=template | changes)
        task.build_all_requests(rank=0, world_size=1)
        found += task.instances
    return found


def model(ours: Any, tokenizer: Any, batch: int) -> Any:
    """Its HF model class around a model that is loaded already."""
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=ours, tokenizer=tokenizer, batch_size=batch)


def _write(path: Path, items: Sequence[Item]) -> str:
    rows = (
        {
            "question": one.question,
            "choices": list(one.choices),
            "answer": one.answer,
            "subject": one.subject,
        }
        for one in items
    )
    path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return str(path)
