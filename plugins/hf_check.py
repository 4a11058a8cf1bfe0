"""Checks of a model and of token ids: how exactly are blocks, trees and packed rows read, are the ids the model's."""

import inspect
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

from lookahead.draft import EMPTY, Draft
from lookahead.plugins.hf_arguments import cache_name
from lookahead.plugins.hf_attention import grouped_attention
from lookahead.plugins.hf_cache import rollback_for
from lookahead.plugins.hf_packed import PackedRows, packed_inputs, reading_packed
from lookahead.plugins.hf_tree import keep_branch, tree_inputs


def block_forward_tolerance(dtype: torch.dtype) -> float:
    """Return the largest relative difference that rounding explains between a block and single tokens."""
    return max(1e-4, 16 * torch.finfo(dtype).eps)


@torch.no_grad()
def block_forward_error(
    model: Any, inputs: dict[str, Any] | None = None, static: bool = False, prefix: int = 6, block: int = 6
) -> float:
    """Return the relative difference of logits between token-by-token forwards and blocks of which tokens are rejected.

    Args:
        model: A language model in evaluation mode.
        inputs: Further arguments of every forward (what the encoder has read).
        static: Use a cache of fixed size.
        prefix: Tokens of the prefill before the comparison.
        block: Tokens compared; in the second reading all but the first are wrong at first, and taken back. One token
            more is then read alone, as in a step without a draft.
    """
    places = torch.arange(prefix + block + 1, device=model.device)[None]
    ids = (places * 31 + 7).remainder(model.get_input_embeddings().num_embeddings)
    single = Reading(model, inputs or {}, static)
    single.read(ids[:, :prefix])
    expected = torch.cat([single.read(ids[:, : i + 1]) for i in range(prefix, prefix + block + 1)])
    reading = Reading(model, inputs or {}, static)
    reading.read(ids[:, :prefix])
    rollback = rollback_for(reading.cache, prefix)
    rollback.before_draft()
    wrong = torch.cat([ids[:, : prefix + 1], ids[:, : block - 1]], dim=1)
    first = reading.read(wrong)[:1]
    rollback.keep(prefix + block, prefix + 1)
    again = reading.read(ids[:, :-1], rollback.cached)[1 - block :]
    rollback.keep(prefix + block, prefix + block)
    difference = (torch.cat([first, again, reading.read(ids)]) - expected).abs().max()
    return float(difference / expected.abs().max().clamp_min(1e-6))


@torch.no_grad()
def tree_error(model: Any, prefix: int = 6) -> float:
    """Return the relative difference of logits between a tree and its branches read as chains.

    The second branch is then kept in the cache and read on, so that what it leaves there counts too.

    Args:
        model: A decoder-only language model in evaluation mode, all of whose layers keep every position.
        prefix: Tokens of the prefill before the tree.
    """
    first, second, behind = [11, 12, 13], [21, 22], [23]
    draft = Draft((*first, *second), (-1, 0, 1, -1, 3))
    places = torch.arange(prefix + 1, device=model.device)[None]
    ids = (places * 31 + 7).remainder(model.get_input_embeddings().num_embeddings)

    def followed_by(tokens: list[int]) -> Tensor:
        return torch.cat([ids, ids.new_tensor([tokens])], dim=1)

    def chain(tokens: list[int]) -> Tensor:
        reading = Reading(model, {}, static=False)
        reading.read(ids[:, :prefix])
        return reading.read(followed_by(tokens))

    tree = Reading(model, {}, static=False)
    tree.read(ids[:, :prefix])
    logits = tree.read(followed_by([*first, *second]), draft=draft)
    keep_branch(tree.cache, prefix + 1, [3, 4])
    tree.cache.crop(-len(first))
    found = [logits[:4], logits[[0, 4, 5]], tree.read(followed_by([*second, *behind]), prefix + 1 + len(second))]
    expected = [chain(first), chain(second), chain([*second, *behind])[-1:]]
    difference = (torch.cat(found) - torch.cat(expected)).abs().max()
    return float(difference / torch.cat(expected).abs().max().clamp_min(1e-6))


