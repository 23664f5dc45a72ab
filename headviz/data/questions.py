"""Multiple-choice questions: the table of sets, how a choice becomes a pinned `QuestionsRef`, and the questions of one.

    ref = resolve_questions("quiz", per_subject=10, scoring="text", settings=settings())
    questions = read_questions(ref, settings(), Silent())

No torch, transformers or datasets at import: pages call `resolve_questions`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from headviz.data import hub, local, own_questions, quiz
from headviz.data.items import Item, item
from headviz.data.own_questions import import_questions
from headviz.data.table import CORPORA
from headviz.errors import BadData, BadInput, Unreachable, lookup
from headviz.settings import Settings
from headviz.types import BOS_POLICIES, Bos, QuestionsRef, Silent, Watch

__all__ = [
    "QUESTIONS",
    "Item",
    "Questions",
    "describe",
    "import_questions",
    "read_questions",
    "resolve_questions",
    "subjects_of",
]

Half = Literal["all", "first", "second"]
Scoring = Literal["letter", "text"]
MOST_SHOTS = 5


@dataclass(frozen=True, kw_only=True)
class QuestionSet:
    """One set. `help` is for a first-year student."""

    id: str
    title: str
    help: str
    licence: str


QUESTIONS: dict[str, QuestionSet] = {
    row.id: row
    for row in (
        QuestionSet(
            id="mmlu",
            title="MMLU",
            help="Exam questions on 57 subjects, four choices each: the test of the first paper. Small models answer no "
            "better than a guess. Comes from the Hugging Face hub, or from the folder that HEADVIZ_MMLU names.",
            licence="MIT",
        ),
        QuestionSet(
            id="quiz",
            title="Quiz (bundled)",
            help="320 easy questions written for headviz, always there. Score the answers' text and even a model of 135M "
            "parameters gets many of them right: start here without a network.",
            licence="that of headviz",
        ),
        QuestionSet(
            id="own",
            title="Your own questions",
            help="A jsonl or csv file with question, choices and answer. Worked examples are rows with split = dev.",
            licence="yours",
        ),
    )
}

_MMLU = """
    abstract_algebra anatomy astronomy business_ethics clinical_knowledge college_biology college_chemistry
    college_computer_science college_mathematics college_medicine college_physics computer_security
    conceptual_physics econometrics electrical_engineering elementary_mathematics formal_logic global_facts
    high_school_biology high_school_chemistry high_school_computer_science high_school_european_history
    high_school_geography high_school_government_and_politics high_school_macroeconomics
    high_school_mathematics high_school_microeconomics high_school_physics high_school_psychology
    high_school_statistics high_school_us_history high_school_world_history human_aging human_sexuality
    international_law jurisprudence logical_fallacies machine_learning management marketing medical_genetics
    miscellaneous moral_disputes moral_scenarios nutrition philosophy prehistory professional_accounting
    professional_law professional_medicine professional_psychology public_relations security_studies
    sociology us_foreign_policy virology world_religions
