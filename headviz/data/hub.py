"""Data sets of the Hugging Face hub: pin a revision to its commit, and stream rows. No script is ever run.

huggingface_hub and datasets are imported on use: pages pin revisions without loading datasets (or torch).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headviz.errors import BadData, GatedModel, HeadvizError, Unreachable
from headviz.types import Watch

_COMMIT = re.compile(r"[0-9a-f]{40}")
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_SECONDS = 20.0
_CLIENTS = ("httpx", "httpx2", "httpcore", "httpcore2", "requests", "aiohttp")  # whoever speaks HTTP below


def is_commit(revision: str) -> bool:
    """Whether `revision` is a whole commit hash and so names one content for ever."""
    return _COMMIT.fullmatch(revision) is not None


def check_id(dataset: str) -> None:
    """Raises BadData unless `dataset` is written like owner/name. A request never names a path on this machine, and
    datasets would read a folder of that name before it asks the hub."""
    if not _ID.fullmatch(dataset) or Path(dataset).exists():
        raise BadData(f"{dataset!r} is no id of a hub data set. Write it like owner/name.")


def commit(dataset: str, revision: str = "") -> str:
    """The commit (40 hex digits) that `revision` of `dataset` is at now; the main branch when it is empty.

    Raises BadData (no such data set or revision), GatedModel, Unreachable.
    """
    check_id(dataset)
    if is_commit(revision):
        return revision
    from huggingface_hub import HfApi

    try:
        found = HfApi().dataset_info(dataset, revision=revision or None, timeout=_SECONDS)
    except Exception as error:
        raise explain(error, dataset, revision=revision) from error
    return found.sha


def rows(
    dataset: str, config: str, split: str, columns: tuple[str, ...], revision: str, watch: Watch
) -> Iterator[dict[str, Any]]:
    """Rows of one split, in order, as far as they are asked for. Raises as `commit` does, and BadData that lists
    what there is when the configuration, split or column does not exist."""
    check_id(dataset)
    from datasets import load_dataset

    where = {"config": config, "split": split, "revision": revision}
    watch.check()
    try:
        stream = iter(load_dataset(dataset, config or None, split=split, revision=revision, streaming=True))
    except Exception as error:
        raise explain(error, dataset, **where) from error
    number = 0
    while True:
        watch.check()
        try:
            row = next(stream)
        except StopIteration:
            return
        except Exception as error:
            raise explain(error, dataset, **where) from error
        if number == 0:
            need_columns(columns, row, f"Data set {dataset}")
        number += 1
        yield row


def need_columns(columns: tuple[str, ...], there: Any, where: str) -> None:
    """Raises BadData, with the columns there are, when one is missing."""
    for column in columns:
        if column not in there:
            raise BadData(f"{where} has no column {column!r}. Its columns: {', '.join(map(str, there))}.")


def explain(
    error: Exception, dataset: str, *, config: str = "", split: str = "", revision: str = ""
) -> HeadvizError:
    """The headviz error for what huggingface_hub, datasets or the network raised."""
    from huggingface_hub import errors as hub

    chain = _chain(error)
    text = " ".join(str(link) for link in chain)
    kinds = tuple(type(link).__name__ for link in chain)

    def among(*types: type[BaseException]) -> bool:
        return any(isinstance(link, types) for link in chain)

    if among(hub.GatedRepoError) or "is a gated dataset" in text:
        return GatedModel(
            f"Data set {dataset} is gated: accept its terms on its page of the Hugging Face hub, then log in on "
            "this machine (hf auth login, or the variable HF_TOKEN)."
        )
    if among(hub.RevisionNotFoundError) or re.search(r"Revision '.*' doesn't exist", text):
        return BadData(
            f"Data set {dataset} has no revision {revision!r}. Give a branch, a tag or a commit of it."
        )
    if among(hub.HFValidationError):
        return BadData(f"{dataset!r} is no id of a hub data set. Write it like owner/name.")
    if "Dataset scripts are no longer supported" in text:
        return BadData(
            f"Data set {dataset} needs a script of its own, and headviz runs nobody's code. Look for a copy of it "
            "in parquet, or save its text as jsonl and upload that."
        )
    if match := re.search(r"BuilderConfig '?.*?'? not found\. Available: \[(.*?)\]", text):
        return BadData(f"Data set {dataset} has no configuration {config!r}. It has: {_names(match[1])}.")
    if match := re.search(r"Config name is missing\.[\s\S]*?available configs: \[(.*?)\]", text):
        return BadData(f"Data set {dataset} needs a configuration. It has: {_names(match[1])}.")
    if match := re.search(
        r"(?:Bad split|Unknown split).*?(?:Available splits|Should be one of):? \[(.*?)\]", text
    ):
        return BadData(f"Data set {dataset} has no split {split!r}. It has: {_names(match[1])}.")
    if among(hub.RepositoryNotFoundError) or "DatasetNotFoundError" in kinds:
        return BadData(
            f"There is no data set {dataset!r} on the Hugging Face hub, or it is private. Check the id (owner/name), "
            "or log in on this machine (hf auth login)."
        )
    if {"DataFilesNotFoundError", "EmptyDatasetError"} & set(kinds):
        return BadData(f"Data set {dataset} has no data files that can be read (parquet, jsonl, csv, txt).")
    if _network(chain, hub):
        return Unreachable(
            f"The Hugging Face hub does not answer, so {dataset} cannot be read ({kinds[0]}). Check the network, put "
            "a local copy into the folder that HEADVIZ_DATA names, or choose docstrings, which needs no network."
        )
    return BadData(f"Data set {dataset} cannot be read: {type(error).__name__}: {_first_line(error)}")


def _network(chain: list[BaseException], hub: Any) -> bool:
    """Whether no answer came, or one of the server's own failures."""
    for link in chain:
        if isinstance(link, (ConnectionError, TimeoutError, hub.OfflineModeIsEnabled)):
            return True
        if isinstance(link, hub.HfHubHTTPError):
            status = getattr(link.response, "status_code", 0)
            return status >= 500 or status == 429
        if type(link).__module__.split(".")[0] in _CLIENTS:
            return True
    return False


def _chain(error: BaseException) -> list[BaseException]:
    links: list[BaseException] = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links


def _names(listed: str) -> str:
    return ", ".join(name.strip().strip("'\"") for name in listed.split(",")) or "none"


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]
