"""HEADVIZ_* variables, read once. An unknown name is refused: a typing mistake must not pass as a default."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headviz.errors import BadInput, lookup

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}

VARIABLES: dict[str, str] = {
    "HEADVIZ_HOME": "folder for results, jobs and converted models (default ~/.local/share/headviz)",
    "HEADVIZ_MODELS": "folder whose sub-folders are local checkpoints, offered by name",
    "HEADVIZ_DATA": "folder with local copies of corpora, one sub-folder a corpus (parquet, jsonl, csv or txt)",
    "HEADVIZ_MMLU": "folder with MMLU's test and dev parquet files, in the columns of cais/mmlu",
    "HEADVIZ_DEVICE": "where models run: auto (default), cpu, cuda, cuda:1 …",
    "HEADVIZ_THREADS": "threads a worker computes with (default: all cores, less those of running repairs)",
    "HEADVIZ_SIDE_BY_SIDE": "how many runs of a repair train at the same time (default: as many as cores and memory hold)",
    "HEADVIZ_IDLE_MINUTES": "minutes after which an idle worker leaves and frees its memory (default 10)",
    "HEADVIZ_STORE_LIMIT": "largest size of the result store, such as 20GB (default: no limit)",
}


@dataclass(frozen=True)
class Settings:
    """What the environment says. Paths are absolute; none of them ever enters a request."""

    home: Path
    models: Path | None = None
    data: Path | None = None
    mmlu: Path | None = None
    device: str = "auto"
    threads: int | None = None
    side_by_side: int | None = None
    idle_minutes: float = 10.0
    store_limit: int | None = None


def read_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from `environ`. Raises BadInput for an unknown HEADVIZ_* name or a value that cannot be read."""
    given = {name: value for name, value in environ.items() if name.startswith("HEADVIZ_") and value}
    for name in given:
        lookup(VARIABLES, name, "setting")

    def folder(name: str) -> Path | None:
        return Path(given[name]).expanduser().resolve() if name in given else None

    return Settings(
        home=folder("HEADVIZ_HOME") or Path("~/.local/share/headviz").expanduser(),
        models=folder("HEADVIZ_MODELS"),
        data=folder("HEADVIZ_DATA"),
        mmlu=folder("HEADVIZ_MMLU"),
        device=given.get("HEADVIZ_DEVICE", "auto"),
        threads=_number(given, "HEADVIZ_THREADS", int),
        side_by_side=_number(given, "HEADVIZ_SIDE_BY_SIDE", int),
        idle_minutes=_number(given, "HEADVIZ_IDLE_MINUTES", float) or 10.0,
        store_limit=parse_size(given["HEADVIZ_STORE_LIMIT"], "HEADVIZ_STORE_LIMIT")
        if "HEADVIZ_STORE_LIMIT" in given
        else None,
    )


@cache
def settings() -> Settings:
    """The settings of this process."""
    return read_settings(os.environ)


def environment(settings: Settings) -> dict[str, str]:
    """The environment of a process of ours: this process's, with HEADVIZ_* as `settings` say, paths made absolute."""
    given = {
        "HEADVIZ_HOME": settings.home.absolute(),
        "HEADVIZ_MODELS": settings.models,
        "HEADVIZ_DATA": settings.data,
        "HEADVIZ_MMLU": settings.mmlu,
        "HEADVIZ_DEVICE": settings.device,
        "HEADVIZ_THREADS": settings.threads,
        "HEADVIZ_SIDE_BY_SIDE": settings.side_by_side,
        "HEADVIZ_IDLE_MINUTES": settings.idle_minutes,
        "HEADVIZ_STORE_LIMIT": settings.store_limit,
    }
    others = {name: value for name, value in os.environ.items() if not name.startswith("HEADVIZ_")}
    return others | {name: str(value) for name, value in given.items() if value is not None}


def _number(given: Mapping[str, str], name: str, kind: type):
    if name not in given:
        return None
    try:
        value = kind(given[name])
    except ValueError:
        value = 0
    if value <= 0:
        raise BadInput(f"{name} is {given[name]!r}, which is no positive number. Set it to one, or unset it.")
    return value


def parse_size(text: str, name: str) -> int:
    """Bytes of a size such as `500MB` or `20GB`. Raises BadInput that names `name`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)B?\s*", text.upper())
    if not match:
        raise BadInput(f"{name} is {text!r}, which is no size. Write it like 500MB or 20GB.")
    return int(float(match[1]) * _UNITS[match[2]])