"""
MMLU_SUBJECTS: tuple[str, ...] = tuple(_MMLU.split())


@dataclass(frozen=True)
class Questions:
    """What a `QuestionsRef` stands for. items: by subject, then place in it; examples: subject → its first worked
    examples, `shots` of them; notes: what a reader must know."""

    items: tuple[Item, ...]
    examples: Mapping[str, tuple[Item, ...]]
    notes: tuple[str, ...] = ()


def resolve_questions(
    source: str,
    *,
    subjects: Iterable[str] = (),
    per_subject: int = 0,
    seed: int = 0,
    half: Half = "all",
    shots: int = 5,
    scoring: Scoring = "letter",
    chat: bool = False,
    bos: Bos = "never",
    revision: str = "",
    settings: Settings,
) -> QuestionsRef:
    """The pinned questions of a request.

    subjects: all if empty; per_subject ≥ 0, 0 takes all; shots 0 to 5; with `chat` the template decides about a BOS
    revision: for `own` what `import_questions` returned; for the hub a branch, tag or commit; else empty, or the hash
              that the set must have
    Raises UnknownName, BadInput, BadData, and for the hub GatedModel and Unreachable.
    """
    lookup(QUESTIONS, source, "set of questions")
    for kind, value, there in (
        ("half", half, get_args(Half)),
        ("scoring", scoring, get_args(Scoring)),
        ("BOS policy", bos, BOS_POLICIES),
    ):
        lookup(dict.fromkeys(there), value, kind)
    for name, number, least, most in (
        ("per_subject", per_subject, 0, 2**31 - 1),
        ("seed", seed, 0, 2**31 - 1),
        ("shots", shots, 0, MOST_SHOTS),
    ):
        if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= most:
            until = f" to {most}" if most == MOST_SHOTS else " on"
            raise BadInput(f"{name} is {number!r}; it must be a whole number from {least}{until}.")
    revision = _pin(source, revision, settings)
    there = _subjects(source, revision, settings)
    chosen = tuple(sorted(set(subjects))) or there
    for subject in chosen:
        lookup(dict.fromkeys(there), subject, f"subject of {source}")
    ref = QuestionsRef(
        source=source, revision=revision, subjects=chosen, per_subject=per_subject, seed=seed, half=half,
        shots=shots, scoring=scoring, chat=bool(chat), bos=bos,
    )  # fmt: skip
    if not hub.is_commit(revision):  # what is on this machine can be refused now, not in the worker
        read_questions(ref, settings, Silent())
    return ref


def other_half(asked: QuestionsRef) -> QuestionsRef:
    """The questions of the same draw that are in the other half: none of them in both. Raises BadInput for all of them."""
    if asked.half == "all":
        raise BadInput("All questions are asked, so there is no other half: ask one half.")
    return replace(asked, half="first" if asked.half == "second" else "second")


def describe(asked: QuestionsRef) -> str:
    """`mmlu, 57 subjects, 20 each, seed 0 · 5 shots · letter`: what tells two rounds of questions apart."""
    what = f"{asked.source}, {len(asked.subjects)} subject" + ("" if len(asked.subjects) == 1 else "s")
    if asked.per_subject:
        what += f", {asked.per_subject} each, seed {asked.seed}"
    if asked.half != "all":
        what += f", {asked.half} half"
    words = [what, f"{asked.shots} shots", asked.scoring]
    if asked.chat:
        words.append("chat template")
    if asked.bos != "never":
        words.append(f"BOS {asked.bos}")
    return " · ".join(words)


def subjects_of(source: str, revision: str, settings: Settings) -> tuple[str, ...]:
    """Every subject of a set, sorted; `revision` as in `resolve_questions`, and it raises the same."""
    lookup(QUESTIONS, source, "set of questions")
    return _subjects(source, _pin(source, revision, settings), settings)


def read_questions(ref: QuestionsRef, settings: Settings, watch: Watch) -> Questions:
    """The questions of `ref`. Raises BadData when the set here is another one, or too small; Unreachable, GatedModel."""
    watch.step(f"reading {ref.source} questions")
    tests, examples = _whole(ref, settings, watch)
    chosen: list[Item] = []
    notes: list[str] = []
    for subject in ref.subjects:
        of_subject = tests.get(subject, ())
        if ref.per_subject > len(of_subject):
            notes.append(f"{subject} has {len(of_subject)} questions, {ref.per_subject} were asked for")
        chosen += _draw(of_subject, ref)
        if len(examples.get(subject, ())) < ref.shots:
            raise BadData(
                f"{subject} has {len(examples.get(subject, ()))} worked examples and {ref.shots} were asked for. Ask for "
                "fewer shots" + (", or mark rows with split = dev." if ref.source == "own" else ".")
            )
    if not chosen:
        raise BadData(
            f"No question of {ref.source} is left: choose other subjects, more questions of each, or both halves."
        )
    return Questions(tuple(chosen), {s: examples.get(s, ())[: ref.shots] for s in ref.subjects}, tuple(notes))


def _draw(items: tuple[Item, ...], ref: QuestionsRef) -> list[Item]:
    """The draw of one subject. Its order depends on the seed and the subject alone, so that halves stay halves
    whatever else is chosen."""
    if not items:
        return []
    subject = zlib.crc32(items[0].subject.encode())
    order = np.random.Generator(np.random.PCG64([ref.seed, subject])).permutation(len(items)).tolist()
    drawn = order[: ref.per_subject] if ref.per_subject else order
    middle = (len(drawn) + 1) // 2
    part = {"all": drawn, "first": drawn[:middle], "second": drawn[middle:]}[ref.half]
    return [items[number] for number in sorted(part)]


# ------------------------------------------------------------------------------------------------ whole sets

_Split = dict[str, tuple[Item, ...]]
_COLUMNS = ("question", "subject", "choices", "answer")


def _whole(ref: QuestionsRef, settings: Settings, watch: Watch) -> tuple[_Split, _Split]:
    """(questions, worked examples) of the whole set, by subject."""
    if ref.source == "own":
        tests, examples = own_questions.load(ref.revision, settings)
        return _by_subject(tests, "own questions"), _by_subject(examples, "own questions")
    if ref.source == "quiz":
        _same(ref, quiz.revision())
        return tuple(_by_subject(map(vars, quiz.load(split)), "quiz") for split in ("test", "dev"))
    row = CORPORA["mmlu"]
    if hub.is_commit(ref.revision):
        return tuple(
            _by_subject(_streamed(split, ref.revision, watch), f"MMLU, {split}") for split in ("test", "dev")
        )
    folder = local.folder_of(row, row.dataset, settings)
    if folder is None:
        raise BadData(
            "The request is about a local copy of MMLU that is not on this machine. Set HEADVIZ_MMLU."
        )
    _same(ref, _local_revision(folder, settings))
    return tuple(
        _read_local(tuple(local.files_of(folder, split, "mmlu")), split, ref.revision)
        for split in ("test", "dev")
    )


def _streamed(split: str, revision: str, watch: Watch) -> Iterator[dict[str, Any]]:
    row = CORPORA["mmlu"]
    for number, found in enumerate(hub.rows(row.dataset, row.config, split, _COLUMNS, revision, watch)):
        if number % 1000 == 0:
            watch.step(f"reading MMLU, {split}", number, 0, "questions")
        yield found


@lru_cache(maxsize=4)
def _read_local(files: tuple[Path, ...], split: str, revision: str) -> _Split:
    """`revision` is the hash of the files: another content is another entry."""
    return _by_subject(local.rows(list(files), _COLUMNS, "mmlu"), f"MMLU, {split}")


def _by_subject(rows: Iterable[Mapping[str, Any]], where: str) -> _Split:
    found: dict[str, list[Item]] = {}
    for number, row in enumerate(rows):
        of_subject = found.setdefault(row.get("subject") or "own", [])
        of_subject.append(item(row, len(of_subject), f"Row {number} of {where}"))
    return {subject: tuple(items) for subject, items in found.items()}


def _pin(source: str, revision: str, settings: Settings) -> str:
    if source == "own":
        if not revision:
            raise BadInput("Give some questions first: upload a jsonl or csv file.")
        own_questions.load(revision, settings)
        return revision
    if source == "quiz":
        here = quiz.revision()
    else:
        row = CORPORA["mmlu"]
        folder = None if revision and len(revision) != 64 else local.folder_of(row, row.dataset, settings)
        if folder is None:
            return _on_hub(row.dataset, revision)
        here = _local_revision(folder, settings)
    if revision not in ("", here):
        raise BadData(
            f"{source} has other questions here ({here[:8]}…) than were asked for ({revision[:8]}…). Leave the revision "
            "out to use what is here."
        )
    return here


def _on_hub(dataset: str, revision: str) -> str:
    try:
        return hub.commit(dataset, revision)
    except Unreachable as error:
        raise Unreachable(
            "MMLU is not on this machine, and the Hugging Face hub does not answer. Set HEADVIZ_MMLU to a folder with the test "
            f"and dev parquet files of {dataset}, check the network, or measure on the quiz, which needs none."
        ) from error


def _local_revision(folder: Path, settings: Settings) -> str:
    files = [file for split in ("test", "dev") for file in local.files_of(folder, split, "mmlu")]
    return local.revision_of(files, folder, settings)


def _subjects(source: str, revision: str, settings: Settings) -> tuple[str, ...]:
    """Every subject of the set, sorted; of the hub's MMLU they are known without asking."""
    if hub.is_commit(revision):
        return MMLU_SUBJECTS
    ref = QuestionsRef(source=source, revision=revision, subjects=())
    return tuple(sorted(_whole(ref, settings, Silent())[0]))


def _same(ref: QuestionsRef, here: str) -> None:
    if here != ref.revision:
        raise BadData(
            f"The request is about other questions of {ref.source} ({ref.revision[:8]}…) than this machine has "
            f"({here[:8]}…). Ask anew."
        )
