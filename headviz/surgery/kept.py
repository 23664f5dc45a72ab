"""Repairs that lie in HEADVIZ_HOME/repairs, found by their id, also those whose job is gone. No torch."""

from __future__ import annotations

import json
from pathlib import Path

from headviz.errors import BadInput
from headviz.settings import Settings
from headviz.surgery import progress
from headviz.types import RepairRequest, build


def find(prefix: str, settings: Settings) -> str:
    """The digest of the repair that begins so. Raises BadInput where none or several do."""
    place = progress.folder(settings, "x").parent
    names = [path.name for path in place.iterdir() if len(path.name) == 64] if place.is_dir() else []
    found = [name for name in names if prefix and name.startswith(prefix.lower())]
    if len(found) != 1:
        what = "No repair's id begins" if not found else f"{len(found)} repairs' ids begin"
        raise BadInput(f"{what} with {prefix!r}: one that has begun is meant. `jobs list` shows them.")
    return found[0]


def plan_of(digest: str, settings: Settings) -> RepairRequest:
    """The plan of a repair, from its job, or from the slices that it kept. Raises BadInput where neither says it."""
    try:
        tree = json.loads((settings.home / "jobs" / digest / "spec.json").read_bytes())
        if tree["kind"] == RepairRequest.kind:
            return build(RepairRequest, tree["request"])
    except (OSError, ValueError, KeyError, TypeError, BadInput):
        pass  # its job is gone, or another version wrote it: the slices say it too
    for path in sorted(progress.folder(settings, digest).glob(f"*/{progress.BEST}")):
        try:
            return build(RepairRequest, _note(path)["plan"])
        except (OSError, ValueError, KeyError, TypeError, BadInput):
            continue
    raise BadInput(
        f"The repair {digest[:12]} keeps nothing that says its plan: its job is gone, and no step was evaluated. Launch it anew."
    )


def slice_files(place: Path, name: str, seed: int, point: str = "best") -> list[Path]:
    """The files that make up one run at its best or last step: the best of every pass before, and `point` of the last one.

    place: of `progress.folder`. Empty where the run has no state yet.
    """
    found: list[Path] = []
    number = 1
    while (folder := progress.run_folder(place, name, seed, number)).is_dir():
        found.append(folder / progress.BEST)
        number += 1
    if found and point == "last":
        found[-1] = found[-1].with_name(progress.LAST)
    return found if all(path.is_file() for path in found) else []


def _note(path: Path) -> dict:
    """What a file of slices says of itself: its header alone is read."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise ValueError("no safetensors file")
        return json.loads(json.loads(file.read(size))["__metadata__"]["headviz"])
