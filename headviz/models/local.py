"""Checkpoints in folders of this machine, pinned by the hash of their content.

A request holds a name and a hash, never a path. `HEADVIZ_HOME/local_models.json` says where the folder with that
name and hash lies, so that a worker finds what the command line was given as a path. No torch here.
"""

from __future__ import annotations

from pathlib import Path

from headviz.errors import BadInput, ModelNotFound
from headviz.models.checks import check_config, check_files, missing, parts, read_config
from headviz.models.hashes import folder_sha256, read_json, remembered, write_json
from headviz.settings import Settings
from headviz.types import Watch

_INDEX = "local_models.json"


def checkpoints(settings: Settings) -> Path:
    """Where checkpoints without some heads are written: they are models like any other afterwards."""
    return settings.home / "checkpoints"


def folders(settings: Settings) -> dict[str, Path]:
    """Folder name → folder, for the checkpoints in HEADVIZ_MODELS and those that headviz wrote, by name."""
    made = checkpoints(settings)
    written = _with_config(made) if made.is_dir() else {}
    if settings.models is None:
        return written
    try:
        found = _with_config(settings.models)
    except OSError:
        raise BadInput(
            f"HEADVIZ_MODELS is {str(settings.models)!r}, and that is no folder which can be read. Set it to the "
            "folder that holds your checkpoints, or unset it."
        ) from None
    return found | {name: folder for name, folder in written.items() if name not in found}


def _with_config(place: Path) -> dict[str, Path]:
    found = sorted(path for path in place.iterdir() if (path / "config.json").is_file())
    return {path.name: path for path in found if not path.name.startswith(".")}


def others(settings: Settings) -> dict[str, Path]:
    """Folder name → folder, for the sub-folders of HEADVIZ_MODELS that have no config.json, by name."""
    known = folders(settings)  # raises where HEADVIZ_MODELS itself cannot be read
    if settings.models is None:
        return {}
    found = sorted(path for path in settings.models.iterdir() if path.is_dir())
    return {path.name: path for path in found if path.name not in known and not path.name.startswith(".")}


def known_folder(name: str, revision: str, settings: Settings) -> Path | None:
    """`locate` without reading any weights: None where the content is not remembered to be `revision`."""
    for folder in _candidates(name, revision, settings):
        if known_revision(folder, settings) == revision:
            return folder
    return None


def looks_like_path(name: str) -> bool:
    """Whether somebody meant a folder: `./x`, `../x`, `/x`, `~/x`, `x/`, or a path of Windows."""
    return name.startswith((".", "/", "~")) or name.endswith("/") or "\\" in name


def as_path(name: str) -> Path | None:
    """The folder that `name` says, or None where it is no path. Raises ModelNotFound where it must be one."""
    folder = Path(name).expanduser()
    if folder.is_dir() and (looks_like_path(name) or (folder / "config.json").is_file()):
        return folder.resolve()
    if looks_like_path(name):
        raise ModelNotFound(f"There is no folder {name!r} on this machine. Check the path.")
    return None


def pin(folder: Path, settings: Settings, watch: Watch | None = None) -> str:
    """Content hash of a checkpoint folder, which is looked over first; the folder is found again by it."""
    check(folder)
    revision = folder_sha256(parts(folder), settings.home, watch)
    path, key = settings.home / _INDEX, f"{folder.name}@{revision}"
    index = read_json(path)
    if index.get(key) != str(folder):
        write_json(path, {**index, key: str(folder)})
    return revision


def check(folder: Path, label: str = "") -> None:
    """Refuse a folder by its file names and its config, before anything else is read."""
    label = label or folder.name
    check_files([path.name for path in folder.iterdir()], label)
    check_config(read_config(folder, label), label)
    if lacking := missing(folder):
        raise ModelNotFound(
            f"{label} is incomplete: its index lists {lacking[0]}, which is not there. Copy it again."
        )


def known_revision(folder: Path, settings: Settings) -> str:
    """The content hash where it is remembered and nothing changed, else an empty string. Reads no weights."""
    return remembered(parts(folder), settings.home)


def locate(name: str, revision: str, settings: Settings, watch: Watch | None = None) -> Path:
    """The folder with that name and content. Raises ModelNotFound where it is gone or has changed."""
    present = _candidates(name, revision, settings)
    for folder in present:
        if folder_sha256(parts(folder), settings.home, watch) == revision:
            return folder
    if present:
        raise ModelNotFound(
            f"The local model {name} has changed since this was asked: its content is no longer {revision[:12]}. "
            "Choose it again, or put the files back."
        )
    raise ModelNotFound(
        f"The local model {name} ({revision[:12]}) is not on this machine. Put its folder under HEADVIZ_MODELS, or "
        "give its path on the command line."
    )


def _candidates(name: str, revision: str, settings: Settings) -> list[Path]:
    """Folders where that content may lie: the one where it was seen, then the one that is offered by that name."""
    listed = read_json(settings.home / _INDEX).get(f"{name}@{revision}")
    found = [Path(listed)] if listed else []
    if (offered := folders(settings).get(name)) and offered not in found:
        found.append(offered)
    return [folder for folder in found if (folder / "config.json").is_file()]
