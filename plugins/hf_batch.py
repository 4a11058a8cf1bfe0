"""HFBatchTarget: a batch whose rows accept drafts of different lengths, behind the loop's TargetModel protocol.

Rejected tokens leave holes in the rows that accepted fewer than others. Where mask and positions alone decide what a
token sees, the mask hides the holes, and they are closed when they have become many; elsewhere at once, so that each
row's text ends at the right edge with padding on the left, as transformers expects it. Rows that have ended leave the
batch.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer
from transformers.generation.configuration_utils import GenerationConfig

from lookahead.draft import Draft
from lookahead.plugins.hf_arguments import cache_name
from lookahead.plugins.hf_attention import grouped_attention
from lookahead.plugins.hf_cache import CropRollback
from lookahead.plugins.hf_output import HFOutput
from lookahead.plugins.hf_packed import PackedRows, packed_inputs, reading_packed
from lookahead.plugins.hf_target import position_limits, position_room
from lookahead.plugins.hf_trust import packs_rows, reads_trees

_WASTE = 0.25  # share of holes, of the longest row's text, from which on they are closed
_WIDEST = 128  # tokens that a step may read, and more


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
        self._ahead = [0] * len(output.rows)  # of each row's positions, before its count of tokens
        self._width = 0
        self._rollback: CropRollback
        self._device = model.device

    def prefill(self) -> list[Tensor]:
        """Read the prompts; return each row's logits of its first new token, shape ``[1, vocabulary]``."""
        ids = torch.cat([row.input_ids for row in self._output.rows])
        mask = self._kwargs.get("attention_mask")
        seen = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0
        self._seen = seen.to(self._device)  # the prompts may lie elsewhere
        self._text = seen.sum(dim=1).tolist()
        outputs = self._model._prefill(ids, self._config, self._kwargs, is_first_iteration=True)
        self._kwargs[self._cache_name] = outputs.get(self._cache_name, self.cache)
        positions = self._kwargs.pop("position_ids", None)
        self._takes_positions = positions is not None
        if positions is not None:
            last = positions[:, -1].expand(len(self._text)).tolist()
            self._ahead = [place + 1 - text for place, text in zip(last, self._text, strict=True)]
        self._may_leave_holes = self._takes_positions and reads_trees(self._model, self.cache)
        self._rollback = CropRollback(self.cache, ids.shape[1])
        self._packs = self._may_leave_holes and packs_rows(self._model, self.cache)
        return list(outputs.logits[:, -1:].clone())

    def takes_trees(self) -> bool:
        """Return that drafts must be chains: rows of different trees would need masks of different shapes."""
        return False

    def packs_rows(self) -> bool:
        """Return whether rows are read without padding; known after the prefill."""
        return self._packs

    def room(self, row: int) -> int:
        """Return how many draft tokens fit: into the length, the positions, and the lead over the slowest row."""
        text = self._output.rows[row]
        room = min(self._max_length - text.length, self._output.lead(row)) - 1
        place = self._text[self._rows.index(row)] + self._ahead[row]
        return max(0, position_room(self._limits, place + 1, room))

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
        self._width = width
        if self._packs and min(lengths) < width:
            return self._read_packed(inputs, lengths), width
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = width
        with grouped_attention():
            logits = self._model(**inputs, return_dict=True).logits[:, -width:]
        return [part[:length] for part, length in zip(logits, lengths, strict=True)], width

    def _read_packed(self, inputs: dict[str, Any], lengths: list[int]) -> list[Tensor]:
        """Read the blocks of all rows end to end, as one row without padding."""
        block = PackedRows.of(lengths, self._device)
        inputs = packed_inputs(inputs, block, self._seen.shape[1])
        with grouped_attention(), reading_packed(block):
            logits = self._model(**inputs, return_dict=True).logits[0]
        return list(logits.split(lengths))

    def commit(self, emitted: Sequence[int]) -> None:
        """Keep the committed tokens of every row that goes on."""
        most, kept = max(emitted), self._seen.shape[1] + max(emitted)
        self._text = [text + tokens for text, tokens in zip(self._text, emitted, strict=True)]
        self._seen = torch.cat([self._seen, self._leading(emitted, self._width)], dim=1)
        live = self._output.live()
        if live == self._rows and (min(emitted) == most or self._may_keep_holes(kept)):
            self._rollback.keep(self._seen.shape[1], kept)
            self._seen = self._seen[:, :kept]
        else:
            self._close_holes(live)

    def __enter__(self) -> "HFBatchTarget":
        """Begin to write, after the prefill."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing outlives a batch: its cache lacks the rows that ended."""

    @property
    def cache(self) -> Cache:
        """The model's cache."""
        return self._kwargs[self._cache_name]

    def _masks(self, lengths: list[int], width: int) -> dict[str, Tensor]:
        """Return the attention mask over cache and block, and the positions of the block."""
        masks = {"attention_mask": torch.cat([self._seen, self._leading(lengths, width)], dim=1).long()}
        if self._takes_positions:
            places = [text + self._ahead[row] for row, text in zip(self._rows, self._text, strict=True)]
            first, last = torch.tensor([places, lengths], device=self._device)[..., None]
            masks["position_ids"] = first + torch.minimum(torch.arange(width, device=self._device), last - 1)
        return masks

    def _leading(self, counts: Sequence[int], width: int) -> Tensor:
        """Return which of ``width`` columns are among the first so many of each row, ``[rows, width]``."""
        return torch.arange(width, device=self._device) < torch.tensor(counts, device=self._device)[:, None]

    def _may_keep_holes(self, held: int) -> bool:
        """Return whether holes can stay: the mask hides them, they are few, and the cache is within the positions."""
        within = all(held + _WIDEST < limit for limit, _ in self._limits)
        return self._may_leave_holes and within and held <= max(self._text) * (1 + _WASTE)

    def _leave_out(self, rows: Sequence[int]) -> None:
        """Drop the rows that ended with their first token, before any commit."""
        if list(rows) != self._rows:
            self._close_holes(rows)

    def _close_holes(self, rows: Sequence[int]) -> None:
        """Keep ``rows``, and move each so that its text ends at the right edge."""
        kept = [self._rows.index(row) for row in rows]
        self._rows, self._text = list(rows), [self._text[i] for i in kept]
        if not kept:
            return
        chosen = torch.tensor(kept, device=self._device)
        seen, length = self._seen[chosen], max(self._text)
        places = seen.int().argsort(dim=1, stable=True)[:, -length:]  # what is not seen, then the text in its order
        self._seen = seen.gather(1, places)
        for layer in self._rollback.cache.layers:
            if layer.is_initialized and layer.keys is not None:
                _move(layer, chosen, places, seen.shape[1])


def _move(layer: DynamicLayer, rows: Tensor, places: Tensor, filled: int) -> None:
    """Rebuild a layer of which ``filled`` positions were read, with these rows and places, ``[rows, length]``."""
    sliding = isinstance(layer, DynamicSlidingWindowLayer)
    length, held = places.shape[1], layer.keys.shape[-2]
    wanted = min(length, layer.sliding_window - 1) if sliding else length
    there = (places[:, length - wanted :] - (filled - held)).clamp(min=0).to(layer.keys.device)
    layer.keys, layer.values = (_gather(states, rows.to(states.device), there) for states in (layer.keys, layer.values))
    if sliding:
        layer.cumulative_length = length


def _gather(states: Tensor, rows: Tensor, places: Tensor) -> Tensor:
    """Return ``states[rows[i], :, places[i]]``, shape ``[rows, heads, places, width]``, in one copy."""
    _, heads, held, size = states.shape
    lines = (rows[:, None] * heads + torch.arange(heads, device=states.device))[:, :, None] * held + places[:, None]
    moved = states.reshape(-1, size).index_select(0, lines.flatten())
    return moved.view(len(rows), heads, places.shape[1], size)
