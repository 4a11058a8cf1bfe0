"""LookupProposer: from the text so far to one draft."""

from collections.abc import Collection, Iterable, Sequence

from lookahead.config import LookupConfig
from lookahead.draft import EMPTY, Draft
from lookahead.index import SuffixIndex


class LookupProposer:
    """Proposes the tokens that followed the current suffix where it occurred before.

    Args:
        config: Options; ``max_draft``, ``draft_per_match`` and ``min_match`` are read here.
        documents: Token ids of texts to copy from that are not part of the prompt, most relevant last.
        stop_tokens: A draft ends after the first of these (end of sequence: nothing follows it).
        banned_tokens: A draft ends before the first of these (image placeholders: no text model emits them).

    Example:
        >>> proposer = LookupProposer(LookupConfig(max_draft=3))
        >>> proposer.extend([5, 6, 7, 8, 9, 5, 6])
        >>> proposer.propose(room=10).tokens
        (7, 8, 9)
    """

    def __init__(
        self,
        config: LookupConfig,
        documents: Iterable[Sequence[int]] = (),
        stop_tokens: Collection[int] = (),
        banned_tokens: Collection[int] = (),
    ) -> None:
        self._config = config
        self._stop = frozenset(stop_tokens)
        self._banned = frozenset(banned_tokens)
        self._index = SuffixIndex()
        for document in documents:
            if len(document):
                self._index.extend(document)
                self._index.end_document()

    @property
    def index(self) -> SuffixIndex:
        """The index over documents, prompt and output."""
        return self._index

    def extend(self, tokens: Sequence[int]) -> None:
        """Append committed tokens: the prompt, then the output as it grows."""
        if len(tokens):
            self._index.extend(tokens)

    def propose(self, room: int) -> Draft:
        """Return the draft for the next step, at most ``room`` tokens; empty when nothing matches.

        The length is ``draft_per_match`` times the match length, up to ``max_draft``.
        """
        limit = min(room, self._config.max_draft)
        match = self._index.longest_match()
        if limit <= 0 or match.length < self._config.min_match:
            return EMPTY
        length = min(limit, self._config.draft_per_match * match.length)
        tokens = self._allowed(self._index.continuation(match.latest, length).tolist())
        if not tokens:
            return EMPTY
        start = match.latest + 1
        return Draft(tuple(tokens), (), "context", match.length, tuple(range(start, start + len(tokens))))

    def _allowed(self, tokens: list[int]) -> list[int]:
        """Cut before the first banned token and after the first stop token."""
        for i, token in enumerate(tokens):
            if token in self._banned:
                return tokens[:i]
            if token in self._stop:
                return tokens[: i + 1]
        return tokens
