"""The kinds of edit, and tasks: one file with several edits of it."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random

from editor_training import additions, changes, renames, rewrites, settings
from editor_training.code import Code
from editor_training.edits import Edit, Impossible, Setting
from editor_training.shapes import Shaper
from editor_training.stdlib import pieces
from editor_training.words import words

KINDS: dict[str, Callable[[Setting], Edit]] = {
    "rename_function": renames.rename_function,
    "rename_class": renames.rename_class,
    "rename_method": renames.rename_method,
    "rename_attribute": renames.rename_attribute,
    "rename_variable": renames.rename_variable,
    "rename_parameter": renames.rename_parameter,
    "change_constant": changes.change_constant,
    "delete_function": changes.delete_function,
    "add_import": additions.add_import,
    "add_parameter": additions.add_parameter,
    "add_docstring": additions.add_docstring,
    "add_type_hints": additions.add_type_hints,
    "loop_to_sum": rewrites.loop_to_sum,
    "print_to_logging": rewrites.print_to_logging,
    "reorder": changes.reorder,
    "change_setting": settings.change_setting,
}
# How often a kind is trained, relative to the others.
_SHARES = {
    "rename_function": 3, "rename_class": 3, "rename_method": 6, "rename_attribute": 3, "rename_variable": 3,
    "rename_parameter": 4, "change_constant": 3, "delete_function": 9, "add_import": 2, "add_parameter": 3,
    "add_docstring": 4, "add_type_hints": 4, "loop_to_sum": 5, "print_to_logging": 2, "reorder": 7,
}  # fmt: skip
# These change the file first, so that of one file there is one edit at most: made up for.
_ALONE = {"add_type_hints": 3, "loop_to_sum": 3, "print_to_logging": 3, "reorder": 2}
_ALIKE = 0.6  # share of files whose edits are all of one kind
_SETTINGS = 0.06  # share of settings files
_VOCABULARIES = (1, 1, 0.3, 0.15, 0.08)  # shares of the words that a training file draws its names from
# Characters of a file at least and at most, and edits of it.
_SIZES = ((120, 600, 3), (400, 1500, 4), (1200, 3000, 2), (2600, 5000, 1))


def setting(random: Random, held_out: bool, least: int, most: int) -> Setting:
    """Return a file of so many characters at least and at most: half of them made up, half Python's own."""
    names = words(held_out) if held_out else words(held_out).some(random, random.choice(_VOCABULARIES))
    for _ in range(200):
        made_up = random.random() < 0.5
        if made_up:
            text = Shaper(random, names, varied=not held_out).file(random.randint(1, max(1, most // 300)))
        else:
            text = random.choice(pieces(held_out)).text
        if least <= len(text) <= most:
            return Setting(Code(text), random, names, held_out, made_up)
    raise ValueError(f"no file of {least} to {most} characters was found in 200 tries: widen the range")


def edit_of(kind: str, random: Random, held_out: bool, least: int, most: int) -> Edit:
    """Return an edit of one kind.

    Raises:
        ValueError: No file that allows it was found.
    """
    for _ in range(400):
        chosen = setting(random, held_out, least, most)
        edit = attempt(kind, chosen)
        if edit:
            return edit
    raise ValueError(f"no file for {kind} of {least} to {most} characters was found: widen the range")


def attempt(kind: str, chosen: Setting) -> Edit | None:
    """Return an edit of the file, or None if it does not have what the kind needs."""
    try:
        edit = KINDS[kind](chosen)
    except Impossible:
        return None
    return edit if edit.before != edit.after else None


def several(random: Random, held_out: bool, least: int, most: int, count: int) -> list[Edit]:
    """Return up to so many different edits of one file; those that need another text of the file come alone.

    Often all are of one kind, so that nothing but the instruction says which place is meant.
    """
    kinds, weights = list(_SHARES), list(_SHARES.values())
    leading = random.choices(kinds, [weight * _ALONE.get(kind, 1) for kind, weight in _SHARES.items()])[0]
    alike = random.random() < _ALIKE
    if alike:
        kinds, weights = [leading], [1]
    for tries in range(400):
        chosen = setting(random, held_out, least, most)
        if alike and leading == "add_type_hints" and tries < 300:
            edits = additions.hints_apart(chosen, count)
            if edits:
                return edits
            continue
        found: dict[tuple[str, str], Edit] = {}
        first = attempt(leading, chosen)
        if first is None:
            continue
        if first.before != chosen.code.text:
            chosen = Setting(Code(first.before), random, chosen.words, held_out, chosen.made_up)
        found[first.kind, first.after] = first
        for kind in random.choices(kinds, weights, k=count * 3):
            edit = attempt(kind, chosen) if len(found) < count else None
            if edit and edit.before == first.before and edit.after not in {e.after for e in found.values()}:
                found[edit.kind, edit.after] = edit
        return list(found.values())
    raise ValueError(f"no edits of a file of {least} to {most} characters were found: widen the range")


def stream(seed: str, held_out: bool = False) -> Iterator[list[Edit]]:
    """Yield edits of one file after the other, for ever; the same seed gives the same."""
    number = 0
    while True:
        random = Random(f"{seed}-{number}")
        if random.random() < _SETTINGS:
            with suppress(Impossible):
                yield settings.edits(random, words(held_out), 4)
        else:
            yield several(random, held_out, *random.choices(_SIZES, [38, 32, 19, 11])[0])
        number += 1
