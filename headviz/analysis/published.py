"""What the first paper reports, to draw beside what is measured here. Figures only; nothing here was measured by headviz."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headviz.data.questions import MMLU_SUBJECTS

if TYPE_CHECKING:
    from headviz.analysis.ablation import Plan

SOURCE = (
    "Table 2 of “Identifying and Evaluating Inactive Heads in Pretrained LLMs” (arXiv 2504.03889): "
    "largest percentage of heads switched off, per input, within 1 accuracy point of the baseline, MMLU 5-shot"
)


@dataclass(frozen=True, kw_only=True)
class Published:
    """One model's row.

    model:            as in the paper's files; hub: where its weights are
    baseline_percent: MMLU accuracy with nothing off, from the paper's repository, to two digits
    awft_within:      percent of heads off by AWFT within 1 point; best_within: by the best of all others, Random included
    best_score:       which score that is
    """

    model: str
    hub: str
    baseline_percent: float
    awft_within: float
    best_within: float
    best_score: str


def _row(hub: str, baseline: float, awft: float, best: float, score: str = "ahon_ln") -> Published:
    return Published(
        model=hub.split("/")[1],
        hub=hub,
        baseline_percent=baseline,
        awft_within=awft,
        best_within=best,
        best_score=score,
    )


TABLE2: dict[str, Published] = {
    row.model: row
    for row in (
        _row("meta-llama/Llama-3.2-3B", 56.20, 8.34, 8.05),
        _row("meta-llama/Llama-3.2-3B-Instruct", 61.28, 6.87, 13.04),
        _row("meta-llama/Llama-3.1-8B", 65.20, 8.56, 17.11),
        _row("meta-llama/Llama-3.1-8B-Instruct", 68.32, 1.01, 10.97),
        _row("allenai/OLMo-2-1124-7B", 62.83, 0.42, 8.34),
        _row("allenai/OLMo-2-1124-7B-SFT", 61.02, 1.70, 18.95),
        _row("allenai/OLMo-2-1124-7B-DPO", 60.80, 2.14, 20.60),
        _row("allenai/OLMo-2-1124-7B-Instruct", 60.82, 1.46, 19.54),
        _row("Qwen/Qwen2.5-0.5B", 47.49, 7.43, 14.42, "lthon_ln"),
        _row("Qwen/Qwen2.5-1.5B", 59.46, 7.55, 7.49, "lthon_ln"),
        _row("Qwen/Qwen2.5-3B", 65.50, 5.67, 8.78, "ahon"),
        _row("Qwen/Qwen2.5-7B", 72.20, 1.25, 7.54),
        _row("Qwen/Qwen2.5-7B-Instruct", 71.95, 1.13, 5.76, "avvn_ln"),
        _row("Qwen/Qwen2.5-14B", 79.63, 11.04, 9.88, "ftvvn"),
    )
}
MEANS = {"awft": 4.61, "best_other": 12.18}  # as printed, over the 14 models; means of the rounded rows agree


def published_row(name: str) -> Published | None:
    """The row of a model by its hub id or last part, in any case; None if the paper did not measure it."""
    short = name.rstrip("/").rsplit("/", 1)[-1].lower()
    return next((row for row in TABLE2.values() if row.model.lower() == short), None)


def differs(plan: Plan, chat: bool) -> list[str]:
    """What a plan does otherwise than the paper, in words; nothing: the paper's figures can be compared with it.

    chat: whether the model was tuned for chat: the paper asks those with their template, others without
    """
    asked = plan.questions
    if asked is None or asked.source != "mmlu":
        return ["something else than MMLU is measured"]
    apart = {
        "one set of heads is off on every input": plan.mode != "per-input",
        "the most active heads go first": plan.turned,
        "a threshold is given instead of a share": plan.threshold is not None,
        "thresholds come from other inputs than are measured": plan.chosen_on != asked,
        f"{len(asked.subjects)} of {len(MMLU_SUBJECTS)} subjects": asked.subjects != MMLU_SUBJECTS,
        f"{asked.per_subject} questions a subject at the most": asked.per_subject > 0,
        f"the {asked.half} half of the questions": asked.half != "all",
        f"{asked.shots} worked examples instead of 5": asked.shots != 5,
        "answers are scored by their text": asked.scoring != "letter",
        f"{'no chat' if chat else 'a chat'} template": asked.chat != chat,
        f"BOS {asked.bos}": asked.bos != "never",
        f"weights in {plan.model.quantization}": plan.model.quantization != "none",
    }
    return [words for words, so in apart.items() if so]
