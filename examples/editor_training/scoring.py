"""The score: held-out edits by the command's own way, right only if the whole file is."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from editor_training.edits import Edit
from editor_training.tasks import KINDS, edit_of
from lookahead.cli.answers import extract_file
from lookahead.cli.console import Console, Environment
from lookahead.cli.editor import ModelEditor
from lookahead.cli.errors import CommandError
from lookahead.cli.generation import Generator, Sampling

# Characters of the files: three in five short, two in five longer, the last of every fifteen up to 1,500 tokens.
_SIZES = [(120, 700)] * 9 + [(700, 1800)] * 4 + [(1800, 3000), (3000, 5200)]


@dataclass(frozen=True, slots=True)
class Tried:
    """One held-out edit and what came of it."""

    edit: Edit
    result: str
    tokens: int

    @property
    def right(self) -> bool:
        """Whether it is the whole file as it must be."""
        return self.result == self.edit.after


def cases(kind: str, count: int) -> list[Edit]:
    """Return held-out edits of one kind, always the same, each of another file."""
    found: list[Edit] = []
    number = 0
    while len(found) < count:
        least, most = _SIZES[len(found) % len(_SIZES)]
        try:
            edit = edit_of(kind, Random(f"score-{kind}-{number}"), True, least, most)
        except ValueError:
            edit = edit_of(kind, Random(f"score-{kind}-{number}"), True, 120, most)
        number += 1
        if edit.before not in {other.before for other in found}:
            found.append(edit)
    return found


def score(model: Any, tokenizer: Any, kinds: list[str], count: int) -> Iterator[tuple[str, list[Tried]]]:
    """Yield kind after kind with what the model makes of its held-out edits."""
    editor = _editor(model, tokenizer)
    for kind in kinds or list(KINDS):
        yield kind, [_try(editor, edit) for edit in cases(kind, count)]


def _editor(model: Any, tokenizer: Any) -> ModelEditor:
    quiet = Console(Environment.from_system())
    return ModelEditor(Generator(model, tokenizer, Sampling()), quiet)


def _try(editor: ModelEditor, edit: Edit) -> Tried:
    try:
        answer = editor("file.py", edit.before, edit.instruction)
        tokens = int(answer.stats["generated_tokens"])
        return Tried(edit, extract_file(answer.text, edit.before, cut=answer.cut), tokens)
    except CommandError as error:
        return Tried(edit, f"refused: {error}", 0)


def write_wrong(tried: list[Tried], folder: Path) -> None:
    """Write what was wrong, to be looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(tried):
        if not one.right:
            text = f"{one.edit.instruction}\n{'-' * 80}\n{one.edit.after}{'-' * 80}\n{one.result}"
            (folder / f"{one.edit.kind}-{number}.txt").write_text(text)
    os.sync()
