"""The drafting rules of other systems and the simplest of our own, for side-by-side figures in a replay."""

from collections.abc import Sequence

import numpy as np

from lookahead.index import SuffixIndex
from lookahead.kernels import kernel
from lookahead.replay import Ids, Recording


@kernel
def earliest_ngram(text, length, longest, shortest):
    """Where the earliest occurrence of the longest n-gram that ends `text` goes on, for n from longest to shortest.

    Returns the position behind it, or `length` when there is none.
    """
    for size in range(min(longest, length - 1), shortest - 1, -1):
        for start in range(length - size):
            offset = 0
            while offset < size and text[start + offset] == text[length - size + offset]:
                offset += 1
            if offset == size:
                return start + size
    return length


class TextMethod:
    """A method that keeps the text in one array with room for the whole output."""

    def begin(self, recording: Recording) -> None:
        """Start a new text with the prompt."""
        self.text = np.empty(len(recording.prompt) + len(recording.output), np.int32)
        self.length = len(recording.prompt)
        self.text[: self.length] = recording.prompt

    def observe(self, width: int, seconds: float) -> None:
        """Look at no clock."""

    def extend(self, tokens: list[int]) -> None:
        """Append emitted tokens."""
        stop = self.length + len(tokens)
        self.text[self.length : stop] = tokens
        self.length = stop

    def span(self, start: int, length: int) -> list[int]:
        """Return up to ``length`` known tokens from position ``start``."""
        return self.text[start : min(start + length, self.length)].tolist()


class NgramRule(TextMethod):
    """A fixed number of tokens from behind the earliest occurrence of the longest matching n-gram.

    With n = 2, 1 and 10 tokens it is the prompt lookup of transformers; with n = 5 to 2 and 5 tokens the n-gram
    proposer of vLLM.

    Args:
        longest: Largest n.
        shortest: Smallest n.
        draft: Tokens per draft.
    """

    def __init__(self, longest: int, shortest: int, draft: int) -> None:
        self._longest, self._shortest, self._draft = longest, shortest, draft
        earliest_ngram(np.zeros(2, np.int32), 2, longest, shortest)  # compiles it

    def propose(self, room: int) -> Sequence[int]:
        """Return the tokens behind the earliest match."""
        start = earliest_ngram(self.text, self.length, self._longest, self._shortest)
        return self.span(start, min(room, self._draft))


class LinearRule:
    """A draft of ``slope * match length + offset`` tokens behind the latest occurrence of the longest match.

    Args:
        slope: Draft tokens per token of the match; the product is rounded down.
        offset: Draft tokens added.
        max_draft: Longest draft.

    Example:
        >>> rule = LinearRule(0.5, 1, max_draft=64)
        >>> rule.begin(Recording(np.array([5, 6, 7, 8], np.int32), np.array([5, 6], np.int32)))
        >>> rule.extend([5, 6])
        >>> rule.propose(room=10)
        [7, 8]
    """

    def __init__(self, slope: float, offset: float, max_draft: int) -> None:
        self._slope, self._offset, self._max_draft = slope, offset, max_draft

    def begin(self, recording: Recording) -> None:
        """Start a new text with the prompt."""
        self._index = indexed(recording.prompt)

    def observe(self, width: int, seconds: float) -> None:
        """Look at no clock."""

    def extend(self, tokens: list[int]) -> None:
        """Append emitted tokens."""
        self._index.extend(tokens)

    def propose(self, room: int) -> Sequence[int]:
        """Return the tokens behind the latest occurrence of the longest match."""
        match = self._index.longest_match()
        if not match.length:
            return ()
        known = len(self._index) - match.latest - 1
        length = min(room, self._max_draft, int(self._slope * match.length + self._offset), known)
        return self._index.continuation(match.latest, length).tolist()


def indexed(prompt: Ids) -> SuffixIndex:
    """Return an index over a prompt that may be empty."""
    return SuffixIndex(prompt) if len(prompt) else SuffixIndex()
