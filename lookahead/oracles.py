"""Oracles of a replay: they look at the output that is to come, and show what there is to gain."""

from collections.abc import Sequence

import numpy as np

from lookahead.draft import Draft
from lookahead.kernels import kernel
from lookahead.replay import Recording, ReplayMethod
from lookahead.rules import TextMethod


@kernel
def longest_copy(text, known, limit, anchored):
    """The longest span of the first `known` tokens that equals what follows them, up to `limit` tokens of it.

    `text` holds what follows too. With `anchored`, the token before the span equals the last known one.
    """
    best_start, best = known, 0
    for start in range(1 if anchored else 0, known):
        if anchored and text[start - 1] != text[known - 1]:
            continue
        most = min(limit, known - start)
        length = 0
        while length < most and text[start + length] == text[known + length]:
            length += 1
        if length > best:
            best_start, best = start, length
    return best_start, best


class CopyOracle(TextMethod):
    """Drafts the longest copy there is: the ceiling of all copying.

    Args:
        anchored: Only copy from where the last token occurred too: the ceiling of suffix matching.
        max_draft: Longest draft.
    """

    def __init__(self, anchored: bool, max_draft: int) -> None:
        self._anchored, self._max_draft = anchored, max_draft
        longest_copy(np.zeros(2, np.int32), 1, 1, anchored)  # compiles it

    def begin(self, recording: Recording) -> None:
        """Start with the prompt, and with the output in sight."""
        super().begin(recording)
        self.text[self.length :] = recording.output

    def propose(self, room: int) -> Sequence[int]:
        """Return the longest copy."""
        start, length = longest_copy(self.text, self.length, min(room, self._max_draft), self._anchored)
        return self.span(start, length)


class LengthOracle:
    """Takes the draft of another method and cuts it where the output leaves it.

    Args:
        method: Proposes; without a reason to be brief it shows all that could be cut.
    """

    def __init__(self, method: ReplayMethod) -> None:
        self._method = method

    def begin(self, recording: Recording) -> None:
        """Start with the prompt, and with the output in sight."""
        self._method.begin(recording)
        self._output, self._position = recording.output.tolist(), 0

    def propose(self, room: int) -> Sequence[int]:
        """Return the part of the draft that will be accepted."""
        draft = self._method.propose(room)
        draft = draft.tokens if isinstance(draft, Draft) else draft
        for count, token in enumerate(draft):
            if token != self._output[self._position + count]:
                return draft[:count]
        return draft

    def observe(self, width: int, seconds: float) -> None:
        """Keep the clock from the method: length is no cost to it."""

    def extend(self, tokens: list[int]) -> None:
        """Append emitted tokens."""
        self._method.extend(tokens)
        self._position += len(tokens)
