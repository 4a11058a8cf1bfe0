"""Examination: what of a model can be sped up, what can't and why, and what its steps cost."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch

from lookahead.plugins import hf
from lookahead.plugins.hf_arguments import cache_name
from lookahead.plugins.hf_cache import CropRollback, decoder_cache, rollback_for
from lookahead.plugins.hf_check import block_forward_error, block_forward_tolerance
from lookahead.plugins.hf_trust import reads_trees

_PROMPT, _NEW = 24, 4


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found.

    Attributes:
        model: Class of the model.
        architecture: Its ``config.model_type``.
        parameters: How many.
        dtype: Of its weights.
        device: Where they are.
        attention: The attention implementation.
        cache: Kinds of cache layers and how many of each.
        rollback: How rejected draft tokens leave the cache.
        block_error: Relative difference between a forward over several tokens and one by one; None where it could not
            be measured.
        block_tolerance: What rounding explains of it.
        trees: Whether drafts may be trees.
        plain_reason: Why every call is decoded plainly; empty if it is not.
        steps: Width and median seconds of a forward pass; empty where it was not measured.
    """

    model: str
    architecture: str
    parameters: int
    dtype: str
    device: str
    attention: str
    cache: dict[str, int]
    rollback: str
    block_error: float | None
    block_tolerance: float
    trees: bool
    plain_reason: str
    steps: list[tuple[int, float]]


def examine(model: Any, context: int = 512) -> Examination:
    """Examine a decoder-only model: one short call, the self-check, and forward passes of each width.

    Args:
        model: A transformers model with ``generate``; it is enabled by this where it is not yet.
        context: Tokens in the cache while steps are timed.

    Example:
        >>> examine(model).plain_reason                              # doctest: +SKIP
        ''
    """
    if not hf.is_enabled(model):
        hf.enable(model)
    cache = _generated_cache(model)
    reason = hf.stats(model).plain_reason
    layered = cache is not None and hasattr(cache, "layers")
    kinds = Counter(type(layer).__name__ for layer in decoder_cache(cache).layers) if layered else {}
    rollback = rollback_for(cache, _PROMPT) if layered else None
    crops = isinstance(rollback, CropRollback)
    text = model.config.get_text_config(decoder=True)
    return Examination(
        model=type(model).__name__,
        architecture=model.config.model_type,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        dtype=str(model.dtype).removeprefix("torch."),
        device=str(model.device),
        attention=getattr(text, "_attn_implementation", None) or "the model's own",
        cache=dict(kinds),
        rollback="none" if rollback is None else "cropped" if crops else "restored, and accepted tokens read again",
        block_error=_block_error(model),
        block_tolerance=block_forward_tolerance(model.dtype),
        trees=not reason and cache is not None and reads_trees(model, cache),
        plain_reason=reason,
        steps=hf.calibrate(model, context) if crops and not reason else [],
    )


def _generated_cache(model: Any) -> Any:
    """Return the cache of a short call with drafts; None where the model returns none."""
    vocabulary = model.get_input_embeddings().num_embeddings
    ids = (torch.arange(_PROMPT, device=model.device)[None] % 6 + 5) % vocabulary
    settings = {"max_new_tokens": _NEW, "do_sample": False, "return_dict_in_generate": True, "use_cache": True}
    outputs = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), lookup=True, **settings)
    return outputs.get(cache_name(outputs))


def _block_error(model: Any) -> float | None:
    try:
        return block_forward_error(model)
    except Exception:
        return None
