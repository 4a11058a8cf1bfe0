"""Origins: which passage the accepted draft tokens of an answer were copied from, and where they stand in it."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from lookahead.plugins.citations import Copy, Passage
from lookahead.plugins.rag_prompt import RagPrompt
from lookahead.plugins.rag_stream import decoded
from lookahead.stats import DecodingStats


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

    def copies(self, tokens: Sequence[int]) -> list[Copy]:
        """Return what of the answer with these tokens was copied from which passage."""
        found = []
        for first, last, origin in self._runs():
            place = self._place(origin)
            if place is not None:
                start = len(decoded(self._tokenizer, list(tokens[:first])))
                end = len(decoded(self._tokenizer, list(tokens[:last])))
                found.append(Copy(start, end, *place))
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
            return self._place_in_prompt(len(self._text(self._prompt.ids[:inside])))
        starts = self._stats.reference_starts
        reference = bisect_right(starts, origin) - 1
        number = reference - self._first_left
        if not 0 <= number < len(self._left):
            return None
        passage, ids = self._left[number]
        return passage, len(self._text(ids[: origin - starts[reference]]))

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
