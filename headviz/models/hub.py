"""The model hub: commit of a revision, list of files, download; and a sentence for everything that can go wrong.

What is in the Hugging Face cache of this machine works without a network. A sentence never quotes an error of the
client: those can hold addresses and tokens. `huggingface_hub` is imported on first use.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headviz.errors import BadInput, Failure, GatedModel, HeadvizError, ModelNotFound, Unreachable
from headviz.models.checks import belongs, check_config, check_files, missing, read_config
from headviz.types import Watch

log = logging.getLogger(__name__)

_ID = re.compile(r"(?:[\w][\w.-]*/)?[\w][\w.-]*", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SECONDS = 10  # for one answer of the hub
_LOGIN = "on the machine where headviz runs, log in with `hf auth login` or set HF_TOKEN"


@dataclass(frozen=True)
class Remote:
    """What the hub says about one commit. sizes: file name → bytes (0 where the hub does not say)."""

    commit: str
    sizes: dict[str, int]


def check_id(name: str) -> None:
    """Refuse what cannot be a hub id, before anybody is asked. Raises BadInput."""
    if not _ID.fullmatch(name) or len(name) > 96 or "--" in name or ".." in name or name[-1] in ".-":
        raise BadInput(
            f"{name!r} is no hub id. One looks like owner/model: letters, digits, and . _ - between them, at most "
            "96 characters."
        )


def commit_of(name: str, revision: str = "") -> str:
    """The commit, 40 hex digits, of a branch, a tag or a commit; the default branch for "".

    Where the hub does not answer, the commit that this machine's cache last saw under that name, if its files are
    here. Raises ModelNotFound, GatedModel, Unreachable, BadInput.
    """
    check_id(name)
    if _COMMIT.fullmatch(revision) and cached(name, revision):
        return revision
    try:
        return ask(name, revision).commit
    except Unreachable:
        known = _cached_commit(name, revision)
        if known is None:
            raise
        log.warning("the hub does not answer: %s is taken from the cache at %s", name, known)
        return known


def ask(name: str, revision: str = "") -> Remote:
    """What the hub has under that name and revision."""
    from huggingface_hub import HfApi

    with sentences(name, revision):
        info = HfApi().model_info(name, revision=revision or None, timeout=_SECONDS, files_metadata=True)
    if not info.sha:
        raise Unreachable(f"The hub did not say at which commit {name} is. Try again in a while.")
    return Remote(info.sha, {item.rfilename: item.size or 0 for item in info.siblings or []})


def cached(name: str, commit: str) -> Path | None:
    """The folder of a commit whose files are all in this machine's cache, else None."""
    folder = _cache() / f"models--{name.replace('/', '--')}" / "snapshots" / commit
    if not folder.is_dir() or missing(folder):
        return None
    try:
        check_files([path.name for path in folder.iterdir()], name)
    except HeadvizError:
        return None
    return folder


def in_cache() -> list[tuple[str, str]]:
    """(name, commit) of the models in this machine's cache that are complete, by name."""
    found = []
    try:
        repositories = sorted(_cache().glob("models--*"))
    except OSError:
        return []
    for repository in repositories:
        name = repository.name.removeprefix("models--").replace("--", "/", 1)
        if commit := _cached_commit(name, ""):
            found.append((name, commit))
    return found


def download(name: str, commit: str, label: str, watch: Watch, before: Any = None) -> Path:
    """The folder with all files of a commit, downloaded where needed.

    Names and config are checked before any weights are fetched; so is whatever `before(folder)` refuses.
    """
    if folder := cached(name, commit):
        return folder
    watch.step(f"asking the hub for {name}")
    remote = ask(name, commit)
    check_files(remote.sizes, label)
    folder = _fetch(name, commit, "config.json", None).parent
    check_config(read_config(folder, label), label)
    if before:
        before(folder)
    wanted = sorted(file for file in remote.sizes if belongs(file))
    total, done = sum(remote.sizes[file] for file in wanted), 0
    for file in wanted:
        watch.step(f"downloading {name}", done, total, "bytes")
        _fetch(name, commit, file, _bar(watch, f"downloading {name}", done, total))
        done += remote.sizes[file]
    if lacking := missing(folder):
        raise ModelNotFound(
            f"{label} is incomplete on the hub: its index lists {lacking[0]}, which is not there."
        )
    return folder


