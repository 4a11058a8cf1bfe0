"""The prompt that asks a model for an edited file, whole or as blocks of changes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from lookahead.cli.blocks import marks_for
from lookahead.cli.errors import CommandError

_SYSTEM = (
    "You edit files. Reply with the complete edited file in one fenced code block. "
    "Copy every line that need not change exactly as it is."
)
_SYSTEM_BLOCKS = """\
You edit files. Reply only with the changes, each as a block of this form:

{search}
the lines to replace, exactly and wholly as they stand in the file
{divide}
the lines that stand there afterwards
{replace}

The lines to replace must stand in the file only once: take in as many lines around the change as that needs."""
_LANGUAGES = {
    ".c": "c", ".cpp": "cpp", ".cs": "csharp", ".css": "css", ".go": "go", ".h": "c", ".html": "html", ".java": "java",
    ".js": "javascript", ".json": "json", ".jsx": "jsx", ".kt": "kotlin", ".lua": "lua", ".md": "markdown",
    ".php": "php", ".py": "python", ".pyi": "python", ".rb": "ruby", ".rs": "rust", ".sh": "bash", ".sql": "sql",
    ".swift": "swift", ".toml": "toml", ".ts": "typescript", ".tsx": "tsx", ".xml": "xml", ".yaml": "yaml",
    ".yml": "yaml",
}  # fmt: skip
INSTRUCTION = "message['instruction']"
"""What a chat template contains that says the instruction in another place, too."""
# What a chat template contains when the model thinks before it answers.
_THINKING = ("<think>", "</think>", "enable_thinking", "<|channel|>", "<|channel>", "[THINK]")
_THINK = re.compile(r"<think(?:ing)?>\s*\Z")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids of a prompt, and the beginning of the answer that they hold already."""

    ids: list[int]
    opening: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that the model shall read and not edit: its name and text, with ``\\n`` newlines."""

    name: str
    text: str


def edit_prompt(
    tokenizer: Any, path: str, text: str, instruction: str, *, context: Sequence[Reference] = (), blocks: bool = False
) -> Prompt:
    """Return the prompt for one file: instruction and file, in the model's chat template.

    The file stands in a fence longer than any in it, exactly as the answer must have it, so that the answer is mostly
    a copy. Unless the model thinks first, the opening fence of the answer is given too; its newline is not, because
    tokenizers join it with what follows. Files for reference come first, so that prompts for several files begin
    alike. A template that knows ``message['instruction']`` gets it: that of the embedded editor says it before the file
    as well, as it was taught.

    Args:
        tokenizer: With or without a chat template.
        path: The file's name; its suffix names the language of the fence.
        text: The file, with ``\\n`` newlines.
        instruction: What to change.
        context: Files to read only.
        blocks: Ask for blocks of changes instead of the whole file.

    Raises:
        CommandError: A text contains one of the tokenizer's control tokens.
    """
    _refuse_control_tokens(tokenizer, "the file", text)
    _refuse_control_tokens(tokenizer, "the instruction", instruction)
    for reference in context:
        _refuse_control_tokens(tokenizer, f"the file for reference {reference.name}", reference.text)
    opening, block = _fenced(path, text)
    # Hardly a word besides: small models repeat whatever else stands here instead of ending their answer.
    asked = instruction.strip()
    request = f"{_references(path, context)}{block}\n\n{asked}"
    system = _SYSTEM_BLOCKS.format(**marks_for(text)._asdict()) if blocks else _SYSTEM
    extra = {"instruction": asked} if INSTRUCTION in str(getattr(tokenizer, "chat_template", "")) else {}
    messages = [{"role": "system", "content": system}, {"role": "user", "content": request, **extra}]
    rendered, is_chat = render(tokenizer, messages)
    if blocks:
        opening = ""
    if thinks(tokenizer):
        begun = _THINK.search(rendered)  # then the answer holds the end of the reasoning only
        return Prompt(encode(tokenizer, rendered, special_tokens=not is_chat), begun[0] if begun else "")
    return Prompt(encode(tokenizer, rendered + opening, special_tokens=not is_chat), opening)


def _fenced(path: str, text: str) -> tuple[str, str]:
    """Return the opening fence for a file, and the file in its fences."""
    fence = fence_for(text)
    opening = fence + _LANGUAGES.get(PurePath(path).suffix.lower(), "")
    newline = "" if text.endswith("\n") else "\n"
    return opening, f"{opening}\n{text}{newline}{fence}"


def _references(path: str, context: Sequence[Reference]) -> str:
    if not context:
        return ""
    files = "".join(f"{reference.name}:\n{_fenced(reference.name, reference.text)[1]}\n\n" for reference in context)
    return f"Files for reference only:\n\n{files}The file to edit, {PurePath(path).name}:\n"


def fence_for(text: str) -> str:
    """Return a fence of backticks longer than any run of them in the text.

    Example:
        >>> fence_for("x = 1"), fence_for("Use ```` here")
        ('```', '`````')
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(3, longest + 1)


def render(tokenizer: Any, messages: list[dict[str, str]]) -> tuple[str, bool]:
    """Return the conversation as the model reads it, up to its answer, and whether a chat template made it."""
    if not getattr(tokenizer, "chat_template", None):
        parts = "\n\n".join(message["content"] for message in messages)
        return f"{parts}\n\nAnswer:\n", False
    try:
        return _apply(tokenizer, messages), True
    except Exception:
        # Some templates refuse a system message.
        content = "\n\n".join(message["content"] for message in messages)
        return _apply(tokenizer, [{"role": "user", "content": content}]), True


def encode(tokenizer: Any, text: str, *, special_tokens: bool = False) -> list[int]:
    """Return the token ids of a text, with the tokenizer's own special tokens around it or without."""
    return tokenizer(encodable(text), add_special_tokens=special_tokens)["input_ids"]


def encodable(text: str) -> str:
    """Return the text with a ? for each half of a surrogate pair, which no tokenizer takes.

    They stand for bytes of a file's name, or of the command line, that are no UTF-8; and JSON may hold them.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def as_seen(tokenizer: Any, text: str) -> str:
    """Return a text as it comes back from the tokenizer, which may normalise Unicode."""
    ids = encode(tokenizer, text)
    return tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def thinks(tokenizer: Any) -> bool:
    """Whether the model's chat template is that of a model that reasons before it answers."""
    template = str(getattr(tokenizer, "chat_template", None) or "")
    return any(mark in template for mark in _THINKING)


def _apply(tokenizer: Any, messages: list[dict[str, str]]) -> str:
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def _refuse_control_tokens(tokenizer: Any, what: str, text: str) -> None:
    for token in getattr(tokenizer, "all_special_tokens", ()):
        if token in text:
            raise CommandError(
                f"{what} contains {token}, a control token of this model, which would not read it as text: use a "
                "model with other control tokens"
            )
