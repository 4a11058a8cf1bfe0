"""The text of tokens that come one by one."""

from collections.abc import Sequence
from typing import Any

_HALF_A_CHARACTER = "\ufffd"


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
        if piece.endswith(_HALF_A_CHARACTER):
            return ""
        if piece:
            self._known, self._waiting = self._waiting, []
        return piece

    def finish(self) -> str:
        """Return what is left."""
        piece = self._piece()
        self._known, self._waiting = [], []
        return piece

    def _piece(self) -> str:
        return self._decode(self._known + self._waiting)[len(self._decode(self._known)) :]

    def _decode(self, tokens: list[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