def _fetch(name: str, commit: str, file: str, bar: Any) -> Path:
    from huggingface_hub import hf_hub_download

    with sentences(name, commit):
        return Path(hf_hub_download(name, file, revision=commit, tqdm_class=bar))


def _bar(watch: Watch, doing: str, start: int, total: int) -> Any:
    """A progress bar class that draws nothing and tells `watch` instead."""
    from huggingface_hub.utils import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})
            self._here = int(kwargs.get("initial") or 0)

        def update(self, n: float | None = 1) -> None:
            self._here += int(n or 0)
            watch.step(doing, start + self._here, total, "bytes")

    return Bar


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _cached_commit(name: str, revision: str) -> str | None:
    """The commit that the cache has for a branch or tag, or the newest complete one where none is asked for."""
    base = _cache() / f"models--{name.replace('/', '--')}"
    if _COMMIT.fullmatch(revision):
        return revision if cached(name, revision) else None
    try:
        if ".." in revision.split("/"):
            return None
        commit = (base / "refs" / (revision or "main")).read_text(encoding="ascii").strip()
        if cached(name, commit):
            return commit
    except (OSError, ValueError):
        pass
    if revision:
        return None
    try:
        snapshots = sorted((base / "snapshots").iterdir(), key=lambda path: path.stat().st_mtime)
    except OSError:
        return None
    return next((path.name for path in reversed(snapshots) if cached(name, path.name)), None)


@contextmanager
def sentences(name: str, revision: str = "") -> Iterator[None]:
    """Turn what the hub's client raises into errors of ours. `from None`: their texts may hold a token."""
    from huggingface_hub import errors

    try:
        yield
    except HeadvizError:
        raise
    except (errors.HTTPError, errors.HFValidationError, errors.EntryNotFoundError, OSError) as error:
        raise _sentence(error, name, revision, errors) from None


def _sentence(error: Exception, name: str, revision: str, errors: Any) -> HeadvizError:
    """The order matters: a gated repository's error is a kind of a missing repository's error."""
    if isinstance(error, errors.HFValidationError):
        return BadInput(f"{name!r} is no hub id. One looks like owner/model.")
    if isinstance(error, errors.GatedRepoError):
        return GatedModel(
            f"{name} is gated: accept its licence on its page on the hub, then, {_LOGIN}, with an account that has "
            "access."
        )
    if isinstance(error, errors.DisabledRepoError):
        return ModelNotFound(f"{name} has been disabled on the hub. Choose another model.")
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelNotFound(
            f"{name} has no revision {revision!r} on the hub. Give a branch, a tag or a commit, or leave it empty."
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return ModelNotFound(
            f"There is no model {name} on the hub, or it is private. Check the spelling; for a private one, {_LOGIN}."
        )
    if isinstance(error, errors.RemoteEntryNotFoundError):
        return ModelNotFound(
            f"A file of {name} at {revision[:7]} is not on the hub. Choose another revision."
        )
    if isinstance(error, (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError)):
        return Unreachable(
            f"{name} is not on this machine, and the hub cannot be asked for it: there is no network, or "
            "HF_HUB_OFFLINE is set. Connect it, or choose the bundled model or a local folder."
        )
    if isinstance(error, errors.HfHubHTTPError):
        return _status(error.response.status_code, name)
    unanswered = (errors.HTTPError, ConnectionError, TimeoutError, socket.gaierror, ssl.SSLError)
    if isinstance(error, unanswered) or getattr(error, "errno", None) is None:  # no errno: not the disk
        return Unreachable(
            f"The hub does not answer ({type(error).__name__}), and {name} is not on this machine. Check the network "
            "and try again, or choose the bundled model or a local folder."
        )
    return Failure(
        f"{name} could not be written to this machine's Hugging Face cache: {error.strerror or type(error).__name__}. "
        "Free some space, or set HF_HOME to another folder."
    )


def _status(code: int, name: str) -> HeadvizError:
    if code in (401, 403):
        return GatedModel(
            f"The hub refuses {name} ({code}): it wants a login with access to it. Check that access, and {_LOGIN}."
        )
    if code == 404:
        return ModelNotFound(f"There is no model {name} on the hub. Check the spelling.")
    if code == 429:
        return Unreachable(f"The hub has had too many requests from here (429). Wait a while, or {_LOGIN}.")
    return Unreachable(f"The hub answers with an error ({code}) for {name}. Try again in a while.")
