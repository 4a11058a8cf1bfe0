"""The output side of one generation: processors, choice, criteria and streamer, in the order of plain `_sample`."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.generation.configuration_utils import GenerationConfig
from transformers.generation.logits_process import LogitsProcessorList
from transformers.generation.stopping_criteria import EosTokenCriteria, MaxLengthCriteria, StoppingCriteriaList

from lookahead.plugins.hf_noise import Noise
from lookahead.verifier import greedy_choices


class HFRow:
    """One text that is chosen and checked token by token.

    Args:
        input_ids: Shape ``[1, prompt length]``, padding included.
        logits_processor: Called once per emitted token with the committed prefix.
        stopping_criteria: Called once per emitted token, after it was appended.
        generation_config: Read for ``do_sample`` and for what is to be returned.
        sample: Draws a token from probabilities ``[1, vocabulary]``, given the number of tokens emitted before.
    """

    def __init__(
        self,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        stopping_criteria: StoppingCriteriaList,
        generation_config: GenerationConfig,
        sample: Callable[[Tensor, int], int],
    ) -> None:
        wanted = generation_config.return_dict_in_generate
        self.scores: tuple[Tensor, ...] | None = () if wanted and generation_config.output_scores else None
        self.logits: tuple[Tensor, ...] | None = () if wanted and generation_config.output_logits else None
        self.prompt_length = self.length = input_ids.shape[1]
        self.stopped = False
        self._ids = input_ids.to(torch.long, copy=True)  # what plain generation makes of ids of other kinds
        self._processors = logits_processor
        self._criteria = stopping_criteria
        self._host_stops = host_stops(stopping_criteria)
        self._sample = sample if generation_config.do_sample else None
        recording = self.scores is not None or self.logits is not None
        self.decides_at_once = not (self._sample or len(logits_processor) or recording)

    @property
    def input_ids(self) -> Tensor:
        """The committed text, shape ``[1, length]``: a view whose content never changes."""
        return self._ids[:, : self.length]

    @property
    def emitted(self) -> int:
        """Tokens emitted so far."""
        return self.length - self.prompt_length

    def with_draft(self, tokens: tuple[int, ...]) -> Tensor:
        """Return the committed text followed by draft tokens, shape ``[1, length + len(tokens)]``."""
        end = self.length + len(tokens)
        self._reserve(end)
        if tokens:
            self._ids[0, self.length : end] = torch.tensor(tokens, dtype=self._ids.dtype)
        return self._ids[:, :end]

    def choose(self, logits: Tensor) -> int:
        """Return the target's next token, after the processors have seen the committed text.

        Args:
            logits: Shape ``[1, vocabulary]``.
        """
        raw = logits.to(copy=True, dtype=torch.float32, device=self._ids.device)
        scores = self._processors(self.input_ids, raw)
        if self.scores is not None:
            self.scores += (scores,)
        if self.logits is not None:
            self.logits += (raw,)
        if self._sample is not None:
            return self._sample(scores.softmax(dim=-1), self.emitted)
        return int(scores.argmax(dim=-1))

    def emit(self, token: int) -> bool:
        """Append a token and ask the stopping criteria; True when it is the last."""
        self._reserve(self.length + 1)
        self._ids[0, self.length] = token
        self.length += 1
        self.stopped = self._stops(token)
        return self.stopped

    def _stops(self, token: int) -> bool:
        if self._host_stops is not None:
            max_length, end_tokens = self._host_stops
            return token in end_tokens or self.length >= max_length
        return bool(self._criteria(self.input_ids, self.scores).all())

    def _reserve(self, length: int) -> None:
        """Grow the buffer geometrically; views handed out before keep their content."""
        if length > self._ids.shape[1]:
            spare = self._ids.new_zeros((1, max(256, length // 2, length - self.length)))
            self._ids = torch.cat([self._ids[:, : self.length], spare], dim=1)


class HFOutput:
    """All rows of one call, and the streamer that is fed as plain generation feeds it: one token a row at a time.

    Args:
        input_ids: Shape ``[rows, prompt length]``, padded on the left.
        logits_processor: As ``generate`` prepared it; in a batch each row is processed by itself.
        stopping_criteria: Likewise.
        generation_config: As ``generate`` prepared it.
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
        count = input_ids.shape[0]
        self._noise = Noise(count) if generation_config.do_sample and count > 1 else None
        self.rows = [
            HFRow(
                input_ids[row : row + 1],
                _for_row(logits_processor, row, count),
                stopping_criteria,
                generation_config,
                self._sampler(row),
            )
            for row in range(count)
        ]
        pad = generation_config._pad_token_tensor
        self._pad = 0 if pad is None else int(pad.flatten()[0])
        self._streamer = streamer
        self._delivered = 0

    def live(self) -> list[int]:
        """Return the rows that have not ended."""
        return [index for index, row in enumerate(self.rows) if not row.stopped]

    def lead(self, row: int) -> int:
        """Return how many tokens the row may still run ahead of the slowest one, whose random numbers are kept."""
        if self._noise is None:
            return 1 << 30
        behind = min(self.rows[index].emitted for index in self.live())
        return behind + self._noise.span - self.rows[row].emitted

    def choosers(self, rows: Sequence[int], logits: Sequence[Tensor]) -> list[Callable[[int], int]]:
        """Return, for each row, the function from a row of its logits to the target's token there.

        Greedy decoding without processors decides all of them in one device call; otherwise a position is processed
        when it is asked for, after the tokens before it were emitted.
        """
        if self._noise is not None:
            self._noise.forget(min(self.rows[row].emitted for row in rows))
        if self.rows[0].decides_at_once:
            choices = greedy_choices(torch.cat(tuple(logits)) if len(logits) > 1 else logits[0])
            starts = [sum(len(part) for part in logits[:i]) for i in range(len(logits))]
            return [choices[start:].__getitem__ for start in starts]
        return [_one_by_one(self.rows[row], part) for row, part in zip(rows, logits, strict=True)]

    def emit(self, row: int, token: int) -> bool:
        """Append a token to a row, and stream what every row has reached; True when the row ends with it."""
        stopped = self.rows[row].emit(token)
        if self._streamer is not None:
            self._stream()
        return stopped

    def result(self) -> Tensor:
        """Return the texts, shape ``[rows, longest length]``, ended rows padded."""
        longest = max(row.length for row in self.rows)
        texts = self.rows[0].input_ids.new_full((len(self.rows), longest), self._pad)
        for index, row in enumerate(self.rows):
            texts[index, : row.length] = row.input_ids[0]
        return texts

    def _sampler(self, row: int) -> Callable[[Tensor, int], int]:
        noise = self._noise
        if noise is None:
            return lambda probs, step: int(torch.multinomial(probs, num_samples=1))
        return lambda probs, step: noise.choose(probs, row, step)

    def _stream(self) -> None:
        """Hand over the steps of plain generation that are complete: a token of every row, padding for ended ones."""
        while any(row.emitted > self._delivered for row in self.rows):
            if any(row.emitted <= self._delivered and not row.stopped for row in self.rows):
                return
            column = [self._token(row, self._delivered) for row in self.rows]
            self._delivered += 1
            self._streamer.put(torch.tensor(column, dtype=torch.long))

    def _token(self, row: HFRow, step: int) -> int:
        return int(row.input_ids[0, row.prompt_length + step]) if step < row.emitted else self._pad


def _for_row(processors: LogitsProcessorList, row: int, rows: int) -> LogitsProcessorList:
    """Return the processors as they treat one row of a batch: some hold a prompt length for each row."""
    if rows == 1:
        return processors
    made = LogitsProcessorList()
    for processor in processors:
        ignored = getattr(processor, "prompt_ignore_length", None)
        if isinstance(ignored, Tensor) and len(ignored) == rows:
            processor = copy.copy(processor)
            processor.prompt_ignore_length = ignored[row : row + 1]
        made.append(processor)
    return made


def _one_by_one(row: HFRow, logits: Tensor) -> Callable[[int], int]:
    return lambda position: row.choose(logits[position : position + 1])


def host_stops(criteria: StoppingCriteriaList) -> tuple[int, frozenset[int]] | None:
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
