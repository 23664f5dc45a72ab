"""Which models there are, and how a name becomes a pinned `ModelRef`. No torch or transformers: pages read this."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headviz import machine
from headviz.errors import BadInput, HeadvizError, ModelNotFound, UnsupportedModel, lookup
from headviz.models import architectures, bundled, checks, hub, local
from headviz.models.architectures import FAMILIES, geometry
from headviz.settings import Settings
from headviz.types import DTYPES, QUANTIZATIONS, CheckpointRequest, ModelRef, Silent, Watch, canonical

BITSANDBYTES = "pip install bitsandbytes"
_SOURCES = {"bundled": "bundled", "local": "local", "hub": "hub", "": ""}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A model on offer.

    name:     what `resolve` takes
    revision: commit or content hash; empty for a local folder whose weights were not read yet
    config:   what config.json says, as far as it is known without loading anything
    """

    source: Literal["bundled", "hub", "local"]
    name: str
    label: str
    revision: str
    config: dict[str, Any]
    parameters: int | None = None


def list_models(settings: Settings) -> list[Entry]:
    """Bundled models that are installed, then folders of HEADVIZ_MODELS, then models in the Hugging Face cache.

    Only what can be loaded: a checkpoint of an unknown family, or with pickled weights, is left out; of
    HEADVIZ_MODELS, `unusable` says so.
    """
    entries = [
        Entry(
            source="bundled",
            name=row.name,
            label=_label("bundled", row.name, row.sha256),
            revision=row.sha256,
            config=dict(row.config),
            parameters=row.parameters,
        )
        for row in bundled.BUNDLED.values()
        if bundled.is_installed(row, settings)
    ]
    for name, folder in local.folders(settings).items():
        if not _problem(folder):
            revision = local.known_revision(folder, settings)
            entries.append(_entry("local", name, revision, folder))
    for name, commit in hub.in_cache():
        folder = hub.cached(name, commit)
        if folder and not _problem(folder):
            entries.append(_entry("hub", name, commit, folder))
    return entries


def unusable(settings: Settings) -> list[tuple[str, str]]:
    """(name, sentence why) of the sub-folders of HEADVIZ_MODELS that are no usable checkpoint, by name."""
    there = local.folders(settings) | local.others(settings)
    return [(name, why) for name, folder in sorted(there.items()) if (why := _problem(folder))]


def resolve(
    name: str,
    *,
    revision: str = "",
    dtype: str = "auto",
    quantization: str = "none",
    settings: Settings,
    allow_paths: bool = False,
    source: str = "",
    watch: Watch | None = None,
) -> ModelRef:
    """The pinned model behind a name: bundled, then a folder of HEADVIZ_MODELS, then (only with `allow_paths`: the
    command line and notebooks) a path, then a hub id.

    revision: branch, tag or commit of a hub model; for the others, empty or the content hash that is expected
    source:   `bundled`, `local` or `hub` where the name alone would mean another one
    Raises BadInput, UnknownName, ModelNotFound, GatedModel, UnsupportedModel, UnsafeModel, Unreachable.
    """
    watch = watch or Silent()
    if not name.strip():
        raise BadInput("The model's name is empty. Give a bundled model, a local folder's name, or a hub id.")
    lookup(_SOURCES, source, "model source")
    precision = _precision(dtype, quantization, settings)
    row = bundled.find(name) if source in ("", "bundled") else None
    if row:
        found: tuple[Any, str, str] = ("bundled", row.name, row.sha256)
    elif folder := _folder(name, settings, allow_paths, source):
        watch.step(f"checking {folder.name}")
        _refuse(folder)
        found = ("local", folder.name, local.pin(folder, settings, watch))
    elif source in ("", "hub"):
        found = ("hub", name, hub.commit_of(name, revision))
    else:
        raise ModelNotFound(_nowhere(name, source, settings))
    if revision and found[0] != "hub" and not found[2].startswith(revision):
        raise ModelNotFound(
            f"{short_name(found[1])} has the content {found[2][:12]}, not {revision[:12]}. Leave the revision empty "
            "to use what is there."
        )
    return ModelRef(source=found[0], name=found[1], revision=found[2], **precision)


