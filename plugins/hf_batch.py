"""HFBatchTarget: a batch whose rows accept drafts of different lengths, behind the loop's TargetModel protocol.

After every step each row of the cache is moved so that its text ends at the right edge, with padding on the left, as
transformers expects it. Rows that have ended leave the batch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer
from transformers.generation.configuration_utils import GenerationConfig

from lookahead.draft import Draft
from lookahead.plugins.hf_arguments import cache_name
from lookahead.plugins.hf_cache import CropRollback
from lookahead.plugins.hf_output import HFOutput
from lookahead.plugins.hf_target import position_limits, position_room


class HFBatchTarget:
    """Runs the model over the last token and the draft of every row, and keeps the rows of the cache aligned.

    Args:
        model: A transformers model with ``generate`` and attention layers only.
        output: The texts.
        generation_config: As ``generate`` prepared it.
        model_kwargs: As ``generate`` prepared them.
        max_length: Length at which generation stops, padding included.
    """

    def __init__(
        self,
        model: Any,
        output: HFOutput,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, Any],
        max_length: int,
    ) -> None:
        self._model = model
        self._output = output
        self._config = generation_config
        self._kwargs = model_kwargs
        self._cache_name = cache_name(model_kwargs)
        self._max_length = max_length
        self._limits = position_limits(model.config)
        self._rows = list(range(len(output.rows)))
        self._read: Sequence[int] = ()
        self._rollback: CropRollback
        self._device = model.device

    def prefill(self) -> list[Tensor]:
        """Read the prompts; return each row's logits of its first new token, shape ``[1, vocabulary]``."""
        ids = torch.cat([row.input_ids for row in self._output.rows])
        mask = self._kwargs.get("attention_mask")
        self._cached = ids.shape[1]
        self._text = [ids.shape[1]] * len(ids) if mask is None else mask.sum(dim=1).tolist()
        outputs = self._model._prefill(ids, self._config, self._kwargs, is_first_iteration=True)
        self._kwargs[self._cache_name] = outputs.get(self._cache_name, self.cache)
        self._takes_positions = self._kwargs.pop("position_ids", None) is not None
        self._rollback = CropRollback(self.cache, self._cached)
        return list(outputs.logits[:, -1:].clone())

    def takes_trees(self) -> bool:
        """Return that drafts must be chains: rows of different trees would need masks of different shapes."""
        return False

    def room(self, row: int) -> int:
        """Return how many draft tokens fit: into the length, the positions, and the lead over the slowest row."""
        text = self._output.rows[row]
        room = min(self._max_length - text.length, self._output.lead(row)) - 1
        return max(0, position_room(self._limits, self._text[self._rows.index(row)] + 1, room))

    def forward(self, rows: Sequence[int], drafts: Sequence[Draft]) -> tuple[list[Tensor], int]:
        """Read every row's last token and draft; return each row's ``[len(draft) + 1, vocabulary]`` logits."""
        self._leave_out(rows)
        lengths = [len(draft) + 1 for draft in drafts]
        width = max(lengths)
        last = [int(self._output.rows[row].input_ids[0, -1]) for row in rows]
        blocks = [[token, *draft.tokens] for token, draft in zip(last, drafts, strict=True)]
        ids = torch.tensor([block + block[-1:] * (width - len(block)) for block in blocks], device=self._device)
        inputs = self._model.prepare_inputs_for_generation(
            ids, next_sequence_length=width, **self._kwargs | self._masks(lengths, width)
        )
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = width
        logits = self._model(**inputs, return_dict=True).logits[:, -width:]
        self._read = lengths
        return [part[:length] for part, length in zip(logits, lengths, strict=True)], width

    def commit(self, emitted: Sequence[int]) -> None:
        """Keep the committed tokens of every row that goes on, and align the rows again."""
        self._text = [text + kept for text, kept in zip(self._text, emitted, strict=True)]
        ends = [self._cached + kept for kept in emitted]
        self._align(self._output.live(), ends, self._cached + max(self._read))

    def close(self, cache_is_returned: bool) -> None:
        """Nothing outlives a batch: its cache lacks the rows that ended."""

    @property
    def cache(self) -> Cache:
        """The model's cache."""
        return self._kwargs[self._cache_name]

    def _masks(self, lengths: list[int], width: int) -> dict[str, Tensor]:
        """Return the attention mask over cache and block, and the positions of the block."""
        texts = torch.tensor(self._text, device=self._device)[:, None]
        read = torch.tensor(lengths, device=self._device)[:, None]
        places = torch.arange(self._cached + width, device=self._device)
        mask = (places >= self._cached - texts) & (places < self._cached + read)
        masks = {"attention_mask": mask.long()}
        if self._takes_positions:
            masks["position_ids"] = texts + torch.minimum(torch.arange(width, device=self._device), read - 1)
        return masks

    def _leave_out(self, rows: Sequence[int]) -> None:
        """Drop the rows that ended with their first token, before any commit."""
        if list(rows) != self._rows:
            self._align(rows, [self._cached] * len(self._rows), self._cached)

    def _align(self, rows: Sequence[int], ends: list[int], filled: int) -> None:
        """Keep ``rows``, and move each so that its text, which ends at its ``ends``, ends at the right edge."""
        kept = [self._rows.index(row) for row in rows]
        unchanged = len(kept) == len(self._rows)
        self._rows, self._text = list(rows), [self._text[i] for i in kept]
        if not kept:
            return
        ends, self._cached = [ends[i] for i in kept], max(self._text)
        if unchanged and set(ends) == {self._cached}:
            self._rollback.keep(filled, self._cached)
            return
        for layer in self._rollback.cache.layers:
            if layer.is_initialized and layer.keys is not None:
                _move(layer, kept, ends, filled, self._cached)


def _move(layer: DynamicLayer, kept: list[int], ends: list[int], filled: int, length: int) -> None:
    """Rebuild a layer with the kept rows, each ending at ``length`` instead of at its end; the cache was ``filled``."""
    sliding = isinstance(layer, DynamicSlidingWindowLayer)
    held = layer.keys.shape[-2]
    wanted = min(length, layer.sliding_window - 1) if sliding else length
    shifts = torch.tensor(ends, device=layer.keys.device)[:, None] - wanted - (filled - held)
    places = (shifts + torch.arange(wanted, device=layer.keys.device)).clamp(min=0)
    rows = torch.tensor(kept, device=layer.keys.device)
    layer.keys, layer.values = (_gather(states, rows, places) for states in (layer.keys, layer.values))
    if sliding:
        layer.cumulative_length = length


def _gather(states: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """Return ``states[rows[i], :, places[i]]``, shape ``[rows, heads, places, width]``, in one copy."""
    _, heads, held, size = states.shape
    lines = (rows[:, None] * heads + torch.arange(heads, device=states.device))[:, :, None] * held + places[:, None]
    moved = states.reshape(-1, size).index_select(0, lines.flatten())
    return moved.view(len(rows), heads, places.shape[1], size)
