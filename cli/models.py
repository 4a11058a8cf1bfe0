"""Loading the target model: from the hub, a folder, a GGUF file, or the embedded default."""

import io
import os
import re
import socket
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from lookahead.cli.console import Console, Environment
from lookahead.cli.embedded import BY_NAME, default_model_path, editor_model_path, may_be_damaged, plain_model_path
from lookahead.cli.errors import CommandError
from lookahead.cli.garbage import collector_paused
from lookahead.cli.model_errors import explain
from lookahead.cli.status import live_status

__all__ = [
    "ModelOptions",
    "default_model_path",
    "editor_model_path",
    "load",
    "load_folder",
    "plain_model_path",
    "silence_transformers",
    "tokenizer_file",
]

MODEL_VARIABLE = "SPECDEC_LOOKUP_MODEL"
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which model to load, and how.

    Attributes:
        model: Hub id, folder or ``.gguf`` file, or ``smollm2`` or ``smollm2-editor`` for the embedded model without or
            with its adapter; None for SPECDEC_LOOKUP_MODEL, else the embedded model that suits the command.
        revision: Branch, tag or commit on the hub.
        dtype: ``auto`` takes what the model is stored in: float32 for the embedded model and for GGUF files.
        device: ``auto`` takes CUDA, then Apple's GPU, then the CPU.
        attn_implementation: ``eager``, ``sdpa``, ``flash_attention_2`` ...; None for the model's default.
        trust_remote_code: Run model code from the hub.
    """

    model: str | None = None
    revision: str | None = None
    dtype: str = "auto"
    device: str = "auto"
    attn_implementation: str | None = None
    trust_remote_code: bool = False

    @classmethod
    def from_args(cls, args: Namespace) -> "ModelOptions":
        """Return the options that the command line gives."""
        return cls(**{name: getattr(args, name) for name in cls.__slots__})


@collector_paused()
def load(
    options: ModelOptions, console: Console | None = None, default: Callable[[Console], Path] = default_model_path
) -> tuple[Any, Any]:
    """Return the model, in evaluation mode on its device, and its tokenizer.

    Args:
        options: What to load.
        console: Where progress is shown.
        default: Gives the folder of the model to load where none is named.

    Raises:
        CommandError: There is no such model, or it can't be loaded; the message says what to do.
    """
    console = console or Console(Environment.from_system())
    asked = options.model or console.environment.variables.get(MODEL_VARIABLE) or ""
    label = asked or "the default model"
    make = {"": default, **BY_NAME}.get(asked)
    folder = make(console) if make else None
    name = str(folder or asked)
    with may_be_damaged(folder):
        where = _locate(name)
    # A model from the hub may have to be downloaded, which shows progress of its own.
    on_disk = os.path.isdir(where["source"])
    with live_status(console, f"loading {label}") if on_disk else nullcontext():
        silence_transformers(progress=console.environment.stderr_is_terminal)
        device = _device(options.device)
        with may_be_damaged(None if options.attn_implementation else folder):
            return _load(where, options, name, device)


def tokenizer_file(path: Path | None, console: Console) -> Path:
    """Return the tokenizer.json that an option names, else that of the model that SPECDEC_LOOKUP_MODEL names, else that
    of the embedded model.

    Raises:
        CommandError: There is none.
    """
    if path is not None:
        file = path / "tokenizer.json" if os.path.isdir(path) else path
        return _there(file, "--tokenizer takes a tokenizer.json or a folder with one")
    asked = console.environment.variables.get(MODEL_VARIABLE) or ""
    make = {"": default_model_path, **BY_NAME}.get(asked)
    if make is None:
        file = _expanded(asked) / "tokenizer.json"
        return _there(file, f"name the tokenizer of the model in {MODEL_VARIABLE} with --tokenizer")
    folder = make(console)
    with may_be_damaged(folder):
        return _there(folder / "tokenizer.json", "the embedded model is not whole")


def _there(file: Path, advice: str) -> Path:
    if not os.path.isfile(file):
        raise CommandError(f"there is no {file}: {advice}")
    return file


def _load(where: dict[str, Any], options: ModelOptions, name: str, device: str) -> tuple[Any, Any]:
    arguments: dict[str, Any] = {
        "revision": options.revision,
        "dtype": "float32" if "gguf_file" in where and options.dtype == "auto" else options.dtype,
        "attn_implementation": options.attn_implementation,
        "trust_remote_code": options.trust_remote_code,
        "device_map": None if device == "cpu" else {"": device},
    }
    try:
        return load_folder(**where, **{key: value for key, value in arguments.items() if value is not None})
    except Exception as error:
        raise CommandError(explain(error, name)) from error


def load_folder(source: Any, **arguments: Any) -> tuple[Any, Any]:
    """Return model and tokenizer from a folder or hub id; the hub is not asked about a local folder."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    arguments["local_files_only"] = os.path.isdir(source) or not _hub_is_near()
    shared = {key: value for key, value in arguments.items() if key in _TOKENIZER_ARGUMENTS}
    # Of a GGUF file transformers shows the progress by a bar that it has no switch for.
    with redirect_stderr(io.StringIO()) if "gguf_file" in arguments else nullcontext():
        tokenizer = AutoTokenizer.from_pretrained(source, **shared)
        model = AutoModelForCausalLM.from_pretrained(source, **arguments)
    return model.eval(), tokenizer


_TOKENIZER_ARGUMENTS = ("revision", "trust_remote_code", "local_files_only", "gguf_file")


def _hub_is_near() -> bool:
    """Whether the hub's name can be resolved; without a network the hub's client would try for a minute."""
    from huggingface_hub.constants import ENDPOINT

    if getproxies():
        return True  # the proxy resolves names
    try:
        socket.getaddrinfo(urlsplit(ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


def _locate(name: str) -> dict[str, Any]:
    """Return where a model is, as the arguments of ``load_folder``."""
    path = _expanded(name)
    if os.path.isfile(path):  # unlike Path's, it raises nothing
        if path.suffix.lower() != ".gguf":
            raise CommandError(f"--model {name} is a file but no .gguf file: name the model's folder")
        return {"source": path.parent, "gguf_file": path.name}
    if os.path.isdir(path):
        if not (path / "config.json").is_file():
            raise CommandError(_without_config(name, path))
        return {"source": path}
    if path.suffix.lower() == ".gguf" or path.is_absolute() or not _HUB_ID.fullmatch(name):
        raise CommandError(f"there is no model at {name}: --model takes a hub id, a folder or a .gguf file")
    return {"source": name}


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # there is no such user
        return Path(name)


def _without_config(name: str, folder: Path) -> str:
    gguf = sorted(path.name for path in folder.glob("*.gguf"))
    way_out = f"name the file, --model {folder / gguf[0]}" if gguf else "name the folder that has the model's files"
    return f"the folder {name} is no model (it has no config.json): {way_out}"


def _device(wanted: str) -> str:
    """Return the device to load on, checked."""
    import torch

    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(wanted)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise CommandError(f"--device {wanted} is not available here: use auto, cpu, cuda, cuda:1 or mps") from None
    return str(device)


def silence_transformers(*, progress: bool) -> None:
    """Keep transformers to errors; of progress bars only those of downloads from the hub may stay."""
    from huggingface_hub.utils import disable_progress_bars
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    if not progress:
        disable_progress_bars()
