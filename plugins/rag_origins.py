"""Origins: which passage the accepted draft tokens of an answer were copied from, and where they stand in it."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any

from lookahead.plugins.citations import Copy, Passage
from lookahead.plugins.rag_prompt import RagPrompt
from lookahead.plugins.rag_stream import decoded
from lookahead.stats import DecodingStats

_SPAN = 512  # tokens between two places whose characters are known
_CONTEXT = 16  # tokens in front of a piece that are decoded with it: one may hold part of a character, or a space


class PassageOrigins:
    """Turns positions in the index of a generation into places in its passages.

    Args:
        tokenizer: Decodes the tokens.
        prompt: The prompt; the passages in it are found in its text.
        passages: All passages.
        left_ids: Tokens of the passages outside the prompt by position, in the order of the references that they are.
        first_left: How many references stand before them.
        stats: Figures of the generation.

    Example:
        >>> PassageOrigins(tokenizer, prompt, passages, {}, 0, stats).copies(output_ids)  # doctest: +SKIP
        [Copy(start=0, end=31, passage=2, passage_start=118)]
    """

    def __init__(
        self,
        tokenizer: Any,
        prompt: RagPrompt,
        passages: Sequence[Passage],
        left_ids: Mapping[int, Sequence[int]],
        first_left: int,
        stats: DecodingStats,
    ) -> None:
        self._tokenizer, self._prompt, self._passages, self._stats = tokenizer, prompt, passages, stats
        self._left, self._first_left = list(left_ids.items()), first_left
        self._in_left = cache(lambda number: CharacterCounts(self._text, self._left[number][1]))

    def copies(self, tokens: Sequence[int]) -> list[Copy]:
        """Return what of the answer with these tokens was copied from which passage."""
        found, counts = [], CharacterCounts(partial(decoded, self._tokenizer), tokens)
        for first, last, origin in self._runs():
            place = self._place(origin)
            if place is not None:
                found.append(Copy(counts.before(first), counts.before(last), *place))
        return found

    def _runs(self) -> Iterator[tuple[int, int, int]]:
        """Yield first and last (exclusive) output token of every run of accepted ones, and the first one's origin."""
        position = 1  # the first token came with the prefill
        for step in self._stats.records:
            begin = 0
            for end in range(1, len(step.origins) + 1):
                if end == len(step.origins) or step.origins[end] != step.origins[end - 1] + 1:
                    yield position + begin, position + end, step.origins[begin]
                    begin = end
            position += step.emitted_tokens

    def _place(self, origin: int) -> tuple[int, int] | None:
        """Return the passage and the character in it where a position of the index stands, if it is in one."""
        inside = origin - self._stats.text_start
        if 0 <= inside < len(self._prompt.ids):
            return self._place_in_prompt(self._prompt_counts.before(inside))
        starts = self._stats.reference_starts
        reference = bisect_right(starts, origin) - 1
        number = reference - self._first_left
        if not 0 <= number < len(self._left):
            return None
        return self._left[number][0], self._in_left(number).before(origin - starts[reference])

    def _place_in_prompt(self, character: int) -> tuple[int, int] | None:
        return next(
            (
                (passage, character - start)
                for passage, start in self._in_prompt
                if start <= character < start + len(self._passages[passage].text)
            ),
            None,
        )

    @cached_property
    def _prompt_counts(self) -> "CharacterCounts":
        return CharacterCounts(self._text, self._prompt.ids)

    @cached_property
    def _in_prompt(self) -> list[tuple[int, int]]:
        """The passages of the prompt, and the characters where they start in its text."""
        text, found, behind = self._text(self._prompt.ids), [], 0
        for passage in self._prompt.included:
            start = text.find(self._passages[passage].text, behind)
            if start >= 0:
                found.append((passage, start))
                behind = start + len(self._passages[passage].text)
        return found

    def _text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)


class CharacterCounts:
    """How many characters the first tokens of a text have, without decoding all of them for each question.

    Args:
        decode: Returns the text of tokens.
        ids: The tokens.

    Example:
        >>> counts = CharacterCounts("".join, ["tea", " is", " hot"])
        >>> counts.before(0), counts.before(2), counts.before(3)
        (0, 6, 10)
    """

    def __init__(self, decode: Callable[[Any], str], ids: Sequence[Any]) -> None:
        self._decode, self._ids, self._known = decode, list(ids), [0]

    def before(self, token: int) -> int:
        """Return the characters of the first ``token`` tokens."""
        token = min(token, len(self._ids))
        while len(self._known) <= token // _SPAN:
            start = (len(self._known) - 1) * _SPAN
            self._known.append(self._known[-1] + self._between(start, start + _SPAN))
        return self._known[token // _SPAN] + self._between(token // _SPAN * _SPAN, token)

    def _between(self, start: int, end: int) -> int:
        first = max(0, start - _CONTEXT)
        return len(self._decode(self._ids[first:end])) - len(self._decode(self._ids[first:start]))
