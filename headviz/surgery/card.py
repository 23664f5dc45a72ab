"""The page that lies in a repaired checkpoint: which heads, how they were treated, and what came of it, as tables. Markdown."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import transformers

from headviz.analysis.bands import CLASSES
from headviz.analysis.written import PLAN_FILE
from headviz.data import corpora
from headviz.models import catalog
from headviz.surgery import enclosures, outcomes, said, verdict
from headviz.surgery.arms import ARMS
from headviz.surgery.head_changes import head_changes
from headviz.surgery.layouts import treat
from headviz.surgery.slicefile import SliceFile
from headviz.types import HeadTest, RepairRequest, head_name

_ROWS = 40  # of a table: a repair may have hundreds of evaluated steps and heads
_REPORT = (
    f"All that was measured, as `python -m headviz repair --out` writes it: [{enclosures.REPORT}]({enclosures.REPORT}).",
)
_LOSSES = (
    "![Change of the held-out loss, with 95% intervals, when the heads are removed, left and repaired, and in every other arm]"
    f"({enclosures.LOSSES})",
)
_FILM = (
    "![Film of this run: attention on the first token of every head, and the drift of untouched heads, a frame an evaluated "
    f"step]({enclosures.FILM})",
)


def note(files: Sequence[SliceFile]) -> str:
    """Which run a checkpoint is of, in a few words."""
    last = files[-1]
    again = f", pass {last.number}" if len(files) > 1 else ""
    return f"{ARMS[last.arm].title}, seed {last.seed}{again}, step {last.step}"


def text(
    files: Sequence[SliceFile],
    kept: Any,
    found: dict[str, Any],
    so_far: outcomes.Found,
    enclosed: Collection[str] = (),
) -> str:
    """README.md, what must be known of the original first.

    kept: label and geometry of the original; found: how the checkpoint compares; so_far: what was recorded, or the report;
    enclosed: which files of `enclosures.py` lie beside it
    """
    plan, shape = files[0].plan, kept.geometry
    heads = sorted({head for file in files for head in file.heads})
    hub = f"---\nbase_model: {plan.model.name}\n---\n\n" if plan.model.source == "hub" else ""
    parts = [
        *([caution] if (caution := catalog.caution(plan.model)) else []),
        f"{hub}# {kept.label} with {len(heads)} of its heads treated",
        f"{note(files)}. {ARMS[files[0].arm].help}",
        f"{len(heads)} of {shape.layers * shape.heads} query heads: {', '.join(head_name(*head) for head in heads)}. What is "
        "theirs of queries, keys, values and columns of the output projection differs from the original; everything else is the "
        f"same to the last bit. The plan, which runs again with `python -m headviz repair {PLAN_FILE}`: [{PLAN_FILE}]({PLAN_FILE}). "
        "It loads like any checkpoint: `AutoModelForCausalLM.from_pretrained(folder)`.",
        *dict.fromkeys(note for file in files for note in treat(file.heads, shape).notes),
        "## Plan",
        _plan_table(plan),
        "## Checkpoint",
        _checkpoint(plan, found),
        *_outcome(plan, files, so_far, enclosed),
    ]
    return "\n\n".join(parts) + "\n"


def _plan_table(plan: RepairRequest) -> str:
    recipe = plan.recipe
    passes = f", {plan.passes} passes" if plan.passes > 1 else ""
    shuffled = ", words of every paragraph in random order" if plan.shuffled else ""
    rows = [
        ("Original", f"`{plan.model.name}` at `{plan.model.revision}`, {_format(plan)}"),
        ("New weights", f"{recipe.init}, {'one block a head' if recipe.joint else 'a block a projection'}"),
        (
            "Training",
            f"AdamW, rate {recipe.rate:g}, {recipe.schedule} after {min(recipe.warmup, plan.steps // 4)} steps of warm-up, weight decay "
            f"{recipe.weight_decay:g}, clip {recipe.clip:g}, {recipe.accumulate} × {recipe.batch} windows a step, "
            f"{plan.steps:,} steps{passes}, masters in {recipe.master}",
        ),
        ("Training text", corpora.describe(plan.train) + shuffled),
        ("Held-out text", f"{corpora.describe(plan.held_out)}, half to choose the step and half to report"),
        ("Other domain", corpora.describe(plan.other) if plan.other else "none"),
        ("Arms and seeds", f"{', '.join(plan.arms)}; {', '.join(map(str, plan.seeds))}"),
    ]
    return _table(("", ""), rows)


def _format(plan: RepairRequest) -> str:
    quantised = plan.model.quantization
    return plan.model.dtype if quantised == "none" else f"{plan.model.dtype}, trained over {quantised}"


def _checkpoint(plan: RepairRequest, found: dict[str, Any]) -> str:
    over = (
        f" in {plan.model.quantization}, over which the slices were trained; the checkpoint is unquantised"
        if plan.model.quantization != "none"
        else ""
    )
    return (
        f"Loaded with transformers {transformers.__version__}, its logits differ by at most {found['difference']:.2g} from those "
        f"of the model with its slices ({found['rounding']:.2g} for the original, which is rounding), over "
        f"{found['compared']:,} tokens. Loss on the report part, nats a token: {found['loss_stock']:.4f} before surgery, "
        f"{found['loss_job']:.4f} of the job's model{over}, {found['loss_after']:.4f} of this checkpoint."
    )


def _all_ended(plan: RepairRequest, so_far: outcomes.Found) -> bool:
    """Whether no run can change the verdict any more."""
    return all(run.ended for run in so_far.runs) and all(
        seed in outcomes.finished(so_far.runs, arm) for arm in plan.arms for seed in plan.seeds
    )


def _outcome(
    plan: RepairRequest, files: Sequence[SliceFile], so_far: outcomes.Found, enclosed: Collection[str]
) -> list[str]:
    """Tables and pictures of what was recorded; nothing where this machine has no record of the repair."""
    if so_far.stock is None or not so_far.runs:
        return []
    judged = verdict.judge(plan, so_far)
    early = "" if _all_ended(plan, so_far) else "So far: "
    passes = outcomes.passes(so_far.runs, files[0].arm, files[0].seed)
    sentences = judged.sentences if judged.tests else judged.sentences[:3]  # the fourth is about the tests
    return [
        "## Verdict on the repair",
        f"**{early}{judged.word}.** {judged.reason}",
        "\n".join(f"- {one}" for one in (*sentences, *judged.notes)),
        *(_REPORT if enclosures.REPORT in enclosed else ()),
        "## Held-out loss of every arm",
        "Nats a token, mean over seeds, [95% interval] over documents; below 0 is better.",
        _losses(so_far),
        *(_LOSSES if enclosures.LOSSES in enclosed else ()),
        "## Heads of this run by class",
        *(_curve(plan, so_far, run) for run in passes),
        *(_FILM if enclosures.FILM in enclosed else ()),
        "## Treated heads before and after, mean over seeds",
        _heads_table(plan, so_far, files[0].arm),
        *(_single_heads(plan, so_far, judged.tests) if judged.tests and files[0].arm == "repair" else ()),
    ]


def _losses(so_far: outcomes.Found) -> str:
    rows = []
    for row in outcomes.arm_losses(so_far):
        name = "before surgery" if row.arm == "stock" else ARMS[row.arm].title
        rows.append(
            (
                name,
                len(row.seeds) or "",
                f"{row.report.loss:.4f}{_interval(row.report.low, row.report.high, '.4f')}",
                _change(row.against_stock),
                _change(row.against_no_reinit),
                "" if row.other is None else f"{row.other.loss:.4f}",
            )
        )
    head = ("Arm", "Seeds", "Report part", "Against stock", "Against old weights", "Other domain")
    return _table(head, rows)


def _change(change: Any, digits: str = "+.4f") -> str:
    return "" if change is None else f"{change.change:{digits}}{_interval(change.low, change.high, digits)}"


def _interval(low: float, high: float, digits: str) -> str:
    """` [low, high]`; empty where one document allows none."""
    return "" if math.isnan(low) else f" [{low:{digits}}, {high:{digits}}]"


def _curve(plan: RepairRequest, so_far: outcomes.Found, run: Any) -> str:
    before = outcomes.class_counts(so_far.stock, plan)
    counts, mass = outcomes.class_counts(run, plan), outcomes.total_mass(run)
    rows = [
        (
            "before surgery", f"{so_far.stock.select:.4f}", *(int(before[name][0]) for name in CLASSES),
            f"{outcomes.total_mass(so_far.stock)[0]:.2f}",
        )
    ]  # fmt: skip
    every = -(-len(run.step) // _ROWS)
    for at in range(0, len(run.step), every):
        rows.append(
            (f"{int(run.step[at])}{' (best)' if run.step[at] == run.best else ''}", f"{run.select[at]:.4f}",
             *(int(counts[name][at]) for name in CLASSES), f"{mass[at]:.2f}")
        )  # fmt: skip
    return _table(("Step", "Loss, select part", *CLASSES, "Total BOS mass"), rows)


def _heads_table(plan: RepairRequest, so_far: outcomes.Found, arm: str) -> str:
    changes = head_changes(so_far, plan, arm)
    rows = [
        (
            head_name(row.layer, row.head), row.was, row.now, f"{row.before['mass']:.3f}", f"{row.after['mass']:.3f}",
            f"{row.before['full_norm']:.3g}", f"{row.after['full_norm']:.3g}",
        )
        for row in changes[:_ROWS]
    ]  # fmt: skip
    head = ("Head", "Was", "Is", "BOS mass before", "after", "Norm after W_O before", "after")
    return _table(head, rows) + _more(len(changes))


def _single_heads(plan: RepairRequest, so_far: outcomes.Found, tests: Sequence[HeadTest]) -> list[str]:
    """What each head does alone; largest change first."""
    seed = plan.seeds[0]
    last = outcomes.passes(so_far.runs, "repair", seed)[-1]
    which = f"seed {seed}{f', pass {last.number}' if last.number > 1 else ''}, step {last.best} (its best)"
    rows = [
        (head_name(test.layer, test.head), _change(test, "+.5f"), "" if math.isnan(test.p_holm) else f"{test.p_holm:.3g}")
        for test in sorted(tests, key=lambda test: -test.change)[:_ROWS]
    ]  # fmt: skip
    return [
        "## Single heads",
        f"Change of the loss on the report part, nats a token, when one treated head of the repair arm is zeroed alone; {which}; "
        "[95% interval] over documents. Above 0 the head does something. p: two-sided, after Holm's correction over "
        f"{said.plural(len(tests), 'head')}.",
        _table(("Head", "Change without it", "p"), rows) + _more(len(tests)),
    ]


def _more(count: int) -> str:
    return f"\n\nand {count - _ROWS} more." if count > _ROWS else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
