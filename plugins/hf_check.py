"""Checks of a model and of token ids: is the block forward exact, are the ids the model's."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache, StaticCache

from lookahead.draft import EMPTY, Draft
from lookahead.plugins.hf_arguments import Call, cache_name
from lookahead.plugins.hf_attention import grouped_attention
from lookahead.plugins.hf_cache import decoder_cache, rollback_for
from lookahead.plugins.hf_known import EXACT
from lookahead.plugins.hf_parts import foreign_parts
from lookahead.plugins.hf_state import state_of
from lookahead.plugins.hf_tree import keep_branch, tree_inputs

# Their multi-token forward on a filled cache differs from token-by-token decoding (transformers 5.24): recurrent layers
# that forget the cached state, and (moshi) a window that is the cache's but not the attention mask's.
_INEXACT = frozenset({"mamba", "falcon_mamba", "jamba", "moshi", "recurrent_gemma", "zamba"})
# With a static cache they look up what a token may see by the size of the cache, not by its place in the text.
_INEXACT_WHEN_STATIC = frozenset({"gpt_neo", "led"})


def block_forward_reason(model: Any, call: Call) -> str | None:
    """Return why the model's reading of several tokens at once can't be trusted, or None when it can.

    Known architectures are; of others, of recurrent layers, whose kernels differ between machines, and of models with
    parts that are not transformers' own it is measured once per model, its parts, dtype and kind of cache.
    """
    kind, cache = model.config.model_type, decoder_cache(call.cache)
    static = isinstance(cache, StaticCache)
    if kind in _INEXACT or (static and kind in _INEXACT_WHEN_STATIC):
        return f"the multi-token forward of {kind} models is not exact in transformers"
    foreign = foreign_parts(model)
    if kind in EXACT and not foreign and not any(hasattr(layer, "recurrent_states") for layer in cache.layers):
        return None
    checked, measured = state_of(model).checked, (model.dtype, static, foreign)
    if measured not in checked:
        checked[measured] = _measured(model, call, static)
    return checked[measured]


def _measured(model: Any, call: Call, static: bool) -> str | None:
    """Measure; a model that can't be measured like this can't be trusted either."""
    kind = model.config.model_type
    try:
        read = {name: _first_row(call.model_kwargs.get(name)) for name in ("encoder_outputs", "attention_mask")}
        error = block_forward_error(model, read if model.config.is_encoder_decoder else {}, static)
    except Exception as failure:
        return f"the multi-token forward of this {kind} model could not be checked ({type(failure).__name__})"
    if error <= block_forward_tolerance(model.dtype):
        return None
    return f"the multi-token forward of this {kind} model is not exact (relative error {error:.1e})"


def block_forward_tolerance(dtype: torch.dtype) -> float:
    """Return the largest relative difference that rounding explains between a block and single tokens."""
    return max(1e-4, 16 * torch.finfo(dtype).eps)


def _first_row(read: Any) -> Any:
    """Return what the encoder has read for the first row of a batch: the check decodes one."""
    if isinstance(read, Tensor):
        return read[:1]
    if isinstance(read, Mapping):
        return type(read)(**{name: _first_row(value) for name, value in read.items()})
    return type(read)(map(_first_row, read)) if isinstance(read, list | tuple) else read


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

    def read(self, ids: Tensor, cached: int | None = None, draft: Draft = EMPTY) -> Tensor:
        """Read what follows the cached tokens, a tree at its end if it is one.

        Returns:
            Logits, shape ``[tokens read, vocabulary]``.
        """
        length = ids.shape[1]
        width = length - (self._cached if cached is None else cached)
        kwargs = {**self._inputs, self._cache_name: self.cache, "use_cache": True}
        if self._counted:
            kwargs["position_ids"] = torch.arange(length, device=ids.device)[None]
        inputs = self._model.prepare_inputs_for_generation(
            ids, next_sequence_length=width, is_first_iteration=self._cached == 0, **kwargs
        )
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = width
        if draft.parents:
            inputs = tree_inputs(inputs, draft, length - width, self._model)
        self._cached = length
        with grouped_attention():
            return self._model(**inputs, return_dict=True).logits[0, -width:].float()


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
