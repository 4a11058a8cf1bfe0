"""LookupProbe: would lookup pay in a generation loop that is not ours? Listen, change nothing, and count."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from transformers.generation.logits_process import LogitsProcessor

from lookahead.config import LookupConfig
from lookahead.draft import EMPTY, ROOT, Draft
from lookahead.proposer import LookupProposer
from lookahead.stats import DecodingStats, StepRecord


class LookupProbe(LogitsProcessor):
    """A logits processor that leaves the scores alone and counts the draft tokens that would have been accepted.

    Works in any loop that calls processors once per token with the text so far: transformers' own, a server's, a
    training framework's. A text that does not continue the last one begins a new generation; the figures add up.

    Args:
        lookup: Options as for ``generate(lookup=...)``; predictions and references as token ids.
        end_tokens: Ids that end a row of a batch; what comes behind one is padding and not counted.

    Example:
        >>> probe = LookupProbe()                                         # doctest: +SKIP
        >>> model.generate(**inputs, logits_processor=[probe])            # doctest: +SKIP
        >>> probe.stats.mean_acceptance_length                            # doctest: +SKIP
        3.2
    """

    def __init__(self, lookup: LookupConfig | Mapping[str, Any] | None = None, end_tokens: Sequence[int] = ()) -> None:
        self._config = LookupConfig.parse(lookup) or LookupConfig()
        texts = (*self._config.references, *(() if self._config.prediction is None else (self._config.prediction,)))
        if any(isinstance(text, str) for text in texts):
            raise ValueError("a probe has no tokenizer: give prediction and references as token ids")
        self._documents = [list(text) for text in texts]
        self._end_tokens = frozenset(end_tokens)
        self._rows: list[_Row] = []
        self.stats = DecodingStats(rows=0)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Take in the newest token of every row; return ``scores`` as they are.

        Args:
            input_ids: Shape ``[rows, length]``.
            scores: Shape ``[rows, vocabulary]``.
        """
        newest, length = input_ids[:, -2:].tolist(), input_ids.shape[1]
        if length == 0:
            return scores  # the prompt was given as embeddings, and has no ids
        if not self._continues(newest, length):
            self._rows = [_Row(self._config, self._documents, text, self._end_tokens) for text in input_ids.tolist()]
            self.stats.rows += len(self._rows)
            self.stats.generated_tokens += len(self._rows)  # the token that these scores are for
            self.stats.prompt_tokens += input_ids.numel()
            return scores
        for row, (_, token) in zip(self._rows, newest, strict=True):
            step = row.take(token)
            if step is not None:
                self.stats.record(step)
        return scores

    def _continues(self, newest: list[list[int]], length: int) -> bool:
        return (
            len(newest) == len(self._rows)
            and length == self._rows[0].length + 1
            and all(row.last == tokens[0] for row, tokens in zip(self._rows, newest, strict=True))
        )


class _Row:
    """One text, and the draft that would be under way."""

    def __init__(
        self, config: LookupConfig, documents: list[list[int]], prompt: list[int], end_tokens: frozenset[int]
    ) -> None:
        self._proposer = LookupProposer(config, prompt, documents, stop_tokens=tuple(end_tokens))
        self._end_tokens, self._ended = end_tokens, False
        self._came: list[int] = []
        self._room = config.max_draft
        self._draft: Draft | None = None
        self._node: int = ROOT
        self._accepted = 0
        self.length, self.last = len(prompt), prompt[-1]

    def take(self, token: int) -> StepRecord | None:
        """Follow the draft with the next token; return the step that ends with it, if one does."""
        self.length, self.last = self.length + 1, token
        if self._ended:
            return None
        self._ended, step = token in self._end_tokens, None
        if self._draft is not None:
            child = self._draft.child(self._node, token)
            if child is not None:
                self._node, self._accepted = child, self._accepted + 1
                self._came.append(token)
                return self._record(self._accepted) if self._ended else None
            step = self._record(self._accepted + 1)
        if self._ended:
            return step
        self._proposer.extend([*self._came, token])
        self._came = []
        self._draft, self._node, self._accepted = self._proposer.propose(self._room), ROOT, 0
        return step

    def _record(self, emitted: int) -> StepRecord:
        draft = self._draft or EMPTY
        return StepRecord(
            draft_tokens=len(draft),
            accepted_tokens=self._accepted,
            emitted_tokens=emitted,
            width=len(draft) + 1,
            source=draft.source,
            match_length=draft.match_length,
            propose_s=0.0,
            forward_s=0.0,
        )
