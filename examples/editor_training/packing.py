"""Several edits of one file as one row of tokens that share what their prompts begin with."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate
from random import Random
from typing import Any

import torch
from torch import Tensor

from editor_training.edits import Edit
from lookahead.cli.prompts import edit_prompt, encode

_EDITED = 3.0  # weight of a token at an edit, or where a copy could go on in several ways; another copied one has 1
_COPIED = 0.4  # share of the other copied tokens that are in the loss
_NEAR = 2  # tokens behind an edit that count as edited
_WHOLE = 0.85  # share of answers that are learned whole; of the others only what is around edits is kept
_BEFORE, _BEHIND = 36, 16  # tokens kept in front of and behind an edit, on average
_WARM = 12  # kept tokens without loss at the beginning of a gap's far side, where there is too little to go by


@dataclass(frozen=True, slots=True)
class Packed:
    """A row of tokens: what the prompts begin with, then each edit's prompt and answer, which do not see one another.

    Attributes:
        ids: Tokens, [1, length].
        positions: Their positions, [1, length].
        spans: First and last of the shared tokens and of each edit's, the last exclusive.
        rows: Where the answers' tokens are predicted.
        targets: These tokens.
        weights: Their weights in the loss.
        owners: Which edit they belong to.
    """

    ids: Tensor
    positions: Tensor
    spans: list[tuple[int, int]]
    rows: Tensor
    targets: Tensor
    weights: Tensor
    owners: Tensor


def answer(tokenizer: Any, text: str) -> list[int]:
    """Return the tokens of an answer that writes a text, from behind its opening fence to its end."""
    return [*encode(tokenizer, "\n" + text + "```"), tokenizer.eos_token_id]


def written(edit: Edit) -> str:
    r"""Return what a model is to write for an edit: the file as it must be, or one that becomes it when it is taken.

    Where only the file's end goes, the blank lines before that end stay, which `extract_file` drops: the answer is a
    copy of the file up to where something else begins, and need not foresee it.

    Example:
        >>> written(Edit("delete_function", "Delete f.", "x = 1\n\n\ndef f():\n    pass\n", "x = 1\n"))
        'x = 1\n\n\n'
    """
    body = edit.after.rstrip("\n")
    rest = edit.before.removeprefix(body)
    end = rest.lstrip("\n")
    is_cut = rest != edit.before and rest.startswith("\n\n") and end and not end.startswith(" ")
    return body + rest[: len(rest) - len(end)] if is_cut else edit.after


def weighed(tokenizer: Any, edit: Edit, ids: list[int]) -> list[float]:
    """Return the weights of the answer's tokens: more where it is not a copy of the file going on."""
    copied = encode(tokenizer, "\n" + edit.before + "```")
    weights = [1.0] * len(ids)
    for tag, _, _, start, end in SequenceMatcher(None, copied, ids[:-1], autojunk=False).get_opcodes():
        if tag != "equal":
            for place in range(start, min(end + _NEAR, len(ids))):
                weights[place] = _EDITED
    return weights


def forks(ids: list[int]) -> set[tuple[int, int]]:
    """Return the pairs of tokens that are followed by different tokens in different places.

    There a copy is lost most easily, and one wrong token spoils the file.

    Example:
        >>> forks([1, 2, 3, 1, 2, 4, 1, 2])
        {(1, 2)}
    """
    following: dict[tuple[int, int], set[int]] = {}
    for first, second, third in zip(ids, ids[1:], ids[2:], strict=False):
        following.setdefault((first, second), set()).add(third)
    return {pair for pair, thirds in following.items() if len(thirds) > 1}


def pack(
    tokenizer: Any, edits: list[Edit], random: Random | None = None, texts: Callable[[Edit], str] = written
) -> Packed:
    """Return the edits of one file in one row.

    Args:
        tokenizer: The model's.
        edits: Edits with the same file before.
        random: Leaves out copied stretches of most answers, and copied tokens of the loss, to learn more in the same
            time; None takes all.
        texts: What is to be written for an edit.
    """
    prompts = [edit_prompt(tokenizer, edit.file, edit.before, edit.instruction).ids for edit in edits]
    shared = _common(prompts)
    ids, positions, spans = list(prompts[0][:shared]), list(range(shared)), [(0, shared)]
    rows: list[int] = []
    targets: list[int] = []
    weights: list[float] = []
    owners: list[int] = []
    for number, (edit, prompt) in enumerate(zip(edits, prompts, strict=True)):
        wanted = answer(tokenizer, texts(edit))
        weight = weighed(tokenizer, edit, wanted)
        kept = _kept(weight, random)
        several = forks(wanted)
        first = len(ids) + len(prompt) - shared - 1
        ids += prompt[shared:] + [wanted[place] for place in kept[:-1]]
        positions += [*range(shared, len(prompt)), *(len(prompt) + place for place in kept[:-1])]
        spans.append((first - (len(prompt) - shared - 1), len(ids)))
        for row, place in enumerate(kept):
            ends = place >= len(wanted) - 3
            known = place < _WARM or kept[max(row - _WARM, 0)] == place - _WARM
            heavy = weight[place] > 1 or ends or (place > 1 and (wanted[place - 2], wanted[place - 1]) in several)
            if known and (random is None or heavy or random.random() < _COPIED):
                rows.append(first + row)
                targets.append(wanted[place])
                weights.append(_EDITED if heavy else 1.0)
                owners.append(number)
    return Packed(
        torch.tensor([ids]), torch.tensor([positions]), spans, torch.tensor(rows), torch.tensor(targets),
        torch.tensor(weights), torch.tensor(owners),
    )  # fmt: skip


def fitting(edits: list[Edit], most: int) -> list[Edit]:
    """Return the first edits of a file whose texts have so many characters together at most, one of them at least.

    A row of 32,000 takes more than 12 GB to learn from in bfloat16.
    """
    sizes = accumulate(len(edit.before) + len(edit.after) for edit in edits)
    return edits[: max(1, sum(size <= most for size in sizes))]


def _kept(weights: list[float], random: Random | None) -> list[int]:
    """Return which of the answer's tokens are kept: all, or its beginning and what is around edits."""
    if random is None or random.random() < _WHOLE:
        return list(range(len(weights)))
    kept = set(range(_WARM))
    for place, weight in enumerate(weights):
        if weight > 1:
            before, behind = (
                random.randint(_BEFORE // 2, _BEFORE * 3 // 2),
                random.randint(_BEHIND // 2, _BEHIND * 3 // 2),
            )
            kept |= set(range(place - before, place + behind))
    return sorted(place for place in kept if 0 <= place < len(weights))


def _common(prompts: list[list[int]]) -> int:
    """Return how many tokens the prompts begin with in common; at least one is left to each."""
    least = min(len(prompt) for prompt in prompts) - 1
    return next((i for i in range(least) if len({prompt[i] for prompt in prompts}) > 1), least)
