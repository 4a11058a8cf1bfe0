"""The low-rank adapter that makes the embedded model an editor: checked, and added to the weights."""

import hashlib
from pathlib import Path
from typing import Any

from lookahead.cli.errors import CommandError
from lookahead.cli.prompts import INSTRUCTION

ADAPTER = Path(__file__).parent / "data" / "editor.safetensors"
ADAPTER_SHA256 = "8c52edab29fe5127fb115edab259379a409033d0b433d96d42a8060e44d1d58d"


def check_adapter(path: Path = ADAPTER, sha256: str = ADAPTER_SHA256) -> None:
    """Refuse an adapter that is not the file that it must be.

    Raises:
        CommandError: The file is missing or has another content.
    """
    way_out = "install specdec-lookup again, or use the model without it (--model smollm2)"
    if not path.is_file():
        raise CommandError(f"the package lacks {path.name}, which makes the embedded model an editor: {way_out}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != sha256:
        raise CommandError(
            f"{path} is not the expected file (sha256 {digest}, not {sha256}): it was not used; {way_out}"
        )


def merge_adapter(model: Any, path: Path = ADAPTER) -> None:
    """Add an adapter to the weights of a model, in float32.

    The file has for every layer it changes a matrix ``NAME.a`` of [rank, in] and ``NAME.b`` of [out, rank]; their
    product ``b @ a`` is the change of the layer's weight.

    Args:
        model: A transformers model that has these layers.
        path: The adapter, a safetensors file.
    """
    import torch
    from safetensors.torch import load_file

    tensors = load_file(path)
    with torch.no_grad():
        for name in sorted(key[:-2] for key in tensors if key.endswith(".a")):
            weight = model.get_submodule(name).weight
            change = tensors[f"{name}.b"].float() @ tensors[f"{name}.a"].float()
            weight.copy_(weight.float() + change)


def lead_with_instruction(tokenizer: Any) -> None:
    """Let a chat template say the instruction of an edit before the file as well, as the adapter was trained.

    What a causal model makes of a file's tokens depends on what stands before them: so it reads the file knowing what
    to change.

    Raises:
        ValueError: The template is of another form than that of the embedded model.
    """
    content, template = "message['content']", str(tokenizer.chat_template)
    if template.count(content) != 1:
        raise ValueError(f"chat_template must have {content} once, got {template!r:.200}")
    leading = f"({INSTRUCTION} + '\\n\\n' if {INSTRUCTION} else '')"
    tokenizer.chat_template = template.replace(content, f"{leading} + {content}")
