"""The output side of one generation: processors, choice, criteria and streamer, in the order of plain `_sample`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import (
    EosTokenCriteria,
    MaxLengthCriteria,
    StoppingCriteriaList,
)

from lookahead.verifier import greedy_choices


class HFOutput:
    """One row of text that is chosen, checked and streamed token by token, in plain generation's order.

    Args:
        input_ids: Shape ``[1, prompt length]``.
        logits_processor: Called once per emitted token with the committed prefix.
        stopping_criteria: Called once per emitted token, after it was appended.
        generation_config: Read for ``do_sample`` and for what is to be returned.
        streamer: Receives each token after the criteria were asked, or None.
    """

    def __init__(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        streamer: Any,
    ) -> None:
        wanted = generation_config.return_dict_in_generate
        self.scores: tuple[Tensor, ...] | None = () if wanted and generation_config.output_scores else None
        self.logits: tuple[Tensor, ...] | None = () if wanted and generation_config.output_logits else None
        self.length = input_ids.shape[1]
        self._ids = input_ids.clone()
        self._processors = logits_processor
        self._criteria = stopping_criteria
        self._host_stops = _host_stops(stopping_criteria)
        self._sampling = bool(generation_config.do_sample)
        self._streamer = streamer
        recording = self.scores is not None or self.logits is not None
        self._at_once = not (self._sampling or len(logits_processor) or recording)

    @property
    def input_ids(self) -> Tensor:
        """The committed text, shape ``[1, length]``: a view whose content never changes."""
        return self._ids[:, : self.length]

    def result(self) -> Tensor:
        """Return the whole text in a tensor of its own, shape ``[1, length]``."""
        return self.input_ids.clone()

    def with_draft(self, tokens: tuple[int, ...]) -> Tensor:
        """Return the committed text followed by draft tokens, shape ``[1, length + len(tokens)]``."""
        end = self.length + len(tokens)
        self._reserve(end)
        if tokens:
            self._ids[0, self.length : end] = torch.tensor(tokens, dtype=self._ids.dtype)
        return self._ids[:, :end]

    def chooser(self, logits: Tensor) -> Callable[[int], int]:
        """Return the function from a row of ``logits`` ``[rows, vocabulary]`` to the target's token there.

        Greedy decoding without processors decides all rows in one device call; otherwise a row is processed when
        it is asked for, after the tokens before it were emitted.
        """
        if self._at_once:
            return greedy_choices(logits).__getitem__
        return lambda row: self._choose(logits[row : row + 1])

    def _choose(self, row: Tensor) -> int:
        raw = row.to(copy=True, dtype=torch.float32, device=self._ids.device)
        scores = self._processors(self.input_ids, raw)
        if self.scores is not None:
            self.scores += (scores,)
        if self.logits is not None:
            self.logits += (raw,)
        if self._sampling:
            return int(torch.multinomial(scores.softmax(dim=-1), num_samples=1))
        return int(scores.argmax(dim=-1))

    def emit(self, token: int) -> bool:
        """Append a token, ask the stopping criteria, stream it; True when it is the last."""
        self._reserve(self.length + 1)
        self._ids[0, self.length] = token
        self.length += 1
        stopped = self._stops(token)
        if self._streamer is not None:
            self._streamer.put(torch.tensor([token], dtype=self._ids.dtype))
        return stopped

    def _stops(self, token: int) -> bool:
        if self._host_stops is not None:
            max_length, end_tokens = self._host_stops
            return token in end_tokens or self.length >= max_length
        return bool(self._criteria(self.input_ids, self.scores).all())

    def _reserve(self, length: int) -> None:
        """Grow the buffer geometrically; views handed out before keep their content."""
        if length > self._ids.shape[1]:
            spare = self._ids.new_zeros((1, max(256, length // 2)))
            self._ids = torch.cat([self._ids[:, : self.length], spare], dim=1)
            if length > self._ids.shape[1]:
                self._reserve(length)


def _host_stops(criteria: StoppingCriteriaList) -> tuple[int, frozenset[int]] | None:
    """Return (maximum length, end tokens) if that is all the criteria look at, so that no tensor work is needed."""
    max_length, end_tokens = None, frozenset[int]()
    for criterion in criteria:
        if type(criterion) is MaxLengthCriteria:
            within = criterion.max_position_embeddings
            if within is not None and criterion.max_length > within:
                return None  # the criterion itself says once that the model's length was exceeded
            max_length = min(criterion.max_length, max_length or criterion.max_length)
        elif type(criterion) is EosTokenCriteria:
            end_tokens |= frozenset(criterion.eos_token_id.flatten().tolist())
        else:
            return None
    return None if max_length is None else (max_length, end_tokens)
