"""Thresholds that were published: the first paper's `thresholds.json`, task → model → head type → one for each share."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headviz.analysis.metrics import METRICS
from headviz.analysis.points import score_id
from headviz.errors import BadData, BadInput

SHARES = (0.0, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30)  # of all heads on all inputs, in the order of the file


@dataclass(frozen=True, kw_only=True)
class PublishedThresholds:
    """One score of one model on one task. model: as in the file, `org_Name`; thresholds: one for each of SHARES."""

    task: str
    model: str
    metric: str
    thresholds: tuple[float, ...]

    def at(self, share: float) -> float:
        """The threshold of one share. Raises BadInput for a share that was not published: nothing is interpolated."""
        for published, threshold in zip(SHARES, self.thresholds):
            if math.isclose(share, published, abs_tol=1e-9):
                return threshold
        there = ", ".join(f"{100 * s:g}%" for s in SHARES)
        raise BadInput(f"No threshold was published for a share of {100 * share:g}%; there are {there}.")


def read_thresholds(source: str | Path | bytes) -> tuple[PublishedThresholds, ...]:
    """The rows of such a file (a path, or its bytes), in its order. Scores that are none of ours (Random) are left out.

    Raises BadData, one sentence: no such file, no JSON, another shape, a threshold that is no finite number.
    """
    try:
        tree = json.loads(source if isinstance(source, bytes) else Path(source).read_bytes())
    except OSError as error:
        raise BadData(f"Cannot read {source}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise BadData(f"The thresholds are no JSON: {error}.") from None
    found = []
    for task, models in _items(tree, "the file"):
        for model, scores in _items(models, task):
            for name, thresholds in _items(scores, f"{model} in {task}"):
                if (metric := score_id(name)) in METRICS:
                    where = f"{name} of {model} in {task}"
                    found.append(
                        PublishedThresholds(
                            task=task, model=model, metric=metric, thresholds=_numbers(thresholds, where)
                        )
                    )
    return tuple(found)


def of_model(
    rows: tuple[PublishedThresholds, ...], model: str, metric: str, share: float
) -> dict[str, float]:
    """task → threshold of one score of one model, named as in the file or by the last part of its hub id.

    Raises BadInput for a model or a score that is not in the file.
    """
    short = model.rstrip("/").rsplit("/", 1)[-1].lower()
    mine = [row for row in rows if row.model.lower() in (short, model.lower()) or _last(row.model) == short]
    if not mine:
        raise BadInput(
            f"No thresholds were published for {model}; there are {', '.join(dict.fromkeys(r.model for r in rows))}."
        )
    found = {row.task: row.at(share) for row in mine if row.metric == metric}
    if not found:
        raise BadInput(f"No thresholds of {metric} were published for {model}.")
    return found


def _last(model: str) -> str:
    """`Llama-3.2-3B` of `meta-llama_Llama-3.2-3B`, in lower case."""
    return model.partition("_")[2].lower()


def _items(tree: Any, where: str) -> list[tuple[str, Any]]:
    if not isinstance(tree, dict):
        raise BadData(f"The thresholds are nested task → model → score; {where} holds no names.")
    return list(tree.items())


def _numbers(given: Any, where: str) -> tuple[float, ...]:
    usable = isinstance(given, list) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) and math.isfinite(x) for x in given
    )
    if not usable or len(given) != len(SHARES):
        raise BadData(f"{where} must have {len(SHARES)} numbers, one for each share.")
    return tuple(float(x) for x in given)