@torch.no_grad()
def packed_error(model: Any, prefix: int = 6) -> float:
    """Return the relative difference of logits between rows laid end to end and the same rows read one by one.

    Args:
        model: A decoder-only language model in evaluation mode, all of whose layers keep every position.
        prefix: Tokens of the prefill before the block.
    """
    lengths = [1, 4]
    places = torch.arange(2 * (prefix + max(lengths)), device=model.device).view(2, -1)
    ids = (places * 31 + 7).remainder(model.get_input_embeddings().num_embeddings)
    expected = []
    for row, length in zip(ids.split(1), lengths, strict=True):
        alone = Reading(model, {}, static=False)
        alone.read(row[:, :prefix])
        expected.append(alone.read(row[:, : prefix + length]))
    packed = Reading(model, {}, static=False)
    packed.read(ids[:, :prefix])
    rollback_for(packed.cache, prefix)
    found = packed.read(ids, rows=PackedRows.of(lengths, model.device))
    difference = (found - torch.cat(expected)).abs().max()
    return float(difference / torch.cat(expected).abs().max().clamp_min(1e-6))


class Reading:
    """A model and a cache, fed as ``generate`` feeds them.

    Args:
        model: A language model in evaluation mode.
        inputs: Further arguments of every forward (what the encoder has read).
        static: Use a cache of fixed size.
    """

    def __init__(self, model: Any, inputs: dict[str, Any], static: bool) -> None:
        config = model.config.get_text_config(decoder=True)
        self.cache: Any = StaticCache(config, max_cache_len=64) if static else DynamicCache(config=config)
        if model.config.is_encoder_decoder:
            self.cache = EncoderDecoderCache(self.cache, DynamicCache())
        self._model, self._inputs, self._cached = model, inputs, 0
        # generate gives positions where the model takes them; without them some models count from 0 in each forward
        names = inspect.signature(model.forward).parameters
        self._counted, self._cache_name = "position_ids" in names, cache_name(names)

    def read(
        self, ids: Tensor, cached: int | None = None, draft: Draft = EMPTY, rows: PackedRows | None = None
    ) -> Tensor:
        """Read what follows the cached tokens: a tree at its end if it is one, rows end to end if they are laid so.

        Returns:
            Logits of the first row, or of the packed ones, shape ``[tokens read, vocabulary]``.
        """
        length = ids.shape[1]
        width = length - (self._cached if cached is None else cached)
        kwargs = {**self._inputs, self._cache_name: self.cache, "use_cache": True}
        if self._counted:
            kwargs["position_ids"] = torch.arange(length, device=ids.device).expand(len(ids), -1)
        inputs = self._model.prepare_inputs_for_generation(
            ids, next_sequence_length=width, is_first_iteration=self._cached == 0, **kwargs
        )
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = width
        if draft.parents:
            inputs = tree_inputs(inputs, draft, length - width, self._model)
        if rows is not None:
            inputs = packed_inputs({**inputs, "attention_mask": torch.ones_like(ids)}, rows, length - width)
        self._cached = length
        with grouped_attention(), reading_packed(rows):
            logits = self._model(**inputs, return_dict=True).logits[0]
        return logits[-(width if rows is None else len(rows.places)) :].float()


def check_token_ids(model: Any, name: str, ids: Any) -> None:
    """Refuse token ids that the model has no embedding for, before they crash inside it.

    Raises:
        ValueError: An id is negative or beyond the vocabulary.
    """
    vocabulary = vocabulary_of(model)
    if vocabulary is None or multimodal_token_ids(model.config) or _is_empty(ids):
        return
    low, high = (int(ids.min()), int(ids.max())) if isinstance(ids, Tensor) else (min(ids), max(ids))
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise ValueError(
            f"{name} contains token id {wrong}, but the model's vocabulary has ids 0 to {vocabulary - 1}: "
            "encode the text with this model's own tokenizer"
        )


def vocabulary_of(model: Any) -> int | None:
    """Return how many ids the text that is written may hold; None where the embeddings don't tell.

    Of an encoder-decoder model the decoder's count, for that is what drafts are read by.
    """
    writer = model.get_decoder() if model.config.is_encoder_decoder else model
    embeddings = writer.get_input_embeddings() if hasattr(writer, "get_input_embeddings") else None
    if not isinstance(embeddings, torch.nn.Embedding):
        return None
    return embeddings.num_embeddings + getattr(embeddings, "num_additional_embeddings", 0)


def _is_empty(ids: Any) -> bool:
    return ids.numel() == 0 if isinstance(ids, Tensor) else len(ids) == 0


def multimodal_token_ids(config: Any) -> frozenset[int]:
    """Return the ids of placeholders for images, video and audio: a text draft must not contain them."""
    kinds = ("image", "video", "audio", "vision")
    found = set()
    for name, value in vars(config).items():
        if name.endswith(("_token_id", "_token_index")) and name.startswith(kinds) and isinstance(value, int):
            found.add(value)
    return frozenset(found)
