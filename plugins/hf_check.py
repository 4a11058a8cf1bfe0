"""Checks of a model and of token ids: is the block forward exact, are the ids the model's."""

from typing import Any

import torch
from torch import Tensor

from lookahead.plugins.hf_state import state_of

# Their multi-token forward on a filled cache differs from token-by-token decoding (transformers 5.24).
_WRONG_BLOCK_FORWARD = frozenset({"mamba", "falcon_mamba", "jamba", "recurrent_gemma", "zamba"})


def recurrent_reason(model: Any) -> str | None:
    """Return why a recurrent model's block forward can't be trusted, or None when it equals token by token.

    The answer is measured once per model and dtype.
    """
    checked = state_of(model).checked
    if model.dtype not in checked:
        checked[model.dtype] = _measure_block_forward(model)
    return checked[model.dtype]


def _measure_block_forward(model: Any) -> str | None:
    kind = model.config.model_type
    if kind in _WRONG_BLOCK_FORWARD:
        return f"the multi-token forward of {kind} models is not exact in transformers"
    error = block_forward_error(model)
    if error > block_forward_tolerance(model.dtype):
        return f"the multi-token forward of this {kind} model is not exact (relative error {error:.1e})"
    return None


def block_forward_tolerance(dtype: torch.dtype) -> float:
    """Return the largest relative difference that rounding explains between a block and single tokens."""
    return max(1e-4, 16 * torch.finfo(dtype).eps)


@torch.no_grad()
def block_forward_error(model: Any, prefix: int = 6, block: int = 6) -> float:
    """Return the relative difference of logits between a cached block forward and token-by-token forwards.

    Args:
        model: A causal language model in evaluation mode.
        prefix: Tokens of the prefill before the comparison.
        block: Tokens compared.
    """
    vocabulary = model.get_input_embeddings().num_embeddings
    ids = (torch.arange(prefix + block, device=model.device) * 31 + 7).remainder(vocabulary)[None]
    states = []
    for pieces in ([block], [1] * block):
        cache, rows, start = None, [], 0
        for piece in [prefix, *pieces]:
            outputs = model(input_ids=ids[:, start : start + piece], cache=cache, use_cache=True)
            cache, start = outputs.cache, start + piece
            rows.append(outputs.logits[0, -piece:])
        states.append(torch.cat(rows)[prefix:].float())
    together, single = states
    return float((together - single).abs().max() / single.abs().max().clamp_min(1e-6))


def check_token_ids(model: Any, name: str, ids: Any) -> None:
    """Refuse token ids that the model has no embedding for, before they crash inside it.

    Raises:
        ValueError: An id is negative or beyond the vocabulary.
    """
    embeddings = model.get_input_embeddings()
    vocabulary = getattr(embeddings, "num_embeddings", None)
    if vocabulary is None or multimodal_token_ids(model.config) or _is_empty(ids):
        return
    low, high = (int(ids.min()), int(ids.max())) if isinstance(ids, Tensor) else (min(ids), max(ids))
    if low < 0 or high >= vocabulary:
        wrong = low if low < 0 else high
        raise ValueError(
            f"{name} contains token id {wrong}, but the model's vocabulary has ids 0 to {vocabulary - 1}: "
            "encode the text with this model's own tokenizer"
        )


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
