"""The score: held-out edits that the model would write right as whole files."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import torch

from editor_training.attention import Branches
from editor_training.edits import Edit
from editor_training.packing import Packed, pack, written
from editor_training.tasks import KINDS, attempt, setting

# Characters of the files, of which one is drawn: most short, some up to 1,500 tokens.
_SIZES = [(120, 500)] * 14 + [(500, 1200)] * 4 + [(1200, 2600), (2600, 5200)]


@dataclass(frozen=True, slots=True)
class Tried:
    """One held-out edit, and the first token that was wrong, in its surroundings; empty if none was."""

    edit: Edit
    wrong: str


class Scorer:
    """Tries edits on a model without writing them.

    Given the right tokens before, each token must be the likeliest one: just then greedy decoding writes the whole file
    as it must be, and ends.

    Args:
        model: A causal language model.
        tokenizer: Its tokenizer.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._attention = Branches(model)

    @torch.no_grad()
    def logits(self, packed: Packed) -> torch.Tensor:
        """Return the logits of the tokens that are to be predicted, [targets, vocabulary]."""
        return predict(self._model, self._attention, packed)

    def __call__(self, edits: list[Edit]) -> list[Tried]:
        """Return what comes of edits with the same file before.

        Where the taught answer becomes the right file only when it is taken, the right file itself will do, too.
        """
        tried = self._tried(edits, written)
        again = [i for i, each in enumerate(tried) if each.wrong and written(each.edit) != each.edit.after]
        if again:
            for i, other in zip(again, self._tried([edits[i] for i in again], lambda edit: edit.after), strict=True):
                tried[i] = tried[i] if other.wrong else other
        return tried

    def _tried(self, edits: list[Edit], texts: Callable[[Edit], str]) -> list[Tried]:
        packed = pack(self._tokenizer, edits, texts=texts)
        wrong = self.logits(packed).argmax(-1) != packed.targets
        return [Tried(edit, self._first_wrong(packed, wrong & (packed.owners == i))) for i, edit in enumerate(edits)]

    def _first_wrong(self, packed: Packed, wrong: torch.Tensor) -> str:
        if not wrong.any():
            return ""
        place = int(wrong.nonzero()[0])
        row = int(packed.rows[place])
        before = self._tokenizer.decode(packed.ids[0, max(0, row - 12) : row + 1])
        return f"{before!r} goes on with {self._tokenizer.decode(packed.targets[place : place + 1])!r}"


def predict(model: Any, attention: Branches, packed: Packed) -> torch.Tensor:
    """Return the logits of the tokens that are to be predicted, [targets, vocabulary]."""
    attention.spans = packed.spans
    unused = torch.ones(1, 1, 1, 1)  # a mask of four dimensions is left as it is
    hidden = model.model(packed.ids, attention_mask=unused, position_ids=packed.positions, use_cache=False)[0]
    return model.lm_head(hidden[0, packed.rows])


def cases(kinds: list[str], count: int) -> Iterator[list[Edit]]:
    """Yield held-out edits, those of one file together, until there are so many of each kind; always the same."""
    missing = Counter(dict.fromkeys(kinds or KINDS, count))
    number = 0
    while +missing:
        random = Random(f"score-{number}")
        chosen = setting(random, True, *random.choice(_SIZES))
        groups: dict[str, list[Edit]] = {}
        for kind in sorted(+missing, key=lambda kind: (-missing[kind], kind))[:6]:
            edit = attempt(kind, chosen)
            if edit is not None:
                missing[kind] -= 1
                groups.setdefault(edit.before, []).append(edit)
        yield from groups.values()
        number += 1


def read_cases(path: Path) -> Iterator[list[Edit]]:
    """Yield the edits of a file of JSON lines with kind, instruction, before and after, those of one file together.

    Raises:
        ValueError: A line is no such object.
    """
    edits = []
    lines = [(number, line) for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1) if line.strip()]
    for number, line in lines:
        try:
            record = json.loads(line)
            edits.append(Edit(*(record[name] for name in ("kind", "instruction", "before", "after"))))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}, line {number}, must have kind, instruction, before and after: {error}") from None
    for _, group in groupby(edits, lambda edit: edit.before):
        yield list(group)
