"""LookupProposer: from the text so far to one draft."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lookahead.config import LookupConfig
from lookahead.draft import EMPTY, Draft
from lookahead.index import SuffixIndex
from lookahead.pacing import MAX_DEPTH, Pacing
from lookahead.stats import StepRecord


class LookupProposer:
    """Proposes the tokens that followed the current suffix where it occurred before, as many as pay.

    Args:
        config: Options; ``max_draft``, ``draft_per_match`` and ``min_match`` are read here.
        documents: Token ids of texts to copy from that are not part of the prompt, most relevant last.
        stop_tokens: A draft ends after the first of these (end of sequence: nothing follows it).
        banned_tokens: A draft ends before the first of these (image placeholders: no text model emits them).
        pacing: What is known of the model's costs and of how drafts fare; learns from every step. New when None.

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
        pacing: Pacing | None = None,
    ) -> None:
        self._config = config
        self._stop = frozenset(stop_tokens)
        self._banned = frozenset(banned_tokens)
        self._pacing = Pacing() if pacing is None else pacing
        self._candidates: list[_Candidate] = []
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
            self._candidates = [each for each in self._candidates if each.follow(tokens, self._pacing)]

    def propose(self, room: int) -> Draft:
        """Return the draft for the next step, at most ``room`` tokens; empty when nothing matches or nothing pays."""
        limit = min(room, self._config.max_draft)
        match = self._index.longest_match()
        if limit <= 0 or match.length < self._config.min_match:
            return EMPTY
        tokens = self._continuation(match.latest, match.first)
        if not tokens:
            return EMPTY
        self._candidates.append(_Candidate(tokens, match.length))
        length = self._length(match.length, min(limit, len(tokens)))
        if not length:
            return EMPTY
        start = match.latest + 1
        return Draft(tuple(tokens[:length]), (), "context", match.length, tuple(range(start, start + length)))

    def observe(self, step: StepRecord) -> None:
        """Learn what a step of the model cost."""
        self._pacing.observe(step.width, step.forward_s, step.emitted_tokens / step.rows)

    def _length(self, match_length: int, limit: int) -> int:
        per_match = self._config.draft_per_match
        return min(limit, per_match * match_length) if per_match else self._pacing.length(match_length, limit)

    def _continuation(self, latest: int, first: int) -> list[int]:
        """Return what followed the latest occurrence or, where a document ends there, the first."""
        tokens = self._index.continuation(latest, MAX_DEPTH)
        if not len(tokens):
            tokens = self._index.continuation(first, MAX_DEPTH)
        return self._allowed(tokens.tolist())

    def _allowed(self, tokens: list[int]) -> list[int]:
        """Cut before the first banned token and after the first stop token."""
        for i, token in enumerate(tokens):
            if token in self._banned:
                return tokens[:i]
            if token in self._stop:
                return tokens[: i + 1]
        return tokens


@dataclass(slots=True)
class _Candidate:
    """What could have been drafted at a step; the tokens that come tell how far it would have gone, drafted or not."""

    tokens: list[int]
    match_length: int
    right: int = 0

    def follow(self, tokens: Sequence[int], pacing: Pacing) -> bool:
        """Compare with what came; False when the candidate's fate is known."""
        for token in tokens:
            if self.right == len(self.tokens) or self.tokens[self.right] != token:
                pacing.learn(self.match_length, self.right, wrong=self.right < len(self.tokens))
                return False
            self.right += 1
        return True
