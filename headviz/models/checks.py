"""What can be said against a checkpoint before its weights are read: from its file names and its config alone.

No torch and no transformers here: the same checks run on a folder, on the hub's list of files, and in a page.
"""

from __future__ import annotations

import fnmatch
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headviz.errors import ModelNotFound, UnsafeModel, UnsupportedModel
from headviz.models.architectures import FAMILIES, Family, family_of

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
# what a checkpoint is made of: its content hash is taken over these, and these are downloaded
_PARTS = ("*.json", "model*.safetensors", "*.model", "*.jinja", "*.tiktoken", "merges.txt", "vocab.txt")
# what headviz writes beside a checkpoint about how it came to be: another report makes no other model
_APART = ("report.json",)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".msgpack", ".h5")
_CAUSAL = ("ForCausalLM", "LMHeadModel")
# transformers' own class of each family: a config may point to code of its own that has the same name (Phi-3)
_NATIVE = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "mistral": "MistralForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "opt": "OPTForCausalLM",
    "bloom": "BloomForCausalLM",
    "mpt": "MptForCausalLM",
    "falcon": "FalconForCausalLM",
}


def check_files(names: Iterable[str], label: str) -> None:
    """Refuse a checkpoint by its file names. Raises ModelNotFound, UnsafeModel or UnsupportedModel."""
    names = set(names)
    if "config.json" not in names:
        if "adapter_config.json" in names:
            raise UnsupportedModel(
                f"{label} is an adapter, not a whole model. Merge it into its base model, save that as "
                "safetensors, and choose the merged folder."
            )
        raise ModelNotFound(
            f"{label} has no config.json, so it is no transformers checkpoint. Choose a folder or a repository that "
            "was written by save_pretrained."
        )
    if not names & {SINGLE, INDEX}:
        if any(name.endswith(_PICKLES) for name in names):
            raise UnsafeModel(
                f"{label} has no safetensors, only weights in a format that can run code when it is read "
                "(pickle). Choose a revision with safetensors, or convert it where you trust it: "
                "AutoModelForCausalLM.from_pretrained(…).save_pretrained(…)."
            )
        raise ModelNotFound(f"{label} has no weights: neither {SINGLE} nor {INDEX} is in it.")
    if not names & set(_TOKENIZERS):
        raise ModelNotFound(
            f"{label} has no tokenizer: none of {', '.join(_TOKENIZERS)} is in it. Add the tokenizer's files."
        )


def check_config(config: Mapping[str, Any], label: str) -> Family:
    """The family of a config.json, or UnsupportedModel or UnsafeModel with what to do."""
    architectures = config.get("architectures") or []
    model_type = config.get("model_type")
    if not model_type:
        raise UnsupportedModel(f"The config.json of {label} names no model_type, so its family is unknown.")
    if (code := config.get("auto_map")) and not _is_native(config, code):
        raise UnsafeModel(
            f"{label} wants to run its own code (auto_map in config.json), which headviz never does. Choose a "
            f"checkpoint of a family that transformers has itself: {', '.join(FAMILIES)}."
        )
    if config.get("is_encoder_decoder") or (
        architectures and not any(name.endswith(_CAUSAL) for name in architectures)
    ):
        kind = architectures[0] if architectures else model_type
        raise UnsupportedModel(
            f"{label} is no causal language model: it is {kind} of the family {model_type!r}. headviz measures "
            f"models that predict the next token; these families work: {', '.join(FAMILIES)}."
        )
    if method := (config.get("quantization_config") or {}).get("quant_method"):
        raise UnsupportedModel(
            f"The weights of {label} are stored quantised ({method}). Choose the unquantised checkpoint; on a GPU it "
            "can be loaded in 8 or 4 bits."
        )
    return family_of(config)


def read_config(folder: Path, label: str) -> dict[str, Any]:
    """config.json of a folder. Raises ModelNotFound where it is missing or no JSON object."""
    try:
        tree = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelNotFound(f"{label} has no config.json, so it is no transformers checkpoint.") from None
    except (OSError, ValueError):
        tree = None
    if not isinstance(tree, dict):
        raise ModelNotFound(f"The config.json of {label} cannot be read: fetch or write it again.")
    return tree


def belongs(name: str) -> bool:
    """Whether a file, named from the checkpoint's top, makes the checkpoint what it is."""
    return (
        "/" not in name and name not in _APART and any(fnmatch.fnmatch(name, pattern) for pattern in _PARTS)
    )


def parts(folder: Path) -> list[Path]:
    """The files of a checkpoint folder that make it what it is, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and belongs(path.name))


def weights(folder: Path) -> list[str]:
    """Names of the weight files that transformers will read: the single one, or those that the index lists."""
    if (folder / SINGLE).is_file() or not (folder / INDEX).is_file():
        return [SINGLE]
    try:
        return sorted(set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return [INDEX]


def missing(folder: Path) -> list[str]:
    """Weight files that the folder should have and lacks, as after an interrupted download."""
    return [name for name in weights(folder) if name == INDEX or not (folder / name).is_file()]


def parameters(folder: Path) -> int | None:
    """Numbers in the weight files, read from their headers; None where a header cannot be read."""
    total = 0
    try:
        for name in weights(folder):
            with (folder / name).open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                if size > (folder / name).stat().st_size:
                    return None
                header = json.loads(file.read(size))
            header.pop("__metadata__", None)
            total += sum(math.prod(tensor["shape"]) for tensor in header.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return total


def _is_native(config: Mapping[str, Any], code: Any) -> bool:
    """Whether the code a config points to stands for a class that transformers has itself, as in Phi-3's."""
    native = _NATIVE.get(config["model_type"])
    if native is None or not isinstance(code, Mapping):
        return False
    wanted = {str(path).rpartition(".")[2] for name, path in code.items() if name.startswith("AutoModel")}
    return wanted <= {native}
