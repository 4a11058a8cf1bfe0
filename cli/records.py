"""Recorded outputs: JSON lines of text or of token ids, as `replay` takes them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lookahead.cli.chat_logs import as_turns
from lookahead.cli.console import Console
from lookahead.cli.errors import CommandError, os_reason

if TYPE_CHECKING:
    from lookahead.replay import Ids, Recording

_SHORTEST_OUTPUT = 8  # tokens; below, there is nothing to measure


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a record is replayed, in tokens: the end of the prompt and the beginning of the output."""

    prompt: int = 4000
    output: int = 1200


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a file, each with the place where it stands, before their texts are encoded."""

    path: Path
    lines: list[tuple[str, dict[str, Any]]]

    @classmethod
    def read(cls, path: Path) -> "Records":
        """Return the records of a file; mistakes that show without a tokenizer are said, as `read_records` does."""
        records = cls(path, list(_lines(path)))
        records.recordings(lambda text: list(text[:_SHORTEST_OUTPUT].encode("utf-8", "replace")), Limits())
        return records

    def recordings(self, encode: Callable[[str], list[int]], limits: Limits) -> "list[Recording]":
        """Return the recordings, as `read_records` does."""
        found = [_recording(turn, encode, limits, place) for place, line in self.lines for turn in as_turns(line)]
        kept = [recording for recording in found if len(recording.output) >= _SHORTEST_OUTPUT]
        if not kept:
            raise CommandError(
                f"{self.path} holds no output of at least {_SHORTEST_OUTPUT} tokens: nothing can be replayed"
            )
        return kept


def read_records(path: Path, encode: Callable[[str], list[int]], limits: Limits) -> "list[Recording]":
    """Return the recordings of a file; outputs under 8 tokens are left out.

    A line holds ``prompt`` and ``output`` as text, or ``prompt_ids`` and ``output_ids``; and where it applies
    ``prediction`` and ``references`` (a list), or ``prediction_ids`` and ``reference_ids`` (a list of lists). Logs of
    chats do too: ``messages`` with roles and contents, where every answer makes a recording, and a ``response``,
    ``completion`` or OpenAI-style ``choices`` in the place of the output; ``request`` may hold what was asked.

    Raises:
        CommandError: The file can't be read, or a line is no record; the message names it.
    """
    return Records(path, list(_lines(path))).recordings(encode, limits)


def load_tokenizer(path: Path | None, console: Console) -> Any:
    """Return the tokenizer of a folder or a tokenizer.json, or that of the default model (`tokenizer_file`).

    Raises:
        CommandError: There is none, or it can't be read.
    """
    from tokenizers import Tokenizer

    from lookahead.cli.models import tokenizer_file

    file = tokenizer_file(path, console)
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises plain Exception
        raise CommandError(
            f"{file} could not be read as a tokenizer ({error}): name another with --tokenizer"
        ) from None


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # JSON may hold other newlines
    except OSError as error:
        raise CommandError(f"{path} can't be read: {os_reason(error)}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text: records are JSON lines") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{path}, line {number}"
            yield place, _object(line, place)


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{place} is no JSON ({error}): records are JSON lines") from None
    if not isinstance(record, dict):
        raise CommandError(f"{place} is no JSON object: a record has a prompt and an output")
    return record


def _recording(record: dict[str, Any], encode: Callable[[str], list[int]], limits: Limits, place: str) -> "Recording":
    from lookahead.replay import Recording

    def ids(name: str, text: Any, given: Any) -> "Ids":
        return _ids(text if given is None else given, encode, f"{place}: {name}")

    def either(name: str) -> tuple[Any, Any]:
        return record.get(name), record.get(f"{name}_ids")

    prediction = either("prediction")
    references = record.get("reference_ids") or record.get("references") or []
    if not isinstance(references, list):
        raise CommandError(f"{place}: references must be a list of texts or of lists of token ids")
    return Recording(
        ids("prompt", *either("prompt"))[-limits.prompt :],
        ids("output", *either("output"))[: limits.output],
        None if prediction == (None, None) else ids("prediction", *prediction),
        tuple(ids("references", text, None) for text in references),
    )


def _ids(value: Any, encode: Callable[[str], list[int]], what: str) -> "Ids":
    import numpy as np

    tokens = encode(value) if isinstance(value, str) else value
    if not isinstance(tokens, list) or not all(type(token) is int and 0 <= token < 2**31 for token in tokens):
        raise CommandError(f"{what} must be text, or a list of token ids under the same name with _ids")
    return np.array(tokens, np.int32)
