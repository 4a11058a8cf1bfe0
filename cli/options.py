"""Options that several subcommands share, and the checks of their values."""

import argparse
import math
import re
from pathlib import Path
from typing import Any

from lookahead.cli.embedded import EDITOR_NAME, PLAIN_NAME

_DTYPES = ("auto", "float32", "bfloat16", "float16")
_LEAST_TEMPERATURE = 0.0001


def add_model_options(parser: argparse.ArgumentParser, default: str = PLAIN_NAME) -> None:
    """Add the options about which model is loaded, and how; ``default`` is the embedded one's name."""
    group = parser.add_argument_group("model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help=f"hub id, folder, .gguf file, {PLAIN_NAME} (SmolLM2-135M-Instruct, which is fetched once) or "
        f"{EDITOR_NAME} (the same, taught small edits) (default: $SPECDEC_LOOKUP_MODEL, else {default})",
    )
    group.add_argument("--revision", metavar="REV", help="branch, tag or commit on the hub")
    group.add_argument(
        "--dtype",
        choices=_DTYPES,
        default="auto",
        help="precision (default: auto, as stored; the default model and .gguf files: float32, in which the output is "
        "token for token that of plain decoding)",
    )
    group.add_argument(
        "--device",
        type=device,
        default="auto",
        metavar="DEVICE",
        help="auto, cpu, cuda, cuda:1 or mps (default: auto, a GPU if there is one)",
    )
    group.add_argument("--attn-implementation", metavar="NAME", help="eager, sdpa, flash_attention_2, ...")
    group.add_argument("--trust-remote-code", action="store_true", help="run code that comes with the model")


def add_generation_options(parser: argparse.ArgumentParser, max_new_tokens: str) -> None:
    """Add the options about how tokens are generated; ``max_new_tokens`` words the default."""
    group = parser.add_argument_group("generation")
    group.add_argument(
        "--max-new-tokens",
        type=positive_integer,
        metavar="N",
        help=f"longest answer in tokens (default: {max_new_tokens})",
    )
    group.add_argument(
        "--temperature", type=temperature, metavar="T", help="sample with this temperature (default: greedy)"
    )
    group.add_argument(
        "--top-p", type=probability, metavar="P", help="sample among the likeliest tokens that make up P"
    )
    group.add_argument("--top-k", type=positive_integer, metavar="K", help="sample among the K likeliest tokens")
    group.add_argument(
        "--min-p", type=probability, metavar="P", help="sample among tokens at least P times as likely as the likeliest"
    )
    group.add_argument("--seed", type=seed, metavar="N", help="seed for sampling")
    group.add_argument("--no-lookup", action="store_true", help="decode plainly, one token a step, to compare")


def add_trace_option(parser: Any) -> None:
    """Add the option that names the file of the trace."""
    parser.add_argument(
        "--trace", metavar="FILE", help="record every step in FILE (JSON lines); `specdec-lookup report FILE` shows it"
    )


def add_tokenizer_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the tokenizer where no model is loaded."""
    parser.add_argument(
        "--tokenizer",
        type=named_path,
        metavar="PATH",
        help="folder or tokenizer.json (default: that of the model in $SPECDEC_LOOKUP_MODEL, else of the embedded "
        f"model, {PLAIN_NAME})",
    )


def add_color_option(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    """Add the option about colour."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colour (default: auto, on a terminal unless NO_COLOR is set)",
    )


def named_path(text: str) -> Path:
    """Return a path; an empty name, which would be the current folder, is a variable that was not set."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty: name a file or folder (. for this one)")
    return Path(text)


def positive_integer(text: str) -> int:
    """Return a whole number of at least 1, as large as lengths can be."""
    return _integer(text, least=1, end=2**30, words="2**30")


def seed(text: str) -> int:
    """Return a whole number that torch takes as a seed."""
    return _integer(text, least=0, end=2**63, words="2**63")


def temperature(text: str) -> float:
    """Return 0, or a finite number that logits can be divided by."""
    value = _number(text)
    if not (math.isfinite(value) and (value == 0 or value >= _LEAST_TEMPERATURE)):
        raise argparse.ArgumentTypeError(
            f"{text} is no temperature: use 0 (greedy), or {_LEAST_TEMPERATURE} or more, such as 0.8"
        )
    return value


def probability(text: str) -> float:
    """Return a number above 0 and at most 1."""
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is out of range: use a number above 0 and at most 1, such as 0.95")
    return value


def device(text: str) -> str:
    """Return the name of a device."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?|xpu(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no device: use auto, cpu, cuda, cuda:1 or mps")
    return text


def _integer(text: str, least: int, end: int, words: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    if value >= end:
        raise argparse.ArgumentTypeError(f"{text} is too large: use a number below {words}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
