"""The text of tokens that come one by one."""

from collections.abc import Sequence
from typing import Any

_HALF_A_CHARACTER = "\ufffd"
_LONGEST = 32  # tokens that wait before it is looked what need not
_OF_A_CHARACTER = 4  # tokens, if each is a byte of it


class GrowingText:
    """Turns tokens into pieces of text whose concatenation is the text of all of them.

    A piece ends at a whole character, and each is decoded together with the one before, because tokenizers treat the
    first token of a text specially.

    Args:
        tokenizer: Decodes the tokens; special tokens are left out.

    Example:
        >>> class Letters:
        ...     def decode(self, ids, **options):
        ...         return "".join(map(chr, ids))
        >>> text = GrowingText(Letters())
        >>> text.add([72, 105]), text.add([33]), text.finish()
        ('Hi', '!', '')
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._known: list[int] = []  # tokens of the last piece
        self._waiting: list[int] = []

    def add(self, tokens: Sequence[int]) -> str:
        """Return what these tokens add, or nothing yet when they end within a character."""
        self._waiting += tokens
        piece = self._piece()
        if piece and not piece.endswith(_HALF_A_CHARACTER):
            self._known, self._waiting = self._waiting, []
            return piece
        return self._settled(piece) if len(self._waiting) > _LONGEST else ""

    def finish(self) -> str:
        """Return what is left."""
        piece = self._piece()
        self._known, self._waiting = [], []
        return piece

    def _settled(self, piece: str) -> str:
        """Return what no later token can change of a piece that no whole character ends: bytes that make none, say.

        Tokens that say nothing (special ones) are dropped, where that changes nothing.
        """
        audible = [token for token in self._waiting if self._decode([token, token])]  # of one, a blank may go
        if self._decode(self._known + audible) == self._decode(self._known) + piece:
            self._waiting = audible
        for end in range(len(self._waiting) - 1, max(0, len(self._waiting) - 1 - _OF_A_CHARACTER), -1):
            head, tail = self._waiting[:end], self._waiting[end:]
            settled = self._decode(self._known + head)[len(self._decode(self._known)) :]
            rest = self._decode(tail)
            if settled and rest and settled + rest == piece:  # else a character goes on from head to tail
                self._known, self._waiting = head, tail
                return settled
        return ""

    def _piece(self) -> str:
        return self._decode(self._known + self._waiting)[len(self._decode(self._known)) :]

    def _decode(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
