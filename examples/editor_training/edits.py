"""An edit of known result, and what it is drawn from."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from editor_training.code import Code, is_plain
from editor_training.templates import FIXED
from editor_training.words import SHOWN, Words, is_held_out

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Edit:
    """One edit of known result.

    Attributes:
        kind: What is done.
        instruction: As a user may say it.
        before: The file.
        after: The file as it must be.
        names: Identifiers that are edited or new.
        file: What the file is called.
    """

    kind: str
    instruction: str
    before: str
    after: str
    names: tuple[str, ...] = ()
    file: str = "file.py"


class Impossible(Exception):  # noqa: N818
    """The file has nothing to edit in this way, or the right result would be a matter of taste."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What an edit is drawn from.

    Attributes:
        code: The file.
        random: Source of choices.
        words: Names to use.
        held_out: Whether the edited identifiers are those kept from training.
        made_up: Whether the file was generated, in which words of a text are no references to names.
    """

    code: Code
    random: Random
    words: Words
    held_out: bool
    made_up: bool

    @property
    def varied(self) -> bool:
        """Whether forms are drawn that came later than the cases of the score, which stay what they are."""
        return not self.held_out

    def pick(self, candidates: Sequence[_T]) -> _T:
        """Return one candidate.

        Raises:
            Impossible: There is none.
        """
        if not candidates:
            raise Impossible
        return self.random.choice(candidates)

    def pick_used(self, names: list[str]) -> str:
        """Return one of the names, rather one that stands in several places.

        Raises:
            Impossible: There is none.
        """
        often = [name for name in names if self.code.count(name) > 1]
        return self.pick(often if often and self.random.random() < 0.85 else names)

    def may_edit(self, name: str) -> bool:
        """Whether an identifier is on this side of the split; the words of made-up files are anyway."""
        drawn = self.made_up and name not in FIXED
        return is_plain(name) and name not in SHOWN and (drawn or is_held_out(name) == self.held_out)

    def new(self, make: Callable[[Random], str]) -> str:
        """Return a new identifier that the file has not.

        Raises:
            Impossible: None was found.
        """
        for _ in range(30):
            name = make(self.random)
            if not self.code.has(name) and name not in SHOWN:
                return name
        raise Impossible

    def is_said(self, name: str, *, as_word: bool = True) -> bool:
        """Whether a text or comment mentions the name; in a made-up file a plain word (`as_word`) means no name."""
        ordinary = self.made_up and as_word and re.fullmatch(r"[a-z]+", name) is not None
        return not ordinary and self.code.mentions(name)