def locate(ref: ModelRef, settings: Settings, watch: Watch | None = None) -> Path:
    """The folder on this machine with the weights of `ref`; a bundled model is converted, a hub model downloaded.

    Raises ModelNotFound where a local folder is gone or changed, and what `hub.download` raises.
    """
    watch = watch or Silent()
    if ref.source == "bundled":
        row = bundled.find(ref.name)
        if row is None or row.sha256 != ref.revision:
            raise ModelNotFound(
                f"The bundled model {ref.name} at {ref.revision[:12]} is not in this version of headviz. Bundled now: "
                f"{', '.join(bundled.BUNDLED)}."
            )
        return bundled.prepare(row, settings, watch)
    if ref.source == "local":
        return local.locate(ref.name, ref.revision, settings, watch)
    return hub.download(ref.name, ref.revision, label(ref), watch)


def context_length(ref: ModelRef, settings: Settings) -> int | None:
    """The longest input of a model in tokens, from its config alone; None where it has no end or is not known here."""
    config = config_here(ref, settings)
    try:
        longest = architectures.context_length(config) if config else None
    except UnsupportedModel:
        return None
    return longest if isinstance(longest, int) and longest > 0 else None


def config_here(ref: ModelRef, settings: Settings) -> dict[str, Any] | None:
    """What config.json of a model says, without loading or fetching anything; None where it is not on this machine."""
    if ref.source == "bundled":
        row = bundled.find(ref.name)
        return dict(row.config) if row else None
    return _config_here(ref, settings)


def folder_here(ref: ModelRef, settings: Settings) -> Path | None:
    """The folder with the weights of `ref`, where it is on this machine and ready to be read; nothing is fetched or made."""
    if ref.source == "bundled":
        row = bundled.find(ref.name)
        folder = bundled.folder_of(row, settings) if row else None
        return folder if folder and (folder / "config.json").is_file() else None
    if ref.source == "local":
        return local.known_folder(ref.name, ref.revision, settings)
    return hub.cached(ref.name, ref.revision)


def size(ref: ModelRef, settings: Settings) -> int | None:
    """Bytes of the weights of `ref` in its number format; None where they are not on this machine."""
    folder = folder_here(ref, settings)
    numbers = checks.parameters(folder) if folder else None
    return None if numbers is None else numbers * (4 if ref.dtype == "float32" else 2)


def checkpoint_folder(request: CheckpointRequest, settings: Settings) -> Path:
    """Where a checkpoint goes, named by the model, how many heads are gone, and eight digits of which and in what number
    format: the same request, the same folder."""
    what = {"model": request.model, "heads": request.heads, "smaller": request.smaller}
    made = "smaller" if request.smaller else "off"
    digits = hashlib.sha256(canonical(what)).hexdigest()[:8]
    name = f"{short(request.model)}-{len(request.heads)}-{made}-{digits}"
    return local.checkpoints(settings) / name


def label(ref: ModelRef) -> str:
    """What a person reads: `SmolLM2-135M-Instruct (bundled)`, `org/name@1a2b3c4`, `name@1a2b3c4 (local)`."""
    return _label(ref.source, ref.name, ref.revision)


def short(ref: ModelRef) -> str:
    """The model's name alone, for axes and file names: `SmolLM2-135M-Instruct`, `name`."""
    return short_name(ref.name)


def short_name(name: str) -> str:
    """`short` of a name."""
    row = bundled.BUNDLED.get(name)
    return row.title if row else name.rpartition("/")[2]


def caution(ref: ModelRef) -> str:
    """What a page says of a model before anything else; empty where there is nothing."""
    row = bundled.find(ref.name) if ref.source == "bundled" else None
    return row.caution if row else ""


