"""From a pinned `ModelRef` to a frozen model on a device. Whatever can be refused is refused before weights move."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headviz.errors import BadInput, Failure, HeadvizError, ModelNotFound, UnsafeModel, UnsupportedModel
from headviz.models import catalog, checks, hub, local, memory
from headviz.models.architectures import Family, geometry
from headviz.models.quiet import quiet
from headviz.settings import Settings
from headviz.settings import settings as process_settings
from headviz.types import Geometry, ModelRef, Silent, Watch

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

log = logging.getLogger(__name__)


@dataclass
class Loaded:
    """A model ready to be scored: in eval mode, no parameter wants a gradient.

    device:     where token ids go: `cpu`, `cuda:0` …
    self_check: worst errors of the fused statistics on this model and device; filled on first use
    """

    ref: ModelRef
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    geometry: Geometry
    family: Family
    device: str
    self_check: dict[str, float] | None = field(default=None)


def load(
    ref: ModelRef, *, device: str = "auto", watch: Watch | None = None, settings: Settings | None = None
) -> Loaded:
    """Load `ref` on `device`: auto (the GPU, or all of them, where there are any), cpu, cuda, cuda:N.

    Raises ModelNotFound, GatedModel, UnsupportedModel, UnsafeModel, NotEnoughMemory, BadInput, Unreachable, Failure:
    each a sentence with what to do.
    """
    watch, settings = watch or Silent(), settings or process_settings()
    label = catalog.label(ref)
    place = choose_device(device)
    if ref.quantization != "none":
        catalog.check_quantization(ref.quantization, "cpu" if place == "cpu" else "cuda")
    folder = _folder(ref, place, settings, watch)
    watch.step(f"reading {label}")
    local.check(folder, label)
    raw = checks.read_config(folder, label)
    family = checks.check_config(raw, label)
    with quiet(), _explained(label):
        config = _config(folder)
        memory.check(config, ref.dtype, ref.quantization, place, label)
        tokenizer = _tokenizer(folder, label)
        watch.step(f"reading the weights of {label}")
        model = _model(folder, config, ref, place, label)
    shape = geometry(model.config)
    watch.check()
    return Loaded(ref, model, tokenizer, shape, family, str(model.get_input_embeddings().weight.device))


def choose_device(device: str) -> str:
    """`cpu`, `cuda:N`, or `auto` where there are several GPUs and all may be used. Raises BadInput."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "cpu" or (device == "auto" and count == 0):
        return "cpu"
    if device == "auto":
        return "cuda:0" if count == 1 else "auto"
    kind, _, index = device.partition(":")
    if kind != "cuda" or (index and not index.isdecimal()):
        raise BadInput(f"There is no device {device!r}. Choose auto, cpu, cuda, or cuda: and a number.")
    if int(index or 0) >= count:
        have = f"torch sees {count} of them" if count else "torch sees no GPU here"
        raise BadInput(f"The device {device} is not on this machine: {have}. Choose auto or cpu.")
    return f"cuda:{int(index or 0)}"


def _folder(ref: ModelRef, place: str, settings: Settings, watch: Watch) -> Path:
    """Where the weights lie; for the hub, memory is checked from the config before they are downloaded."""
    if ref.source != "hub":
        return catalog.locate(ref, settings, watch)
    label = catalog.label(ref)

    def fits(folder: Path) -> None:
        with quiet(), _explained(label):
            memory.check(_config(folder), ref.dtype, ref.quantization, place, label)

    return hub.download(ref.name, ref.revision, label, watch, before=fits)


def _config(folder: Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)


def _tokenizer(folder: Path, label: str) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        silent = not tokenizer("the quick brown fox", add_special_tokens=False).input_ids
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
        log.debug("tokenizer of %s: %s", label, error)
        if "trust_remote_code" in str(error):
            raise UnsafeModel(
                f"The tokenizer of {label} wants to run its own code, which headviz never does. Choose a checkpoint "
                "with a tokenizer.json."
            ) from None
        raise ModelNotFound(
            f"The tokenizer of {label} cannot be read ({type(error).__name__}). Choose a checkpoint with a "
            "tokenizer.json, or fetch its files again."
        ) from None
    if silent:  # for some families transformers ignores a tokenizer.json of another kind
        raise ModelNotFound(
            f"The tokenizer of {label} gives no tokens for plain English: its files do not fit the model's family. "
            "Choose a checkpoint with the tokenizer of its family."
        )
    return tokenizer


def _model(folder: Path, config: Any, ref: ModelRef, place: str, label: str) -> PreTrainedModel:
    import torch
    from transformers import AutoModelForCausalLM

    model, told = AutoModelForCausalLM.from_pretrained(
        folder,
        config=config,
        dtype=getattr(torch, ref.dtype),
        attn_implementation=_attention(config),
        device_map=place if place != "cpu" else None,
        quantization_config=_quantization(ref, torch),
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=True,
        output_loading_info=True,
    )
    # transformers fills what a checkpoint lacks with random numbers: scores of those would look like any others
    lacking = sorted({*told["missing_keys"], *(str(key) for key in told["mismatched_keys"])})
    if lacking:
        raise UnsupportedModel(
            f"{label} does not hold all weights of its family: {len(lacking)} are missing or of another shape, "
            f"such as {lacking[0]}. Choose a complete checkpoint."
        )
    return model.eval().requires_grad_(False)


def _attention(config: Any) -> str:
    """sdpa where transformers has it for the family; BLOOM and Gemma 2 have only eager attention."""
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING

    return "sdpa" if MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]._supports_sdpa else "eager"


def _quantization(ref: ModelRef, torch: Any) -> Any:
    if ref.quantization == "none":
        return None
    from transformers import BitsAndBytesConfig

    if ref.quantization == "8bit":
        return BitsAndBytesConfig(load_in_8bit=True)
    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=getattr(torch, ref.dtype))


@contextmanager
def _explained(label: str) -> Iterator[None]:
    """A sentence for what reading a checkpoint can raise. The library's own text goes to the log only."""
    import torch
    from safetensors import SafetensorError

    try:
        yield
    except HeadvizError:
        raise
    except SafetensorError as error:
        log.debug("%s: %s", label, error)
        raise Failure(
            f"The weights of {label} are damaged: a safetensors file cannot be read. Delete it and fetch it again."
        ) from None
    except torch.OutOfMemoryError:
        raise Failure(
            f"The GPU ran out of memory while {label} was read: something else uses it. Free it, or choose cpu."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError) as error:
        log.debug("%s: %s", label, error)
        raise Failure(
            f"{label} cannot be read by transformers ({type(error).__name__}). Check its config.json, or fetch it "
            "again."
        ) from None