def describe_models(settings: Settings) -> list[dict[str, Any]]:
    """One flat row a model on offer: what its config says, read without loading anything."""
    rows = []
    for entry in list_models(settings):
        shape = geometry(entry.config)
        rows.append(
            {
                "name": entry.name,
                "source": entry.source,
                "label": entry.label,
                "revision": entry.revision,
                "family": shape.family,
                "layers": shape.layers,
                "heads": shape.heads,
                "kv_heads": shape.kv_heads,
                "head_dim": shape.head_dim,
                "parameters": entry.parameters,
            }
        )
    return rows


def families() -> list[dict[str, str]]:
    """One flat row a family that works: its name in config.json, title, positions, and what to know about it."""
    return [
        {"family": row.model_type, "title": row.title, "positions": row.positions, "notes": row.notes}
        for row in FAMILIES.values()
    ]


def _precision(dtype: str, quantization: str, settings: Settings) -> dict[str, Any]:
    """dtype and quantization of a `ModelRef`, "auto" decided by what the machine has."""
    lookup(dict.fromkeys(("auto", *DTYPES)), dtype, "dtype")
    lookup(dict.fromkeys(QUANTIZATIONS), quantization, "quantization")
    if quantization != "none":
        check_quantization(quantization, settings.device)
    return {
        "dtype": machine.auto_dtype(settings.device) if dtype == "auto" else dtype,
        "quantization": quantization,
    }


def check_quantization(quantization: str, device: str) -> None:
    """8 and 4 bits need a GPU and bitsandbytes. Raises UnsupportedModel."""
    if device == "cpu" or not machine.gpus():
        raise UnsupportedModel(
            f"{quantization} needs an NVIDIA GPU, and models run on the processor here. Choose quantization none; "
            "bfloat16 halves the memory that float32 takes."
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise UnsupportedModel(f"{quantization} needs the package bitsandbytes: run `{BITSANDBYTES}`.")


def _folder(name: str, settings: Settings, allow_paths: bool, source: str) -> Path | None:
    if source not in ("", "local"):
        return None
    if found := local.folders(settings).get(name):
        return found
    if allow_paths and (found := local.as_path(name)):
        return found
    if local.looks_like_path(name):
        raise BadInput(
            f"{name!r} is a path, and paths are taken only on the command line and in notebooks. Put the folder "
            "under HEADVIZ_MODELS and give its name."
        )
    return local.others(settings).get(name)  # is refused with the reason: the hub would not know more of it


def _nowhere(name: str, source: str, settings: Settings) -> str:
    there = ", ".join(entry.name for entry in list_models(settings) if entry.source == source) or "none"
    return f"There is no {source} model {name!r}. There are: {there}."


def _label(source: str, name: str, revision: str) -> str:
    if source == "bundled":
        return f"{short_name(name)} (bundled)"
    pinned = f"{name}@{revision[:7]}" if revision else name
    return f"{pinned} (local)" if source == "local" else pinned


def _entry(source: Literal["hub", "local"], name: str, revision: str, folder: Path) -> Entry:
    return Entry(
        source=source,
        name=name,
        label=_label(source, name, revision),
        revision=revision,
        config=checks.read_config(folder, name),
        parameters=checks.parameters(folder),
    )


def _config_here(ref: ModelRef, settings: Settings) -> dict[str, Any] | None:
    """config.json of a local folder or of the hub's cache; None where it is not on this machine."""
    if ref.source == "local":
        folder = local.known_folder(ref.name, ref.revision, settings)
    else:
        folder = hub.cached(ref.name, ref.revision)
    try:
        return checks.read_config(folder, ref.name) if folder else None
    except ModelNotFound:
        return None


def _refuse(folder: Path) -> None:
    """Raise for what cannot be loaded, from file names and config alone."""
    try:
        local.check(folder)
        geometry(checks.read_config(folder, folder.name))
    except OSError as error:
        raise ModelNotFound(
            f"{folder.name} cannot be read: {error.strerror}. Change its permissions."
        ) from None


def _problem(folder: Path) -> str:
    """The sentence with which `_refuse` refuses a folder; empty for one that can be loaded."""
    try:
        _refuse(folder)
    except HeadvizError as error:
        return str(error)
    return ""
